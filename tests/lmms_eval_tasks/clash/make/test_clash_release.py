"""From a copy of the release and of COCO to a dataset folder, with nothing lost in silence."""

import gzip
import json
import shutil
from collections import Counter

import pytest
from PIL import Image

from lmms_eval_tasks.clash import task
from lmms_eval_tasks.clash.data import official_prompts, prompt_hash
from lmms_eval_tasks.clash.make import release
from lmms_eval_tasks.clash.make.release import (
    build,
    content_digest,
    paper_view,
    read_samples,
)
from lmms_eval_tasks.clash.make.release_prompts import (
    PROMPTS_FILE,
    REQUEST_FILE,
    module_texts,
    read_prompts,
    request_template,
    text_of,
)
from lmms_eval_tasks.clash.prompts import judge_request
from lmms_eval_tasks.dataset.folder import check_folder, load_folder
from pragclash.cli import main
from tests.lmms_eval_tasks.clash.test_clash_task import Placeholder
from tests.lmms_eval_tasks.clash_fixtures import (
    EVALUATION_SOURCE,
    coco_copy,
    picture,
    release_copy,
    release_sample,
)

OFFICIAL = {
    "multiple_choice": "Pick one: 'A' to 'D'. No words – just the letter.",
    "open_ended": 'Look closely – say what is "there".\nUse "few" words;\ndon\'t guess.',
    "judge": "Which of IMAGE, TEXT, CONFLICT, NONE is it?\nOne word.\n"
    "    Now sort this one. {As it stands.}\n    By the picture: {image_answer} \n"
    "    By the sentence: {text_answer} \n    It said: {prediction}  \n    ",
}


def samples() -> list[dict]:
    """A list category, a picture asked about twice, a missing one, attributes, odd characters."""
    return [
        release_sample(7, 1, category=["food", "household"]),
        release_sample(900_001, 2),
        release_sample(7, 3, question='Which animal – the "grey" one – sleeps?'),
        release_sample(12, 4),
        release_sample(
            31, 5, change_type="attribute", category="colors",
            answers={
                "image_only": "Grey",
                "text_only": "White",
                "irrelevant_but_plausible": "Blue",
            },
            changed_words={"original": "grey", "conflicting": "white"},
        ),
    ]  # fmt: skip


@pytest.fixture
def copies(tmp_path):
    """The release's folder, and COCO's without picture 12."""
    return (
        release_copy(tmp_path / "release", samples()),
        coco_copy(tmp_path / "coco" / "train2017", [7, 31, 900_001]).parent,
    )


def command(*argv: object) -> int:
    return main.run(["data", "clash", *map(str, argv)])


def test_a_release_becomes_a_folder_that_tasks_run_on(copies, tmp_path, monkeypatch, capsys):
    source, coco = copies
    home = tmp_path / "data"
    monkeypatch.setenv("PRAGCLASH_DATA", str(home))
    assert command("--release", source, "--coco", coco) == 0
    out = capsys.readouterr().out
    assert "4 samples on 3 pictures, kind custom, prompts official" in out
    assert "1 pictures cannot be used (1 missing); 1 samples are left out" in out
    assert "000000000012.jpg is missing" in out
    assert check_folder(home / "clash") == []

    rows = load_folder(home / "clash", "clash").rows
    assert [row["image_id"] for row in rows] == ["7", "900001", "7", "31"]
    assert len({row["sample_id"] for row in rows}) == 4
    assert [row["categories"] for row in rows[:2]] == [["food", "household"], ["animals"]]
    assert rows[1]["image"] == "images/000000900001.jpg"
    assert rows[0]["original_caption"] == "A grey cat sleeps on chair 1. "

    docs = task.docs(Placeholder("clash_open_original"))
    assert task.doc_to_text(docs[2]) == (
        f"{OFFICIAL['open_ended']}\nA grey cat sleeps on chair 3. \n"
        'Which animal – the "grey" one – sleeps?'
    )
    docs = task.docs(Placeholder("clash_mc"))
    lines = task.doc_to_text(docs[0]).split("\n")
    assert lines[0] == OFFICIAL["multiple_choice"]
    assert sorted(line[4:] for line in lines[-4:]) == [
        *("Cat", "Conflicting information – cannot answer.", "Dog", "Rabbit")
    ]
    assert [doc["prompt"] for doc in docs] == ["official"] * 4


