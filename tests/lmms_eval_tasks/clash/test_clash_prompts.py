"""Every request is word for word what its snapshot says."""

import json
import os
import re

import pytest
from PIL import Image

from lmms_eval_tasks.clash import task
from lmms_eval_tasks.clash.data import OfficialPrompt, prompt_hash
from lmms_eval_tasks.clash.options import CONFLICT_OPTION, rotate
from lmms_eval_tasks.clash.prompts import (
    INSTRUCTIONS,
    PROMPT_VERSION,
    compose,
    instruction,
    judge_request,
)
from tests import TESTS

SNAPSHOTS = TESTS / "lmms_eval_tasks" / "snapshots"
ROW = {
    "original_caption": "A red kite hangs over the beach. ",
    "conflicting_caption": "A red drone hangs over the beach.",
    "question": "What hangs over the beach?",
    "image_answer": "Kite",
    "text_answer": "Drone",
    "distractor": "Gull",
}


def doc_of(name: str, rotation: int | None = None) -> dict:
    spec = task.TASKS[name]
    order = "tcid" if spec.form == "mc" else None
    if rotation is not None:
        order = rotate(order, rotation)
    asked = instruction({"mc": "multiple_choice", "open": "open_ended"}[spec.form], {})
    caption = ROW[f"{spec.caption_kind}_caption"]
    picture = Image.new("L", (4, 3))
    shown = {"instruction": asked.text, "caption": caption, "option_order": order}
    return {**ROW, **shown, "form": spec.form, "caption_kind": spec.caption_kind, "image": picture}


def requests_of(name: str) -> dict:
    rotations = range(4) if task.TASKS[name].circular else [None]
    docs = [doc_of(name, rotation) for rotation in rotations]
    chat = [task.doc_to_messages(doc) for doc in docs]
    for messages in chat:
        for part in messages[0]["content"]:
            if part["type"] == "image":
                part["url"] = f"<picture {part['url'].mode} {part['url'].size}>"
    simple = [task.doc_to_text(doc) for doc in docs]
    return {
        "prompt_version": PROMPT_VERSION,
        "simple": [text.split("\n") for text in simple],
        "chat": chat,
        "target": [task.doc_to_target(doc) for doc in docs],
    }


@pytest.mark.parametrize("name", task.TASKS)
def test_requests_equal_their_snapshot(name):
    path = SNAPSHOTS / f"{name}.json"
    found = requests_of(name)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        text = json.dumps(found, indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


def test_the_judges_request_equals_its_snapshot():
    path = SNAPSHOTS / "clash_judge_request.json"
    found = judge_request(INSTRUCTIONS["judge"], ROW, "A {text_answer}, I think.").split("\n")
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


def test_the_picture_stands_before_the_text():
    for name in task.TASKS:
        content = task.doc_to_messages(doc_of(name))[0]["content"]
        assert [part["type"] for part in content] == ["image", "text"]
        assert content[1]["text"] == task.doc_to_text(doc_of(name))


def test_a_prompt_is_instruction_caption_question_options_and_nothing_else():
    assert compose("Do it.", ROW, ROW["original_caption"], "cdti") == (
        "Do it.\nA red kite hangs over the beach. \nWhat hangs over the beach?\n"
        f"(A) {CONFLICT_OPTION}\n(B) Gull\n(C) Drone\n(D) Kite"
    )
    assert compose("Do it.", ROW, "x") == "Do it.\nx\nWhat hangs over the beach?"


def test_official_prompts_replace_ours_where_a_folder_carries_them():
    official = {"open_ended": OfficialPrompt("Say.", prompt_hash("Say."))}
    assert instruction("open_ended", official) == ("Say.", "official", prompt_hash("Say."))
    ours = instruction("multiple_choice", official)
    assert ours.prompt == "pragclash"
    assert ours.sha256 == prompt_hash(INSTRUCTIONS["multiple_choice"])


def test_the_judge_sees_answers_and_prediction_but_not_the_question():
    for head in (INSTRUCTIONS["judge"], "{text_answer}|{image_answer}|{prediction}"):
        request = judge_request(head, ROW, "a bird")
        assert all(word in request for word in ("Kite", "Drone", "a bird"))
        assert "What hangs" not in request
        assert not re.search(r"\{\w+\}", request)


def test_braces_in_an_answer_are_text():
    row = {**ROW, "image_answer": "{prediction}"}
    request = judge_request("{image_answer}/{text_answer}/{prediction}", row, "{text_answer}")
    assert request == "{prediction}/Drone/{text_answer}"
    head = 'Reply {"a": 1} {caption}. {image_answer}{text_answer}{prediction}  \n    '
    assert judge_request(head, ROW, "x") == 'Reply {"a": 1} {caption}. KiteDronex  \n    '


@pytest.mark.parametrize("head", ["{image_answer} {prediction}", "{caption}", "Which?"])
def test_a_judges_instruction_without_all_three_slots_is_refused(head):
    with pytest.raises(ValueError, match="no slot for"):
        judge_request(head, ROW, "x")
