"""Votes on disk: nothing is lost, doubled or taken from somebody else."""

import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.annotation.store import Store, StoreError, annotator_name


@pytest.fixture
def store(tmp_path):
    opened = Store.open(tmp_path / "votes.sqlite3", "sarcasm", create=True)
    yield opened
    opened.close()


def labels(store, annotator="ada"):
    return {vote.sample_id: vote.label for vote in store.votes(annotator)}


def cast(store, sample, label, request, annotator="ada", reason=""):
    store.vote(request, annotator, (sample, "c"), label, reason)


ALL = {(str(i), "c"): None for i in range(10)}


def test_undo_brings_back_what_stood_before(store):
    cast(store, "1", "yes", "r1")
    cast(store, "2", "no", "r2")
    cast(store, "1", "unclear", "r3")
    assert labels(store) == {"1": "unclear", "2": "no"}
    assert store.undo("r4", "ada", ALL) == ("1", "c")
    assert labels(store) == {"1": "yes", "2": "no"}
    assert store.undo("r5", "ada", ALL) == ("2", "c")
    assert store.undo("r6", "ada", ALL) == ("1", "c")
    assert store.undo("r7", "ada", ALL) is None
    assert labels(store) == {}
    cast(store, "1", "no", "r8")
    assert labels(store) == {"1": "no"}


def test_a_request_sent_twice_counts_once(store):
    cast(store, "1", "yes", "r1")
    cast(store, "2", "yes", "r2")
    cast(store, "2", "yes", "r2")
    assert store.undo("r3", "ada", ALL) == store.undo("r3", "ada", ALL) == ("2", "c")
    assert labels(store) == {"1": "yes"}


def test_undo_touches_neither_others_nor_what_is_not_asked(store):
    cast(store, "1", "yes", "r1")
    cast(store, "99", "yes", "r2")
    cast(store, "2", "no", "r3", annotator="bob")
    assert store.undo("r4", "ada", ALL) == ("1", "c")
    assert labels(store) == {"99": "yes"}
    assert labels(store, "bob") == {"2": "no"}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 3), st.sampled_from(["yes", "no", "unclear"])), st.none()
        ),
        max_size=25,
    )
)
@settings(max_examples=40, deadline=None)
def test_votes_and_undos_are_a_stack(tmp_path_factory, actions):
    store = Store.open(tmp_path_factory.mktemp("s") / "v.sqlite3", "sarcasm", create=True)
    stack = []
    for number, action in enumerate(actions):
        if action is None:
            done = store.undo(f"r{number}", "ada", ALL)
            assert (done is not None) == bool(stack)
            stack = stack[:-1]
        else:
            sample, label = action
            cast(store, str(sample), label, f"r{number}")
            stack.append((str(sample), label))
        assert labels(store) == dict(stack)
    store.close()


def test_every_commit_reaches_the_disk_and_only_the_owner_reads_it(store):
    assert store._number("PRAGMA synchronous") == 2
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_two_connections_and_many_threads_lose_nothing(store):
    other = Store.open(store.path, "sarcasm")

    def work(which, name):
        for i in range(25):
            cast(which, str(i), "yes", f"{name}-{i}", annotator=name)

    threads = [
        threading.Thread(target=work, args=(which, name))
        for which, name in ((store, "ada"), (store, "bob"), (other, "cyd"), (other, "dan"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.votes()) == 100
    other.close()


def test_several_processes_can_begin_one_file(tmp_path):
    path = tmp_path / "votes.sqlite3"
    code = (
        "import sys; from pathlib import Path;"
        "from lmms_eval_tasks.annotation.store import Store;"
        "s = Store.open(Path(sys.argv[1]), 'sarcasm', create=True);"
        "s.vote(sys.argv[2], sys.argv[2], ('1', 'c'), 'yes'); print(s.secret.hex())"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), f"name{i}"], stdout=subprocess.PIPE, text=True
        )
        for i in range(4)
    ]
    told = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(told) == 1
    store = Store.open(path)
    assert len(store.votes()) == 4
    store.close()


def test_a_failed_write_leaves_the_store_usable(store):
    cast(store, "1", "yes", "r1")
    with pytest.raises(sqlite3.IntegrityError):
        store.vote("r2", "ada", (None, "c"), "no")
    cast(store, "2", "no", "r3")
    assert labels(store) == {"1": "yes", "2": "no"}


def test_a_full_disk_is_an_error_and_keeps_what_was_saved(store):
    cast(store, "1", "yes", "r1")
    pages = store._number("PRAGMA page_count")
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        cast(store, "2", "no", "r2", reason="x" * 50_000)
    assert labels(store) == {"1": "yes"}
    store._connection.execute("PRAGMA max_page_count = 100000")
    cast(store, "2", "no", "r2")
    assert labels(store) == {"1": "yes", "2": "no"}


def test_other_files_are_refused_and_left_as_they_are(tmp_path):
    text, foreign = tmp_path / "notes.txt", tmp_path / "foreign.sqlite3"
    text.write_text("my notes, and many of them\n" * 100)
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE songs (title)")
    connection.close()
    for path, reason in ((text, "not a database"), (foreign, "no votes of pragclash")):
        before = path.read_bytes()
        with pytest.raises(StoreError, match=reason):
            Store.open(path, "sarcasm", create=True)
        with pytest.raises(StoreError, match=reason):
            Store.open(path)
        assert path.read_bytes() == before
    with pytest.raises(StoreError, match="pragclash annotate"):
        Store.open(tmp_path / "none.sqlite3")
    with pytest.raises(StoreError, match="folder does not exist"):
        Store.open(tmp_path / "no" / "v.sqlite3", "sarcasm", create=True)


def test_a_file_that_lost_its_content_is_no_new_one(tmp_path):
    path = tmp_path / "votes.db"
    Store.open(path, "pragmatch_pm", create=True).close()
    path.write_bytes(b"")
    with pytest.raises(StoreError, match=r"is empty: whatever votes .* delete it to begin anew"):
        Store.open(path, "pragmatch_pm", create=True)
    assert path.read_bytes() == b""


def test_a_file_is_for_one_task_and_one_version(store):
    with pytest.raises(StoreError, match="task sarcasm, not clash"):
        Store.open(store.path, "clash", create=True)
    store._connection.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreError, match="format 7"):
        Store.open(store.path, "sarcasm")


@pytest.mark.parametrize("name", ["ada", "Ada.L-2", "Zoë", "李", " ada "])
def test_names_that_come_through_model_arguments(name):
    from lmms_eval.utils import simple_parse_args_string

    stored = annotator_name(name)
    assert simple_parse_args_string(f"annotator={stored}") == {"annotator": stored}


@pytest.mark.parametrize(
    "name",
    ["", "7", "1e5", "a,b", "a=b", "True", "nan", "Infinity", "a b", "../x", "<b>", "x" * 65, "_a"],
)
def test_names_that_do_not_are_refused(name):
    with pytest.raises(StoreError, match="begins with a letter"):
        annotator_name(name)
