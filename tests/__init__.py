"""Tests, in folders that mirror the packages; known answers are data."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
KNOWN_ANSWERS = TESTS / "known_answers"
