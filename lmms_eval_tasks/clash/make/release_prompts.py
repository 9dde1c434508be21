"""Reads the prompts of a user's own copy of the CLASH release out of its source text.

Nothing of the release is shipped with this project and nothing of it is ever run: constants, and
the words of the judge's request, are taken as values out of the parsed source. What takes more
than plain texts to put together is refused, because a guessed prompt makes figures that nobody can
compare.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from lmms_eval_tasks.clash.data import OfficialPrompt, prompt_hash
from lmms_eval_tasks.clash.prompts import SLOTS
from lmms_eval_tasks.dataset.checks import check_text
from lmms_eval_tasks.dataset.files import UnreadableError, read_bytes

PROMPTS_FILE = "src/models/prompts.py"
CONSTANTS = {
    "multiple_choice": "MULTIPLE_CHOICE_INSTRUCTION",
    "open_ended": "OPEN_ENDED_INSTRUCTION",
    "judge": "JUDGE_PROMPT",
}
"""Prompt name to the constant in `PROMPTS_FILE` that holds it."""

REQUEST_FILE = "src/evaluation.py"
REQUEST_FUNCTION = "generate_llm_as_judge_prompt"
REQUEST_FIELDS = {
    "image_only": "image_answer",
    "text_only": "text_answer",
    "prediction": "prediction",
}
"""Parameter of the function that puts the judge's request together, to the slot it fills."""

MAX_SOURCE_BYTES = 1_000_000

Known: TypeAlias = dict[str, str | ValueError]
"""Names of a piece of source to their text, or to why they have none."""


def has_prompts(release: Path) -> bool:
    """Whether the copy holds the source file with the official prompts."""
    return (release / PROMPTS_FILE).is_file()


def read_prompts(release: Path) -> dict[str, OfficialPrompt]:
    """The official prompts with their hashes, out of the release's source files.

    The judge's prompt is the whole request as the release sends it, with slots for its three
    fields, so that its hash covers every byte around them.

    Raises:
        ValueError: A file is missing, a constant is not there or no plain text, or the judge's
            request is put together in a way that is not understood; the message names the file.
    """
    try:
        known = module_texts(_source(release, PROMPTS_FILE))
        texts = {name: text_of(constant, known) for name, constant in CONSTANTS.items()}
    except ValueError as error:
        raise ValueError(f"{PROMPTS_FILE}: {error}") from error
    try:
        texts["judge"] = request_template(_source(release, REQUEST_FILE), known)
    except ValueError as error:
        raise ValueError(
            f"{REQUEST_FILE}: {error}; without the judge's request of the release no figure of a "
            "judge compares with the paper's: mend the copy, or leave its prompts out with "
            "--own-prompts"
        ) from error
    prompts = {}
    for name, text in texts.items():
        faults = check_text(CONSTANTS[name], text)
        if faults:
            raise ValueError(f"{PROMPTS_FILE}: {faults[0]}")
        prompts[name] = OfficialPrompt(text, prompt_hash(text))
    return prompts


def request_template(source: str, prompts: Known) -> str:
    r"""The judge's request as a text with the slots of `prompts.SLOTS`, out of a function's source.

    Understood is a function of the three fields that returns an f-string or a sum of texts, made
    of constants of this module or of one called `prompts`, and of names set above the return.

    Args:
        source: The source of the module with the function.
        prompts: What `module_texts` found in the prompts' module.

    Raises:
        ValueError: The function is not there, or takes more than the above.

    >>> request_template(
    ...     "def generate_llm_as_judge_prompt(prediction, image_only, text_only):\n"
    ...     "    return f'Sort. P: {image_only} C: {text_only} R: {prediction} !'", {})
    'Sort. P: {image_answer} C: {text_answer} R: {prediction} !'
    """
    tree = _parsed(source)
    bindings = _bindings(tree)
    known = _assigned(tree.body, {}, prompts, bindings)
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == REQUEST_FUNCTION
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} functions {REQUEST_FUNCTION} stand at the top level")
    function = found[0]
    given = {one.arg for one in (*function.args.posonlyargs, *function.args.args)}
    if given != set(REQUEST_FIELDS) or function.decorator_list:
        raise ValueError(
            f"line {function.lineno}: {REQUEST_FUNCTION} does not take just "
            f"{', '.join(REQUEST_FIELDS)}"
        )
    *before, last = function.body
    plain = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.ImportFrom)
    for statement in before:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, plain):
            raise ValueError(f"line {statement.lineno}: {REQUEST_FUNCTION} does more than assign")
    if not isinstance(last, ast.Return) or last.value is None:
        raise ValueError(f"line {last.lineno}: {REQUEST_FUNCTION} does not end by returning a text")

    value = last.value

    def returned(fields: Mapping[str, str]) -> str:
        return _text(value, _assigned(before, {**known, **fields}, prompts, bindings))

    slots = {name: f"{{{slot}}}" for name, slot in REQUEST_FIELDS.items()}
    template = returned(slots)
    words = returned(dict.fromkeys(slots, ""))
    if any(slot in words for slot in slots.values()):
        raise ValueError(f"its constant words hold a slot of ours, such as {{{SLOTS[0]}}}")
    missing = [name for name, slot in slots.items() if slot not in template]
    if missing:
        raise ValueError(f"{REQUEST_FUNCTION} does not use {', '.join(missing)}")
    return template


