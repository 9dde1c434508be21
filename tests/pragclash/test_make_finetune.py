"""`make clash-finetune-table` with PROFILE=cpu and a small local model, from nothing to a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.lmms_eval_tasks.clash_fixtures import coco_copy, release_copy, release_sample
from tests.model_wrappers.tiny import tiny_models

pytest.importorskip("peft")
pytestmark = pytest.mark.slow

__all__ = ["tiny_models"]


def test_the_table_of_fine_tuned_models_is_made_from_nothing(tiny_models, tmp_path):
    release = release_copy(tmp_path / "release", [release_sample(n, n) for n in range(1, 5)])
    for name, size in (("filtered", 12), ("merged", 16)):
        samples = [release_sample(n, n) for n in range(3, 3 + size)]
        content = json.dumps({"metadata": {}, "samples": samples})
        (release / "data" / f"{name}_data_finetune.json").write_text(content)
    coco = coco_copy(tmp_path / "coco", list(range(1, 25)))
    out = tmp_path / "runs"
    command = [
        *("make", "-o", f"{sys.prefix}/.installed", f"VENV={sys.prefix}", "PROFILE=cpu"),
        *(f"BASE={tiny_models('llava_hf')}", f"RELEASE={release}", f"COCO={coco}", f"OUT={out}"),
        "clash-finetune-table",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "CLASH, fine-tuning" in done.stdout
    for name, rows in (("filtered", 10), ("unfiltered", 14)):
        record = json.loads((out / "finetune" / f"adapter-{name}" / "training.json").read_text())
        assert record["data"]["dropped_in_test_set"] == 2
        assert record["data"]["rows"] == rows
        assert record["data"]["conflict_target_from"] == "official"
        assert record["settings"]["profile"] == "cpu"
        assert name in done.stdout
