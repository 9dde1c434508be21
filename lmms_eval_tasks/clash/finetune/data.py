"""What a model is fine-tuned on: which rows, in which order, with which caption, to say what.

A run is a list of draws that follows from sample ids, seed and number of epochs alone, so that it
is the same for any order of the rows, any number of workers, and after a restart. The inputs are
those of the evaluation, made by the same calls, with the answer's tokens after them; only the
answer is learnt. A picture of the test set must never get in.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.data import OfficialPrompt
from lmms_eval_tasks.clash.options import CONFLICT_OPTION, option_order
from lmms_eval_tasks.clash.prompts import Instruction, compose, instruction
from lmms_eval_tasks.dataset.folder import Folder
from postprocess.pictures import picture_of
from postprocess.read.matching import letters_of

CONFLICT_TARGET = "Conflicting information."
"""What is learnt on every conflicting caption: the reply that our open prompt asks for."""

_OFFICIAL_TARGET = re.compile(r"conflicting information(?: *[–—-] *[\w ]+\w)?\.?", re.IGNORECASE)
"""How the release's instruction words that reply."""

IGNORED = -100
"""The label that the loss leaves out."""


class Asked(NamedTuple):
    """What is asked, and what is taught on a conflict."""

    open: Instruction
    mc: Instruction
    target: str
    """The reply to an open question about a conflicting caption."""
    target_from: str
    """Whose wording that is: `official` or `pragclash`."""


class Draw(NamedTuple):
    """One training example."""

    row: int
    """Index of the row."""
    kind: str
    """The caption that is shown: `conflicting` or `original`."""
    order: str | None = None
    """The options' order in multiple choice, None for an open question."""


class HeldOut(NamedTuple):
    """The pictures that must not be trained on."""

    ids: frozenset[str]
    digests: frozenset[str]
    """SHA-256 of their files: a picture may have another id elsewhere."""
    source: str | None
    """`test_data`, `manifest`, or None where nothing says which pictures are tested."""


class Kept(NamedTuple):
    """The rows to train on, and what became of the others."""

    rows: list[dict[str, Any]]
    in_test_set: int
    """Rows dropped because their picture is in the test set."""
    without_picture: int
    """Rows dropped because their picture is missing or does not decode."""
    unusable_text: int
    """Rows dropped because their text holds a control token of the model."""
    too_long: int = 0
    """Rows dropped because they have more tokens of text than are allowed."""

    def lost(self) -> str:
        """What became of the other rows, for messages."""
        return (
            f"{self.in_test_set} have a picture of the test set, {self.without_picture} have no "
            f"usable picture, {self.unusable_text} have control tokens, {self.too_long} are too "
            "long"
        )


def asked_of(official: Mapping[str, OfficialPrompt]) -> Asked:
    """The instructions in force, and the reply that the open one asks for on a conflict.

    The release's instruction may word the reply at greater length than ours; what is taught is
    what is asked for. Where it holds no such words the option of multiple choice is taught.
    """
    open_, mc = (instruction(name, official) for name in ("open_ended", "multiple_choice"))
    if open_.prompt != "official":
        return Asked(open_, mc, CONFLICT_TARGET, open_.prompt)
    worded = max(_OFFICIAL_TARGET.findall(open_.text), key=len, default=CONFLICT_OPTION)
    return Asked(open_, mc, worded[0].upper() + worded[1:], "official")


def draws(
    sample_ids: Sequence[str], seed: int, epochs: int = 1, forms: Sequence[str] = ("open",)
) -> list[Draw]:
    """The whole run: every row once an epoch, either caption with probability one half.

    Args:
        sample_ids: One id a row.
        seed: Another seed gives another order and other captions.
        epochs: How often every row is drawn.
        forms: `open`, `mc`, or both; every row is drawn in each. The options' order changes from
            epoch to epoch and is not the evaluation's.

    Returns:
        `epochs` times as many draws as there are rows, in each form.

    >>> [draw.row for draw in draws(["a", "b", "c"], 0)]
    [0, 2, 1]
    """
    out = []
    for epoch in range(epochs):
        keyed = []
        for form, (index, sample_id) in itertools.product(forms, enumerate(sample_ids)):
            name = f"{seed}:{epoch}:{sample_id}" + ":mc" * (form == "mc")
            digest = hashlib.sha256(name.encode()).digest()
            options = option_order(name) if form == "mc" else None
            # The last bit has no part in the order, which the first bytes decide.
            kind = "conflicting" if digest[-1] & 1 else "original"
            keyed.append((digest[:16], Draw(index, kind, options)))
        out += [draw for _, draw in sorted(keyed, key=lambda pair: pair[0])]
    return out


