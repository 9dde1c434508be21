"""One table of profiles, and which of them a machine gets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lmms_eval_tasks import profiles
from lmms_eval_tasks.profiles import PROFILES, auto_profile, profile_of


@pytest.mark.parametrize(
    ("gpu_bytes", "bfloat16", "expected"),
    [
        (None, False, "cpu"),
        (15_800_000_000, False, "t4"),
        (15_800_000_000, True, "t4"),
        (34_000_000_000, False, "t4"),
        (24_150_000_000, True, "a100"),
        (85_000_000_000, True, "a100"),
    ],
)
def test_auto_goes_by_memory_and_number_type(gpu_bytes, bfloat16, expected):
    assert auto_profile(gpu_bytes, bfloat16) == expected


def test_auto_is_a_profile_of_this_machine(monkeypatch):
    monkeypatch.setattr(profiles, "_hardware", lambda: (None, False))
    assert profile_of("auto") is PROFILES["cpu"]
    monkeypatch.setattr(profiles, "_hardware", lambda: (80 * 10**9, True))
    assert profile_of("auto") is PROFILES["a100"]


def test_a_profile_that_is_none_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(ValueError, match="profile=h100: know auto, cpu, t4, a100"):
        profile_of("h100")


def test_every_profile_fits_its_hardware():
    for name, profile in PROFILES.items():
        assert profile.name == name
        assert profile.bf16 + profile.fp16 == (profile.device == "cuda")
    assert not PROFILES["cpu"].four_bit
    assert PROFILES["cpu"].device_map == "cpu"


def test_the_table_is_read_without_torch():
    code = "import sys, lmms_eval_tasks.profiles; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
