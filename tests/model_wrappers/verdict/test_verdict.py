"""`verdict` over the four architectures: the stock backend's words, the full pass's scores."""

from __future__ import annotations

import gc
import json
import math
import os
import random
import re
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from lmms_eval.api.model import lmms

from model_wrappers.verdict import prefix
from model_wrappers.verdict.reading import ReadingRule
from model_wrappers.verdict.wrapper import VerdictModel
from postprocess.response.line import is_failed, read_response
from tests.model_wrappers.reference import (
    YES,
    check_scores,
    run_and_check,
    set_logp,
    stock,
    wrapped,
)
from tests.model_wrappers.tiny import (
    BUILDERS,
    FakeTasks,
    TinyModels,
    captions_of,
    grey,
    messages_of,
    picture,
    prompts,
    tiny_models,
)

__all__ = ["tiny_models"]

BACKENDS = sorted(BUILDERS)
CHAT = ["internvl_hf", "llava_hf", "qwen2_5_vl"]


def mixed_tasks(seed: int = 0, **metadata: Any) -> tuple[FakeTasks, list[Any]]:
    """Two tasks that share requests, pictures of three sizes and prompts without one, shuffled."""
    pictures = [picture(1), picture(2, 84, 56), picture(3, 56, 112), None]
    docs = captions_of(pictures, 3)
    tasks = FakeTasks({"pml": docs, "pm": [docs[0], docs[4], docs[10]]}, **metadata)
    return tasks, random.Random(seed).sample(range(len(docs) + 3), len(docs) + 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_words_and_scores_are_those_of_the_stock_backend(
    backend: str, tiny_models: TinyModels
) -> None:
    tasks, order = mixed_tasks()
    requests = tasks.requests(simple=backend == "idefics2")
    lm = run_and_check(backend, tiny_models, tasks, [requests[at] for at in order])
    notes = lm.run_notes()
    assert notes["counts"]["duplicates"] == 3
    assert notes["picture_prefills"] == 3
    assert notes["paths"] == {"reused": 6, "prefilled": 3, "plain": 0, "text_only": 3}
    assert notes["retried"] == notes["counts"]["failed"] == 0
    # Random weights put next to nothing on Yes and No: seen and counted, not hidden.
    assert notes["low_mass_rate"] == 1.0
    assert notes["dtype"] == "float32"


def test_the_simple_form_of_qwen_has_the_same_scores(tiny_models: TinyModels) -> None:
    tasks, order = mixed_tasks()
    requests = tasks.requests(simple=True)
    lm = run_and_check(
        "qwen2_5_vl", tiny_models, tasks, [requests[at] for at in order], simple=True
    )
    assert lm.is_simple
    assert lm.run_notes()["picture_prefills"] == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_the_prefix_cache_the_scores_are_the_same(
    backend: str, tiny_models: TinyModels
) -> None:
    tasks, _ = mixed_tasks()
    requests = tasks.requests(simple=backend == "idefics2")[::2]
    lm = run_and_check(backend, tiny_models, tasks, requests, prefix_cache="false")
    assert lm.run_notes()["paths"]["reused"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_corrupted_prefix_does_not_pass_the_comparison(
    backend: str, tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = prefix.Prefixes.keep

    def corrupt(self: Any, model: Any, lease: Any) -> None:
        for layer in lease.cache.layers:
            layer.values[..., :8, :] += 0.5
        keep(self, model, lease)

    monkeypatch.setattr(prefix.Prefixes, "keep", corrupt)
    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    requests = tasks.requests(simple=backend == "idefics2")
    with pytest.raises(AssertionError):
        run_and_check(backend, tiny_models, tasks, requests)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_odd_limit_and_two_ranks_change_no_answer(backend: str, tiny_models: TinyModels) -> None:
    tasks, _ = mixed_tasks()
    simple = backend == "idefics2"
    lm = wrapped(backend, tiny_models(backend))
    lm.task_dict = tasks.task_dict
    whole = [r.text for r in lm.generate_until(tasks.requests(simple=simple))]
    limited = [r.text for r in lm.generate_until(tasks.requests(simple=simple)[:7])]
    assert _close(whole[:7], limited)
    for rank in (0, 1):
        other = wrapped(backend, tiny_models(backend))
        other.task_dict = tasks.task_dict
        other._rank, other._world_size = rank, 2
        part = other.generate_until(tasks.requests(simple=simple)[rank::2])
        assert _close(whole[rank::2], [r.text for r in part])
        assert other.run_notes()["rank"] == rank


def _close(first: list[str], second: list[str]) -> bool:
    """Whether answers have the same words, and scores that differ by no more than rounding."""
    for one, other in zip(first, second, strict=True):
        a, b = read_response(one), read_response(other)
        assert a.text == b.text
        assert a.choices == pytest.approx(b.choices, abs=1e-4)
        assert a.details == b.details
    return True


def test_equal_pixels_in_another_grid_are_another_picture(tiny_models: TinyModels) -> None:
    docs = [
        {"image": grey(w, h), "prompt": p}
        for p in prompts(2)
        for w, h in ((56, 112), (112, 56))
    ]  # fmt: skip
    tasks = FakeTasks({"pm": docs})
    lm = run_and_check("qwen2_5_vl", tiny_models, tasks, tasks.requests(simple=False))
    assert lm.run_notes()["picture_prefills"] == 2
    assert lm.run_notes()["counts"]["duplicates"] == 0


def test_a_prompt_that_differs_before_its_picture_shares_nothing(tiny_models: TinyModels) -> None:
    image = picture(5)
    docs = [{"image": image, "prompt": p, "text_first": True} for p in prompts(3)]
    tasks = FakeTasks({"pm": docs})
    requests = tasks.requests(simple=False)
    for request in requests:
        _, _, *rest = request.args
        request.arguments = ("", text_before_picture, *rest)
    lm = run_and_check("llava_hf", tiny_models, tasks, requests)
    assert lm.run_notes()["paths"]["reused"] == 0


def text_before_picture(doc: dict[str, Any]) -> list[dict[str, Any]]:
    (turn,) = messages_of(doc)
    return [{**turn, "content": turn["content"][::-1]}]


def test_sliding_windows_shorter_than_the_prompt_are_shared_right(tiny_models: TinyModels) -> None:
    folder = tiny_models("idefics2", window=8)
    tasks = FakeTasks({"pm": captions_of([picture(1)], 3)})
    lm = wrapped("idefics2", folder)
    lm.task_dict = tasks.task_dict
    requests = tasks.requests(simple=True)
    results = lm.generate_until(requests)
    check_scores(stock("idefics2", folder), tasks, requests, results)
    assert lm.run_notes()["paths"]["reused"] == 2


def test_a_cache_that_cannot_be_cropped_costs_time_and_no_answer(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, length: int) -> None:
        raise ValueError("cannot crop")

    monkeypatch.setattr(prefix.DynamicCache, "crop", refuse)
    tasks = FakeTasks({"pm": captions_of([picture(1)], 3)})
    lm = run_and_check("llava_hf", tiny_models, tasks, tasks.requests(simple=False))
    notes = lm.run_notes()
    assert notes["paths"]["reused"] == 0
    assert notes["counts"]["failed"] == 0
    assert "ValueError: cannot crop" in notes["not_shared_because"]


def test_a_repetition_penalty_moves_no_score_and_is_recorded(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_models("qwen2_5_vl")
    tasks = FakeTasks({"pm": captions_of([picture(1)], 3)})
    lm, plain = wrapped("qwen2_5_vl", folder), stock("qwen2_5_vl", folder)
    for model in (lm.model, plain.model):
        model.generation_config.repetition_penalty = 1.3
    lm.task_dict = tasks.task_dict
    requests = tasks.requests(simple=False)
    results = lm.generate_until(requests)
    check_scores(plain, tasks, requests, results)
    assert read_response(results[0].text).details["repetition_penalty"] == 1.3


@pytest.mark.parametrize("backend", ["qwen2_5_vl", "idefics2"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_a_batch_get_their_own_scores(
    backend: str, side: str, tiny_models: TinyModels
) -> None:
    tasks, order = mixed_tasks()
    requests = tasks.requests(simple=backend == "idefics2")
    lm = wrapped(backend, tiny_models(backend), prefix_cache="false", batch_size=4)
    lm.tokenizer.padding_side = side
    lm.task_dict = tasks.task_dict
    shuffled = [requests[at] for at in order]
    results = lm.generate_until(shuffled)
    check_scores(stock(backend, tiny_models(backend)), tasks, shuffled, results)
    # Qwen's backend pads on the left by itself; Idefics2's is found out and run row by row.
    assert lm.runner.batches == (backend == "qwen2_5_vl" or side == "left")
    assert sum(lm.run_notes()["paths"].values()) < 12


@pytest.mark.parametrize("backend", ["llava_hf", "internvl_hf", "qwen2_5_vl", "idefics2"])
def test_an_error_in_generation_is_retried_and_then_a_failure(
    backend: str, tiny_models: TinyModels
) -> None:
    tasks = FakeTasks({"pm": captions_of([picture(1), picture(2)], 2)})
    lm = wrapped(backend, tiny_models(backend))
    lm.task_dict = tasks.task_dict
    requests = tasks.requests(simple=backend == "idefics2")
    expected = [r.text for r in lm.generate_until(requests)]

    with failing(lm, "seeded fault", times=1):
        assert _close(expected, [r.text for r in lm.generate_until(requests)])
    with failing(lm, "seeded fault", times=10**6):
        failed = lm.generate_until(requests)
    assert all(is_failed(r.text) for r in failed)
    assert all("RuntimeError: seeded fault" in r.text for r in failed)
    assert lm.run_notes()["counts"]["failed"] == 4
    assert _close(expected, [r.text for r in lm.generate_until(requests)])


class failing:
    """Let a model's head raise, or change what it gives."""

    def __init__(
        self, lm: VerdictModel, error: str | None = None, *, times: int, change: Any = None
    ):
        self.module = lm.model.lm_head
        self.error, self.left, self.change = error, times, change

    def __enter__(self) -> failing:
        self.hook = self.module.register_forward_hook(self._hook)
        return self

    def __exit__(self, *exception: Any) -> None:
        self.hook.remove()

    def _hook(self, module: Any, args: Any, output: torch.Tensor) -> Any:
        if self.left <= 0:
            return output
        self.left -= 1
        if self.error is not None:
            raise RuntimeError(self.error)
        return self.change(output)


def test_running_out_of_memory_says_what_to_set(tiny_models: TinyModels) -> None:
    tasks = FakeTasks({"pm": captions_of([picture(1)], 1)})
    lm = wrapped("llava_hf", tiny_models("llava_hf"))
    lm.task_dict = tasks.task_dict
    with failing(lm, "CUDA out of memory. Tried to allocate 2 GiB", times=10**6):
        (result,) = lm.generate_until(tasks.requests(simple=False))
    assert is_failed(result.text)
    assert "profile=t4" in result.text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_not_finite_are_a_failure(value: float, tiny_models: TinyModels) -> None:
    def spoil(output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        output[..., -1, 7] = value
        return output

    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    lm = wrapped("qwen2_5_vl", tiny_models("qwen2_5_vl"))
    lm.task_dict = tasks.task_dict
    requests = tasks.requests(simple=False)
    with failing(lm, times=10**6, change=spoil):
        results = lm.generate_until(requests)
    assert all("NotFiniteError" in r.text and is_failed(r.text) for r in results)
    other = FakeTasks({"other": tasks.task_dict["pm"]["test"]}, choices=None)
    lm.task_dict = other.task_dict
    with failing(lm, times=10**6, change=spoil):
        results = lm.generate_until(other.requests(simple=False))
    assert all("NotFiniteError" in r.text for r in results)
    lm.task_dict = tasks.task_dict
    with failing(lm, times=1, change=spoil):
        results = lm.generate_until(requests)
    assert not any(is_failed(r.text) for r in results)
    assert lm.run_notes()["retried"] == 5


def test_a_tie_of_yes_and_no_keeps_both_and_scores_zero(tiny_models: TinyModels) -> None:
    tasks = FakeTasks({"pm": captions_of([picture(1)], 1)})
    lm = wrapped("llava_hf", tiny_models("llava_hf"))
    lm.task_dict = tasks.task_dict
    ids = lm.runner.reader.token_ids(ReadingRule.of(tasks.metadata))

    def tie(output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        for tokens in ids.values():
            output[..., tokens] = 30.0 - math.log(len(tokens))
        return output

    with failing(lm, times=10**6, change=tie):
        (result,) = lm.generate_until(tasks.requests(simple=False))
    response = read_response(result.text)
    assert response.text.split()[0].lower() in ("yes", "no")
    assert response.choices["Yes"] == pytest.approx(response.choices["No"], abs=1e-6)
    assert lm.run_notes()["low_mass_rate"] == 0.0


def test_half_precision_moves_scores_within_the_stated_tolerance(tiny_models: TinyModels) -> None:
    tasks = FakeTasks({"pm": captions_of([picture(1), picture(2)], 3)})
    answers = []
    for share in ("true", "false"):
        lm = VerdictModel.create_from_arg_string(
            f"backend=qwen2_5_vl,pretrained={tiny_models('qwen2_5_vl')},device=cpu,"
            f"device_map=cpu,min_pixels=784,max_pixels=3136,prefix_cache={share}"
        )
        lm.task_dict = tasks.task_dict
        answers.append(
            [read_response(r.text) for r in lm.generate_until(tasks.requests(simple=False))]
        )
        assert lm.run_notes()["dtype"] == "bfloat16"
    for shared, plain in zip(*answers, strict=True):
        if shared.step == plain.step == 0:
            assert shared.choices == pytest.approx(plain.choices, abs=0.1)


def test_a_swallowed_error_before_generation_is_found(tiny_models: TinyModels) -> None:
    # A tokenizer emits a key that the model does not know: the stock backend answers "".
    folder = tiny_models("llava_hf")
    tasks = FakeTasks({"pm": captions_of([picture(1)], 1)})
    plain = stock("llava_hf", folder)
    plain.tokenizer.model_input_names.append("token_type_ids")
    plain.task_dict = tasks.task_dict
    assert plain.generate_until(tasks.requests(simple=False))[0].text == ""
    lm = wrapped("llava_hf", folder)
    lm.tokenizer.model_input_names.append("token_type_ids")
    lm.task_dict = tasks.task_dict
    (result,) = lm.generate_until(tasks.requests(simple=False))
    assert is_failed(result.text)
    assert "token_type_ids" in result.text


def test_a_prompt_lost_on_the_way_is_a_failure(tiny_models: TinyModels) -> None:
    # A chat template for lists of parts, given a string: what is left is the picture's place.
    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    lm = wrapped("llava_hf", tiny_models("llava_hf"), simple=True)
    lm.backend.tokenizer.chat_template = (
        "{% for m in messages %}<image>{% for c in m['content'] %}{{ c.text }}{% endfor %}"
        "{% endfor %} ASSISTANT:"
    )
    lm.task_dict = tasks.task_dict
    for result in lm.generate_until(tasks.requests(simple=True)):
        assert is_failed(result.text)
        assert "do not hold the prompt" in result.text


def test_the_simple_form_of_llava_answers_without_a_picture(tiny_models: TinyModels) -> None:
    tasks, order = mixed_tasks()
    requests = tasks.requests(simple=True)
    shuffled = [requests[at] for at in order]
    lm = run_and_check("llava_hf", tiny_models, tasks, shuffled, simple=True)
    assert lm.run_notes()["paths"]["text_only"] == 3
    assert lm.run_notes()["counts"]["failed"] == 0


def test_sampled_answers_are_each_drawn(tiny_models: TinyModels) -> None:
    doc = captions_of([picture(1)], 1)[0]
    tasks = FakeTasks({"pm": [doc, doc, doc]})
    lm = wrapped("qwen2_5_vl", tiny_models("qwen2_5_vl"))
    lm.task_dict = tasks.task_dict
    kwargs = {"max_new_tokens": 4, "temperature": 1.0, "do_sample": True}
    lm.generate_until(tasks.requests(simple=False, gen_kwargs=kwargs))
    assert lm.run_notes()["counts"]["duplicates"] == 0
    lm.generate_until(tasks.requests(simple=False))
    assert lm.run_notes()["counts"]["duplicates"] == 2


def test_other_tasks_get_the_backends_answer_and_no_line(tiny_models: TinyModels) -> None:
    folder = tiny_models("qwen2_5_vl")
    tasks = FakeTasks({"other": captions_of([picture(1)], 2)}, choices=None)
    plain, lm = stock("qwen2_5_vl", folder), wrapped("qwen2_5_vl", folder)
    plain.task_dict = lm.task_dict = tasks.task_dict
    kwargs = {"max_new_tokens": 4, "until": ["\n\n"]}
    expected = plain.generate_until(tasks.requests(simple=False, gen_kwargs=kwargs))
    results = lm.generate_until(tasks.requests(simple=False, gen_kwargs=kwargs))
    assert [r.text for r in results] == [r.text for r in expected]


def test_an_unreadable_document_fails_alone(tiny_models: TinyModels) -> None:
    docs = captions_of([picture(1)], 2)
    tasks = FakeTasks({"pm": [docs[0], {"prompt": "no image key"}, docs[1]]})
    lm = wrapped("llava_hf", tiny_models("llava_hf"))
    lm.task_dict = tasks.task_dict
    results = lm.generate_until(tasks.requests(simple=False))
    assert [is_failed(r.text) for r in results] == [False, True, False]
    assert "KeyError" in results[1].text


def test_nothing_is_held_after_clean(tiny_models: TinyModels) -> None:
    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    lm = wrapped("llava_hf", tiny_models("llava_hf"))
    lm.task_dict = tasks.task_dict
    lm.generate_until(tasks.requests(simple=False))
    model = weakref.ref(lm.model)
    lm.clean()
    gc.collect()
    assert model() is None
    assert lm.run_notes()["paths"]["reused"] == 1


def test_two_tasks_share_an_inference_and_read_it_their_own_way(tiny_models: TinyModels) -> None:
    doc = captions_of([picture(1)], 1)[0]
    tasks = FakeTasks({"yes": [doc], "letters": [doc]})
    lm = wrapped("qwen2_5_vl", tiny_models("qwen2_5_vl"))
    lm.task_dict = tasks.task_dict
    first, second = tasks.requests(simple=False)
    second.metadata["choices"] = {letter: [letter] for letter in "ABCD"}
    results = lm.generate_until([first, second])
    assert set(read_response(results[0].text).choices) == {"Yes", "No"}
    assert set(read_response(results[1].text).choices) == set("ABCD")
    assert sum(lm.run_notes()["paths"].values()) == 1


def test_a_tokenizer_without_the_words_gives_answers_without_scores(
    tiny_models: TinyModels,
) -> None:
    tasks = FakeTasks({"pm": captions_of([picture(1)], 1)}, choices={"Y": ["Sarcastically"]})
    lm = wrapped("qwen2_5_vl", tiny_models("qwen2_5_vl"))
    lm.task_dict = tasks.task_dict
    (result,) = lm.generate_until(tasks.requests(simple=False))
    response = read_response(result.text)
    assert response.choices is None
    assert response.finish in ("stop", "length")
    assert "Sarcastically" in lm.run_notes()["unscorable"][0]


def test_the_backend_and_the_options_are_named_in_errors() -> None:
    with pytest.raises(ValueError, match="needs the backend"):
        VerdictModel.create_from_arg_string("pretrained=x")
    with pytest.raises(ValueError, match="cannot wrap itself"):
        VerdictModel.create_from_arg_string("backend=verdict")
    with pytest.raises(ValueError, match="true or false"):
        VerdictModel.create_from_arg_string("backend=llava_hf,prefix_cache=maybe")


def test_what_a_run_took_stands_in_one_line(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loguru import logger

    tasks, _ = mixed_tasks()
    lm = wrapped("llava_hf", tiny_models("llava_hf"))
    lm.task_dict = tasks.task_dict
    lines: list[str] = []
    handle = logger.add(lambda message: lines.append(str(message)), level="INFO")
    lm.generate_until(tasks.requests(simple=False))
    logger.remove(handle)
    assert any(
        "15 requests, 3 of them answered by another's inference; 6 reused, 3 prefilled, 0 plain, "
        "3 text_only; 3 picture prefills for 3 pictures; 0 failed" in line
        for line in lines
    )


@pytest.mark.parametrize("kwargs", [{"num_beams": 2}, {"num_beams": 3, "max_new_tokens": 2}])
def test_beams_answer_as_the_backend_does_and_have_no_score(
    kwargs: dict[str, Any], tiny_models: TinyModels
) -> None:
    folder = tiny_models("qwen2_5_vl")
    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    kwargs = {"max_new_tokens": 4, "temperature": 0, **kwargs}
    plain, lm = stock("qwen2_5_vl", folder), wrapped("qwen2_5_vl", folder)
    plain.task_dict = lm.task_dict = tasks.task_dict
    expected = plain.generate_until(tasks.requests(simple=False, gen_kwargs=kwargs))
    results = lm.generate_until(tasks.requests(simple=False, gen_kwargs=kwargs))
    for one, other in zip(expected, results, strict=True):
        assert read_response(other.text).text == one.text
        assert read_response(other.text).choices is None


class OuterModel(torch.nn.Module):
    """A model that hands `generate` on to its language model, with embeddings, as some do."""

    def __init__(self, inner: Any, *, tapped: bool) -> None:
        super().__init__()
        self.language_model = inner
        self.config, self.generation_config = inner.config, inner.generation_config
        self.dtype, self.device = inner.dtype, inner.device
        if tapped:
            self._get_logits_processor = inner._get_logits_processor

    def generate(self, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        embeddings = self.language_model.get_input_embeddings()(input_ids)
        return self.language_model.generate(inputs_embeds=embeddings, **kwargs)


class OuterBackend(lmms):
    """A simple backend around it."""

    batch_size = 1

    def __init__(self, processor: Any, model: Any) -> None:
        super().__init__()
        self.tokenizer, self.model = processor, model

    def generate_until(self, requests: list[Any]) -> list[str]:
        out = []
        for request in requests:
            context, kwargs, *_ = request.args
            ids = self.tokenizer(context, return_tensors="pt").input_ids
            written = self.model.generate(
                ids, max_new_tokens=kwargs["max_new_tokens"], do_sample=False
            )
            out.append(self.tokenizer.decode(written[0], skip_special_tokens=True))
        return out

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        raise NotImplementedError

    generate_until_multi_round = loglikelihood


@pytest.mark.parametrize("tapped", [True, False])
def test_a_model_that_hands_the_call_on_is_read_as_well(
    tapped: bool, tiny_models: TinyModels
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = stock("llava_hf", tiny_models("llava_hf")).tokenizer
    torch.manual_seed(3)
    inner = LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64,
                    num_hidden_layers=2, num_attention_heads=4, initializer_range=0.2)
    ).eval()  # fmt: skip
    lm = VerdictModel(OuterBackend(tokenizer, OuterModel(inner, tapped=tapped)))
    tasks = FakeTasks({"pm": captions_of([picture(1)], 2)})
    lm.task_dict = tasks.task_dict
    for result, doc in zip(
        lm.generate_until(tasks.requests(simple=True)), tasks.task_dict["pm"]["test"], strict=True
    ):
        response = read_response(result.text)
        ids = tokenizer(doc["prompt"], return_tensors="pt").input_ids
        with torch.no_grad():
            row = inner(ids).logits[0, -1].double().log_softmax(-1)
        assert response.step == 0
        assert response.choices["Yes"] == pytest.approx(set_logp(tokenizer, row, YES), abs=1e-4)
    assert lm.run_notes()["paths"]["reused"] == 0


def test_a_backend_without_a_model_to_tap_is_refused() -> None:
    with pytest.raises(TypeError, match="neither a transformers model"):
        VerdictModel(OuterBackend(None, None))


def test_settings_of_weights_are_refused_for_a_server() -> None:
    with pytest.raises(ValueError, match="has a server do that"):
        VerdictModel.create_from_arg_string("backend=openai,model=x,api_key=x,profile=a100")


def evaluated(folder: Any, out: Path, *, processes: int = 1) -> tuple[dict[Any, Any], str]:
    """Three tasks of the sample by the command line: records by task and sample, and the log."""
    arguments = [
        "-m", "pragclash.harness.launcher", "--model", "verdict",
        "--model_args", f"backend=llava_hf,pretrained={folder},device=cpu,device_map=cpu",
        "--tasks", "pragmatch_pml,pragmatch_pm,pragmatch_pm_text_only",
        "--output_path", str(out), "--log_samples",
    ]  # fmt: skip
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--nproc_per_node", str(processes)]
        launcher += ["--master_port", "29561"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("PRAGCLASH_DATA", None)
    run = subprocess.run(
        [*launcher, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    records = {}
    for path in out.rglob("*_samples_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)["accuracy"]
            records[record["task"], record["sample_id"]] = record
    (results,) = out.rglob("*_results.json")
    notes = json.loads(results.read_text(encoding="utf-8"))["config"]["pragclash"]
    assert notes["dtype"] == "float32"
    return records, run.stdout


@pytest.mark.slow
def test_the_command_line_and_two_processes_give_one_result(
    tiny_models: TinyModels, tmp_path: Path
) -> None:
    folder = tiny_models("llava_hf")
    one, log = evaluated(folder, tmp_path / "one")
    pictures = len({record["image_id"] for record in one.values()})
    assert f"{pictures} picture prefills for {pictures} pictures; 0 failed" in log
    for metric in ("auroc", "pair_ranking"):
        assert re.search(rf"\|{metric} +\|↑ +\| *[\d.]+\|", log)
    two, log = evaluated(folder, tmp_path / "two", processes=2)
    assert set(re.findall(r"verdict rank (\d) of 2", log)) == {"0", "1"}
    assert two.keys() == one.keys()
    for key, record in one.items():
        assert two[key]["response"] == record["response"]
        assert two[key]["s"] == pytest.approx(record["s"], abs=1e-4)
