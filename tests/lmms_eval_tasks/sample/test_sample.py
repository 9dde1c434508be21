"""The sample: its photographs, what their owners allow, and captions that give nothing away."""

import hashlib
import importlib
import io
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from importlib import metadata, util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmms_eval_tasks.clash.data import CATEGORIES
from lmms_eval_tasks.dataset.folder import check_folder, write_folder
from lmms_eval_tasks.pragmatch.make import cues
from lmms_eval_tasks.sample import photographs
from postprocess.benchmarks import benchmarks
from postprocess.measure import stats
from postprocess.read.matching import open_outcome

CONDITIONS = ("P", "L", "M")
PICTURES = photographs.sample_images()
CAPTIONS = photographs.sample_rows("pragmatch")
CLASH = photographs.sample_rows("clash")
CLEAN = {(row["image_id"], row["condition"]): row["caption"] for row in CAPTIONS if not row["edit"]}
STATED_IN_PACKAGE = [x for x in PICTURES if x != "hopper"]
EDITED = [row for row in CAPTIONS if row["edit"]]


def picture_text(image_id):
    return " ".join(PICTURES[image_id].text) or None


def tokens(caption):
    """Words, hashtags and marks, without case; a stretched word is the word."""
    found = re.findall(r"#?\w+|[^\w\s]", caption.lower())
    return [re.sub(r"([a-z])\1{2,}", r"\1", token) for token in found]


def is_subsequence(short, long):
    rest = iter(long)
    return all(token in rest for token in short)


# Photographs


def test_there_are_enough_photographs_and_each_belongs_to_an_installed_package():
    assert len(PICTURES) >= 12
    for picture in PICTURES.values():
        assert picture.file().is_file()
        assert metadata.version(picture.distribution)


@pytest.mark.parametrize("image_id", PICTURES)
def test_a_photograph_is_a_small_picture_with_the_same_bytes_every_time(image_id):
    picture = PICTURES[image_id]
    content = picture.read()
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        assert max(image.size) <= photographs.LONGEST_SIDE
        assert {"PNG": ".png", "JPEG": ".jpg"}[image.format] == picture.suffix
    assert content == picture.read()
    assert picture.shrink or content == picture.file().read_bytes()
    assert len(content) < 1_000_000


@pytest.mark.parametrize("image_id", PICTURES)
def test_a_photograph_is_still_the_one_that_was_written_about(image_id):
    picture = PICTURES[image_id]
    assert hashlib.sha256(picture.file().read_bytes()).hexdigest() == picture.sha256


def test_no_two_captioned_pictures_are_the_same_photograph():
    assert len({picture.sha256 for picture in PICTURES.values()}) == len(PICTURES)
    assert len({picture.path for picture in PICTURES.values()}) == len(PICTURES)


@pytest.mark.parametrize("image_id", STATED_IN_PACKAGE)
def test_the_licence_is_what_the_package_says(image_id):
    picture = PICTURES[image_id]
    says = {
        "CC0-1.0": "cc0",
        "Public domain": "public domain",
        "No known copyright restrictions": "no known copyright restrictions",
        "CC-BY-2.0": "creativecommons.org/licenses/by/2.0",
        "BSD-3-Clause (the package's)": "bsd-3-clause",
    }[picture.licence]
    if picture.stated_in.startswith("skimage.data."):
        module, _, function = picture.stated_in.rpartition(".")
        statement = getattr(importlib.import_module(module), function).__doc__
    elif picture.stated_in.startswith("sklearn/"):
        path = picture.stated_in.removeprefix("sklearn/")
        statement = (Path(util.find_spec("sklearn").origin).parent / path).read_text()
    else:
        assert picture.stated_in == f"LICENSE.txt of {picture.distribution}"
        statement = metadata.distribution(picture.distribution).read_text("LICENSE.txt")
    assert says in statement.lower()
    if picture.source.startswith("http") and "stereo" not in picture.source:
        assert picture.source in statement


def test_the_readme_lists_every_photograph_with_its_owner_and_licence():
    readme = (Path(photographs.__file__).parent / "README.md").read_text(encoding="utf-8")
    counts = f"{len(PICTURES)} photographs, {len(CAPTIONS)} PragMatch captions, {len(CLASH)} CLASH"
    assert counts in readme
    for picture in PICTURES.values():
        (line,) = [x for x in readme.splitlines() if x.startswith(f"| `{picture.image_id}` |")]
        for fact in (picture.path, picture.licence, picture.author):
            assert fact in line


