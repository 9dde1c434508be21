import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.record.clash import clash_record
from postprocess.runs import prediction_files
from postprocess.runs.prediction_files import UnreadableFile, read_source
from postprocess.runs.prediction_rows import Fault, Row, parse_row

OPEN = {
    "image_id": 7,
    "original_caption": "a child with a kite",
    "conflicting_caption": "a child with a balloon ",
    "question": "What does the child hold?",
    "prediction": "a kite",
    "modality_answers": {"image_only": "Kite", "text_only": "Balloon"},
    "evaluation": {
        "matches_contradiction": False,
        "matches_image_only": True,
        "matches_text_only": False,
        "matches_none": False,
    },
}
ANSWERS = {
    "image_only": {"choice": "B", "answer": "Kite"},
    "text_only": {"choice": "C", "answer": "Balloon"},
    "irrelevant_but_plausible": {"choice": "D", "answer": "Drone"},
    "contradiction": {"choice": "A", "answer": "Conflicting information – cannot answer."},
}
MC = {
    **OPEN,
    "prediction": "(A)",
    "modality_answers": ANSWERS,
    "evaluation": {
        "matches_contradiction": True,
        "matches_image_only": False,
        "matches_text_only": False,
        "matches_irrelevant": False,
    },
}
PLAIN = {"image_answer": "kite", "text_answer": "balloon", "prediction": "kite"}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_a_release_row_of_either_form_is_read():
    row = parse_row(OPEN, 1)
    assert (row.kind, row.shown["form"], row.shown["task"]) == ("release", "open", "clash_open")
    assert row.shown["caption"] == "a child with a balloon "
    assert row.stored["flag_image"] is True
    row = parse_row(MC, 1)
    assert row.shown["option_order"] == "citd"
    assert row.shown["letters"] == {"image": "B", "text": "C", "distractor": "D", "conflict": "A"}
    assert row.stored["flag_conflict"] is True


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps([OPEN, MC]).encode(),
        b"\xef\xbb\xbf" + json.dumps([OPEN, MC]).encode(),
        b"\n\n " + json.dumps([OPEN, MC], indent=1).encode(),
        lines(OPEN, MC),
        lines(OPEN) + b"\r\n" + lines(MC).rstrip(),
    ],
)
def test_lists_and_lines_are_read_packed_or_not(tmp_path, content, packed):
    path = write(tmp_path / "any.name", gzip.compress(content) if packed else content)
    source = read_source(path)
    assert [row.shown["form"] for row in source.rows] == ["open", "mc"]
    assert not source.faults
    assert source.n_rows == 2


def test_a_file_of_two_gzip_members_is_read_whole(tmp_path):
    path = write(tmp_path / "x.gz", gzip.compress(lines(OPEN)) + gzip.compress(lines(MC)))
    assert len(read_source(path).rows) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no rows"),
        (b"[]", "holds no rows"),
        (b" \n\n", "holds no rows"),
        (b"not json", "no line is a JSON object"),
        (b'[{"prediction": "x"', "not readable as JSON"),
        (b"[" * 100_000, "not readable as JSON"),
        (gzip.compress(lines(OPEN) * 50)[:-12], "cut off"),
        (b"\x1f\x8bnonsense", "not readable as gzip"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, content, reason):
    path = write(tmp_path / "bad.json", content)
    with pytest.raises(UnreadableFile, match=reason) as error:
        read_source(path)
    assert "bad.json" in str(error.value)


def test_a_missing_file_and_a_folder_say_so(tmp_path):
    with pytest.raises(UnreadableFile, match="No such file"):
        read_source(tmp_path / "none")
    with pytest.raises(UnreadableFile, match="directory"):
        read_source(tmp_path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_files, "MAX_BYTES", 10_000)
    path = write(tmp_path / "bomb.gz", gzip.compress(b" " * 10_000_000))
    with pytest.raises(UnreadableFile, match="more than"):
        read_source(path)


def without(row, *names):
    return {key: value for key, value in row.items() if key not in names}


