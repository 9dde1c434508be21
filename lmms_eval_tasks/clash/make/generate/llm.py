"""Makes samples with a language model: three requests, each answered by one JSON object.

A reply that does not hold the stage's fields, or whose sample fails a rule, is asked for once more
with what was wrong; then the sample is dropped. Prompts are this project's. Captions and replies
are material, never instructions: they are quoted, and replies are parsed with bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lmms_eval_tasks.clash.make.check import rules
from lmms_eval_tasks.clash.make.endpoint import Asker
from lmms_eval_tasks.clash.make.generate.stages import (
    STAGES,
    Answers,
    Change,
    Dropped,
    Question,
    Source,
    parse_fields,
)
from lmms_eval_tasks.clash.make.replies import (
    FORM,
    MalformedReply,
    RuleFailure,
    ask_twice,
    json_object,
)

PROMPT_VERSION = 1

PROMPTS = {
    "change": (
        "Task: change. You get captions that people wrote for one photograph. Rewrite the marked "
        "one so that exactly one thing in it becomes false and the rest stays word for word.\n"
        "Change either one object into another object, or one attribute that can be seen and does "
        "not depend on taste: color, number, shape, material, texture, weather or ground.\n"
        "The new word must be false for the photograph beyond doubt: no synonym, no broader or "
        "narrower word, nothing that another caption mentions or that may well be in the "
        "background. It must make sense in the sentence. Do not switch a state on or off (open, "
        "closed, wet, dry). Leave people's age and sex, actions and moods alone. Keep grammar "
        "right (a or an, plural).\n"
        "Fields: conflicting_caption (the rewritten caption), original_word and conflicting_word "
        "(the word or short phrase as it stands in each caption), change_type (object or "
        "attribute)."
    ),
    "question": (
        "Task: question. A photograph has a caption, and one word of the caption is what we want "
        "to hear about. Write one short question that asks for exactly this and can be answered "
        "by looking at the photograph. Name neither of the two words. Say nothing about a "
        "caption, a text, a difference or a mistake: the question must sound as natural for "
        "either word.\n"
        "Field: question."
    ),
    "answers": (
        "Task: answers. A question about a photograph is answered in a word or two. Write the "
        "answer for the case that the first word is right, the answer for the case that the second "
        "is right, and a third answer of the same kind that someone might guess but that is "
        "neither. The third must share no word with the other two.\n"
        "Fields: image_answer (first word), text_answer (second word), distractor."
    ),
}
"""The instruction of each stage; data follows it as one JSON object."""


class LlmGenerator:
    """Fills the stages by asking a model."""

    def __init__(self, asker: Asker, name: str) -> None:
        """Take what to ask with, and how the manifest names the generator."""
        self.asker = asker
        self.name = f"{name}/prompts {PROMPT_VERSION}"

    def change(self, source: Source) -> Change:
        """Change one element of the caption."""
        others = [caption for i, caption in enumerate(source.captions) if i != source.place]
        data = {"caption": source.caption.strip(), "other_captions": [x.strip() for x in others]}
        row = {"original_caption": source.caption}
        return Change(**self._ask("change", data, row))

    def question(self, source: Source, change: Change) -> Question:
        """Ask about it."""
        data = {
            "caption": source.caption.strip(),
            "word": change.original_word,
            "other_word": change.conflicting_word,
        }
        return Question(**self._ask("question", data, change._asdict()))

    def answers(self, source: Source, change: Change, question: Question) -> Answers:
        """Write the three answers."""
        data = {
            "question": question.question,
            "first_word": change.original_word,
            "second_word": change.conflicting_word,
        }
        row = {"original_caption": source.caption, **change._asdict(), **question._asdict()}
        return Answers(**self._ask("answers", data, row))

    def _ask(self, stage: str, data: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, str]:
        """The fields of a stage; the sample's rules are checked here so that a retry can mend."""

        def read(reply: str) -> dict[str, str]:
            fields = parse_fields(stage, json_object(reply))
            last = rules.apply_rules({**row, **fields}, [stage])[-1]
            if not last.passed:
                raise RuleFailure(last.check, last.reason)
            return fields

        try:
            return ask_twice(self.asker, stage_prompt(stage, data), read)
        except RuleFailure as error:
            raise Dropped(stage, error.check, str(error)) from None
        except MalformedReply as error:
            raise Dropped(stage, "malformed reply", str(error)) from None


def stage_prompt(stage: str, data: Mapping[str, Any]) -> str:
    """The whole request of a stage."""
    fields = ", ".join(STAGES[stage]._fields)
    content = json.dumps(data, ensure_ascii=False, indent=1)
    return f"{PROMPTS[stage]}\n{FORM} ({fields})\nData:\n{content}"
