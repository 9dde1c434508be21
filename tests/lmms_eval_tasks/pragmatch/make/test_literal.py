"""Literal captions: the file of human ones, and harness backends by name."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lmms_eval_tasks.dataset.journal import Journal, JournalError
from lmms_eval_tasks.pragmatch.make.literal import (
    PROMPT,
    Captioner,
    CaptionerError,
    caption_pictures,
    read_captions,
    tidy,
)
from lmms_eval_tasks.pragmatch.make.mmsd import SourceError
from tests.lmms_eval_tasks import fake_mmsd


def write(path, rows):
    path.write_text(json.dumps(rows))
    return path


def test_captions_of_both_forms_are_read(tmp_path):
    rows = [
        {"image_id": 892551658487631873, "caption": " A dog \n on a couch. "},
        {"image_id": "b", "captions": ["A CAT", "a cat", "x"], "license": "CC BY", "split": "val"},
        {"image_id": "c", "captions": ["ALL", "LOUD"]},
    ]
    found = read_captions(write(tmp_path / "l.json", rows))
    assert found.captions == {
        "892551658487631873": "A dog on a couch.",
        "b": "a cat",
        "c": "ALL",
    }
    assert found.licences == {"b": "CC BY"}
    assert found.provenance["name"] == "l.json"
    lines = "".join(json.dumps(row) + "\n\n" for row in rows)
    (tmp_path / "l.jsonl").write_text(lines)
    assert read_captions(tmp_path / "l.jsonl").captions == found.captions


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"image_id": 8.9e17, "caption": "x"}, "through a float"),
        ({"image_id": "../x", "caption": "x"}, "may hold only"),
        ({"image_id": "a", "caption": "again"}, "stands in row 1 already"),
        ({"image_id": "b", "caption": ""}, "caption is empty"),
        ({"image_id": "b", "captions": []}, "at least one"),
        ({"image_id": "b", "captions": [7]}, "must be text"),
        ({"image_id": "b", "caption": "x", "colour": 1}, "unknown column 'colour'"),
        ({"image_id": "b"}, "needs 'image_id'"),
        ("text", "not a JSON object"),
    ],
)
def test_a_faulty_row_is_named(tmp_path, row, reason):
    path = write(tmp_path / "l.json", [{"image_id": "a", "caption": "first"}, row])
    with pytest.raises(SourceError, match=rf"l\.json:2: .*{reason}"):
        read_captions(path)


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        read_captions(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("[" * 100_000)
    with pytest.raises(SourceError, match="not JSON"):
        read_captions(tmp_path / "x.json")
    with pytest.raises(SourceError, match="holds no captions"):
        read_captions(write(tmp_path / "e.json", []))


@pytest.mark.parametrize(
    ("answer", "caption"),
    [
        ('"A dog on a couch."', "A dog on a couch."),
        ("<think>hm\nso</think>\nA dog.", "A dog."),
        ("A dog\non a couch", "A dog on a couch"),
        ("", None),
        ("...", None),
        ("I'm sorry, I can't.", None),
        ("As an AI model I see", None),
        ("One dog. " + "Much more words. " * 40, ("One dog. " + "Much more words. " * 17).strip()),
        ("word " * 200, None),
    ],
)
def test_answers_become_captions_or_nothing(answer, caption):
    assert tidy(answer) == caption


@pytest.fixture
def pictures(tmp_path):
    out = []
    for i in range(4):
        path = tmp_path / f"{i}.jpg"
        path.write_bytes(fake_mmsd.drawing(i))
        out.append((f"p{i}", f"hash{i}", path))
    return out


def test_a_backend_of_the_harness_captions_by_name(pictures, tmp_path):
    pytest.importorskip("lmms_eval")
    captioner = Captioner("dummy", "response=A shape on paper", batch_size=3)
    with Journal(tmp_path / "j.jsonl") as journal:
        captions, failed = caption_pictures(captioner, pictures, journal)
    assert captions == dict.fromkeys(["p0", "p1", "p2", "p3"], "A shape on paper")
    assert failed == {}


class Server(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that fails on the second picture it sees."""

    asked: list = []  # noqa: RUF012

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (turn,) = body["messages"]
        kinds = [part["type"] for part in turn["content"]]
        type(self).asked.append((kinds, turn["content"][-1]["text"], body["max_tokens"]))
        picture = turn["content"][0]["image_url"]["url"]
        bad = picture in self.server.bad
        message = {"role": "assistant", "content": "A drawn shape on white paper."}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        }
        content = json.dumps({"error": {"message": "overloaded"}} if bad else answer).encode()
        self.send_response(500 if bad else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.mark.slow
def test_an_openai_compatible_server_captions(pictures, tmp_path, monkeypatch):
    pytest.importorskip("lmms_eval")
    import base64
    import io

    from PIL import Image

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server = HTTPServer(("127.0.0.1", 0), Server)
    server.bad = set()
    with Image.open(pictures[1][2]) as image:
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "PNG")
    encoded = base64.b64encode(buffer.getvalue()).decode()
    server.bad.add(f"data:image/png;base64,{encoded}")
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        arguments = f"model=m,base_url={url},max_retries=1,retry_backoff_s=0,httpx_trust_env=False"
        captioner = Captioner("openai", arguments, batch_size=4)
        with Journal(tmp_path / "j.jsonl") as journal:
            captions, failed = caption_pictures(captioner, pictures, journal, retries=1)
    finally:
        server.shutdown()
    assert set(captions.values()) == {"A drawn shape on white paper."}
    assert set(captions) == {"p0", "p2", "p3"}
    assert list(failed) == ["p1"]
    kinds, text, tokens = Server.asked[0]
    assert (kinds, text, tokens) == (["image_url", "text"], PROMPT, 64)
    assert url not in json.dumps(captioner.provenance)


