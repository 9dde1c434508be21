"""The wording of PragMatch's questions. All of it is ours: the paper's prompts are not published.

The caption comes last but for one short line, so that the captions of one picture share the
picture and the instruction as a prefix. A changed word changes results: raise `PROMPT_VERSION`
and the snapshots in the same commit.
"""

from __future__ import annotations

PROMPT_VERSION = 1

_SHOWN = {
    "image_text": "This picture was posted with the caption below.",
    "text_only": "The caption below was posted with a picture, which is not shown here.",
}
_SHOWN_B = {
    "image_text": "Someone shared this picture and wrote the caption that follows.",
    "text_only": "Someone shared a picture, not shown here, and wrote the caption that follows.",
}

_ASK = {
    "zero_shot": (
        "{shown} Together, are picture and caption sarcastic? They are when the author means "
        "something other than what the words say. Reply with one word, Yes or No.\n"
        "Caption: {caption}\n"
        "Sarcastic (Yes or No)?"
    ),
    "zero_shot_b": (
        "{shown} Judge whether the post is meant sarcastically, that is, whether its words are "
        "not meant at face value. Your reply must be a single word: Yes if it is sarcastic, No "
        "if it is not.\n"
        "Caption: {caption}\n"
        "Is the post sarcastic?"
    ),
    "cot": (
        "{shown} Together, are picture and caption sarcastic? They are when the author means "
        "something other than what the words say. Think step by step: what can be seen, what "
        "the caption says, how the two relate, and whether the author means the words. Then "
        "close with a last line that holds nothing but your verdict, in the form "
        "`Verdict: Yes` or `Verdict: No`.\n"
        "Caption: {caption}\n"
        "Reasoning and verdict:"
    ),
}

PROMPTS = tuple(_ASK)


def question(caption: str, prompt: str, modality: str) -> str:
    """The text of one request; the picture, if there is one, goes before it.

    Args:
        caption: The caption, as it is.
        prompt: `zero_shot`, `zero_shot_b` (a paraphrase) or `cot`.
        modality: `image_text` or `text_only`.

    Raises:
        KeyError: Unknown prompt or modality.
    """
    shown = (_SHOWN_B if prompt == "zero_shot_b" else _SHOWN)[modality]
    return _ASK[prompt].format(shown=shown, caption=caption)