def answers(**change):
    return {**MC, "modality_answers": {**ANSWERS, **change}}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "null, not an object"),
        ([OPEN], "list, not an object"),
        ("text", "text, not an object"),
        ({}, "no prediction"),
        (without(OPEN, "prediction"), "no prediction"),
        ({**OPEN, "prediction": {"a": 1}}, "prediction is a object"),
        ({**OPEN, "prediction": True}, "prediction is a truth value"),
        ({**OPEN, "prediction": [{}]}, "prediction is a list"),
        ({**OPEN, "modality_answers": None}, "modality_answers are a null"),
        ({**OPEN, "modality_answers": {"image_only": "x"}}, "no text_answer"),
        ({**OPEN, "modality_answers": {"image_only": [], "text_only": "x"}}, "no image_answer"),
        ({**OPEN, "evaluation": "good"}, "evaluation is a text"),
        ({**OPEN, "evaluation": {"matches_none": "false"}}, "flag matches_none"),
        ({**OPEN, "evaluation": {"matches_none": None}}, "flag matches_none"),
        ({**OPEN, "evaluation": {"matches_none": []}}, "flag matches_none"),
        ({**OPEN, "evaluation_x": [1]}, "flags are a list"),
        ({**OPEN, "evaluation_x": {"matches_none": 3}}, "judge 'x'"),
        (answers(contradiction=None), "no choice for contradiction"),
        (answers(contradiction={"choice": "B"}), "distinct letters"),
        (answers(contradiction={"choice": "E"}), "distinct letters"),
        (without(PLAIN, "image_answer"), "no image_answer"),
        ({**PLAIN, "form": "essay"}, "form is"),
        ({**PLAIN, "form": "mc"}, "permutation"),
        ({**PLAIN, "form": []}, "form is"),
        ({**PLAIN, "option_order": "tcii"}, "permutation"),
        ({**PLAIN, "letters": "ABCD"}, "letters are a text"),
        ({**PLAIN, "letters": {"image": "A", "text": 1}}, "letters are no text"),
        ({**PLAIN, "letters": {"image": "A", "text": "B"}}, "letters name only"),
        ({**PLAIN, "caption_kind": "wrong"}, "caption_kind"),
        ({**PLAIN, "caption_kind": []}, "caption_kind"),
        ({**PLAIN, "task": "clash_/../../x"}, "none of CLASH"),
        ({**PLAIN, "task": 3}, "none of CLASH"),
        ({**PLAIN, "rotation": 4}, "rotation"),
        ({**PLAIN, "rotation": "0"}, "rotation"),
        ({**PLAIN, "categories": "food"}, "categories"),
        ({**PLAIN, "categories": [["food"]]}, "categories"),
        ({**PLAIN, "change_type": {}}, "change_type"),
        ({"doc_id": 1, "filtered_resps": ["x"], "acc": 1.0}, "without a record"),
        ({"doc_id": 1, "conflict": {"record": 99}}, "version 99"),
        ({"doc_id": 1, "conflict": {"record": True}}, "version True"),
        ({"doc_id": 1, "conflict": {"record": 1, "task": "clash_open"}}, "no sample"),
        ({"doc_id": 1, "conflict": {"record": 1, "task": "vqa", "sample_id": "1"},
          "resps": "x"}, "none of this suite"),
    ],
)  # fmt: skip
def test_a_malformed_row_is_a_fault_with_its_reason(row, reason):
    fault = parse_row(row, 5)
    assert isinstance(fault, Fault), fault
    assert fault.row == 5
    assert reason in fault.reason


def test_one_bad_line_spoils_no_other(tmp_path):
    deep = b'{"a":' * 100_000
    content = lines(OPEN) + b"{broken\n" + b'"\xff"\n' + deep + b"\n\n[1]\n" + lines(MC)
    source = read_source(write(tmp_path / "x.jsonl", content))
    assert [row.row for row in source.rows] == [1, 7]
    assert [fault.row for fault in source.faults] == [2, 3, 4, 6]
    assert source.n_rows == 6


def test_a_sample_that_stands_twice_is_a_fault(tmp_path):
    source = read_source(write(tmp_path / "x.json", [OPEN, {**OPEN, "prediction": "other"}]))
    assert len(source.rows) == 1
    assert "row 1 already" in source.faults[0].reason


def test_one_picture_with_two_questions_is_two_samples(tmp_path):
    source = read_source(write(tmp_path / "x.json", [OPEN, {**OPEN, "question": "Where?"}]))
    assert len({row.shown["sample_id"] for row in source.rows}) == 2


@pytest.mark.parametrize("prediction", [None, [], ["(A)"], "", 2, 2.5, [None], "\ud800"])
def test_odd_predictions_are_rows(prediction):
    row = parse_row({**MC, "prediction": prediction}, 1)
    assert isinstance(row, Row)
    assert row.answer == prediction


def test_the_captions_shown_follow_from_the_name_or_the_argument(tmp_path):
    for name, captions, kind in [
        ("m_predictions.json", "auto", "conflicting"),
        ("m_wo_contr_predictions.json", "auto", "original"),
        ("m_wo_contr_predictions.json", "conflicting", "conflicting"),
        ("m.json", "original", "original"),
    ]:
        shown = read_source(write(tmp_path / name, [OPEN]), captions).rows[0].shown
        assert shown["caption_kind"] == kind
        assert shown["caption"] == OPEN[f"{kind}_caption"]
        assert shown["task"] == "clash_open" + "_original" * (kind == "original")