def test_the_manifest_says_what_is_in_the_folder_and_what_is_not(copies, tmp_path):
    report = build(*copies, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["kind"] == report["kind"] == "custom"
    assert (manifest["n_rows"], manifest["n_pictures"]) == (4, 3)
    assert manifest["left_out"] == {"pictures": {"000000000012.jpg": "is missing"}, "samples": []}
    assert {name: x.text for name, x in official_prompts(manifest).items()} == OFFICIAL
    assert manifest["prompts"]["judge"]["sha256"] == prompt_hash(OFFICIAL["judge"])
    assert str(tmp_path) not in json.dumps(manifest)


def test_a_picture_that_does_not_decode_is_left_out_like_a_missing_one(copies, tmp_path):
    source, coco = copies
    (coco / "train2017" / "000000000007.jpg").write_bytes(picture(1, "JPEG")[:200])
    report = build(source, coco, tmp_path / "out")
    assert sorted(report["missing_pictures"]) == ["000000000007.jpg", "000000000012.jpg"]
    assert "does not decode" in report["missing_pictures"]["000000000007.jpg"]
    assert (report["n_rows"], report["n_rows_without_picture"]) == (2, 3)


def test_the_papers_view_keeps_the_last_question_of_a_picture(copies, tmp_path):
    report = build(*copies, tmp_path / "out", paper_compat=True)
    rows = load_folder(tmp_path / "out", "clash").rows
    assert [row["image_id"] for row in rows] == ["900001", "7", "31"]
    assert rows[1]["question"].startswith("Which animal –")
    assert report["n_rows_in_release"] == 5


def test_faulty_samples_are_named_and_counted_and_the_rest_is_built(tmp_path, capsys):
    bad = [
        "no object",
        release_sample(7.5, 1),
        release_sample(True, 1),
        release_sample(-7, 1),
        release_sample(7, 1, question=None),
        release_sample(7, 1, answers={"image_only": "Cat"}),
        release_sample(7, 1, category=3),
        release_sample(7, 1, category="vehicles"),
        release_sample(7, 1, conflicting_caption="A grey cat sleeps on chair 1."),
        release_sample(7, 1, question="\ud800"),
    ]
    good = release_sample(7, 1)
    source = release_copy(tmp_path / "release", [*bad, good, good])
    coco = coco_copy(tmp_path / "coco", [7])
    assert command("--release", source, "--coco", coco, "--out", tmp_path / "o", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["n_rows"], report["n_rows_in_release"]) == (1, 12)
    faults = report["faulty_samples"]
    assert len(faults) == 11
    assert [f"sample {place}:" in fault for place, fault in enumerate(faults[:10])] == [True] * 10
    assert "sample 11: says the same as sample 10" in faults[10]


def test_without_the_prompts_file_the_prompts_are_ours_and_that_is_said(tmp_path, capsys):
    source = release_copy(tmp_path / "release", samples(), prompts=None)
    coco = coco_copy(tmp_path / "coco", [7])
    assert command("--release", source, "--coco", coco, "--out", tmp_path / "out") == 0
    assert "tasks will use pragclash's own" in capsys.readouterr().out
    assert "prompts" not in json.loads((tmp_path / "out" / "manifest.json").read_text())


def test_the_official_prompts_can_be_left_out(copies, tmp_path):
    assert build(*copies, tmp_path / "out", own_prompts=True)["prompt"] == "pragclash"


def test_fine_tuning_files_load_and_name_pictures_of_the_test_set(copies, tmp_path):
    source, _ = copies
    tuning = [release_sample(7, 8), release_sample(900_001, 9), release_sample(55, 10)]
    for sample in tuning:
        del sample["category"]
    for name in ("filtered_data_finetune.json", "merged_data_finetune.json"):
        (source / "data" / name).write_text(json.dumps({"metadata": {}, "samples": tuning}))
    coco_copy(tmp_path / "more", [7, 55, 900_001])
    for split in ("finetune", "finetune-merged"):
        report = build(source, tmp_path / "more", tmp_path / split, split=split)
        assert report["n_rows"] == 3
        assert report["pictures_of_the_test_set"] == ["7", "900001"]
        folder = load_folder(tmp_path / split, "clash")
        assert [row["categories"] for row in folder.rows] == [[]] * 3
        assert (folder.kind, folder.manifest["split"]) == ("custom", split)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda copy: (copy / release.SPLITS["test"]).unlink(), "is missing"),
        (lambda copy: (copy / release.SPLITS["test"]).write_text("{"), "is not JSON"),
        (lambda copy: (copy / release.SPLITS["test"]).write_text("{}"), "no list of samples"),
        (lambda copy: (copy / release.SPLITS["test"]).write_text("[" * 10**6), "is not JSON"),
        (lambda copy: (copy / release.SPLITS["test"]).write_text("[]"), "no sample can be used"),
        (lambda copy: (copy / PROMPTS_FILE).write_text("def"), "not readable as Python"),
        (lambda copy: (copy / PROMPTS_FILE).write_bytes(b"\xff\xfe"), "codec can't decode"),
        (lambda copy: (copy / PROMPTS_FILE).write_text("A = 1"), "is not assigned"),
    ],
)
def test_a_damaged_release_is_one_clear_line(copies, tmp_path, capsys, damage, words):
    source, coco = copies
    damage(source)
    assert command("--release", source, "--coco", coco, "--out", tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_the_judges_request_is_the_releases_byte_for_byte(copies, tmp_path):
    folder = build(*copies, tmp_path / "out")["out"]
    head = official_prompts(json.loads((tmp_path / folder / "manifest.json").read_text()))["judge"]
    row = {"image_answer": "Grey {x}", "text_answer": "White"}
    space = {"JUDGE_PROMPT": "Which of IMAGE, TEXT, CONFLICT, NONE is it?\nOne word."}
    source = EVALUATION_SOURCE[EVALUATION_SOURCE.index("def ") : EVALUATION_SOURCE.index("\n\nos.")]
    exec(source, space)
    said = "It is {text_answer}.\nOr not. "
    expected = space["generate_llm_as_judge_prompt"](said, "Grey {x}", "White")
    assert expected.endswith("Or not.   \n    ")
    assert judge_request(head.text, row, said) == expected


BODY = "def generate_llm_as_judge_prompt(prediction, image_only, text_only):\n"
ALL = "{image_only} {text_only} {prediction}"


@pytest.mark.parametrize(
    "source",
    [
        f"from .prompts import JUDGE_PROMPT as J\n{BODY}    return f'{{J}} {ALL}'",
        f"from a.prompts import *\n{BODY}    return f'{{JUDGE_PROMPT}} {ALL}'",
        f"J = 'Sort.'\n{BODY}    x = J\n    x += f' {ALL}'\n    return x",
        f"{BODY}    'doc'\n    from prompts import JUDGE_PROMPT\n"
        "    return JUDGE_PROMPT + ' ' + image_only + ' ' + text_only + ' ' + prediction",
    ],
)
def test_layouts_that_are_understood(source):
    expected = "Sort. {image_answer} {text_answer} {prediction}"
    assert request_template(source, {"JUDGE_PROMPT": "Sort."}) == expected


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "0 functions"),
        (f"{BODY}    return f'{{image_only}} {{prediction}}'", "does not use text_only"),
        (f"{BODY}    return f'{ALL}'.strip()", "Call is not a plain text"),
        (f"{BODY}    return f'{ALL} {{OTHER}}'", "the name OTHER"),
        (f"{BODY}    return f'{ALL} {{{{prediction}}}}'", "hold a slot of ours"),
        (f"{BODY}    if image_only: pass\n    return f'{ALL}'", "does more than assign"),
        (f"{BODY}    print(f'{ALL}')", "does not end by returning"),
        ("def generate_llm_as_judge_prompt(a, b):\n    return a + b", "does not take just"),
        (f"@twice\n{BODY}    return f'{ALL}'", "does not take just"),
        (f"{BODY}    prediction = prediction.lower()\n    return f'{ALL}'", "Call"),
        ("def", "not readable as Python"),
    ],
)
def test_a_request_that_is_not_understood_is_refused_in_one_line(
    copies, tmp_path, capsys, source, words
):
    (copies[0] / REQUEST_FILE).write_text(source)
    argv = ("--release", copies[0], "--coco", copies[1], "--out", tmp_path / "out")
    assert command(*argv) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.startswith(f"pragclash data clash: {REQUEST_FILE}: ")
    assert "--own-prompts" in error
    assert len(error.splitlines()) == 1