def module_texts(source: str) -> Known:
    r"""The names that a module's source assigns, with the text of each, or why it has none.

    Understood are string literals (also adjacent ones, in brackets, triple-quoted), their sums,
    f-strings, `+=`, and names assigned above. A name that the module also binds in another way or
    place is refused: which of the values counts is known only when it runs.

    Raises:
        ValueError: The source is no Python.

    >>> module_texts('A = "x\\n"\nB = (A + "y"\n     " – z")')["B"]
    'x\ny – z'
    """
    tree = _parsed(source)
    return _assigned(tree.body, {}, {}, _bindings(tree))


def text_of(name: str, known: Known) -> str:
    """The text of a name.

    Raises:
        ValueError: It has none.
    """
    value = known.get(name, ValueError(f"{name} is not assigned at the top level"))
    if isinstance(value, ValueError):
        raise value
    return value


def _parsed(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"is not readable as Python ({str(error)[:120]})") from error


def _assigned(
    statements: Sequence[ast.stmt], before: Known, prompts: Known, bindings: Mapping[str, int]
) -> Known:
    """The names after the statements; those imported from a module `prompts` have its texts."""
    known = dict(before)
    plain = [one for statement in statements for one in _assignments(statement)]
    times = Counter(name for name, _ in plain)
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            known |= _imported(statement, prompts)
        for name, value in _assignments(statement):
            try:
                if bindings[name] != times[name]:
                    line = f"line {statement.lineno}"
                    raise ValueError(f"{line}: {name} is set by more than plain assignments")
                known[name] = _text(value, known)
            except ValueError as error:
                known[name] = error
    return known


def _assignments(statement: ast.stmt) -> list[tuple[str, ast.expr]]:
    """Names that a plain assignment sets, with the value; nothing for other statements."""
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        targets = [statement.target]
        value = ast.copy_location(ast.JoinedStr([statement.target, statement.value]), statement)
    else:
        return []
    return [(target.id, value) for target in targets if isinstance(target, ast.Name)]


def _imported(statement: ast.ImportFrom, prompts: Known) -> Known:
    if (statement.module or "").rpartition(".")[2] != "prompts":
        return {}
    names = {one.name: one.asname or one.name for one in statement.names}
    if "*" in names:
        return {name: text for name, text in prompts.items() if not name.startswith("_")}
    return {own: prompts[name] for name, own in names.items() if name in prompts}


def _bindings(tree: ast.Module) -> Counter[str]:
    """How often each name is bound or deleted in a module, by whatever statement, at any depth."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(name := getattr(node, "asname", None) or getattr(node, "name", None), str):
            found[name.partition(".")[0]] += 1
    return found


def _text(node: ast.expr, known: Known) -> str:
    """The string that an expression stands for."""
    parts: list[str] = []
    length = 0
    pending: list[ast.expr] = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node.value)
            length += len(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        elif isinstance(node, ast.JoinedStr):
            pending += reversed(node.values)
        elif (
            isinstance(node, ast.FormattedValue) and node.conversion == -1 and not node.format_spec
        ):
            pending.append(node.value)
        elif isinstance(node, ast.Name) and node.id in known:
            value = known[node.id]
            if isinstance(value, ValueError):
                raise value
            parts.append(value)
            length += len(value)
        else:
            kind = type(node).__name__
            what = f"the name {node.id}" if isinstance(node, ast.Name) else kind
            raise ValueError(f"line {node.lineno}: a prompt made with {what} is not a plain text")
        if length > MAX_SOURCE_BYTES:
            raise ValueError(f"line {node.lineno}: the value is too long")
    return "".join(parts)


def _source(release: Path, name: str) -> str:
    try:
        return read_bytes(release / name, MAX_SOURCE_BYTES).decode("utf-8-sig")
    except UnreadableError as error:
        raise ValueError(f"{error.reason} in {release}") from error