def test_absent_flags_are_not_stored_and_strange_ones_named():
    row = parse_row({**OPEN, "evaluation": {"matches_contradiction": 0, "matches_mood": 1}}, 1)
    assert row.stored == {"flag_conflict": False}
    assert len(row.expected) == 4
    assert row.unknown_flags == ("matches_mood",)
    assert parse_row(without(OPEN, "evaluation"), 1).stored == {}
    assert parse_row({**OPEN, "evaluation": None}, 1).stored == {}


def test_none_in_multiple_choice_is_unusable():
    row = parse_row({**MC, "evaluation": {"matches_none": True}}, 1)
    assert row.stored == {"flag_unusable": True}


def judgements(**columns):
    return parse_row({**OPEN, **columns}, 1).judges


def test_what_judges_left():
    flags = dict.fromkeys(("matches_contradiction", "matches_image_only", "matches_none"), False)
    text = {**flags, "matches_text_only": True}
    found = judgements(
        **{
            "evaluation_a": text,
            "evaluation_a_prediction": "TEXT",
            "evaluation_b": flags,
            "evaluation_b_prediction": "I cannot say. IMAGE or TEXT?",
            "evaluation_c": {"error": "inference_failed"},
            "evaluation_d": text,
            "evaluation_g": {**flags, "error": "timeout"},
            "evaluation_e": None,
            "evaluation_e_prediction": None,
            "evaluation_f_prediction": "[LMMS_EVAL_REQUEST_FAILED after 3 retries] NONE",
        }
    )
    labels = {name: one.label for name, one in found.items()}
    assert labels == dict(a="TEXT", b="UNREADABLE", c=None, d="TEXT", e=None, f=None, g=None)
    assert [name for name, one in found.items() if one.checkable] == ["a", "b"]


def test_a_sample_log_row_is_read_with_all_it_stores():
    shown = {**PLAIN, "form": "mc", "caption_kind": "conflicting", "option_order": "citd"}
    shown |= {"task": "clash_mc", "sample_id": "7", "image_id": "7"}
    record = clash_record(shown, "(A)")
    for filtered in ("(A)", ["(A)"]):
        row = parse_row({"doc_id": 0, "filtered_resps": filtered, "conflict": record}, 1)
        assert row.kind == "harness"
        assert row.stored == {name: record[name] for name in row.expected}
    assert parse_row({"doc_id": 0, "conflict": record}, 1).answer == "(A)"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("out/gpt-5_predictions.json.gz", "gpt-5"),
        ("llava-v1.5-7b_wo_contr_predictions.json", "llava-v1.5-7b"),
        ("mine.jsonl", "mine"),
        ("runs/org__model/20250101_120000_samples_clash_mc.jsonl", "org__model"),
        ("../..", "unknown"),
        ("..json", "unknown"),
        ("a/b;rm -rf $HOME_predictions.json", "b_rm_-rf_HOME"),
        ("x" * 300 + ".json", "x" * 100),
    ],
)
def test_models_are_named_after_their_files(path, name):
    assert prediction_files.model_name(path) == name


@pytest.mark.parametrize(
    ("results", "name"),
    [
        ({"config": {"model": "mismatch_detector", "model_args": ""}}, "mismatch_detector"),
        ({"config": {"model": "hf", "model_args": "pretrained=org/some-7b"}}, "some-7b"),
        ({"config": {"model": "hf", "model_args": {"pretrained": "../../x y"}}}, "x_y"),
        ({"config": {"model": 3, "model_args": ""}}, "folder"),
        ({"config": {"model": "m", "model_args": None}}, "m"),
        ({"config": []}, "folder"),
        ([], "folder"),
        (b"{", "folder"),
    ],
)
def test_a_sample_log_is_called_by_the_run_beside_it(tmp_path, results, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "20260101_000000_results.json", results)
    assert prediction_files.model_name(folder / "20260101_000000_samples_clash_mc.jsonl") == name


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.sampled_from([OPEN, MC, PLAIN]),
    st.dictionaries(
        st.sampled_from(
            ["image_id", "sample_id", "question", "prediction", "modality_answers", "evaluation",
             "evaluation_x", "evaluation_x_prediction", "flags", "form", "letters", "option_order",
             "rotation", "categories", "change_type", "caption_kind", "task", "record", "conflict",
             "accuracy", "image_answer", "distractor", "filtered_resps", "original_caption"]
        ),
        json_values,
        max_size=4,
    ),
)  # fmt: skip
def test_whatever_a_row_holds_it_is_read_or_named(base, change):
    row = parse_row({**base, **change}, 3)
    assert isinstance(row, Fault) or clash_record(row.shown, row.answer)["outcome"]