def test_pictures_are_found_wherever_they_lie_and_the_rest_is_counted(tmp_path, capsys):
    many = [release_sample(number, number) for number in range(1, 301)]
    source = release_copy(tmp_path / "release", many)
    coco = coco_copy(tmp_path / "coco", [250])
    coco_copy(coco / "train2017", [299, 300])
    (coco / "000000000010.jpg").write_bytes(picture(1, "JPEG"))
    flat = Image.new("RGB", (640, 480), (200, 200, 200))
    flat.save(coco / "000000000011.jpg")
    argv = ("--release", source, "--coco", coco, "--out", tmp_path / "out")
    assert command(*argv) == 0
    out = capsys.readouterr().out
    assert "3 samples on 3 pictures, kind custom" in out
    assert "297 pictures cannot be used (295 missing, 2 placeholders)" in out
    left_out = json.loads((tmp_path / "out" / "manifest.json").read_text())["left_out"]["pictures"]
    assert left_out["000000000010.jpg"] == "is a placeholder (8 x 6 pixels)"
    assert left_out["000000000011.jpg"] == "is a placeholder (a single colour)"


def test_no_picture_at_all_is_an_error(copies, tmp_path, capsys):
    source, _ = copies
    (tmp_path / "empty").mkdir()
    argv = ("--release", source, "--coco", tmp_path / "empty", "--out", tmp_path / "out")
    assert command(*argv) == 1
    assert "no picture can be used" in capsys.readouterr().err


