"""The builder end to end on a small fake MMSD2.0: bytes, resumption, troubles, leaks."""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from lmms_eval_tasks.dataset.folder import check_folder, load_folder
from lmms_eval_tasks.pragmatch.make import build, cues, donors, literal, picture_text
from lmms_eval_tasks.pragmatch.make.donors import LeakError, check_leaks
from lmms_eval_tasks.pragmatch.make.normalise import normalise
from lmms_eval_tasks.pragmatch.make.stages import BuildError
from pragclash.cli import data_pragmatch
from tests import ROOT
from tests.lmms_eval_tasks import fake_mmsd


@pytest.fixture
def root(tmp_path):
    rows = fake_mmsd.posts()
    for text in ("lol", "<user> <user>", "!!!", ""):
        rows.append({"image_id": int(fake_mmsd.image_id(60 + len(rows))), "text": text, "label": 1})
    return fake_mmsd.write(tmp_path / "mmsd2", rows)


@pytest.fixture
def captions(tmp_path):
    return fake_mmsd.write_captions(tmp_path / "literal.json")


def arguments(root, out, *more):
    parser = argparse.ArgumentParser()
    data_pragmatch.add_arguments(parser)
    given = ["--source", "mmsd2", "--root", str(root), "--out", str(out), "--n", "15"]
    return parser.parse_args([*given, "--ocr", "off", "--folds", "3", *map(str, more)])


def run(root, out, *more):
    return data_pragmatch.run_with(arguments(root, out, *more), fake_mmsd.ENCODERS)


