"""`verdict` over the harness's OpenAI-compatible backends and a fake server on real HTTP."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from model_wrappers.verdict import replies, servers
from model_wrappers.verdict.reading import ReadingRule
from model_wrappers.verdict.replies import score_reply
from model_wrappers.verdict.wrapper import VerdictModel, VerdictModelSimple
from postprocess.response.line import is_failed, read_response
from tests.model_wrappers.tiny import LETTERS, YES_NO, FakeTasks, captions_of, picture

KEY = "sk-secret-0123456789"
BACKENDS = ["openai", "async_openai"]


class FakeServer:
    """Answers as a function of the prompt, with faults in between.

    Args:
        faults: For each prompt the faults of its first tries, in order.
    """

    def __init__(self) -> None:
        self.faults: dict[str, list[Any]] = {}
        self.seen: list[dict[str, Any]] = []
        self.top_limit = 20
        self.logprobs = True
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.answer(self, body)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, handler: Any, body: dict[str, Any]) -> None:
        (message,) = body["messages"]
        prompt = "".join(p["text"] for p in message["content"] if p["type"] == "text")
        with self.lock:
            self.seen.append(body)
            faults = self.faults.get(prompt) or self.faults.get("*") or []
            fault = faults.pop(0) if faults else None
        if isinstance(fault, int):
            error = {"message": f"fault for key {KEY}", "type": "fault"}
            return self.send(handler, fault, {"error": error})
        if fault == "hang up":
            handler.close_connection = True
            return None
        if fault == "no json":
            return self.send(handler, 200, b"<html>sorry</html>")
        if fault == "no choice":
            return self.send(handler, 200, {"id": "x", "object": "chat.completion", "choices": []})
        if "logprobs" in body and not self.logprobs:
            error = {"message": "logprobs are not supported by this model"}
            return self.send(handler, 400, {"error": error})
        if body.get("top_logprobs", 0) > self.top_limit:
            error = {"message": f"top_logprobs must be at most {self.top_limit}"}
            return self.send(handler, 400, {"error": error})
        text, content = answer_of(prompt, body.get("top_logprobs"))
        if fault == "null content":
            text, content = None, None
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
            "logprobs": {"content": content} if content else None,
        }
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        return self.send(
            handler, 200,
            {"id": "x", "object": "chat.completion", "created": 0, "model": "fake",
             "choices": [choice], "usage": usage},
        )  # fmt: skip

    @staticmethod
    def send(handler: Any, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        if status == 429:
            handler.send_header("retry-after", "0")
        handler.end_headers()
        handler.wfile.write(data)


def p_yes(prompt: str) -> float:
    return random.Random(prompt).uniform(0.05, 0.95)


def answer_of(prompt: str, top: int | None) -> tuple[str, list[dict[str, Any]] | None]:
    """A verdict that follows from the prompt, its probability spread over two spellings."""
    p = p_yes(prompt)
    alternatives = [
        (" Yes", 0.75 * p), ("yes", 0.25 * p * 0.96), ("No", (1 - p) * 0.96), ("Maybe", 0.02),
        ("a", 0.001), ("b", 0.001),
    ]  # fmt: skip
    word = " Yes" if p >= 0.5 else "No"
    if top is None:
        return word + ".", None
    ordered = sorted(alternatives, key=lambda item: -item[1])[:top]
    entries = [{"token": t, "logprob": math.log(q), "bytes": None} for t, q in ordered]
    chosen = next(math.log(q) for t, q in alternatives if t == word)
    return word + ".", [
        {"token": "\n", "logprob": -0.01, "bytes": None, "top_logprobs": []},
        {"token": word, "logprob": chosen, "bytes": None, "top_logprobs": entries},
        {"token": ".", "logprob": -0.1, "bytes": None, "top_logprobs": []},
    ]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.http.shutdown()
    fake.http.server_close()


def model_on(
    server: FakeServer, backend: str, *, simple: bool = False, **args: Any
) -> VerdictModel:
    options = {"max_retries": 4, "retry_backoff_s": 0.01, "timeout": 20, **args}
    more = ",".join(f"{name}={value}" for name, value in options.items())
    model = VerdictModelSimple if simple else VerdictModel
    return model.create_from_arg_string(
        f"backend={backend},model=fake,base_url={server.url},api_key={KEY},{more}"
    )


def run(lm: VerdictModel, tasks: FakeTasks) -> list[Any]:
    lm.task_dict = tasks.task_dict
    return lm.generate_until(tasks.requests(simple=lm.is_simple))


def some_tasks() -> FakeTasks:
    docs = captions_of([picture(1), picture(2), None], 3)
    return FakeTasks({"pml": docs, "pm": docs[:4]})


def check(tasks: FakeTasks, results: list[Any]) -> None:
    docs = [doc for splits in tasks.task_dict.values() for doc in splits["test"]]
    for doc, result in zip(docs, results, strict=True):
        p = p_yes(doc["prompt"])
        response = read_response(result.text)
        assert response.text.strip() == ("Yes." if p >= 0.5 else "No.")
        assert response.step == 1
        assert response.choices["Yes"] == pytest.approx(math.log(0.75 * p + 0.24 * p))
        assert response.choices["No"] == pytest.approx(math.log((1 - p) * 0.96))
        assert (response.source, response.finish) == ("logprobs", "stop")


@pytest.mark.parametrize(("backend", "simple"), [("openai", False), ("openai", True),
                                                 ("async_openai", False)])  # fmt: skip
def test_scores_are_read_off_a_servers_logprobs(
    backend: str, simple: bool, server: FakeServer
) -> None:
    tasks = some_tasks()
    lm = model_on(server, backend, simple=simple)
    check(tasks, run(lm, tasks))
    assert len(server.seen) == 9
    assert lm.run_notes()["counts"]["duplicates"] == 4
    for body in server.seen:
        assert body["logprobs"] is True
        assert body["top_logprobs"] == 20
        assert "\ue000" not in json.dumps(body, ensure_ascii=False)
    texts = {p["text"] for b in server.seen for p in b["messages"][0]["content"] if "text" in p}
    assert texts == {doc["prompt"] for doc in tasks.task_dict["pml"]["test"]}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_faults_that_pass_change_no_answer(backend: str, seed: int, server: FakeServer) -> None:
    rng = random.Random(seed)
    kinds = [429, 500, 503, "hang up", "no json", "no choice"]
    tasks = some_tasks()
    server.faults = {
        doc["prompt"]: rng.choices(kinds, k=rng.randint(0, 3))
        for doc in tasks.task_dict["pml"]["test"]
    }
    expected = sum(len(faults) for faults in server.faults.values())
    lm = model_on(server, backend)
    check(tasks, run(lm, tasks))
    assert len(server.seen) == 9 + expected
    assert lm.run_notes()["asked_again"] == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_permanent_failure_is_failed_and_holds_no_key(backend: str, server: FakeServer) -> None:
    tasks = some_tasks()
    docs = tasks.task_dict["pml"]["test"]
    server.faults = {docs[0]["prompt"]: [401] * 9, docs[1]["prompt"]: [503] * 9}
    lm = model_on(server, backend)
    results = run(lm, tasks)
    failed = [at for at, result in enumerate(results) if is_failed(result.text)]
    assert failed == [0, 1, 9, 10]
    assert not any(KEY in result.text for result in results)
    asked = [json.dumps(body) for body in server.seen]
    assert sum(docs[0]["prompt"] in body for body in asked) == 1
    assert sum(docs[1]["prompt"] in body for body in asked) == 4
    assert "after 3 retries" in results[1].text
    assert lm.run_notes()["counts"]["failed"] == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_time_out_is_tried_again(backend: str, server: FakeServer) -> None:
    lm = model_on(server, backend, timeout=0.3, max_retries=2)
    slow = threading.Event()
    send = server.send

    def late_once(handler: Any, status: int, body: Any) -> None:
        if not slow.is_set():
            slow.set()
            threading.Event().wait(1.0)
        try:
            send(handler, status, body)
        except OSError:
            handler.close_connection = True

    server.send = late_once
    tasks = FakeTasks({"pm": captions_of([None], 1)})
    check(tasks, run(lm, tasks))
    assert lm.run_notes()["asked_again"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_server_without_logprobs_gives_verdicts_without_scores(
    backend: str, server: FakeServer
) -> None:
    server.logprobs = False
    tasks = some_tasks()
    lm = model_on(server, backend)
    for result in run(lm, tasks):
        response = read_response(result.text)
        assert response.text.strip() in ("Yes.", "No.")
        assert response.choices is None
    assert lm.run_notes()["top_logprobs"] is None
    assert lm.run_notes()["counts"]["failed"] == 0


def test_a_server_with_a_lower_limit_is_asked_for_less(server: FakeServer) -> None:
    server.top_limit = 5
    tasks = FakeTasks({"pm": captions_of([None], 2)})
    lm = model_on(server, "openai")
    check(tasks, run(lm, tasks))
    assert lm.run_notes()["top_logprobs"] == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_answer_of_nothing_is_empty_and_not_a_failure(backend: str, server: FakeServer) -> None:
    tasks = FakeTasks({"pm": captions_of([None], 1)})
    server.faults = {"*": ["null content"]}
    (result,) = run(model_on(server, backend), tasks)
    assert read_response(result.text).text == ""
    assert not is_failed(result.text)


def test_pauses_grow_and_obey_the_server(server: FakeServer) -> None:
    runner = model_on(server, "openai", retry_backoff_s=1.0, max_retries=9).runner
    error = servers.ReplyError("no choice")
    pauses = [runner.pause_after(error, attempt, 0) for attempt in range(1, 9)]
    assert all(1 <= pause / 2**at <= 1.25 or pause == 60 for at, pause in enumerate(pauses))
    assert pauses[-1] == servers.MAX_PAUSE_S
    assert runner.pause_after(error, 9, 0) is None
    error.status_code = 429
    error.response = type("R", (), {"headers": {"retry-after": "30"}})()
    assert runner.pause_after(error, 1, 0) == 30.0
    error.response.headers["retry-after"] = "nan"
    assert runner.pause_after(error, 1, 0) < 2


ZERO_SHOT = ReadingRule.of({"choices": YES_NO})
COT = ReadingRule.of({"choices": YES_NO, "verdict_position": "last_stated"})


def token(text: str, **returned: float) -> tuple[str, dict[str, float]]:
    return text, {name.replace("_", " "): math.log(p) for name, p in returned.items()}


def test_a_set_that_was_not_returned_is_bounded_and_named() -> None:
    score = score_reply([token("Yes", Yes=0.9, Maybe=0.06, a=0.001)], "Yes", ZERO_SHOT)
    assert score.censored == ("No",)
    assert score.choices["No"] == pytest.approx(math.log(0.001))
    # What the returned tokens leave is a bound as well.
    score = score_reply([token("Yes", Yes=0.99, Maybe=0.009)], "Yes", ZERO_SHOT)
    assert score.choices["No"] == pytest.approx(math.log(0.001))


def test_a_chosen_token_alone_bounds_the_rest() -> None:
    score = score_reply([token("No", No=0.8)], "No", ZERO_SHOT)
    assert score.choices["Yes"] == pytest.approx(math.log(0.2))
    assert score.censored == ("Yes",)


def test_a_chain_of_thought_is_read_at_its_last_verdict() -> None:
    tokens = [
        token("So"), token(" the verdict is:"), token(" Yes", _Yes=0.6, _No=0.3), token(". Wait."),
        token(" So the verdict is:"), token(" No", _Yes=0.2, _No=0.7), token("."),
    ]  # fmt: skip
    text = "".join(piece for piece, _ in tokens)
    score = score_reply(tokens, text, COT)
    assert score.step == 5
    assert score.choices["No"] == pytest.approx(math.log(0.7))
    assert score_reply(tokens[:2], "So the verdict is:", COT) is None


def test_reasoning_that_the_server_keeps_apart_is_not_the_answer() -> None:
    tokens = [token("No", No=1.0), token(" hm"), token("\n"), token("Yes", Yes=0.9, No=0.05)]
    assert score_reply(tokens, "Yes", ZERO_SHOT).step == 3
    tokens = [token("<think>"), token("No", No=1.0), token("</think>"), token("Yes", Yes=0.9)]
    assert score_reply(tokens, "<think>No</think>Yes", ZERO_SHOT).step == 3


def test_option_letters_are_read_with_their_bracket() -> None:
    reading = ReadingRule.of({"choices": LETTERS})
    score = score_reply([token("(", **{"(": 1.0}), token("B", A=0.2, B=0.5, a=0.1, C=0.1, D=0.05)],
                        "(B", reading)  # fmt: skip
    assert score.step == 1
    assert score.choices["A"] == pytest.approx(math.log(0.2))


class Hostile:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def test_values_that_are_no_log_probabilities_are_left_out() -> None:
    bad = [float("nan"), float("inf"), 3.0, True, False, "0", None, -float("inf"), [1]]
    entries = [Hostile(token=f"t{at}", logprob=value) for at, value in enumerate(bad)]
    item = Hostile(token="Yes", logprob=-0.5, top_logprobs=[*entries, Hostile(), None])
    ((text, returned),) = replies.tokens_of(Hostile(content=[item]))
    assert (text, returned) == ("Yes", {"Yes": -0.5})
    assert replies.tokens_of(Hostile(content=[Hostile(token=3)])) == []
    assert replies.tokens_of(None) == replies.tokens_of(Hostile(content="x")) == []


def test_rounding_above_one_leaves_little_for_a_set_that_was_not_returned():
    score = score_reply([token("Yes", Yes=0.6, yes=0.4000001)], "Yes", ZERO_SHOT)
    assert score.censored == ("No",)
    assert score.choices["No"] <= math.log(1e-9)
