"""Which requests are one inference, and in which order they run."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from model_wrappers.verdict.requests import Job, is_sampled, picture_digest, plan, reason, wanted
from tests.model_wrappers.tiny import FakeTasks, captions_of, grey, picture

PICTURES = [picture(1, 8, 8), picture(2, 8, 8), None]
DOCS = captions_of(PICTURES, 3)
TASKS = FakeTasks({"pml": DOCS, "pm": DOCS[:4], "p": DOCS[2:5]})


@pytest.mark.parametrize("simple", [True, False])
@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_any_order_gives_the_same_jobs_and_every_request_one(
    simple: bool, rng: random.Random
) -> None:
    requests = TASKS.requests(simple=simple)
    rng.shuffle(requests)
    jobs = plan(requests, TASKS.task_dict, simple=simple)
    assert sorted(asker for job in jobs for asker in job.askers) == list(range(len(requests)))
    assert len(jobs) == len(DOCS)
    for job in jobs:
        docs = {
            (id(doc["image"]), doc["prompt"])
            for asker in job.askers
            for doc in [_doc(requests[asker])]
        }
        assert len(docs) == 1
    runs = [job.pictures for job in jobs]
    changes = sum(a != b for a, b in itertools.pairwise(runs))
    assert changes == len(set(runs)) - 1
    assert runs[-1] == ()


def _doc(request: object) -> dict[str, object]:
    metadata = request.metadata
    return TASKS.task_dict[metadata["task"]][metadata["split"]][metadata["doc_id"]]


def test_equal_content_is_one_picture_whatever_the_object() -> None:
    prompt = "the same words"
    docs = [{"image": picture(4), "prompt": prompt}, {"image": picture(4), "prompt": prompt}]
    tasks = FakeTasks({"a": docs})
    (job,) = plan(tasks.requests(simple=False), tasks.task_dict, simple=False)
    assert job.askers == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (grey(4, 2), grey(2, 4)),
        (grey(4, 2), grey(4, 2).convert("L")),
        (Image.new("RGB", (2, 2), "red"), Image.new("RGB", (2, 2), "blue")),
    ],
)
def test_other_content_size_or_mode_is_another_picture(
    one: Image.Image, other: Image.Image
) -> None:
    assert picture_digest(one) != picture_digest(other)


def test_palettes_are_content() -> None:
    one = Image.new("P", (2, 2), 0)
    other = one.copy()
    one.putpalette([255, 0, 0])
    other.putpalette([0, 0, 255])
    assert picture_digest(one) != picture_digest(other)


def test_other_generation_arguments_are_another_inference() -> None:
    first = TASKS.requests(simple=False)[0]
    second = TASKS.requests(simple=False, gen_kwargs={"max_new_tokens": 9})[0]
    assert len(plan([first, second], TASKS.task_dict, simple=False)) == 2


def test_sampled_requests_stay_apart() -> None:
    assert is_sampled({"do_sample": True})
    assert is_sampled({"temperature": 0.5})
    assert not is_sampled({"temperature": 0, "do_sample": False})
    sampled = [TASKS.requests(simple=False, gen_kwargs={"temperature": 0.5})[0]] * 2
    assert len(plan(sampled, TASKS.task_dict, simple=False)) == 2


def test_a_medium_that_cannot_be_seen_is_never_merged() -> None:
    docs = [{"image": "clip.mp4", "prompt": "x"}, {"image": "clip.mp4", "prompt": "x"}]
    tasks = FakeTasks({"a": docs})
    for simple in (True, False):
        jobs = plan(tasks.requests(simple=simple), tasks.task_dict, simple=simple)
        assert len(jobs) == 2
        assert all(job.pictures for job in jobs)


def test_a_document_that_cannot_be_read_is_a_job_with_an_error() -> None:
    tasks = FakeTasks({"a": [{"prompt": "no image"}]})
    (job,) = plan(tasks.requests(simple=True), tasks.task_dict, simple=True)
    assert isinstance(job.error, KeyError)
    assert "\n" not in reason(ValueError("two\nlines"))
    assert len(reason(ValueError("x" * 9999))) <= 300


def test_the_prompts_text_is_kept_apart_from_its_form() -> None:
    jobs = plan(TASKS.requests(simple=False)[:1], TASKS.task_dict, simple=False)
    assert jobs[0].text == DOCS[0]["prompt"]
    assert '"role": "user"' in jobs[0].prompt


def test_each_reading_of_a_job_is_wanted_once() -> None:
    job = Job(None, [0, 2, 3])
    assert wanted(job, ["a", "b", None, "a"]) == ["a"]