def test_finding_the_photographs_imports_no_heavy_package():
    code = (
        "import sys; from lmms_eval_tasks.sample import photographs as p; "
        "[x.file() for x in p.sample_images().values()]; p.sample_rows('clash'); "
        "print([m for m in ('skimage', 'sklearn', 'matplotlib', 'numpy', 'torch', 'PIL') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("found", [(), (Path("/nowhere"),)])
def test_an_absent_package_is_named_with_the_extra_that_brings_it(monkeypatch, found):
    monkeypatch.setattr(photographs, "_package_folders", lambda package: found)
    with pytest.raises(photographs.MissingPhotographs) as raised:
        PICTURES["coffee"].read()
    for part in ("coffee", "scikit-image", 'pip install "pragclash[demo]"'):
        assert part in str(raised.value)


def test_an_unknown_benchmark_has_no_sample():
    with pytest.raises(ValueError, match="clash, pragmatch"):
        photographs.sample_rows("../pragmatch")


@pytest.mark.parametrize("of", list(benchmarks()))
def test_the_sample_makes_a_dataset_folder_without_a_fault(tmp_path, of):
    rows = [
        {**row, "image": f"images/{row['image_id']}{PICTURES[row['image_id']].suffix}"}
        for row in photographs.sample_rows(of)
    ]
    used = {row["image_id"]: row["image"] for row in rows}
    images = {path: PICTURES[image_id].read() for image_id, path in used.items()}
    folder = write_folder(tmp_path / "out", of, rows, images, {"kind": "sample"})
    assert check_folder(folder.path, of) == []
    assert len(folder.rows) == len(rows)


# Captions of PragMatch


def test_every_picture_has_one_clean_caption_a_condition_and_its_rows_stand_together():
    assert set(CLEAN) == {(image_id, c) for image_id in PICTURES for c in CONDITIONS}
    order = [row["image_id"] for row in CAPTIONS]
    assert list(dict.fromkeys(order)) == list(PICTURES)
    assert sum(a != b for a, b in itertools.pairwise(order)) == len(PICTURES) - 1
    assert all(row["label"] == (row["condition"] == "P") for row in CAPTIONS)


def test_ids_say_what_a_row_is():
    for row in CAPTIONS:
        edit = f"-{row['edit']}-{row['cue']}" if row["edit"] else ""
        assert row["sample_id"] == f"{row['image_id']}-{row['condition']}{edit}"


def test_an_encoder_that_shaped_the_captions_is_named():
    assert set(photographs.ENCODERS) <= set(benchmarks())
    assert any("MiniLM" in encoder for encoder in photographs.ENCODERS["pragmatch"])


def test_no_caption_occurs_twice():
    counts = Counter(" ".join(tokens(row["caption"])) for row in CAPTIONS if not row["edit"])
    assert max(counts.values()) == 1
    assert len({row["caption"] for row in CAPTIONS}) == len(CAPTIONS)


def test_the_three_captions_are_written_in_one_manner():
    for caption in CLEAN.values():
        assert 55 <= len(caption) <= 80
        assert caption[0].isupper()
        assert caption == caption.strip()
        assert caption.isascii()
        assert not caption.endswith(".")


def test_every_cue_can_be_masked_on_four_pictures_and_injected_on_all():
    masked = Counter(row["cue"] for row in EDITED if row["edit"] == "mask")
    injected = Counter(row["cue"] for row in EDITED if row["edit"] == "inject")
    assert set(masked) == set(cues.CUES)
    assert min(masked.values()) >= 4
    assert injected == dict.fromkeys(cues.CUES, len(PICTURES))


@pytest.mark.parametrize("row", EDITED, ids=lambda row: row["sample_id"])
def test_an_edit_changes_the_cue_and_no_other_word(row):
    original = CLEAN[row["image_id"], row["condition"]]
    text = picture_text(row["image_id"])
    before = len(cues.detect(original, row["cue"], text))
    after = len(cues.detect(row["caption"], row["cue"], text))
    if row["edit"] == "mask":
        assert before > 0
        assert after == 0
        assert is_subsequence(tokens(row["caption"]), tokens(original))
        assert len(cues.content_words(row["caption"])) >= 3
    else:
        assert after > before
        assert is_subsequence(tokens(original), tokens(row["caption"]))


def test_no_condition_has_a_cue_of_form_for_itself():
    for cue in ("lexical", "style"):
        carriers = Counter(
            condition for (_, condition), text in CLEAN.items() if cues.detect(text, cue)
        )
        assert min(carriers[c] for c in CONDITIONS) >= 3
        assert max(carriers.values()) - min(carriers.values()) <= 2


# What the captions give away


def form_of(caption):
    """How a caption is written, and nothing of what it says."""
    words = caption.split()
    return [
        len(caption),
        len(words),
        len(caption) / len(words),
        max(map(len, words)),
        len(words[0]),
        *(caption.count(mark) for mark in ",.!?#'-"),
        sum(char.isdigit() for char in caption),
        sum(char.isupper() for char in caption),
        sum(word[0].isupper() for word in words),
        len(re.findall(r"(\w)\1\1", caption)),
    ]


def left_out_scores(vectors, conditions, model):
    """Score of P for each picture's captions by a classifier that saw the other pictures."""
    pictures = list(PICTURES)
    scores = {condition: [] for condition in conditions}
    for held_out in pictures:
        rest = [(i, c) for i in pictures if i != held_out for c in conditions]
        fitted = model.fit([vectors[key] for key in rest], [c == "P" for _, c in rest])
        for condition in conditions:
            score = fitted.decision_function([vectors[held_out, condition]])
            scores[condition].append(score[0])
    return {condition: np.array(values) for condition, values in scores.items()}


def figures(vectors, model):
    """What a classifier of P achieves: figure name to its estimate and chance, as proportions."""
    n = len(PICTURES)
    pm = left_out_scores(vectors, ("P", "M"), model)
    right_p, right_m = pm["P"] > 0, pm["M"] <= 0
    plm = left_out_scores(vectors, CONDITIONS, model)
    balanced = (2 * (plm["P"] > 0) + (plm["L"] <= 0) + (plm["M"] <= 0)) / 4
    ones = np.ones(n)
    return {
        "P against M, item": (stats.bootstrap_ratio((right_p + 1.0 * right_m) / 2, ones), 0.5),
        "P against M, pair": (stats.wilson(int((right_p & right_m).sum()), n), 0.25),
        "P against M, ranking": (stats.wilson(int((pm["P"] > pm["M"]).sum()), n), 0.5),
        "P against L and M, balanced": (stats.bootstrap_ratio(balanced, ones), 0.5),
    }


def show(title, found):
    for name, (estimate, chance) in found.items():
        value, low, high = (round(100 * x, 1) for x in estimate[:3])
        print(f"{title}: {name} {value} ({low} to {high}), chance {100 * chance:.0f}")


def logistic(scaled):
    regression = LogisticRegression(class_weight="balanced", max_iter=2000)
    return make_pipeline(StandardScaler(), regression) if scaled else regression


def test_the_form_of_a_caption_does_not_give_away_the_sarcasm():
    found = figures({key: form_of(caption) for key, caption in CLEAN.items()}, logistic(True))
    show("form only", found)
    for name, (estimate, chance) in found.items():
        assert estimate.low <= chance <= estimate.high, (name, estimate)


def test_the_form_guard_sees_a_form_that_gives_it_away():
    told = {key: form_of(text + "!!" * (key[1] == "P")) for key, text in CLEAN.items()}
    found = figures(told, logistic(True))
    assert all(estimate.low > chance for estimate, chance in found.values())


@pytest.mark.slow
def test_the_words_of_a_caption_alone_do_not_pair_p_with_m():
    encoders = pytest.importorskip("model_wrappers.embedded.encoders")
    vectors = {key: encoders.embed(caption) for key, caption in CLEAN.items()}
    found = figures(vectors, logistic(False))
    show("MiniLM on the caption", found)
    assert found["P against M, pair"][0].value <= 0.5
    for name, (estimate, chance) in found.items():
        assert estimate.low <= chance, (name, estimate)


# Samples of CLASH


def test_clash_has_enough_rows_of_both_kinds_and_every_category():
    assert len(CLASH) >= 28
    assert len({row["sample_id"] for row in CLASH}) == len(CLASH)
    assert {row["image_id"] for row in CLASH} <= set(PICTURES)
    assert Counter(row["image_id"] for row in CLASH).most_common(1)[0][1] >= 3
    for change_type, categories in CATEGORIES.items():
        found = {c for row in CLASH if row["change_type"] == change_type for c in row["categories"]}
        assert found == set(categories)


@pytest.mark.parametrize("row", CLASH, ids=lambda row: row["sample_id"])
def test_a_clash_row_keeps_the_rules_of_construction(row):
    original, conflicting = row["original_word"], row["conflicting_word"]
    assert row["original_caption"] != row["conflicting_caption"]
    assert row["original_caption"].count(original) == 1
    assert row["original_caption"].replace(original, conflicting) == row["conflicting_caption"]
    answers = {name: row[name].casefold() for name in ("image_answer", "text_answer", "distractor")}
    assert original.casefold() in answers["image_answer"]
    assert conflicting.casefold() in answers["text_answer"]
    assert len(set(answers.values())) == 3
    for caption in (row["original_caption"], row["conflicting_caption"]):
        assert answers["distractor"] not in caption.casefold()
        assert caption.endswith(".")
        assert not re.search(r"\b(an [^aeiou]|a [aeiou])", caption, re.IGNORECASE)
    for name, shown in (("image_answer", "image"), ("text_answer", "text")):
        outcome = open_outcome(f"It shows {row[name]}.", row["image_answer"], row["text_answer"])
        assert (outcome.image, outcome.text) == (shown == "image", shown == "text")
    assert row["question"].endswith("?")
    named = set(tokens(original)) | set(tokens(conflicting)) | set(tokens(row["distractor"]))
    asked = set(tokens(row["question"]))
    assert not asked & (named - {"a", "-"})


def test_clash_files_hold_no_field_beyond_the_format():
    text = (Path(photographs.__file__).parent / "clash.jsonl").read_text(encoding="utf-8")
    fields = {tuple(json.loads(line)) for line in text.splitlines()}
    assert len(fields) == 1
