"""The report in a real browser: it opens quickly and alone, and filters, keyboard, links work.

What it needs, and what it skips without, stands in `tests/browser`. PRAGCLASH_SCREENSHOTS=DIR keeps
pictures of every page at both widths, light and dark.
"""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from postprocess.publish import report
from postprocess.publish.report_pairs import Media
from postprocess.runs.folder import read_runs
from postprocess.tables.model import Options
from tests.browser import need_browser
from tests.postprocess import synthetic
from tests.postprocess.publish.test_report import HOSTILE, hostile_run, picture
from tests.postprocess.run_folders import write_run

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
FAST = Options()
OPENS_WITHIN_MS = 2000


@pytest.fixture(scope="module")
def drive():
    """Runs a scenario of drive.js on a page and returns what it saw."""
    node, chromium, playwright = need_browser()
    shots = os.environ.get("PRAGCLASH_SCREENSHOTS")
    if shots:
        Path(shots).mkdir(parents=True, exist_ok=True)

    def run(page: Path, scenario: str) -> dict:
        argv = [node, str(HERE / "drive.js"), chromium, str(page), scenario]
        argv += [shots] if shots else []
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PLAYWRIGHT_CORE": playwright},
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert seen["errors"] == []
        assert seen["dialogs"] == []
        assert seen["requests"] == []
        return seen

    return run


def words(number, slot):
    """P right always; M right for even pictures; the style cue turns M of picture 4; 5 refuses."""
    if number == 5 and slot == "L":
        return "I would rather not say."
    if slot == "M+" and number == 4:
        return "The hashtag changes everything.\nYes"
    return "Yes" if slot[0] == "P" or (slot[0] == "M" and number % 2) else "No"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    for name, answer in (("alpha", words), ("beta", synthetic.always_no)):
        kites = synthetic.clash("clash_open", lambda n: "a conflict" if n < 5 else "kite")
        tasks = {
            "pragmatch_pml": synthetic.pragmatch("pragmatch_pml", answer, 12),
            "pragmatch_m_plus_style": synthetic.pragmatch("pragmatch_m_plus_style", answer, 12),
            "clash_open": kites,
            "clash_open_original": synthetic.clash(
                "clash_open_original", lambda n: "a conflict" if n < 3 else "kite"
            ),
        }
        prompts = {
            r["sample_id"]: f"Is it meant?\nCaption: Lunch {r['sample_id']}"
            + (" #yum" if r["edit"] else "")
            for records in tasks.values()
            for r in records
            if "edit" in r
        }
        write_run(folder / name, tasks, model=name, model_args="", prompts=prompts)
    out = folder / "report.html"
    media = {synthetic.FULL: Media({}, {"0000": picture(folder / "a.jpg")})}
    out.write_text(report.build(read_runs([folder]), FAST, media), encoding="utf-8")
    return out


def test_it_opens_alone_at_both_widths_light_and_dark(drive, page):
    seen = drive(page, "open")
    for look in ("1280-light", "1280-dark", "390-light", "390-dark"):
        one = seen[look]
        assert one["headings"] == [
            "What the runs show",
            "Tables",
            "Sarcasm against mismatch",
            "What a cue changes",
            "Scores",
            "CLASH: what the answers say",
            "Pair by pair",
            "How the runs were made",
        ]
        assert one["landmarks"] == [1, 1, 1, 1]
        assert one["unnamed"] == []
        assert not one["wide"], f"the page scrolls sideways at {look}"
        assert one["links"]
        assert one["ms"] < OPENS_WITHIN_MS
        assert "alpha, zero-shot: accuracy 75.0" in one["headline"]


def test_filters_keyboard_and_search_find_pairs(drive, page):
    seen = drive(page, "browse")["seen"]
    assert seen["start"] == ["1 of 12", "0000"]
    assert seen["moved"] == ["3 of 12", "0002"]
    assert seen["back"] == ["2 of 12", "0001"]
    assert seen["hash"] == "#pair=0001&by=0&filter=all"
    assert (seen["focus"], seen["search"]) == ("filter", "search")
    assert seen["filtered"][0] == "1 of 6"
    assert all(marks.startswith("P✓ M✗") for marks in seen["filtered"][1])
    position, sides = seen["flipped"]
    assert position == "1 of 1"
    assert "No right" in sides[0]
    assert "Yes wrong" in sides[1]
    assert "The hashtag changes everything." in sides[1]
    assert "#yum" in sides[1]
    assert seen["unusable"] == "1 of 1"
    # A picture that also passes the new filter stays in view.
    assert seen["disagree"] == "6 of 12"
    assert seen["found"] == ["1 of 1", "0003"]
    assert seen["typed"] == "0003-j"
    assert seen["other"] == "beta, zero-shot"
    assert seen["questions"] == ["1 of 40", "i0000"]
    assert seen["alarms"] == "1 of 3"


def test_every_pair_has_a_link_that_opens_it(drive, page):
    seen = drive(page, "link")["seen"]
    assert seen["clicked"] == seen["opened"] == "0004"
    assert seen["href"] == seen["hash"] == "#pair=0004&by=0&filter=all"
    assert seen["elsewhere"] == "0002"
    assert seen["nonsense"] == "1 of 12"


def test_hostile_text_is_shown_and_does_nothing(drive, tmp_path):
    hostile_run(tmp_path)
    out = tmp_path / "report.html"
    out.write_text(report.build(read_runs([tmp_path]), FAST), encoding="utf-8")
    seen = drive(out, "hostile")["seen"]
    assert seen["scripts"] == 2
    assert seen["images"] == 0
    assert seen["bold"] == 0
    everything = "\n".join(seen["said"])
    for text in HOSTILE[:3]:
        assert text in everything
    assert "%EF%BF%BD" in seen["permalink"]


@pytest.mark.slow
def test_ten_thousand_records_open_in_two_seconds(drive, tmp_path):
    def long(number, slot):
        rng = random.Random(f"{number}{slot}")
        text = " ".join(rng.choices(("the", "picture", "shows", "a", "rather", "plain"), k=150))
        return f"{text}\nVerdict: {'Yes' if rng.random() < 0.5 else 'No'}"

    tasks = ["pragmatch_pml_cot", "pragmatch_pml_text_only_cot"]
    tasks += [f"pragmatch_p_minus_m_plus_{cue}_cot" for cue in ("ocr", "style")]
    records = {task: synthetic.pragmatch(task, long, pictures=1000) for task in tasks}
    write_run(tmp_path, records, model="m", model_args="")
    pool = [picture(tmp_path / f"{i}.jpg", seed=i, quality=90) for i in range(20)]
    media = {synthetic.FULL: Media({}, {f"{i:04}": pool[i % 20] for i in range(1000)})}
    out = tmp_path / "report.html"
    out.write_text(report.build(read_runs([tmp_path]), FAST, media), encoding="utf-8")
    assert out.stat().st_size < report.MAX_BYTES
    seen = drive(out, "open")
    assert max(seen[look]["ms"] for look in ("1280-light", "390-dark")) < OPENS_WITHIN_MS
