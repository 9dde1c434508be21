"""`pragclash agreement`: from votes to figures, and to the file that `human_votes` replays."""

import argparse
import json

import pytest

from lmms_eval_tasks.annotation.plan import TASKS, items_of
from lmms_eval_tasks.annotation.store import Store
from lmms_eval_tasks.dataset.folder import load_folder
from pragclash.cli import agreement
from tests.lmms_eval_tasks.annotation_fixtures import caption_folder
from tests.lmms_eval_tasks.clash_fixtures import clash_folder


def run(*argv) -> int:
    parser = argparse.ArgumentParser()
    agreement.add_arguments(parser)
    return agreement.run(parser.parse_args([str(arg) for arg in argv]))


def give(path, task, votes):
    """Store votes: annotator to sample id to label."""
    folder = load_folder(path, TASKS[task].benchmark)
    items = {item.sample_id: item for item in items_of(folder, TASKS[task])}
    store = Store.open(path / "votes.sqlite3", task, create=True)
    for annotator, own in votes.items():
        store.ask(annotator, [(item.sample_id, item.content) for item in items.values()])
        for sample_id, label in own.items():
            reason = "two changes" if label == "reject" else ""
            sample = (sample_id, items[sample_id].content)
            store.vote(f"{annotator}-{sample_id}", annotator, sample, label, reason)
    store.close()


@pytest.fixture
def folder(tmp_path):
    path = caption_folder(tmp_path / "pragmatch")
    ada = {f"pic{i}-{c}": "yes" if c == "P" else "no" for i in range(4) for c in "PML"}
    bob = {**ada, "pic0-P": "no", "pic1-M": "unclear"}
    del bob["pic3-M"]
    give(path, "sarcasm", {"bob": bob, "ada": ada})
    return path


def test_the_figures_are_those_of_the_votes(folder, capsys):
    assert run(folder, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["annotators"] == {
        "ada": {"yes": 4, "no": 8, "unclear": 0, "missing": 0, "stale": 0},
        "bob": {"yes": 3, "no": 7, "unclear": 1, "missing": 1, "stale": 0},
    }
    (pair,) = told["agreement"]
    assert (pair["a"], pair["b"], pair["n"]) == ("ada", "bob", 11)
    assert pair["raw"]["value"] == pytest.approx(9 / 11)
    # Chance: yes 4*3, no 7*7, unclear 0*1 of 121.
    assert pair["kappa"]["value"] == pytest.approx((9 / 11 - 61 / 121) / (1 - 61 / 121))
    ada, bob, mean = told["people"]
    assert ada["estimates"]["pair_acc"]["value"] == 1
    assert bob["estimates"]["pair_acc"]["value"] == pytest.approx(1 / 3)
    assert (bob["n_pairs"], bob["n_left_out"]) == (3, 1)
    assert mean["estimates"]["pair_acc"]["value"] == pytest.approx(2 / 3)


def test_the_table_names_the_bound_on_kappa_and_the_papers_figures(folder, capsys):
    assert run(folder) == 0
    told = capsys.readouterr().out
    for part in ("kappa at most, 3 labels", "ada, bob", "mean of 2", "0.571", "0.618", "71.5"):
        assert part in told
    assert "23 votes written to" in told


def test_the_export_is_what_human_votes_reads(folder, tmp_path, capsys):
    pytest.importorskip("lmms_eval")
    from model_wrappers.embedded.human_votes import read_votes

    out = tmp_path / "out.jsonl"
    assert run(folder, "--out", out) == 0
    found = read_votes(out)
    assert set(found) == {"ada", "bob"}
    assert len(found["ada"]) == 12
    assert found["bob"]["pic1-M"] == "unclear"
    assert "pic3-M" not in found["bob"]
    first = out.read_bytes()
    assert run(folder, "--out", out) == 0
    assert out.read_bytes() == first


def test_votes_on_other_words_are_counted_and_left_out(folder, capsys):
    file = folder / "captions.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[3]["caption"] = "quite other words"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(folder, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [told["annotators"][name]["stale"] for name in ("ada", "bob")] == [1, 1]
    assert told["votes"]["n"] == 21
    assert rows[3]["sample_id"] not in (folder / "votes.jsonl").read_text()


def test_clash_samples_are_accepted_by_all_who_judged_them(tmp_path, capsys):
    path = clash_folder(tmp_path / "clash")
    ids = [row["sample_id"] for row in load_folder(path, "clash").rows][:4]
    votes = {"ada": dict.fromkeys(ids[:3], "accept"), "bob": {ids[1]: "reject", ids[2]: "accept"}}
    give(path, "clash", votes)
    assert run(path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["accepted"]["sample_ids"] == sorted([ids[0], ids[2]])
    assert (path / "accepted.txt").read_text().split() == sorted([ids[0], ids[2]])
    assert told["people"] == []
    lines = [json.loads(line) for line in (path / "votes.jsonl").read_text().splitlines()]
    assert [x["reason"] for x in lines if x["label"] == "reject"] == ["two changes"]
    assert run(path) == 0
    assert "2 samples accepted" in capsys.readouterr().out


def test_without_a_vote_there_is_nothing_to_say(tmp_path):
    path = caption_folder(tmp_path / "pragmatch")
    with pytest.raises(ValueError, match="pragclash annotate"):
        run(path)
    give(path, "sarcasm", {"ada": {}})
    with pytest.raises(ValueError, match="no vote"):
        run(path)
    assert not (path / "votes.jsonl").exists()
