"""Judges: asked once a content, never guessed for, and counted where they are silent."""

import json
import re
import threading

import pytest
from lmms_eval.llm_judge import ProviderFactory, Response, ServerInterface
from loguru import logger

from lmms_eval_tasks.clash import judge, task
from lmms_eval_tasks.clash.data import prompt_hash
from lmms_eval_tasks.clash.make.release import build
from lmms_eval_tasks.clash.prompts import INSTRUCTIONS
from postprocess.measure import clash as clash_metrics
from postprocess.response.line import failure_text
from tests.lmms_eval_tasks.clash.test_clash_task import Placeholder
from tests.lmms_eval_tasks.clash_fixtures import (
    clash_folder,
    coco_copy,
    release_copy,
    release_sample,
)

ROW = {"image_answer": "Kite", "text_answer": "Drone"}
HEAD = INSTRUCTIONS["judge"]


class Scripted(ServerInterface):
    """A provider that answers as the test says."""

    asked: list[tuple[str, str]]
    replies: dict[str, object]
    lock = threading.Lock()

    def is_available(self) -> bool:
        return self.config.model_name != "away"

    def evaluate(self, request):
        with self.lock:
            Scripted.asked.append((request.config.model_name, request.messages[0]["content"]))
        reply = Scripted.replies.get(request.config.model_name, "TEXT")
        if callable(reply):
            reply = reply(request.messages[0]["content"])
        if isinstance(reply, Exception):
            raise reply
        return Response(content=reply, model_used="scripted")


@pytest.fixture(autouse=True)
def scripted(tmp_path, monkeypatch):
    monkeypatch.setenv("PRAGCLASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Scripted, "asked", [], raising=False)
    monkeypatch.setattr(Scripted, "replies", {}, raising=False)
    monkeypatch.setattr(judge, "_failures", {})
    monkeypatch.setitem(ProviderFactory._provider_classes, "scripted", Scripted)
    monkeypatch.setattr(judge, "LIMITS", judge.LIMITS._replace(tries=1))
    judge._asker.cache_clear()
    return Scripted


def ask(prediction: str, judges: str = "scripted:one", row: dict = ROW) -> dict:
    return judge.labels_of(judge.judge_replies(judge.judges_of(judges), HEAD, row, prediction))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no judge is named"),
        (" , ", "no judge is named"),
        ("gpt-5", "not provider:model"),
        ("openai:", "not provider:model"),
        ("a:b,a:b", "twice"),
        ("async_openai:gpt-5", "use openai"),
    ],
)
def test_what_names_no_judge_is_refused(value, words):
    with pytest.raises(ValueError, match=words):
        judge.judges_of(value)


def test_a_reply_is_kept_by_content():
    assert ask("a bird") == {"scripted:one": "TEXT"}
    Scripted.replies["one"] = "IMAGE"
    assert ask("a bird") == {"scripted:one": "TEXT"}
    assert len(Scripted.asked) == 1
    # The same length, the same place, another content: asked anew.
    assert ask("a bard") == {"scripted:one": "IMAGE"}
    assert ask("a bird", row={**ROW, "text_answer": "Plane"}) == {"scripted:one": "IMAGE"}
    assert ask("a bird", "scripted:two") == {"scripted:two": "TEXT"}
    assert len(Scripted.asked) == 4


def test_another_endpoint_or_instruction_is_asked_anew(monkeypatch):
    ask("a bird")
    monkeypatch.setenv("OPENAI_API_URL", "http://localhost:1/v1")
    ask("a bird")
    judge.judge_replies(judge.judges_of("scripted:one"), f"Now. {HEAD}", ROW, "a bird")
    assert len(Scripted.asked) == 3


@pytest.mark.parametrize("reply", [RuntimeError("429 with key sk-secret"), "", None, "  "])
def test_a_judge_that_fails_leaves_the_row_unjudged_and_is_asked_again(reply):
    log: list[str] = []
    sink = logger.add(log.append, level="DEBUG")
    Scripted.replies["one"] = reply
    assert ask("a bird") == {"scripted:one": None}
    logger.remove(sink)
    assert "sk-secret" not in "".join(log)
    assert ("RuntimeError" in "".join(log)) == isinstance(reply, RuntimeError)
    Scripted.replies["one"] = "CONFLICT"
    assert ask("a bird") == {"scripted:one": "CONFLICT"}


def test_a_reply_without_a_label_is_unreadable_and_not_kept():
    Scripted.replies["one"] = "Hard to say."
    assert ask("a bird") == {"scripted:one": clash_metrics.UNREADABLE}
    Scripted.replies["one"] = "none"
    assert ask("a bird") == {"scripted:one": "NONE"}


def test_a_label_in_other_words_counts_by_the_relaxed_rule_alone(task_docs, monkeypatch):
    monkeypatch.setenv(judge.ENVIRONMENT, "scripted:one")
    Scripted.replies["one"] = "Label: **NONE**"
    record = task.process_results(task_docs()[0], ["green"])["conflict"]
    assert record["judges"] == {"scripted:one": clash_metrics.UNREADABLE}
    assert record["judges_relaxed"] == {"scripted:one": "NONE"}