def content(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def manifest_of(out):
    return json.loads((out / "manifest.json").read_text())


def test_builds_end_to_end_twice_with_the_same_bytes(root, captions, tmp_path):
    for out in (tmp_path / "one", tmp_path / "two"):
        assert run(root, out, "--l-captions", captions, "--n", 24) == 0
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert check_folder(tmp_path / "one", "pragmatch") == []
    data = load_folder(tmp_path / "one", "pragmatch")
    counts = manifest_of(tmp_path / "one")["counts"]
    assert counts["posts_without_content"] == 4
    assert counts["pictures_missing"] == counts["pictures_corrupt"] == 1
    assert counts["pictures"] == 22 - counts["without_fitting_donor"] >= 20
    assert data.kind == "custom"
    clean = Counter(row["condition"] for row in data.rows if row["edit"] is None)
    assert set(clean.values()) == {counts["pictures"]}
    assert set(clean) == {"P", "L", "M"}


def test_a_finished_build_is_recognised(root, captions, tmp_path, capsys):
    out = tmp_path / "out"
    run(root, out, "--l-captions", captions)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert run(root, out, "--l-captions", captions) == 0
    assert "is built already" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    with pytest.raises(BuildError, match="another dataset"):
        run(root, out, "--l-captions", captions, "--seed", 1)


def test_a_build_without_its_card_is_completed(root, captions, tmp_path):
    out = tmp_path / "out"
    run(root, out, "--l-captions", captions)
    before = content(out)
    (out / build.CARD_FILE).unlink()
    run(root, out, "--l-captions", captions)
    assert content(out) == before


def test_every_picture_keeps_to_one_fold_and_no_string_crosses(root, captions, tmp_path):
    run(root, tmp_path / "out", "--l-captions", captions)
    rows = load_folder(tmp_path / "out", "pragmatch").rows
    check_leaks(rows)
    assert {row["fold"] for row in rows} == {0, 1, 2}


def test_a_set_that_takes_its_ms_from_itself_fails_the_leak_check(root, captions, tmp_path):
    """Wrong data on purpose: every M is another picture's L, folds cut across."""
    run(root, tmp_path / "out", "--l-captions", captions)
    rows = [r for r in load_folder(tmp_path / "out", "pragmatch").rows if r["edit"] is None]
    literals = {row["image_id"]: row["caption"] for row in rows if row["condition"] == "L"}
    order = sorted(literals)
    turned = {x: literals[order[i - 1]] for i, x in enumerate(order)}
    for row in rows:
        if row["condition"] == "M":
            row["caption"] = turned[row["image_id"]].upper()
    with pytest.raises(LeakError, match="cross the folds"):
        check_leaks(rows)
    inside = [{**row, "fold": 0} for row in rows]
    check_leaks(inside)
    with pytest.raises(ValueError, match="no fold"):
        check_leaks([{**rows[0], "fold": None}])


def test_donors_stand_outside_the_set_and_serve_about_equally(root, captions, tmp_path):
    run(root, tmp_path / "out", "--l-captions", captions)
    rows = load_folder(tmp_path / "out", "pragmatch").rows
    inside = {row["image_id"] for row in rows}
    ms = [row for row in rows if row["condition"] == "M" and row["edit"] is None]
    uses = Counter(row["extra"]["donor"] for row in ms)
    assert not inside & set(uses)
    assert max(uses.values()) == 1, "there are more donors than pictures"
    assert all(row["extra"]["similarity"] <= donors.MAX_SIMILARITY for row in ms)
    folds = {}
    for row in ms:
        assert folds.setdefault(row["extra"]["donor"], row["fold"]) == row["fold"]


def test_a_seed_is_another_set_with_other_ms(root, captions, tmp_path):
    found = []
    for seed in (0, 1):
        run(root, tmp_path / str(seed), "--l-captions", captions, "--seed", seed)
        rows = load_folder(tmp_path / str(seed), "pragmatch").rows
        ms = [row for row in rows if row["condition"] == "M" and row["edit"] is None]
        found.append({row["image_id"]: row["extra"]["donor"] for row in ms})
    assert set(found[0]) != set(found[1])
    both = set(found[0]) & set(found[1])
    assert any(found[0][x] != found[1][x] for x in both)


def test_few_donors_are_used_equally(root, tmp_path):
    run(root, tmp_path / "all", "--l-captions", fake_mmsd.write_captions(tmp_path / "all.json"))
    rows = load_folder(tmp_path / "all", "pragmatch").rows
    inside = sorted({row["image_id"] for row in rows})
    outside = [x for x in map(fake_mmsd.image_id, range(54)) if x not in inside][:6]
    number = {fake_mmsd.image_id(i): i for i in range(54)}
    few = [{"image_id": x, "caption": fake_mmsd.caption(number[x])} for x in inside + outside]
    (tmp_path / "few.json").write_text(json.dumps(few))
    more = ("--l-captions", tmp_path / "few.json", "--max-similarity", "0.95")
    run(root, tmp_path / "out", *more)
    found = manifest_of(tmp_path / "out")["donors"]
    assert found["offered"] == found["used"] == 6
    assert found["most_uses"] - found["fewest_uses"] <= 1


def test_ms_from_posts_that_are_not_sarcastic(root, captions, tmp_path):
    more = ("--l-captions", captions, "--m-source", "mmsd_negatives", "--max-similarity", "0.6")
    run(root, tmp_path / "out", *more)
    texts = {str(r["image_id"]): r for r in fake_mmsd.posts()}
    rows = load_folder(tmp_path / "out", "pragmatch").rows
    for row in rows:
        if row["condition"] == "M" and row["edit"] is None:
            donor = texts[row["extra"]["donor"]]
            assert (donor["label"], donor["text"]) == (0, row["caption"])


def test_the_audit_covers_both_sources_of_m(root, captions, tmp_path, capsys):
    out = tmp_path / "out"
    more = ("--l-captions", captions, "--max-similarity", "0.6", "--audit")
    run(root, out, *more)
    printed = capsys.readouterr()
    found = manifest_of(out)["audit"]
    assert {(x["m_source"], x["features"]) for x in found["lines"]} == {
        (m, f) for m in ("captions", "mmsd_negatives") for f in ("caption", "format")
    }
    assert "| captions | caption |" in printed.out
    by_format = next(x for x in found["lines"] if x["features"] == "format")
    assert by_format["pair"][0] > 75, "posts and descriptions are told apart by format here"
    assert "WARNING: with M from captions, format" in printed.err
    parser = argparse.ArgumentParser()
    data_pragmatch.add_arguments(parser)
    args = parser.parse_args(["--audit", str(out), "--json"])
    assert data_pragmatch.run_with(args, fake_mmsd.ENCODERS) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == found["lines"]


def test_normalise_gives_all_captions_one_form(root, captions, tmp_path):
    out = tmp_path / "out"
    run(root, out, "--l-captions", captions, "--normalise")
    for row in load_folder(out, "pragmatch").rows:
        if row["edit"] is None:
            assert row["caption"] == normalise(row["caption"])
    assert "<num>" in (out / "captions.jsonl").read_text()


def test_cue_edits_stand_beside_their_originals(root, captions, tmp_path):
    run(root, tmp_path / "out", "--l-captions", captions)
    rows = load_folder(tmp_path / "out", "pragmatch").rows
    clean = {(r["image_id"], r["condition"]): r["caption"] for r in rows if r["edit"] is None}
    counted = {cue: Counter() for cue in cues.CUES}
    for row in rows:
        if row["edit"]:
            counted[row["cue"]][row["edit"]] += 1
        if row["edit"] == "mask":
            assert row["caption"] == cues.mask(clean[row["image_id"], "P"], row["cue"])
        if row["edit"] == "inject":
            assert cues.mask(row["caption"], row["cue"]) == clean[row["image_id"], "M"]
    found = manifest_of(tmp_path / "out")["cues"]
    for cue in cues.CUES:
        assert counted[cue]["inject"] == found[cue]["injected"] == 15
        assert counted[cue]["mask"] == found[cue]["masked"]
    assert found["style"]["masked"] > 0


def test_the_card_and_the_manifest_say_what_it_is(root, captions, tmp_path):
    out = tmp_path / "out"
    run(root, out, "--l-captions", captions)
    card, manifest = (out / "README.md").read_text(), manifest_of(out)
    assert load_folder(out, "pragmatch").fingerprint in card
    for text in ("MMSD2.0", "literal.json", "words at random", "Licence", "Known faults"):
        assert text in card
    assert manifest["encoders"] == ["words at random"]
    assert manifest["sources"][0]["files"][0]["sha256"]
    assert set(manifest["cue_lists"]) == set(cues.LIST_FILES)
    assert str(tmp_path) not in card + json.dumps(manifest), "no path of this machine"


class Stop(BaseException):
    """Stands for the end of the process."""


def fake_answers(stop_after=None, fails=()):
    """A captioner's answers; the process ends after some calls, some pictures never work."""
    by_content = {fake_mmsd.drawing(i): i for i in range(60)}
    calls = []

    def answer(self, pictures):
        calls.append(len(pictures))
        if stop_after is not None and len(calls) > stop_after:
            raise Stop
        numbers = [by_content[picture] for picture in pictures]
        if set(numbers) & set(fails):
            raise RuntimeError("out of memory")
        return [f'"{fake_mmsd.caption(i)}"\n' for i in numbers]

    return answer, calls


CAPTIONER = ("--captioner", "qwen2_5_vl", "--captioner-args", "pretrained=/m/q,api_key=SECRET")


def test_interrupted_anywhere_it_resumes_to_the_same_bytes(root, tmp_path, monkeypatch):
    answer, calls = fake_answers(fails=(7,))
    monkeypatch.setattr(literal.Captioner, "answer", answer)
    run(root, tmp_path / "whole", *CAPTIONER)
    whole = content(tmp_path / "whole")
    for i, stop_after in enumerate((0, 1, 9, len(calls) - 1)):
        work, out = tmp_path / f"work{i}", tmp_path / f"out{i}"
        answer, _ = fake_answers(stop_after, fails=(7,))
        monkeypatch.setattr(literal.Captioner, "answer", answer)
        with pytest.raises(Stop):
            run(root, out, *CAPTIONER, "--work", work)
        assert not out.exists(), "a folder is there whole or not at all"
        for journal in work.glob("*.jsonl"):
            with journal.open("ab") as file:
                file.write(b'["half a li')
        answer, resumed = fake_answers(fails=(7,))
        monkeypatch.setattr(literal.Captioner, "answer", answer)
        run(root, out, *CAPTIONER, "--work", work)
        assert content(out) == whole
        assert len(resumed) <= len(calls) - stop_after, "finished captions are not asked for again"


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_bytes(root, tmp_path):
    script = (
        "import os, sys\n"
        "from lmms_eval_tasks.pragmatch.make import literal\n"
        "from tests.lmms_eval_tasks.pragmatch.make import test_build\n"
        "root, out, after = sys.argv[1:]\n"
        "inner, calls = test_build.fake_answers()\n"
        "def answer(self, pictures):\n"
        "    if len(calls) >= int(after): os._exit(9)\n"
        "    return inner(self, pictures)\n"
        "literal.Captioner.answer = answer\n"
        "sys.exit(test_build.run(root, out, *test_build.CAPTIONER))\n"
    )

    def start(out, after):
        command = [sys.executable, "-c", script, str(root), str(out), str(after)]
        return subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True).returncode

    assert start(tmp_path / "whole", 999) == 0
    assert start(tmp_path / "out", 11) == 9
    assert start(tmp_path / "out", 999) == 0
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_a_captioner_that_fails_loses_pictures_not_the_build(root, tmp_path, monkeypatch, capsys):
    answer, calls = fake_answers(fails=range(1, 12))
    monkeypatch.setattr(literal.Captioner, "answer", answer)
    out = tmp_path / "out"
    run(root, out, *CAPTIONER, "--retries", 1)
    counts = manifest_of(out)["counts"]
    assert counts["captioner_failures"] >= counts["without_literal_caption"] > 0
    assert counts["pictures"] == 15 - counts["without_literal_caption"]
    assert len(calls) == 30 + counts["captioner_failures"], "each failure was tried once more"
    assert "no caption for picture" in capsys.readouterr().err
    rows = load_folder(out, "pragmatch").rows
    written = {fake_mmsd.caption(i) for i in range(60)}
    assert {row["caption"] for row in rows if row["condition"] == "L"} <= written


