"""`pragclash annotate` as a process: one that is killed, one that is refused, two at a time."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from lmms_eval_tasks.annotation.store import Store
from tests.lmms_eval_tasks.annotation_fixtures import caption_folder
from tests.pragclash.annotating import CODE, command


@pytest.fixture
def folder(tmp_path):
    return caption_folder(tmp_path / "pragmatch", pictures=8)


@contextmanager
def serving(*args, **kwargs):
    """The running process and the link that it prints."""
    line = command(*args, **kwargs)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(line, text=True, **pipes)
    try:
        for told in process.stdout:
            if told.startswith("open "):
                break
        else:
            raise AssertionError(process.stderr.read())
        yield process, told.split()[1]
    finally:
        process.kill()
        process.communicate()


def ask(link, path, body=None):
    """Status and JSON of one request."""
    parts = urlsplit(link)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    headers = {"content-type": "application/json"}
    method = "GET" if body is None else "POST"
    connection.request(method, parts.path + path, body and json.dumps(body), headers)
    reply = connection.getresponse()
    return reply, connection


def get(link, path):
    reply, connection = ask(link, path)
    try:
        return json.loads(reply.read())
    finally:
        connection.close()


def refusal(*args, **kwargs):
    line = command(*args, **kwargs)
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_a_vote_that_was_confirmed_outlives_a_kill_at_that_instant(folder):
    given = {}
    for label in ("yes", "no", "unclear"):
        with serving(folder) as (process, link):
            items = get(link, "api/state")["items"]
            assert [x["label"] for x in items if x["label"]] == list(given.values())
            item = next(x["id"] for x in items if x["label"] is None)
            body = {"request": f"request-{label}", "id": item, "label": label}
            reply, connection = ask(link, "api/vote", body)
            os.kill(process.pid, signal.SIGKILL)
            assert reply.status == 200
            connection.close()
            given[item] = label
            process.wait()
            store = Store.open(folder / "votes.sqlite3")
            assert [vote.label for vote in store.votes("ada")] == list(given.values())
            store.close()


def test_a_burst_of_votes_survives_a_kill_in_its_middle(folder):
    with serving(folder) as (process, link):
        items = get(link, "api/state")["items"]
        confirmed = []
        for number, item in enumerate(items):
            body = {"request": f"request-{number}", "id": item["id"], "label": "no"}
            if number == 15:
                os.kill(process.pid, signal.SIGKILL)
            try:
                reply, connection = ask(link, "api/vote", body)
                assert reply.status == 200
                connection.close()
            except OSError:
                break
            confirmed.append(item["id"])
    assert 15 <= len(confirmed) < len(items)
    with serving(folder) as (_, link):
        voted = [x["id"] for x in get(link, "api/state")["items"] if x["label"]]
    assert set(confirmed) <= set(voted)


def test_the_link_is_the_same_after_a_restart(folder):
    with serving(folder) as (_, link):
        pass
    with serving(folder) as (_, again):
        assert again == link
        with serving(folder, annotator="bob") as (_, other):
            assert other != link
            assert get(other, "api/state")["annotator"] == "bob"
            orders = [
                [x["shown"]["caption"] for x in get(one, "api/state")["items"]]
                for one in (link, other)
            ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_an_interrupt_ends_it_in_peace(folder):
    with serving(folder) as (process, link):
        assert link.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "stopped: 0 of 24 done by ada" in told
        assert errors == ""


def test_it_listens_on_this_machine_only_unless_told_otherwise(folder):
    with serving(folder) as (_, link):
        port = urlsplit(link).port
        with pytest.raises(OSError, match=r"."):
            socket.create_connection((_other_address(), port), timeout=2)
    with serving(folder, "--host", "0.0.0.0") as (process, link):
        port = urlsplit(link).port
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        process.send_signal(signal.SIGINT)
        assert "warning: --host 0.0.0.0" in process.communicate(timeout=20)[1]


def _other_address() -> str:
    """An address of this machine that is not the one listened on."""
    return "127.0.0.2" if sys.platform == "linux" else socket.gethostbyname(socket.gethostname())


def test_what_cannot_be_used_is_one_line(folder, tmp_path):
    with serving(folder, "--seed", "3", "--pictures", "2") as (_, link):
        assert len(get(link, "api/state")["items"]) == 6
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = {
            "began with seed 3": refusal(folder, "--seed", "4"),
            "knows 'ada'": refusal(folder, annotator="Ada"),
            "begins with a letter": refusal(folder, annotator="7"),
            "is for pragmatch": refusal(folder, task="clash"),
            "P, L, M, P-, M": refusal(folder, "--only", "Q"),
            "is not a folder": refusal(tmp_path / "none"),
            f"port {port}": refusal(folder, "--port", port),
        }
    for reason, told in cases.items():
        assert reason in told
        assert told.startswith("pragclash annotate: ")
        assert told.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(folder):
    hide = "import sys; sys.modules['fastapi'] = None\n"
    line = command(folder)
    line[2] = hide + CODE
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert re.fullmatch(r".*needs fastapi: .*pragclash\[annotate\]'\n", done.stderr)
    assert not (folder / "votes.sqlite3").exists()
