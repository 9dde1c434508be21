"""One policy for every request to a model: it ends, whatever the server does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from lmms_eval_tasks.clash.make.endpoint import (
    MAX_REPLY_BYTES,
    Asker,
    Budget,
    EndpointError,
    HarnessEndpoint,
    HttpEndpoint,
    Limits,
    Passing,
)

Serve = Callable[[Callable[[socket.socket], None]], None]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server that treats a connection as a test says, and points to it."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def start(treat: Callable[[socket.socket], None]) -> None:
        def one(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    treat(connection)
                except OSError:
                    pass  # the client hangs up: that is what is tested

        def serve() -> None:
            while not ended.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()

    monkeypatch.setenv("OPENAI_API_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    yield start
    ended.set()
    listener.close()


def drip(before: bytes) -> Callable[[socket.socket], None]:
    """Sends a byte each tenth of a second for ever, always sooner than a read times out."""

    def treat(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(b"x")
            time.sleep(0.1)

    return treat


@pytest.mark.parametrize(
    "before",
    [b"", HEAD + b"x-slow: ", HEAD + b"content-length: 9999\r\n\r\n"],
    ids=["status line", "header", "body"],
)
@pytest.mark.parametrize("make", [HttpEndpoint, lambda *a: HarnessEndpoint("openai", *a)])
def test_a_server_that_sends_a_byte_at_a_time_ends_at_the_deadline(served, before, make):
    served(drip(before))
    endpoint = make("model", 0.5)
    start = time.monotonic()
    with pytest.raises(Passing) as caught:
        endpoint.send("prompt", 8)
    assert time.monotonic() - start < 5
    assert caught.value.costs
    endpoint.close()


def test_a_reply_without_end_is_cut(served):
    def flood(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    served(flood)
    with pytest.raises(Passing, match="too long"):
        HttpEndpoint("model", 20).send("prompt", 8)
    assert MAX_REPLY_BYTES < 10**7


@pytest.mark.parametrize("status", [b"429 Too Many", b"500 Oops", b"503 Busy"])
def test_passing_faults_are_tried_again_and_never_name_the_key(served, status):
    def refuse(connection: socket.socket) -> None:
        body = b'{"error": "sk-secret"}'
        length = str(len(body)).encode()
        connection.sendall(b"HTTP/1.1 %b\r\ncontent-length: %b\r\n\r\n%b" % (status, length, body))

    served(refuse)
    endpoint = HttpEndpoint("model", 5)
    asker = Asker(endpoint.send, Limits(tries=3, pause_s=0.01), Budget(None))
    with pytest.raises(EndpointError, match=r"HTTP \d+ \(3 tries\)") as caught:
        asker.ask("prompt")
    assert (asker.requests, asker.asked_again) == (3, 2)
    assert "sk-secret" not in str(caught.value)
