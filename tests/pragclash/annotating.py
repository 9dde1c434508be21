"""Starts the annotation page as a user does: in a process of its own."""

import sys
from pathlib import Path

CODE = """
import argparse, sys
from pragclash.cli import annotate
parser = argparse.ArgumentParser()
annotate.add_arguments(parser)
try:
    sys.exit(annotate.run(parser.parse_args()))
except (OSError, ValueError) as error:
    sys.exit(f"pragclash annotate: {error}")
"""


def command(folder: Path, *more: str, task: str = "sarcasm", annotator: str = "ada") -> list[str]:
    """The command line that serves a folder."""
    line = [sys.executable, "-c", CODE, str(folder), "--task", task, "--annotator", annotator]
    return [*line, *more]