def test_what_exists_is_not_written_over(copies, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    argv = ("--release", copies[0], "--coco", copies[1], "--out", tmp_path / "out")
    assert command(*argv) == 1
    assert "exists already" in capsys.readouterr().err


def test_the_prompts_file_is_never_run(copies):
    assert {name: x.text for name, x in read_prompts(copies[0]).items()} == OFFICIAL


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("A = 'x' 'y'\n", "xy"),
        ("A = ('x'\n     \"y\" + '''z\n''')", "xyz\n"),
        ("B = 'b'\nA = 'a' + B\nB = 'c'", "ab"),
        ("A = 'x'\nA = 'y'", "y"),
        ("A: str = 'x'\nA += 'y'", "xy"),
        ("A = B = 'x'", "x"),
        ("B = 'b'\nA = f'a{B}c' f'{{d}}'", "abc{d}"),
        ("A = r'\\n'", "\\n"),
        ("A = '\\u2013 \\\n\"q\"'", '– "q"'),
        ("# -*- coding: utf-8 -*-\n'''doc'''\nimport os\ndef f():\n    B = 'no'\nA = 'x'", "x"),
    ],
)
def test_string_constants_have_the_value_that_running_would_give(source, value):
    assert text_of("A", module_texts(source)) == value
    space: dict = {}
    exec(source, space)
    assert space["A"] == value