class Stub(Captioner):
    def __init__(self, answers):
        super().__init__("stub")
        self.answers, self.calls = answers, 0

    def answer(self, pictures):
        self.calls += 1
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_a_failure_is_tried_again_and_then_left_out(pictures, tmp_path):
    stub = Stub(
        [RuntimeError("busy"), ["A dog."], ["[LMMS_EVAL_BUDGET_EXCEEDED]"], [""], ["I'm sorry"]]
    )
    with Journal(tmp_path / "j.jsonl") as journal:
        captions, failed = caption_pictures(stub, pictures[:2], journal, retries=2)
    assert captions == {"p0": "A dog."}
    assert failed == {"p1": "the answer is no caption"}
    assert stub.calls == 5


def test_known_captions_are_not_asked_for_again(pictures, tmp_path):
    for calls in (4, 0):
        stub = Stub([[f"A dog {i}."] for i in range(4)])
        with Journal(tmp_path / "j.jsonl") as journal:
            captions, _ = caption_pictures(stub, pictures, journal)
        assert stub.calls == calls
        assert captions["p3"] == "A dog 3."


def test_nothing_captioned_at_all_is_an_error(pictures, tmp_path):
    stub = Stub([OSError("no model")] * 4)
    with Journal(tmp_path / "j.jsonl") as journal, pytest.raises(CaptionerError, match="no model"):
        caption_pictures(stub, pictures, journal, retries=0)


def test_too_few_answers_are_a_failure_not_a_shift(pictures, tmp_path, monkeypatch):
    pytest.importorskip("lmms_eval")
    from lmms_eval.models.simple.dummy import Dummy

    monkeypatch.setattr(Dummy, "generate_until", lambda self, requests: ["A dog."])
    captioner = Captioner("dummy", "", batch_size=4)
    with Journal(tmp_path / "j.jsonl") as journal:
        captions, _ = caption_pictures(captioner, pictures, journal, retries=1)
    assert len(captions) == 4, "one by one each gets its own answer"


def test_a_journal_survives_a_cut_line_and_refuses_a_foreign_file(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.put("a", [1, "ü"])
        journal.put("b", None)
        journal.put("a", 2)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with Journal(path) as journal:
            journal.put("c", "new")
        with Journal(path) as journal:
            assert journal["c"] == "new"
            assert set(journal._results) <= {"a", "b", "c"}
    path.write_text("not json\n")
    with pytest.raises(JournalError, match=r"j\.jsonl:1"):
        Journal(path)