def test_a_judge_that_reads_the_releases_labels_gets_them(tmp_path, monkeypatch):
    """It sorts by the labelled lines alone, as one that was shown the release's request may."""
    release = release_copy(tmp_path / "release", [release_sample(7, 1)])
    build(release, coco_copy(tmp_path / "coco", [7]), tmp_path / "data" / "clash")
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv(judge.ENVIRONMENT, "scripted:one")

    def labels(request: str) -> str:
        found = dict(re.findall(r"^ +(By the \w+|It said): (.+?) *$", request, re.MULTILINE))
        assert (found["By the picture"], found["By the sentence"]) == ("Cat", "Dog")
        return "CONFLICT" if "conflict" in found["It said"] else "NONE"

    Scripted.replies["one"] = labels
    (doc,) = task.docs(Placeholder("clash_open_judge")).remove_columns("image")
    record = task.process_results(doc, ["There is a conflict."])["conflict"]
    assert record["judges"] == {"scripted:one": "CONFLICT"}
    assert record["judge_prompt"] == "official"


def test_a_folder_without_the_releases_request_is_refused_before_a_model_runs(
    tmp_path, monkeypatch, capsys
):
    stale = {"judge": {"text": "Sort it.", "sha256": prompt_hash("Sort it.")}}
    clash_folder(tmp_path / "clash", prompts=stale)
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    monkeypatch.setenv(judge.ENVIRONMENT, "scripted:one")
    with pytest.raises(SystemExit):
        task.docs(Placeholder("clash_open_judge"))
    assert "make the dataset folder again" in capsys.readouterr().err


def test_a_damaged_entry_is_asked_again(tmp_path):
    ask("a bird")
    (entry,) = (tmp_path / "cache" / "judges").rglob("*.json")
    assert json.loads(entry.read_text()) == {"reply": "TEXT"}
    for content in ("", "[]", '{"reply": 3}', '{"reply": ""}', "[" * 10_000):
        entry.write_text(content)
        assert ask("a bird") == {"scripted:one": "TEXT"}
    assert len(Scripted.asked) == 6


def test_a_judge_that_is_gone_is_given_up_until_it_answers():
    Scripted.replies["one"] = RuntimeError("down")
    for number in range(judge.MAX_FAILURES + 5):
        assert ask(f"bird {number}", "scripted:one,scripted:two")["scripted:one"] is None
    asked = [name for name, _ in Scripted.asked]
    assert (asked.count("one"), asked.count("two")) == (10, 15)


def test_a_runaway_answer_is_cut_before_it_is_sent():
    ask("x" * 1_000_000)
    assert len(Scripted.asked[0][1]) < judge.MAX_PREDICTION_CHARS + 2000


@pytest.fixture
def task_docs(tmp_path, monkeypatch):
    clash_folder(tmp_path / "clash")
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    return lambda: list(task.docs(Placeholder("clash_open_judge")).remove_columns("image"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no judge is named"),
        ("scripted:away", "key or address is not set"),
        ("unheard-of:model", "cannot be used"),
    ],
)
def test_without_a_usable_judge_the_task_ends_before_a_model_runs(
    task_docs, monkeypatch, capsys, value, words
):
    if value is None:
        monkeypatch.delenv(judge.ENVIRONMENT, raising=False)
    else:
        monkeypatch.setenv(judge.ENVIRONMENT, value)
    with pytest.raises(SystemExit) as caught:
        task_docs()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_the_harnesss_dummy_judge_gives_no_label(task_docs, monkeypatch):
    monkeypatch.setenv(judge.ENVIRONMENT, "dummy:any")
    record = task.process_results(task_docs()[0], ["green"])["conflict"]
    assert record["judges"] == {"dummy:any": clash_metrics.UNREADABLE}


def test_figures_of_two_judges(task_docs, monkeypatch):
    monkeypatch.setenv(judge.ENVIRONMENT, "scripted:one,scripted:two")
    docs = task_docs()
    # Four documents: both judges see a conflict, one of them, neither; one judge is silent.
    two = {"red": "CONFLICT", "blue": "NONE", "green": "IMAGE", "grey": RuntimeError("busy")}
    colour = lambda request: next(name for name in two if f"It is {name}" in request)  # noqa: E731
    Scripted.replies["one"] = lambda request: {"green": "IMAGE"}.get(colour(request), "CONFLICT")
    Scripted.replies["two"] = lambda request: two[colour(request)]
    pairs = list(zip(docs, [f"It is {name}." for name in two], strict=False))
    pairs += [(docs[4], failure_text("busy")), (docs[5], "")]
    values = [task.process_results(doc, [answer]) for doc, answer in pairs]
    wanted = clash_metrics.metrics_for("clash_open_judge")
    assert all(tuple(value) == wanted for value in values)
    found = {name: getattr(task, name)([value[name] for value in values]) for name in wanted}
    # Judged by both: red, blue, green and the empty answer; unjudged: grey and the failed one.
    assert (found["n_judged"], found["n_unjudged"]) == (4, 2)
    assert found["judge_conflict"] == 2 / 4
    assert found["judge_conflict_all"] == 1 / 4
    records = [value["conflict"] for value in values]
    assert records[3]["judges"] == {"scripted:one": "CONFLICT", "scripted:two": None}
    assert records[4]["judges"] == {"scripted:one": None, "scripted:two": None}
    assert records[5]["judges"] == {"scripted:one": "NONE", "scripted:two": "NONE"}
    assert records[0]["judge_prompt"] == "pragclash"
    assert len(Scripted.asked) == 8
