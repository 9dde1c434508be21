"""What the suite printed before its rooms were rebuilt: the same values must come out today.

`pinned_printed.json` is every metric of a run of the embedded model over all tasks of the sample,
`pinned_tables_*.json` every table of that run and of twelve released files of predictions, as
value and n. Intervals are not pinned: methods may become better.
"""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from postprocess.runs.folder import read_runs
from postprocess.tables.build import build, tables
from postprocess.tables.formats import as_json
from tests import KNOWN_ANSWERS, ROOT

TASKS = (
    "pragmatch,pragmatch_cot,clash,pragmatch_pm_prompt_b,pragmatch_pml_prompt_b,clash_mc_circular"
)


def pinned(name):
    return json.loads((KNOWN_ANSWERS / f"pinned_{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """A run folder of the embedded model over every task that needs no judge."""
    folder = tmp_path_factory.mktemp("detector")
    code = "from pragclash.harness.launcher import main; main()"
    done = subprocess.run(
        [
            *(sys.executable, "-c", code, "--tasks", TASKS, "--model", "mismatch_detector"),
            *("--output_path", str(folder), "--log_samples"),
        ],
        env={k: v for k, v in os.environ.items() if k != "PRAGCLASH_DATA"}
        | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder / "none")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def released(shared, tmp_path_factory):
    """Run folders of the released predictions, scored anew."""
    from pragclash.cli.main import run

    golden, out = shared / "golden" / "clash", tmp_path_factory.mktemp("released")
    files = sorted((golden / "predictions").rglob("*.json.gz"))
    assert len(files) == 12
    for number, file in enumerate(files):
        samples = ["--samples", str(golden / "test.json.gz")]
        run(["score", str(file), *samples, "--json", "--out", str(out / f"{number:02}")])
    return out


def close(value, wanted):
    if isinstance(wanted, str) or isinstance(value, str):
        return value == wanted
    return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.slow
def test_every_printed_metric_is_what_it_was(detector):
    (path,) = detector.rglob("*_results.json")
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    wanted = pinned("printed")
    assert results.keys() == wanted.keys()
    wrong = []
    for task, metrics in wanted.items():
        found = {key.partition(",")[0]: value for key, value in results[task].items()}
        names = {name for name in found if "_stderr" not in name} - {"alias", " "}
        assert names == metrics.keys(), task
        for name, value in metrics.items():
            errors = [found[f"{name}_stderr{kind}"] for kind in ("", "_clt", "_clustered")]
            expected = value if isinstance(value, list) else [value, "N/A", "N/A", "N/A"]
            got = [found[name], *errors]
            if not all(map(close, got, expected)):
                wrong.append((task, name, got, expected))
    assert not wrong


def rows_of(name, folder):
    table = as_json(build(name, read_runs([Path(folder)])))
    assert len({tuple(row["head"]) for row in table["rows"]}) == len(table["rows"])
    return {
        " | ".join(row["head"]): {
            key: [cell["value"], cell["n"]] for key, cell in row["cells"].items() if "value" in cell
        }
        for row in table["rows"]
    }


def compare(name, folder, wanted):
    found, wrong = rows_of(name, folder), []
    assert found.keys() == wanted.keys()
    for head, cells in wanted.items():
        assert found[head].keys() >= cells.keys(), head
        for key, (value, n) in cells.items():
            got = found[head][key]
            if not (close(got[0], value) and got[1] == n):
                wrong.append((head, key, got, [value, n]))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", pinned("tables_detector"))
def test_every_table_of_the_embedded_model_is_what_it_was(name, detector):
    compare(name, detector, pinned("tables_detector")[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", pinned("tables_released"))
def test_every_table_of_the_released_files_is_what_it_was(name, released):
    compare(name, released, pinned("tables_released")[name])


def test_every_table_is_pinned():
    # Tables that came later have nothing to be compared with.
    later = {"table_prompts"}
    assert set(pinned("tables_detector")) == set(pinned("tables_released")) == set(tables()) - later
