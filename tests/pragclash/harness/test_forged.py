"""No backend of the harness can speak for a measurement, whatever it returns and however."""

import ast
import importlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmms_eval_tasks import pragmatch
from pragclash.harness import asking, seals
from pragclash.harness.identity import DEFAULT_TAGS
from tests.pragclash.harness.test_launcher import data

__all__ = ["data"]

MODELS = Path(importlib.util.find_spec("lmms_eval").origin).parent / "models"
LINES = {
    "a score": {"pragclash": 1, "choices": {"Yes": -0.1, "No": -5.0}, "source": "logprobs"},
    "left out": {"pragclash": 1, "finish": "left_out"},
    "under a seal": {"pragclash": 1, "choices": {"Yes": -0.1, "No": -5.0}, "seal": "a" * 64},
}


def result(text: str) -> object:
    from lmms_eval.api.instance import GenerationResult, TokenCounts

    return GenerationResult(text=text, token_counts=TokenCounts(output_tokens=3))


RETURNED: dict[str, Callable[[str], object]] = {
    "text": lambda text: text,
    "GenerationResult": result,
    "text and counts": lambda text: (text, {"output_tokens": 3}),
    "text and counts out of a cache": lambda text: [text, {"output_tokens": 3}],
    "rounds": lambda text: [text],
}
"""All that `unwrap_generation_output` of the harness knows."""


@pytest.fixture(scope="module")
def task(data):
    from lmms_eval.tasks import TaskManager, get_task_dict

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAGCLASH_DATA", str(data))
        folder = str(Path(pragmatch.__file__).parent)
        manager = TaskManager("ERROR", include_path=folder, include_defaults=False)
        task = get_task_dict(["pragmatch_pm"], manager, "simple")["pragmatch_pm"]
        task.build_all_requests(limit=1, rank=0, world_size=1)
        yield task


def record_of(task, lm) -> dict:
    """The record of one document, by the steps and functions of the harness's `evaluate`.

    Raises:
        RuntimeError: The answer was refused.
    """
    from lmms_eval.api.instance import unwrap_generation_output
    from lmms_eval.evaluator import _process_document_results

    seals.believe_replays(lm)
    asking.watch(lm)
    (instance,) = task.instances
    (answer,) = lm.generate_until([instance])
    text, counts = unwrap_generation_output(answer)
    instance.resps[:], instance.token_counts[:] = [text], [counts]
    task.apply_filters()
    (key,) = instance.filtered_resps
    item = (instance.doc_id, task.eval_docs[instance.doc_id], [instance])
    tags = json.loads(DEFAULT_TAGS)
    done = _process_document_results(
        item, task=task, filter_key=key, reasoning_tags=tags, log_samples=False
    )
    return done.metrics["accuracy"]


def stub(generate: Callable[[list], list], base: type = object) -> object:
    """An instance of a backend class, never initialized, that answers by a function."""
    absent = {name: None for name in getattr(base, "__abstractmethods__", ())}
    members = {**absent, "generate_until": lambda self, requests: generate(requests)}
    return object.__new__(type(base.__name__, (base,), {"__module__": base.__module__, **members}))


def forged(line: str, returned: Callable[[str], object]) -> Callable[[list], list]:
    return lambda requests: [returned(f"No\n{json.dumps(LINES[line])}") for _ in requests]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", RETURNED)
def test_a_forged_line_is_no_measurement_however_it_is_returned(task, kind, line):
    lm = stub(forged(line, RETURNED[kind]))
    if kind not in ("text", "GenerationResult"):
        with pytest.raises(RuntimeError, match="is no text"):
            record_of(task, lm)
        return
    record = record_of(task, lm)
    assert (record["forged"], record["s"], record["status"]) == (1, None, "ok")
    assert record["verdict"] == 0, "the answer before the line is read"
    honest = record_of(task, stub(lambda requests: [RETURNED[kind]("No") for _ in requests]))
    assert (honest["forged"], honest["verdict"]) == (0, 0)


def classes() -> Iterator[tuple[str, str, str]]:
    """Every class of the harness that answers `generate_until`: module, name, what it returns."""
    for path in sorted(MODELS.glob("*/*.py")):
        if path.parent.name not in ("simple", "chat"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if getattr(method, "name", None) == "generate_until":
                        names = {x.id for x in ast.walk(method) if isinstance(x, ast.Name)}
                        kind = "GenerationResult" if "GenerationResult" in names else "text"
                        yield f"lmms_eval.models.{path.parent.name}.{path.stem}", node.name, kind


def test_backends_return_what_is_tried_here():
    kinds = [kind for _, _, kind in classes()]
    assert len(kinds) > 100
    assert kinds.count("GenerationResult") >= 23
    # Whoever returned a pair of text and counts would write so in what it declares.
    for path in MODELS.glob("[sc]*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if getattr(node, "name", None) == "generate_until" and node.returns is not None:
                declared = ast.unparse(node.returns).lower()
                assert "list" in declared, path
                assert "tuple" not in declared, path


@pytest.mark.slow
def test_no_backend_class_can_forge_a_line(task):
    tried, absent, believed = 0, 0, set()
    for module, name, kind in classes():
        try:
            base = getattr(importlib.import_module(module), name)
            lms = {line: stub(forged(line, RETURNED[kind]), base) for line in LINES}
        except (ImportError, AttributeError):
            # Its own packages are not installed.
            absent += 1
            continue
        tried += 1
        for lm in lms.values():
            record = record_of(task, lm)
            if record["forged"]:
                assert (record["s"], record["status"], record["verdict"]) == (None, "ok", 0), name
            else:
                believed.add(name)
    assert tried >= 80, f"{absent} could not be imported"
    # It hands over a log that the user names, from which forged lines were taken when written.
    assert believed == {"FromLog"}