def prompt_text(row: Mapping[str, Any], asked: Asked, draw: Draw) -> str:
    """What is asked in a draw, word for word as in an evaluation."""
    head = asked.open if draw.order is None else asked.mc
    return compose(head.text, row, row[f"{draw.kind}_caption"], draw.order)


def target_of(row: Mapping[str, Any], asked: Asked, draw: Draw) -> str:
    """What is to be said: the conflict, or with the true caption what the picture shows."""
    conflict = draw.kind == "conflicting"
    if draw.order is not None:
        return f"({letters_of(draw.order)['conflict' if conflict else 'image']})"
    return asked.target if conflict else str(row["image_answer"])


def held_out_pictures(folder: Folder, test: Folder | None) -> HeldOut:
    """The pictures of the test set, from the test folder or from the manifest.

    Args:
        folder: The data to train on.
        test: The test set, or None to go by the manifest's `pictures_of_the_test_set`.

    Raises:
        ValueError: The manifest names no ids there.
    """
    if test is not None:
        rows = [*test.rows, *test.omitted_rows]
        found = {row["image"] for row in test.rows}
        digests = frozenset(_digest(test.path / name) for name in found)
        return HeldOut(frozenset(row["image_id"] for row in rows), digests, "test_data")
    named = folder.manifest.get("pictures_of_the_test_set")
    if named is None:
        return HeldOut(frozenset(), frozenset(), None)
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise ValueError(
            f"{folder.path}: manifest.json: pictures_of_the_test_set is no list of ids"
        )
    return HeldOut(frozenset(named), frozenset(), "manifest")


def keep(
    folder: Folder,
    tested: HeldOut,
    asked: Asked,
    forms: Sequence[str] = ("open",),
    control_tokens: Sequence[str] = (),
    max_length: int = 0,
    length: Callable[[str], int] = len,
) -> Kept:
    """The rows that may be trained on.

    Args:
        folder: The data.
        tested: Pictures to leave out.
        asked: What is asked and taught.
        forms: The forms in which rows are asked.
        control_tokens: Texts that a tokenizer turns into control tokens, such as a picture's
            placeholder; a row with one in it would be read as something else.
        max_length: Tokens that prompt and reply may have together, the picture's apart; 0 for no
            limit. A longer row is dropped, never cut: its reply stands at the end.
        length: Counts the tokens of a text.
    """
    digests: dict[str, bool] = {}
    rows, in_test_set, unusable, too_long = [], 0, 0, 0
    for row in folder.rows:
        name = row["image"]
        if tested.digests and name not in digests:
            digests[name] = _digest(folder.path / name) in tested.digests
        if row["image_id"] in tested.ids or digests.get(name):
            in_test_set += 1
            continue
        options = [option_order(row["sample_id"]) if form == "mc" else None for form in forms]
        shown = [
            f"{prompt_text(row, asked, draw)}\n{target_of(row, asked, draw)}"
            for kind in ("conflicting", "original")
            for draw in (Draw(0, kind, order) for order in options)
        ]
        if any(token in text for text in shown for token in control_tokens):
            unusable += 1
        elif max_length and any(length(text) > max_length for text in shown):
            too_long += 1
        else:
            rows.append(row)
    return Kept(rows, in_test_set, len(folder.omitted_rows), unusable, too_long)


class Examples:
    """The draws of a run as a dataset of plain mappings: picture file, prompt and target.

    Args:
        rows: The rows to train on.
        folder: The dataset folder that their pictures lie in.
        asked: What is asked and taught.
        order: The draws.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], folder: Path, asked: Asked, order: Sequence[Draw]
    ) -> None:
        """Keep the parts; texts are put together when an example is asked for."""
        self.rows, self.folder, self.asked, self.order = rows, folder, asked, order

    def __len__(self) -> int:
        """The number of draws."""
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One draw, its picture still a path."""
        draw = self.order[index]
        row = self.rows[draw.row]
        return {
            "image": self.folder / row["image"],
            "text": prompt_text(row, self.asked, draw),
            "target": target_of(row, self.asked, draw),
        }