def test_a_captioner_that_never_works_builds_nothing(root, tmp_path, monkeypatch):
    answer, _ = fake_answers(fails=range(60))
    monkeypatch.setattr(literal.Captioner, "answer", answer)
    with pytest.raises(literal.CaptionerError, match="out of memory"):
        run(root, tmp_path / "out", *CAPTIONER)
    assert not (tmp_path / "out").exists()


def test_machine_captions_are_never_full_and_no_key_is_kept(root, tmp_path, monkeypatch):
    answer, _ = fake_answers()
    monkeypatch.setattr(literal.Captioner, "answer", answer)
    run(root, tmp_path / "out", *CAPTIONER)
    assert manifest_of(tmp_path / "out")["kind"] == "custom"
    kept = content(tmp_path / "out") | content(tmp_path / "out.work")
    assert b"SECRET" not in b"".join(kept.values())


def test_a_failed_picture_can_be_asked_again(root, tmp_path, monkeypatch):
    work = tmp_path / "work"
    answer, _ = fake_answers(fails=range(1, 12))
    monkeypatch.setattr(literal.Captioner, "answer", answer)
    run(root, tmp_path / "first", *CAPTIONER, "--work", work)
    answer, calls = fake_answers()
    monkeypatch.setattr(literal.Captioner, "answer", answer)
    run(root, tmp_path / "second", *CAPTIONER, "--work", work, "--retry-failed")
    assert manifest_of(tmp_path / "second")["counts"]["pictures"] == 15
    assert sum(calls) < 15


