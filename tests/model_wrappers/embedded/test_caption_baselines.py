"""The caption-only baselines: what they reach, and that no request ever trains them."""

import io
import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("lmms_eval")

from PIL import Image

from lmms_eval_tasks.dataset.folder import write_folder
from lmms_eval_tasks.pragmatch.make.caption_only import (
    FORMAT_FEATURES,
    CaptionOnly,
    UntrainableError,
    caption_key,
    folds_of,
    format_features,
    hash_fold,
)
from model_wrappers.embedded import caption_baselines, encoders
from model_wrappers.embedded.caption_baselines import (
    CaptionBert,
    CaptionFormat,
    text_encoder,
)
from postprocess.response.line import is_failed, read_response, score_of
from tests.model_wrappers.fakes import run

THINGS = ["dog", "bus", "clock", "pizza", "horse", "laptop", "cat", "bear", "boat", "tennis player"]
PLACES = ["on a street", "in the snow", "near a lake", "at night", "beside a wall"]


def bag_of_letters(text):
    """A stand-in for an encoder: quick, fixed, of the wrong kind to know any meaning."""
    vector = np.zeros(64)
    for char in text.lower():
        vector[ord(char) % 64] += 1
    return vector / max(np.linalg.norm(vector), 1e-9)


def rows_of(n=20, **stored):
    rows = []
    for i in range(n):
        thing, place = THINGS[i % 10], PLACES[i // 10 % 5]
        other = THINGS[(i + 3) % 10]
        captions = {
            "P": f"so great to wait for the {thing} again ! <user> number {i}",
            "L": f"A {thing} stands {place}, picture {i}.",
            "M": f"The {other} was seen {place} by visitor {i}.",
        }
        shared = {"image_id": f"p{i}", "image": f"images/p{i}.png", **stored}
        for condition, caption in captions.items():
            rows.append(
                {
                    "sample_id": f"p{i}-{condition}",
                    "condition": condition,
                    "cue": None,
                    "edit": None,
                    "caption": caption,
                    "label": int(condition == "P"),
                    **shared,
                }
            )
        rows.append(
            {
                **rows[-3],
                "sample_id": f"p{i}-P-style-mask",
                "cue": "style",
                "edit": "mask",
                "caption": captions["P"].replace(" !", ""),
            }
        )
    return rows


@pytest.fixture
def data(tmp_path, monkeypatch):
    rows = rows_of()
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    images = {row["image"]: buffer.getvalue() for row in rows}
    write_folder(tmp_path / "pragmatch", "pragmatch", rows, images, {"kind": "custom"})
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    monkeypatch.setattr(encoders, "embed", bag_of_letters)
    text_encoder.cache_clear()
    yield tmp_path / "pragmatch"
    text_encoder.cache_clear()


def docs_of(task):
    from lmms_eval_tasks.pragmatch.task import docs

    return docs(SimpleNamespace(config_name=task))


MODELS = [CaptionBert, CaptionFormat]


@pytest.mark.parametrize("model", MODELS)
def test_answers_carry_scores_that_agree_with_the_words(data, model):
    docs = docs_of("pragmatch_pml")
    answers = run(model(), docs)
    right = 0
    for doc, answer in zip(docs, answers, strict=True):
        response = read_response(answer)
        score = score_of(response.choices)
        assert response.text == ("Yes" if score.s > 0 else "No")
        assert score.mass == pytest.approx(1, abs=1e-5)
        assert response.source == f"{model.kind}_only"
        right += (response.text == "Yes") == bool(doc["label"])
    assert right == len(docs), "sarcastic captions here differ in letters and in format"


@pytest.mark.parametrize("model", MODELS)
def test_a_limit_or_another_order_changes_no_answer(data, model):
    docs = docs_of("pragmatch_pml")
    whole = dict(zip(docs["sample_id"], run(model(), docs), strict=True))
    for part in (docs.select(range(3)), docs.select(random.Random(1).sample(range(60), 17))):
        answers = run(model(), part)
        assert answers == [whole[sample_id] for sample_id in part["sample_id"]]


def test_edited_captions_are_scored_by_their_pictures_fold(data):
    docs = docs_of("pragmatch_p_minus_style")
    for doc, answer in zip(docs, run(CaptionFormat(), docs), strict=True):
        assert read_response(answer).details["fold"] == hash_fold(doc["image_id"])


def test_chain_of_thought_tasks_get_a_verdict_line(data):
    answers = run(CaptionFormat(), docs_of("pragmatch_pm_cot"))
    assert all(read_response(a).text.splitlines()[-1].startswith("Verdict: ") for a in answers)


def test_a_picture_that_is_not_in_the_folder_fails_alone(data):
    docs = [dict(doc) for doc in docs_of("pragmatch_p").select(range(2))]
    docs[0]["image_id"] = "stranger"
    first, second = run(CaptionFormat(), docs)
    assert is_failed(first)
    assert not is_failed(second)


def test_documents_of_another_dataset_are_refused(data):
    docs = [{**docs_of("pragmatch_p")[0], "dataset_fingerprint": "0" * 64}]
    with pytest.raises(ValueError, match="000000000000"):
        run(CaptionFormat(), docs)


def test_unknown_arguments_and_other_tasks_are_named(data):
    with pytest.raises(TypeError, match="'encodr'"):
        CaptionFormat(encodr="x")
    with pytest.raises(ValueError, match="columns other, question"):
        run(CaptionFormat(), [{"question": "?", "other": 1}])
    with pytest.raises(ValueError, match="no/such"):
        CaptionBert(encoder="no/such")


def test_a_tiny_bert_by_path_is_an_encoder(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *THINGS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    fast.save_pretrained(tmp_path / "bert")
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(tmp_path / "bert")
    name, encode = text_encoder(str(tmp_path / "bert"))
    assert name.startswith("bert sha256:")
    vector = encode("dog bus " * 100)
    assert vector.shape == (16,)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert not np.allclose(vector, encode("clock"))


def test_folds_follow_the_dataset_and_else_the_pictures_id():
    rows = rows_of(8)
    assert folds_of(rows) == {f"p{i}": hash_fold(f"p{i}") for i in range(8)}
    assert set(folds_of(rows_of(8, fold=3)).values()) == {3}
    rows[0]["fold"] = 1
    with pytest.raises(ValueError, match="p0"):
        folds_of(rows)


def test_one_fold_or_one_class_cannot_train():
    with pytest.raises(UntrainableError, match="one fold"):
        CaptionOnly(rows_of(4, fold=0), format_features)
    rows = [row for row in rows_of(10) if row["label"]]
    with pytest.raises(UntrainableError, match="label 1 only"):
        CaptionOnly(rows, format_features)


def test_a_string_of_the_held_out_fold_is_not_trained_on():
    """Half of the Ms are another fold's Ls; a lookup table must not profit from that."""
    table = {}

    def lookup(caption):
        vector = np.zeros(80)
        vector[table.setdefault(caption_key(caption), len(table))] = 1
        return vector

    rows = [row for row in rows_of(20) if row["edit"] is None]
    for row in rows:
        i = int(row["image_id"][1:])
        row["fold"] = i % 2
        if row["condition"] == "M" and i < 10:
            row["caption"] = f"  Literal {i + 11}"
        if row["condition"] == "L":
            row["caption"] = f"literal {i}"
    classifier = CaptionOnly(rows, lookup)
    repeated = [row for row in rows if row["condition"] == "M" and "Literal" in row["caption"]]
    others = [row for row in rows if row["condition"] == "P"]
    scores = {
        fold: {
            classifier.score(row["caption"], row["image_id"]).log_odds
            for row in repeated + others
            if row["fold"] == fold
        }
        for fold in (0, 1)
    }
    assert [len(found) for found in scores.values()] == [1, 1], "only the intercept is left"


def test_format_features_have_names_and_see_no_word():
    assert format_features("").shape == (len(FORMAT_FEATURES),)
    assert np.isfinite(format_features("")).all()
    same = [format_features(text).tolist() for text in ("A red dog!", "A big cat!", "A shy boy!")]
    assert same[0] == same[1] == same[2]
    values = format_features('it \'s SO " nice " ... # fun <user> ! 7')
    found = dict(zip(FORMAT_FEATURES, values, strict=True))
    assert found["placeholders"] == 1
    assert found["ellipses"] == 1
    assert found["full_stops"] == 0
    assert found["detached_clitics"] == 1
    assert found["hash_signs"] == 1
    assert found["capital_share"] == pytest.approx(2 / 12)


def test_classifiers_agree_with_one_trained_by_hand():
    """Independent reference: the same fit from scikit-learn, written out for one fold."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    rows = rows_of()
    fold = hash_fold("p0")
    train = [r for r in rows if hash_fold(r["image_id"]) != fold and r["edit"] is None]
    train.sort(key=lambda row: row["sample_id"])
    scaler = StandardScaler()
    x = scaler.fit_transform([format_features(r["caption"]) for r in train])
    model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=2000, tol=1e-6)
    model.fit(x, [r["label"] for r in train])
    caption = "so great ! <user>"
    expected = model.decision_function(scaler.transform([format_features(caption)]))[0]
    found = CaptionOnly(rows, format_features, "format").score(caption, "p0")
    assert found.log_odds == pytest.approx(expected, abs=1e-4)


def test_labels_of_requests_change_nothing(data):
    docs = [dict(doc) for doc in docs_of("pragmatch_pm").select(range(6))]
    turned = [{**doc, "label": 1 - doc["label"]} for doc in docs]
    assert run(CaptionFormat(), docs) == run(CaptionFormat(), turned)


def test_the_folder_is_read_not_the_requests(data):
    assert caption_baselines.current_folder("pragmatch").path == data
    assert json.loads((data / "manifest.json").read_text())["kind"] == "custom"
