"""`clash-build`: the embedded generator, an endpoint with all its faults, votes, interruptions."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lmms_eval_tasks.clash.make.check.votes import keep_accepted
from lmms_eval_tasks.clash.make.endpoint import (
    Asker,
    Budget,
    BudgetError,
    EndpointError,
    Limits,
    Passing,
    Reply,
)
from lmms_eval_tasks.clash.make.generate.build import Settings, build
from lmms_eval_tasks.clash.make.generate.captions import find_picture, read_captions, sources
from lmms_eval_tasks.clash.make.replies import json_object
from lmms_eval_tasks.dataset.folder import load_folder
from lmms_eval_tasks.dataset.journal import Journal
from pragclash.cli import data_clash_qc
from pragclash.cli.data_clash_build import add_arguments, run
from tests.lmms_eval_tasks.fake_endpoint import KEY, FakeEndpoint

SUBJECTS = ("dog", "cat", "pizza", "bus", "red car", "two people")
N_PICTURES = 12


@pytest.fixture
def material(tmp_path: Path) -> Path:
    """Twelve pictures with two captions each."""
    folder = tmp_path / "material"
    (folder / "images").mkdir(parents=True)
    records = []
    for number in range(N_PICTURES):
        name = f"{number + 1:012d}.png"
        picture = io.BytesIO()
        Image.new("RGB", (8, 8), (number, 0, 0)).save(picture, "PNG")
        (folder / "images" / name).write_bytes(picture.getvalue())
        subject = SUBJECTS[number % len(SUBJECTS)]
        captions = [f"A {subject} on street {number}.", f"There is a {subject} by house {number}."]
        records.append({"image_id": number + 1, "file_name": name, "captions": captions})
    (folder / "captions.json").write_text(json.dumps(records))
    return folder


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts fake endpoints and points the environment at them."""
    made: list[FakeEndpoint] = []

    def start(**kwargs: Any) -> FakeEndpoint:
        made.append(FakeEndpoint(**kwargs))
        monkeypatch.setenv("OPENAI_API_URL", made[-1].url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        return made[-1]

    yield start
    for fake in made:
        fake.close()


def arguments(material: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(
        [
            *("--captions", str(material / "captions.json")),
            *("--images", str(material), "--out", str(out), "--pause", "0.01"),
            *("--timeout", "0.25", *more),
        ]
    )


OPENAI = ("--generator", "openai", "--model", "fake")


def files_of(folder: Path) -> dict[str, bytes]:
    names = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def test_rules_make_a_folder_that_is_sound(material: Path, tmp_path: Path) -> None:
    assert run(arguments(material, tmp_path / "out" / "clash")) == 0
    folder = load_folder(tmp_path / "out" / "clash", "clash")
    assert folder.kind == "custom"
    assert len(folder.rows) >= N_PICTURES
    assert folder.manifest["generator"]["name"] == "rules/1"


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(
    material: Path, tmp_path: Path
) -> None:
    made = []
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        run(arguments(material, tmp_path / name, "--seed", seed))
        made.append(files_of(tmp_path / name))
    assert made[0] == made[1]
    assert made[0]["samples.jsonl"] != made[2]["samples.jsonl"]


def test_n_takes_a_first_part_and_spreads_over_pictures(material: Path, tmp_path: Path) -> None:
    run(arguments(material, tmp_path / "some", "--n", "6"))
    run(arguments(material, tmp_path / "all"))
    some = load_folder(tmp_path / "some", "clash").rows
    assert len(some) == len({row["image_id"] for row in some}) == 6
    assert some == load_folder(tmp_path / "all", "clash").rows[:6]


def test_no_picture_gets_more_samples_than_allowed(material: Path, tmp_path: Path) -> None:
    run(arguments(material, tmp_path / "out", "--per-picture", "1"))
    ids = [row["image_id"] for row in load_folder(tmp_path / "out", "clash").rows]
    assert len(ids) == len(set(ids))


def test_missing_pictures_and_faulty_captions_are_counted(
    material: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (material / "images" / f"{1:012d}.png").unlink()
    records = json.loads((material / "captions.json").read_text())
    records[1]["captions"] = [7, "A dog on a street."]
    records[2]["image_id"] = 1.5e18
    records[3]["file_name"] = "../../secret.png"
    (material / "captions.json").write_text(json.dumps(records))
    run(arguments(material, tmp_path / "out", "--json"))
    report = json.loads(capsys.readouterr().out)
    assert report["missing_pictures"]["1"] == "is missing"
    assert report["missing_pictures"]["4"] == "is missing"
    assert len(report["faulty_captions"]) == 2
    assert report["n_rows"] == len(load_folder(tmp_path / "out", "clash").rows)


def test_captions_of_coco_are_read(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text(
        json.dumps(
            {
                "images": [{"id": 9, "file_name": "train2017/000000000009.jpg"}],
                "annotations": [
                    {"image_id": 9, "id": 1, "caption": "A dog. "},
                    {"image_id": 9, "id": 2, "caption": "A dog."},
                    {"image_id": 9, "id": 3, "caption": "A hound."},
                ],
            }
        )
    )
    pictures = read_captions(path)
    assert pictures.captions == {"9": ("A dog.", "A hound.")}
    assert pictures.files == {"9": "000000000009.jpg"}
    assert {source.key for source in sources(pictures, 0)} == {"9#0", "9#1"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_faulty_endpoint_yields_the_file_of_a_healthy_one(
    material: Path, tmp_path: Path, fakes: Any, seed: int
) -> None:
    healthy = fakes()
    run(arguments(material, tmp_path / "healthy", *OPENAI, "--n", "10"))
    faulty = fakes(seed=seed)
    args = arguments(
        material, tmp_path / "faulty", *OPENAI, "--n", "10", "--parallel", "3", "--tries", "6"
    )
    run(args)
    assert files_of(tmp_path / "faulty") == files_of(tmp_path / "healthy")
    assert faulty.faults, "the server behaved: the test shows nothing"
    assert len(healthy.prompts) == 30
    asked = Counter(healthy.prompts)
    for prompt, times in Counter(faulty.prompts).items():
        # A prompt that names a malformed reply is one of the faulty server only.
        assert times <= 6 * max(1, asked[prompt])


def test_every_kind_of_fault_is_met_and_survived(
    material: Path, tmp_path: Path, fakes: Any
) -> None:
    fakes()
    run(arguments(material, tmp_path / "healthy", *OPENAI))
    faulty = fakes(seed=5, rate=0.6)
    run(arguments(material, tmp_path / "faulty", *OPENAI, "--parallel", "8", "--tries", "9"))
    assert files_of(tmp_path / "faulty") == files_of(tmp_path / "healthy")
    kinds = set(faulty.faults)
    assert kinds >= {"429", "500", "time-out", "half a JSON", "apology"}


def test_parallel_requests_stay_within_the_limit(
    material: Path, tmp_path: Path, fakes: Any
) -> None:
    fake = fakes()
    run(arguments(material, tmp_path / "out", *OPENAI, "--parallel", "2", "--timeout", "5"))
    assert fake.peak <= 2


def test_a_malformed_reply_is_asked_for_once_more_and_then_dropped(
    material: Path, tmp_path: Path, fakes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fakes()
    usual, said = fake.reply, '"caption": "A dog on street 0."'
    fake.reply = lambda prompt: {"sorry": "no"} if said in prompt else usual(prompt)
    run(arguments(material, tmp_path / "out", *OPENAI, "--json"))
    report = json.loads(capsys.readouterr().out)
    assert report["dropped"] == {"change: malformed reply": 1}
    asked = [prompt for prompt in fake.prompts if said in prompt]
    assert len(asked) == 2
    assert "An earlier reply could not be used" in asked[1]


def test_a_reply_that_changes_two_words_is_dropped_by_its_rule(
    material: Path, tmp_path: Path, fakes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    records = json.loads((material / "captions.json").read_text())
    records[0]["captions"] = ["UNSOUND dog on a street."]
    (material / "captions.json").write_text(json.dumps(records))
    fakes()
    run(arguments(material, tmp_path / "out", *OPENAI, "--json"))
    assert json.loads(capsys.readouterr().out)["dropped"] == {"change: one_change": 1}


def test_a_revoked_key_stops_the_run_and_the_same_command_goes_on(
    material: Path, tmp_path: Path, fakes: Any
) -> None:
    fakes()
    run(arguments(material, tmp_path / "whole", *OPENAI))
    revoked = fakes(refuse_after=20)
    args = arguments(material, tmp_path / "out", *OPENAI)
    with pytest.raises(ValueError, match=r"HTTP 401: the key is refused; .* are kept") as caught:
        run(args)
    assert KEY not in str(caught.value)
    assert not (tmp_path / "out").exists()
    fresh = fakes()
    run(args)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    done = len(revoked.prompts) - 1
    assert len(fresh.prompts) < 3 * 2 * N_PICTURES
    assert len(fresh.prompts) + done >= 3 * 2 * N_PICTURES


def test_what_is_under_way_when_the_run_stops_is_kept(
    material: Path, tmp_path: Path, fakes: Any
) -> None:
    fake, usual, last_stage = fakes(), FakeEndpoint.reply, threading.Event()
    first, second = (source.caption for source in sources(read_captions(
        material / "captions.json"), 0)[:2])  # fmt: skip

    def reply(prompt: str) -> dict[str, Any]:
        if prompt.startswith("Task: answers"):
            last_stage.set()
            time.sleep(0.1)
        return usual(fake, prompt)

    def refuses(prompt: str) -> bool:
        return f'"caption": "{second}"' in prompt and last_stage.wait(5)

    fake.reply, fake.refuses = reply, refuses
    command = (*OPENAI, "--n", "2", "--parallel", "2", "--timeout", "9")
    with pytest.raises(ValueError, match="1 finished captions are kept"):
        run(arguments(material, tmp_path / "out", *command))
    rows = (tmp_path / "out.work" / "samples.jsonl").read_text()
    assert f'"original_caption": "{first}"' in rows


@pytest.mark.parametrize("generator", ["openai", "harness:openai"])
def test_the_key_is_neither_logged_nor_written(
    material: Path, tmp_path: Path, fakes: Any, capfd: pytest.CaptureFixture[str], generator: str
) -> None:
    fake = fakes(seed=3, rate=0.5)
    asked = ("--generator", generator, "--model", "fake")
    run(arguments(material, tmp_path / "out", *asked, "--tries", "9"))
    headers = {name.casefold(): value for name, value in fake.headers[0].items()}
    assert headers["authorization"] == f"Bearer {KEY}"
    printed = capfd.readouterr()
    assert KEY not in printed.out + printed.err
    for folder in (tmp_path / "out", tmp_path / "out.work"):
        assert all(KEY.encode() not in content for content in files_of(folder).values())


def test_a_full_disk_keeps_what_is_finished(
    material: Path, tmp_path: Path, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes()
    run(arguments(material, tmp_path / "whole", *OPENAI))
    put, written = Journal.put, []

    def full(self: Journal, key: str, value: Any) -> None:
        if len(written) >= 9:
            raise OSError(28, "No space left on device")
        written.append(key)
        put(self, key, value)

    monkeypatch.setattr(Journal, "put", full)
    with pytest.raises(ValueError, match=r"No space left on device; what is finished is kept"):
        run(arguments(material, tmp_path / "out", *OPENAI))
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(Journal, "put", put)
    again = fakes()
    run(arguments(material, tmp_path / "out", *OPENAI))
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert len(again.prompts) < 3 * 2 * N_PICTURES


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_stopped(material: Path, tmp_path: Path, fakes: Any) -> None:
    fakes()
    run(arguments(material, tmp_path / "whole", *OPENAI))
    slow = fakes(seed=1, rate=0.5)
    code = (
        "import argparse, sys; from pragclash.cli import data_clash_build;"
        "p = argparse.ArgumentParser(); data_clash_build.add_arguments(p);"
        "sys.exit(data_clash_build.run(p.parse_args(sys.argv[1:])))"
    )
    command = [
        *(sys.executable, "-c", code, "--captions", str(material / "captions.json")),
        *("--images", str(material), "--out", str(tmp_path / "out"), "--pause", "0.05"),
        *("--timeout", "0.25", "--tries", "9", "--parallel", "2", *OPENAI),
    ]
    process = subprocess.Popen(command, env=os.environ | {"OPENAI_API_URL": slow.url})
    journal = tmp_path / "out.work" / "samples.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (
        not journal.exists() or journal.read_bytes().count(b"\n") < 8
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    kept = journal.read_bytes().count(b"row")
    assert kept
    fresh = fakes()
    run(arguments(material, tmp_path / "out", *OPENAI))
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")
    assert len(fresh.prompts) <= 3 * (2 * N_PICTURES - kept)


def test_a_token_budget_is_never_overrun_and_a_larger_one_goes_on(
    material: Path, tmp_path: Path, fakes: Any
) -> None:
    fake = fakes()
    args = ("--max-tokens", "50", "--parallel", "4")
    with pytest.raises(ValueError, match="token budget of 2500 is used up"):
        run(arguments(material, tmp_path / "out", *OPENAI, *args, "--token-budget", "2500"))
    assert 0 < fake.tokens <= 2500
    run(arguments(material, tmp_path / "out", *OPENAI, *args, "--token-budget", "100000"))
    # A caption that was begun when the budget ended is begun again.
    assert len(fake.prompts) <= 3 * 2 * N_PICTURES + 3 * 4 * 4


def test_another_job_does_not_reuse_a_journal(material: Path, tmp_path: Path) -> None:
    run(arguments(material, tmp_path / "a", "--work", str(tmp_path / "work")))
    with pytest.raises(ValueError, match=r"other settings \(seed\)"):
        run(arguments(material, tmp_path / "b", "--work", str(tmp_path / "work"), "--seed", "3"))


def test_an_unreachable_endpoint_is_one_line(
    material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match=r"cannot be reached \(ConnectError\) \(2 tries\)"):
        run(arguments(material, tmp_path / "out", *OPENAI, "--tries", "2"))


def test_llm_checks_drop_a_sample_with_the_failed_check(
    material: Path, tmp_path: Path, fakes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = fakes()
    fake.verdict = "change_is_objective"
    run(arguments(material, tmp_path / "out", *OPENAI, "--llm-checks", "--json"))
    report = json.loads(capsys.readouterr().out)
    assert report["dropped"] == {"check: change_is_objective": 8}
    rows = load_folder(tmp_path / "out", "clash").rows
    assert {row["change_type"] for row in rows} == {"object"}


def test_harness_providers_generate_too(material: Path, tmp_path: Path, fakes: Any) -> None:
    fakes()
    run(arguments(material, tmp_path / "direct", *OPENAI, "--n", "3"))
    harness = ("--generator", "harness:openai", "--model", "fake")
    run(arguments(material, tmp_path / "harness", *harness, "--n", "3"))
    rows = [load_folder(tmp_path / name, "clash").rows for name in ("direct", "harness")]
    assert rows[0] == rows[1]


def test_only_accepted_samples_enter_a_test_set(
    material: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(arguments(material, tmp_path / "all", "--n", "5"))
    rows = load_folder(tmp_path / "all", "clash").rows
    votes = [
        {"sample_id": rows[0]["sample_id"], "annotator": "ann", "label": "accept"},
        {"sample_id": rows[1]["sample_id"], "annotator": "ann", "label": "accept"},
        {"sample_id": rows[1]["sample_id"], "annotator": "bob", "label": "reject"},
        {"sample_id": rows[2]["sample_id"], "annotator": "ann", "label": "reject"},
        {"sample_id": rows[2]["sample_id"], "annotator": "ann", "label": "accept"},
        {"sample_id": "elsewhere", "annotator": "ann", "label": "accept"},
    ]
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(f"{json.dumps(vote)}\n" for vote in votes))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    out = tmp_path / "test"
    command = ["--accepted", str(path), "--from", str(tmp_path / "all"), "--out", str(out)]
    capsys.readouterr()
    assert run(parser.parse_args([*command, "--json"])) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["votes"] == {"accepted": 2, "rejected": 1, "without": 2, "unknown": 1}
    assert load_folder(out, "clash").rows == [rows[0], rows[2]]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "is not JSON"),
        ('{"annotator": "a", "label": "accept"}', "has no sample_id"),
        ('{"sample_id": "x", "label": "maybe"}', "label must be accept or reject"),
    ],
)
def test_a_faulty_vote_is_named_by_its_line(
    material: Path, tmp_path: Path, line: str, why: str
) -> None:
    run(arguments(material, tmp_path / "all", "--n", "2"))
    path = tmp_path / "votes.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(ValueError, match=rf"votes.jsonl:2: .*{why}"):
        keep_accepted(tmp_path / "all", path, tmp_path / "out")


def test_qc_asks_a_judge_about_what_the_rules_leave(
    material: Path, tmp_path: Path, fakes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(arguments(material, tmp_path / "out", "--n", "6"))
    capsys.readouterr()
    fake = fakes(seed=2)
    fake.verdict = "answers_are_visible"
    parser = argparse.ArgumentParser()
    data_clash_qc.add_arguments(parser)
    command = [
        *(str(tmp_path / "out"), "--judge", "openai", "--model", "fake", "--json"),
        *("--work", str(tmp_path / "qc"), "--verdicts", str(tmp_path / "v.jsonl")),
        *("--pause", "0.01", "--timeout", "0.25", "--tries", "9"),
    ]
    assert data_clash_qc.run(parser.parse_args(command)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["accepted"] == 0
    assert {one["check"] for one in report["rejected"]} == {"answers_are_visible"}
    verdicts = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    names = [verdict["check"] for verdict in verdicts[0]["verdicts"]]
    assert names[-1] == "answers_are_visible"
    assert "change_is_object" in names or "change_is_attribute" in names
    assert not any(name.startswith("question_is") for name in names)
    asked = len(fake.prompts)
    assert data_clash_qc.run(parser.parse_args(command)) == 0
    assert len(fake.prompts) == asked, "verdicts on disk are not asked for again"


def test_pauses_grow_with_a_seeded_jitter_and_obey_the_server() -> None:
    def asker(seed: int) -> Asker:
        return Asker(lambda prompt, limit: Reply("", 1), Limits(), Budget(None), seed)

    pauses = [asker(0).pause("prompt", attempt) for attempt in range(1, 9)]
    for attempt, pause in enumerate(pauses[:6]):
        assert 2**attempt <= pause <= 1.25 * 2**attempt
    assert pauses[7] == Limits().max_pause_s
    assert pauses == [asker(0).pause("prompt", attempt) for attempt in range(1, 9)]
    assert pauses != [asker(1).pause("prompt", attempt) for attempt in range(1, 9)]
    assert asker(0).pause("prompt", 1, after=7.0) == 7.0
    assert asker(0).pause("prompt", 1, after=1e5) == 120.0


def test_a_budget_sets_aside_what_requests_in_flight_may_cost() -> None:
    budget = Budget(100)
    budget.hold(60)
    with pytest.raises(BudgetError):
        budget.hold(41)
    budget.settle(60, 10)
    budget.hold(90)
    assert budget.spent == 10


def test_a_stopped_run_sends_nothing_more() -> None:
    stop, sent = threading.Event(), []

    def send(prompt: str, limit: int) -> Reply:
        sent.append(prompt)
        stop.set()
        raise Passing("busy")

    with pytest.raises(EndpointError, match="stopped"):
        Asker(send, Limits(pause_s=30), Budget(None), stop=stop).ask("x")
    assert len(sent) == 1


@pytest.mark.parametrize("reply", ["", "{" * 50_000, "[" * 50_000, '{"a": ', "no", "1", "[{}"])
def test_replies_without_an_object_are_refused_in_bounded_time(reply: str) -> None:
    if reply == "[{}":
        assert json_object(reply) == {}
        return
    with pytest.raises(ValueError, match="no JSON object"):
        json_object(reply)


@pytest.mark.slow
def test_rules_make_sixty_samples_of_the_photographs_in_a_minute(
    shared: Path, tmp_path: Path
) -> None:
    start = time.monotonic()
    photos = shared / "photos"
    settings = Settings("rules", None, 0, None, 3, False)
    report = build(photos / "photos.json", photos, tmp_path / "out", tmp_path / "work", settings)
    assert report["n_rows"] >= 60
    assert time.monotonic() - start < 60


def test_a_picture_without_a_file_name_is_looked_for_by_its_id(tmp_path):
    (tmp_path / "captions.json").write_text('[{"image_id": "fire", "captions": ["A red bus."]}]')
    (tmp_path / "fire.png").write_bytes(b"x")
    pictures = read_captions(tmp_path / "captions.json")
    assert find_picture(tmp_path, pictures.files["fire"]) == tmp_path / "fire.png"


@pytest.mark.parametrize(
    "reply",
    [
        '<think>{"question": "no"} or {maybe}</think>{"question": "What?"}',
        "<think>" + "{" * 50 + '</think>Here: {"question": "What?"}',
        'so {"question": "no"}</think>\n{"question": "What?"}',
    ],
)
def test_braces_in_a_models_reasoning_are_not_its_reply(reply: str) -> None:
    assert json_object(reply) == {"question": "What?"}
