"""A cache can be damaged, full or locked, and never costs a result."""

import contextlib
import resource
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from pragclash.harness import cache
from pragclash.harness.keeping import health

GREEDY = {"temperature": 0, "max_new_tokens": 4}


class Model:
    """Answers with the document's number and counts what it is asked."""

    def __init__(self) -> None:
        self.task_dict: dict = {}
        self.calls: list[int] = []

    def generate_until(self, requests):
        self.calls.append(len(requests))
        return [f"answer {request.doc_id}" for request in requests]


@pytest.fixture
def response_cache(monkeypatch):
    """The harness's module with our changes, which are taken back after the test."""
    from lmms_eval.caching import response_cache as module

    for name in ("_extract_content_hash",):
        monkeypatch.setattr(module, name, getattr(module, name))
    changed = ("_is_valid_response", "_lookup", "_log_to_audit", "_store")
    for name in (*changed, "finalize", "create", "execute"):
        monkeypatch.setattr(
            module.ResponseCache, name, module.ResponseCache.__dict__[name], raising=True
        )
    monkeypatch.setenv(cache.RUN_ID, "run-1")
    monkeypatch.setattr(health, "_told", set())
    cache.install(["--tasks", "x"])
    return module.ResponseCache


def requests(n: int) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            task_name="foreign", doc_id=i, idx=0, metadata={}, args=(f"prompt {i}", dict(GREEDY))
        )
        for i in range(n)
    ]


def evaluate(response_cache, root: Path, n: int = 40, model_args: str = "") -> Model:
    """What the harness does with a cache in one evaluation."""
    model = Model()
    opened = response_cache.create(cache_root=str(root), model="m", model_args=model_args)
    answers = opened.execute(model, "generate_until", requests(n))
    opened.finalize(success=True)
    assert answers == [f"answer {i}" for i in range(n)]
    return model


def rank_db(root: Path) -> Path:
    return root / "runs" / "run-1" / "rank_0.db"


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_database(path: Path) -> None:
    path.write_text("this is no database at all, but it is long enough to look like one" * 9)


def garbled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xa5" * 4096
    path.write_bytes(content)


def other_columns(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE responses (something TEXT)")
        database.commit()


@pytest.mark.parametrize("damage", [truncated, no_database, garbled, other_columns])
def test_a_damaged_cache_is_set_aside_and_the_evaluation_runs(response_cache, tmp_path, damage):
    evaluate(response_cache, tmp_path)
    for path in (tmp_path / "cache.db", rank_db(tmp_path)):
        damage(path)
    moved = health.set_aside_damaged(str(tmp_path / "cache.db"))
    assert [path.name for path in moved] == ["rank_0.db.damaged-1", "cache.db.damaged-1"]
    assert all(path.is_file() for path in moved)
    again = evaluate(response_cache, tmp_path)
    assert not again.calls, "the log beside the database has the answers"
    damage(rank_db(tmp_path))
    (name,) = (path.name for path in health.set_aside_damaged(str(tmp_path)))
    assert name == "rank_0.db.damaged-2"
    rank_db(tmp_path).with_name("rank_0.audit.jsonl").unlink()
    (tmp_path / "cache.db").unlink()
    assert sum(evaluate(response_cache, tmp_path).calls) == 40, "a new cache is begun"
    assert not evaluate(response_cache, tmp_path).calls


def test_a_damaged_log_beside_a_database_costs_nothing(response_cache, tmp_path):
    evaluate(response_cache, tmp_path)
    Path(f"{rank_db(tmp_path)}-wal").write_bytes(b"\xa5" * 5000)
    assert not health.set_aside_damaged(str(tmp_path))
    assert not evaluate(response_cache, tmp_path).calls


def test_a_whole_a_missing_and_a_locked_cache_stay_where_they_are(response_cache, tmp_path):
    assert not health.set_aside_damaged(str(tmp_path / "nowhere"))
    evaluate(response_cache, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "cache.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        health_before = sorted(tmp_path.rglob("*.db"))
        assert not health.set_aside_damaged(str(tmp_path))
        assert sorted(tmp_path.rglob("*.db")) == health_before
    assert not evaluate(response_cache, tmp_path).calls


@contextlib.contextmanager
def files_no_larger_than(size: int):
    """A disk that is full: what a process may write to one file ends here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 5000, 20_000, 40_000])
def test_a_full_disk_costs_the_cache_and_no_answer(response_cache, tmp_path, size):
    with files_no_larger_than(size):
        model = evaluate(response_cache, tmp_path, n=200)
    assert sum(model.calls) == 200
    assert health._told
    health.set_aside_damaged(str(tmp_path))
    evaluate(response_cache, tmp_path, n=200)
    assert not evaluate(response_cache, tmp_path, n=200).calls


def test_a_cache_that_breaks_while_it_is_used_costs_no_answer(response_cache, tmp_path):
    opened = response_cache.create(cache_root=str(tmp_path), model="m", model_args="")
    opened.db.execute("DROP TABLE responses")
    model = Model()
    assert len(opened.execute(model, "generate_until", requests(40))) == 40
    opened.finalize(success=True)
    assert {"cannot be read", "cannot be written"} <= health._told


def test_other_weights_under_the_same_path_are_asked_again(response_cache, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"0")
    root, arguments = tmp_path / "cache", f"pretrained={folder}"
    assert sum(evaluate(response_cache, root, model_args=arguments).calls) == 40
    assert not evaluate(response_cache, root, model_args=arguments).calls
    (folder / "weights.bin").write_bytes(b"1")
    assert sum(evaluate(response_cache, root, model_args=arguments).calls) == 40


def test_answers_are_saved_by_time(response_cache, tmp_path, monkeypatch):
    """A model that takes two seconds an answer is saved every five of them."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: clock.now))

    class Slow(Model):
        def generate_until(self, requests):
            clock.now += 2.0 * len(requests)
            return super().generate_until(requests)

    opened = response_cache.create(cache_root=str(tmp_path), model="m", model_args="")
    slow = Slow()
    opened.execute(slow, "generate_until", requests(40))
    assert slow.calls == [cache.FIRST_PORTION, 5, 5, 5, 5, 4]
    slow.calls.clear()
    slow.batch_size = 24
    opened.execute(slow, "generate_until", requests(112)[40:])
    assert slow.calls == [24, 24, 24], "a batch is not cut"
    opened._world_size = 2
    slow.calls.clear()
    opened.execute(slow, "generate_until", [*requests(200)])
    assert slow.calls == [128 - 112, 72], "ranks must call a shared model equally often"