def test_arguments_that_do_not_go_together_are_explained(root, captions, tmp_path):
    with pytest.raises(BuildError, match="--l-captions FILE"):
        run(root, tmp_path / "out")
    with pytest.raises(BuildError, match="one of them"):
        run(root, tmp_path / "out", "--l-captions", captions, "--captioner", "openai")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(BuildError, match="something else"):
        run(root, tmp_path / "full", "--l-captions", captions)
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine"


def test_captions_that_are_all_the_same_cannot_make_folds(root, tmp_path):
    rows = [{"image_id": fake_mmsd.image_id(i), "caption": "A shape."} for i in range(54)]
    (tmp_path / "same.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match="share no caption"):
        run(root, tmp_path / "out", "--l-captions", tmp_path / "same.json")


@pytest.mark.slow
@pytest.mark.skipif(picture_text.engine_name() is None, reason="the extra `ocr` is not installed")
def test_words_read_off_the_picture_are_masked(tmp_path, monkeypatch):
    rows = fake_mmsd.posts(6, 10)
    root = fake_mmsd.write(tmp_path / "mmsd2", rows, missing=(), corrupt=())
    sign = rows[next(i for i, row in enumerate(rows) if row["label"])]
    sign["text"] = "what a lovely bargain on this corner"
    (root / "text_json_final" / "test.json").write_text(json.dumps(rows))
    picture = fake_mmsd.drawing(1, (480, 240), "BARGAIN")
    (root / "dataset_image" / f"{sign['image_id']}.jpg").write_bytes(picture)
    captions = fake_mmsd.write_captions(tmp_path / "literal.json")
    read = []
    inner = picture_text.read_text
    monkeypatch.setattr(picture_text, "read_text", lambda x: read.append(x) or inner(x))
    more = ("--l-captions", captions, "--ocr", "on", "--n", 6, "--folds", 2)
    more += ("--work", tmp_path / "work")
    run(root, tmp_path / "out", *more)
    rows = load_folder(tmp_path / "out", "pragmatch").rows
    masked = {
        r["image_id"]: r["caption"] for r in rows if r["cue"] == "ocr" and r["edit"] == "mask"
    }
    assert masked[str(sign["image_id"])] == "what a lovely on this corner"
    manifest = manifest_of(tmp_path / "out")
    assert manifest["ocr"].startswith("rapidocr")
    assert manifest["counts"]["pictures_with_text"] >= 1
    assert len(read) == 6
    run(root, tmp_path / "again", *more, "--seed", 1)
    assert len(read) == 6, "text is read once a picture"
