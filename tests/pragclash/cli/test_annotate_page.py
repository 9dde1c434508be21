"""The annotation page in a real browser: votes, undo, reload, a killed server, and no mouse."""

import os
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from lmms_eval_tasks.annotation.store import Store
from tests.browser import drive, need_browser
from tests.lmms_eval_tasks.annotation_fixtures import HOSTILE, caption_folder
from tests.lmms_eval_tasks.clash_fixtures import clash_folder
from tests.pragclash.annotating import command

ITEMS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_browser()
    return caption_folder(tmp_path_factory.mktemp("page") / "pragmatch")


@pytest.fixture(scope="module")
def seen(folder):
    """What the browser script saw; PRAGCLASH_SCREENSHOTS names a folder for its screenshots."""
    config = {
        "command": command(folder),
        "clash": command(clash_folder(folder.parent / "clash"), task="clash"),
        "items": ITEMS,
        "hostile": HOSTILE,
        "shots": os.environ.get("PRAGCLASH_SCREENSHOTS"),
    }
    return drive(Path(__file__).parents[1] / "browser" / "annotate.mjs", config)


pytestmark = pytest.mark.slow


def test_a_vote_moves_on_and_is_said_aloud(seen):
    assert seen["afterVote"] == {
        "status": "Saved: Yes for item 1.",
        "focus": "item-title",
        "progress": "1 of 12 answered",
        "title": "Item 2 of 12 · Sarcasm",
    }


def test_held_keys_and_double_clicks_vote_once(seen):
    assert seen["afterHeldKey"] == "2 of 12 answered"
    assert seen["afterDoubleClick"] == "3 of 12 answered"


def test_tab_reaches_everything_in_reading_order_with_a_visible_ring(seen):
    names = [stop["name"] for stop in seen["tabs"]]
    assert names[:8] == ["enlarge", "yes", "no", "unclear", "previous", "next", "open", "undo"]
    assert all(stop["ring"] for stop in seen["tabs"][:8])
    assert seen["afterEnter"] == {"status": "Saved: Unclear for item 3.", "focus": "item-title"}


def test_undo_goes_back_to_the_item(seen):
    assert seen["afterUndo"] == {
        "status": "Undone: item 3 is open again.",
        "state": "Not answered yet",
    }
    assert seen["afterUndoTwice"] == "1 of 12 answered"
    assert seen["back"] == {"state": "Answered: Unclear", "pressed": "true"}


def test_a_reload_forgets_nothing(seen):
    assert seen["afterReload"] == "3 of 12 answered"


def test_a_vote_given_while_the_server_is_dead_is_kept_and_sent_once(seen):
    down = seen["whileDown"]
    assert "Your answer Yes is not saved yet" in down["trouble"]
    assert (down["role"], down["item"]) == ("alert", "Item 4 of 12")
    assert seen["afterRestart"] == {
        "status": "Saved: Yes for item 4.",
        "progress": "4 of 12 answered",
        "trouble": False,
    }
    assert seen["afterReloadInTrouble"] == "5 of 12 answered"


def test_dialogs_keep_the_keys_and_give_the_focus_back(seen):
    assert (seen["helpFocus"], seen["helpReturns"]) == ("help-title", "help-open")
    assert seen["afterHelp"] == "5 of 12 answered"
    assert seen["large"] is True


def test_single_keys_can_be_switched_off(seen):
    assert seen["afterShortcutsOff"] == "5 of 12 answered"


def test_text_from_the_data_stays_text(seen):
    assert seen["hostile"] is True
    assert seen["injected"] == 0
    assert seen["errors"] == []
    assert seen["outside"] == []


def test_the_end_is_reached_and_every_vote_is_in_the_file(seen, folder):
    assert seen["done"] == "All 12 items are answered"
    store = Store.open(folder / "votes.sqlite3")
    assert len(store.votes("ada")) == ITEMS
    events = store._number("SELECT count(*) FROM events WHERE label IS NOT NULL")
    undone = store._number("SELECT count(*) FROM events WHERE undoes IS NOT NULL")
    assert events - undone == ITEMS
    store.close()


@pytest.mark.parametrize("kind", ["desktop", "dark", "phone", "narrow", "contrast", "still"])
def test_it_can_be_read_and_hit(seen, kind):
    looks = seen["looks"][kind]
    assert looks["contrast"] >= 4.5
    assert looks["border"] >= 3
    assert looks["smallest"] >= 44
    assert looks["overflow"] <= 0
    assert looks["nameless"] == 0


def test_nothing_moves_where_that_is_unwanted(seen):
    assert seen["looks"]["still"]["transition"] == "0s"


def test_landmarks_and_language_are_there(seen):
    assert seen["landmarks"] == []
    assert seen["lang"] == "en"


def test_a_reason_is_written_and_kept_without_voting_on_the_way(seen, folder):
    assert seen["reasonFocus"] == "reason"
    assert seen["nextReason"] == ""
    assert seen["clash"]["state"] == "Answered: Reject"
    assert seen["clash"]["reason"] == "any unzoned reason"
    assert len(seen["clash"]["marks"]) == 2
    store = Store.open(folder.parent / "clash" / "votes.sqlite3")
    assert [(v.label, v.reason) for v in store.votes()] == [("reject", "any unzoned reason")]
    store.close()