@pytest.mark.parametrize(
    "source",
    [
        "A = open('/etc/passwd').read()",
        "A = 'x'.upper()",
        "A = 'x' * 3",
        "A = 'x' % ()",
        "A = 'x' if True else 'y'",
        "A = b'x'",
        "A = 3",
        "A = B",
        "A = ''.join(['x'])",
        "A = f'{3}'",
        "B = 'b'\nA = f'{B!r}'",
        "if True: A = 'x'\nA = 'y'",
        "def f():\n    A = 'no'\nA = 'x'",
        "B = 'b'\nA = f'{B:>9}'",
        "A = 'x'\nA *= 2",
        "A += 'x'",
        "A = 'x'\nif True:\n    A = 'y'",
        "A = 'x'\nfor A in 'yz': pass",
        "A = 'x'\ndel A",
        "A = 'x'\nfrom os import sep as A",
        "A = 'x'\ndef f():\n    global A\n    A = 'y'\nf()",
        "A = 'x'\ndef A(): pass",
        "A, B = 'x', 'y'",
        "class C:\n    A = 'x'",
        "B = 'x'\nif True: B = 'y'\nA = B + 'z'",
        "B = 'x'\nC = [B := 'y']\nA = B",
        "try:\n    pass\nexcept E as A:\n    pass",
        "a = 'A'",
        "",
        "\x00",
        "A = " + "(" * 5000 + "'x'" + ")" * 5000,
    ],
)
def test_anything_but_plain_texts_is_refused(source):
    with pytest.raises(ValueError, match=r"\w"):
        text_of("A", module_texts(source))


def test_sums_that_grow_without_end_are_refused():
    source = "B = 'x' * 1\nA = 'x'\n" + "A = A + A + A + A\n" * 40
    with pytest.raises(ValueError, match="too long"):
        text_of("A", module_texts(source))


@pytest.fixture(scope="module")
def released(shared, tmp_path_factory):
    """The released test set, in the release's layout."""
    source = release_copy(tmp_path_factory.mktemp("golden") / "release", [], prompts=None)
    with gzip.open(shared / "golden" / "clash" / "test.json.gz") as packed:
        (source / release.SPLITS["test"]).write_bytes(packed.read())
    return source


def test_the_released_test_set_parses_whole(released):
    found = read_samples(released, "test")
    assert found.faults == []
    assert (len(found.rows), len({row["image_id"] for row in found.rows})) == (1289, 1281)
    assert len({row["sample_id"] for row in found.rows}) == 1289
    assert Counter(row["change_type"] for row in found.rows) == {"object": 655, "attribute": 634}
    single = Counter(
        (row["change_type"], row["categories"][0])
        for row in found.rows
        if len(row["categories"]) == 1
    )
    assert single == {
        **{("object", "animals"): 146, ("object", "transportation"): 67, ("object", "food"): 87},
        **{("object", "sports"): 92, ("object", "household"): 143, ("object", "other"): 102},
        **{("attribute", "colors"): 310, ("attribute", "numbers"): 205},
        **{("attribute", "materials"): 58, ("attribute", "physical"): 19},
        **{("attribute", "environmental"): 16, ("attribute", "other"): 26},
    }
    assert sum(len(row["categories"]) == 2 for row in found.rows) == 18
    assert sum(row["original_caption"].endswith(" ") for row in found.rows) > 100
    assert content_digest(found.rows) == release.TEST_DIGEST


def test_the_papers_view_holds_the_questions_of_the_released_predictions(released, shared):
    rows = read_samples(released, "test").rows
    questions = {row["image_id"]: row["question"] for row in paper_view(rows)}
    assert len(questions) == 1281
    folder = shared / "golden" / "clash" / "predictions"
    differing = {}
    for path in sorted(folder.rglob("*.json.gz")):
        with gzip.open(path) as packed:
            predictions = json.load(packed)
        asked = {str(row["image_id"]): row["question"] for row in predictions}
        assert asked.keys() == questions.keys()
        differing[path] = sum(asked[image] != questions[image] for image in asked)
    assert len(differing) == 12
    assert Counter(differing.values()) == {0: 11, 3: 1}


@pytest.mark.slow
def test_the_released_test_set_on_all_its_pictures_is_full(released, tmp_path):
    ids = sorted({int(row["image_id"]) for row in read_samples(released, "test").rows})
    coco = coco_copy(tmp_path / "coco", ids)
    report = build(released, coco, tmp_path / "out")
    assert (report["kind"], report["n_rows"], report["n_pictures"]) == ("full", 1289, 1281)
    assert build(released, coco, tmp_path / "p", paper_compat=True)["n_rows"] == 1281
    assert load_folder(tmp_path / "p", "clash").kind == "custom"
    (coco / f"{ids[5]:012d}.jpg").unlink()
    shutil.rmtree(tmp_path / "out")
    assert build(released, coco, tmp_path / "out")["kind"] == "custom"