class Collator:
    """Examples to a batch: the evaluation's inputs, then the answer, padded on the right.

    The prompt goes through the processor's chat template and then through the processor, as the
    harness's chat backends do it, so the tokens before the answer are those of the evaluation.

    Args:
        processor: The model's processor, with a chat template and a tokenizer.
    """

    def __init__(self, processor: Any) -> None:
        """Give the tokenizer a padding token, where it has none."""
        self.processor = processor
        if processor.tokenizer.pad_token is None:
            processor.tokenizer.pad_token = processor.tokenizer.eos_token

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Tensors of one batch.

        Returns:
            What the model takes: `input_ids`, `attention_mask` and `labels` of shape (examples,
            tokens), and whatever else the processor makes of the pictures.
        """
        prompts, pictures, answers = [], [], []
        for example in examples:
            prompt = prompt_of(self.processor, example["text"])
            prompts.append(prompt)
            answers.append(
                answer_tokens(self.processor, prompt, example["text"], example["target"])
            )
            pictures.append([picture_of(example["image"])])
        batch = dict(
            self.processor(text=prompts, images=pictures, padding=True, return_tensors="pt")
        )
        return append_answers(batch, answers, self.processor.tokenizer.pad_token_id)


def user_turn(text: str) -> list[dict[str, Any]]:
    """The chat turn of one request: the picture before the text."""
    return [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]


def prompt_of(processor: Any, text: str) -> str:
    """The text that the processor is given in an evaluation, up to where the model answers."""
    prompt: str = processor.apply_chat_template(
        user_turn(text), tokenize=False, add_generation_prompt=True
    )
    return prompt


def answer_tokens(processor: Any, prompt: str, text: str, target: str) -> list[int]:
    """The tokens that the model is to write after the prompt, its end token last.

    The answer stands as the chat template writes it (with a space before it, say). Where text and
    answer would share a token, as after a prompt that ends in a space, the answer is cut into
    tokens by itself, because in an evaluation the prompt's tokens are fixed before it.
    """
    tokenizer = processor.tokenizer
    said = {"role": "assistant", "content": [{"type": "text", "text": target}]}
    whole = processor.apply_chat_template([*user_turn(text), said], tokenize=False)
    answer = whole[len(prompt) :].rstrip() if whole.startswith(prompt) else target
    before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    both = tokenizer(prompt + answer, add_special_tokens=False)["input_ids"]
    if both[: len(before)] == before:
        tokens = both[len(before) :]
    else:
        tokens = tokenizer(answer, add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    return list(tokens) if tokens[-1:] == [end] else [*tokens, end]


def append_answers(
    batch: dict[str, Any], answers: Sequence[Sequence[int]], pad: int
) -> dict[str, Any]:
    """Put each answer behind its prompt, and label the answers alone.

    Args:
        batch: What the processor made of the prompts, padded on either side: a processor may have
            a side of its own, whatever its tokenizer is set to.
        answers: Tokens, a list for each row.
        pad: The token that fills up.
    """
    import torch

    ids, mask = batch["input_ids"], batch["attention_mask"]
    shape = ids.shape
    lengths = [int(n) for n in mask.sum(dim=1)]
    total = max(n + len(answer) for n, answer in zip(lengths, answers, strict=True))
    fill = {"input_ids": pad}
    # Whatever else has a value a token (token types, say) grows along; answers have type 0.
    aligned = [name for name, value in batch.items() if value.shape == shape]
    out = dict(batch)
    for name in aligned:
        out[name] = torch.full((shape[0], total), fill.get(name, 0), dtype=batch[name].dtype)
    out["labels"] = torch.full((shape[0], total), IGNORED, dtype=ids.dtype)
    for row, (length, answer) in enumerate(zip(lengths, answers, strict=True)):
        for name in aligned:
            out[name][row, :length] = batch[name][row, mask[row].bool()]
        end = length + len(answer)
        tokens = torch.tensor(answer, dtype=ids.dtype)
        out["input_ids"][row, length:end] = tokens
        out["attention_mask"][row, length:end] = 1
        out["labels"][row, length:end] = tokens
    return out


@functools.lru_cache(maxsize=100_000)
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
