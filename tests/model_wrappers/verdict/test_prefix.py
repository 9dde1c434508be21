"""When a prefix may be shared, and what a kept one is keyed by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache

from model_wrappers.verdict import intercept, prefix
from model_wrappers.verdict.intercept import Interceptor
from model_wrappers.verdict.prefix import Prefixes, common_prefix, has_picture, picture_key, refusal
from tests.model_wrappers.reference import stock, stock_pass
from tests.model_wrappers.tiny import FakeTasks, TinyModels, captions_of, picture, tiny_models

__all__ = ["tiny_models"]

IMAGE = 99


class Model:
    """As much of a model as the guards look at."""

    def __init__(self, **settings: Any) -> None:
        self.config = SimpleNamespace(image_token_id=IMAGE, is_encoder_decoder=False)
        self.generation_config = SimpleNamespace(**settings)

    def _supports_default_dynamic_cache(self) -> bool:
        return True

    def modules(self) -> list[Any]:
        return []


def call(ids: list[int], **more: Any) -> dict[str, Any]:
    row = torch.tensor([ids])
    return {
        "input_ids": row,
        "attention_mask": torch.ones_like(row),
        "pixel_values": torch.ones(1, 3, 4, 4),
        **more,
    }


PLAIN_CALL = call([1, IMAGE, IMAGE, 2, 3])


def test_an_ordinary_call_is_not_refused() -> None:
    assert refusal(Model(), (), PLAIN_CALL) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"input_ids": None}, "input_ids"),
        ({"inputs_embeds": torch.ones(1, 5, 8)}, "input_ids"),
        ({"input_ids": torch.ones(2, 5, dtype=torch.long)}, "more than one row"),
        ({"attention_mask": torch.tensor([[0, 1, 1, 1, 1]])}, "padded"),
        ({"attention_mask": torch.tensor([[1, 1, 1, 1, 0]])}, "padded"),
        ({"past_key_values": object()}, "cache of its own"),
        ({"num_beams": 2}, "beams"),
        ({"assistant_model": object()}, "assisted"),
        ({"num_return_sequences": 2}, "several answers"),
        ({"use_cache": False}, "use_cache"),
        ({"cache_implementation": "static"}, "cache_implementation"),
        ({"prefill_chunk_size": 64}, "prefill_chunk_size"),
        ({"prompt_lookup_num_tokens": 3}, "prompt_lookup"),
        ({"token_type_ids": torch.zeros(1, 5, dtype=torch.long)}, "single tokens"),
        ({"position_ids": torch.zeros(3, 1, 5, dtype=torch.long)}, "single tokens"),
    ],
)
def test_each_guard_refuses(changed: dict[str, Any], why: str) -> None:
    reason = refusal(Model(), (), {**PLAIN_CALL, **changed})
    assert reason is not None
    assert why in reason


@pytest.mark.parametrize(
    ("settings", "why"), [({"num_beams": 4}, "beams"), ({"use_cache": False}, "use_cache"),
                          ({"cache_implementation": "hybrid"}, "cache_implementation")]
)  # fmt: skip
def test_the_models_own_generation_settings_are_guarded_too(
    settings: dict[str, Any], why: str
) -> None:
    assert why in str(refusal(Model(**settings), (), PLAIN_CALL))


def test_positional_prompts_and_unknown_picture_tokens_are_refused() -> None:
    assert refusal(Model(), (torch.ones(1, 5),), {}) is not None
    model = Model()
    model.config = SimpleNamespace(is_encoder_decoder=False)
    assert "picture token" in str(refusal(model, (), PLAIN_CALL))


@pytest.mark.parametrize(
    "changed",
    [
        {"pixel_values": torch.zeros(1, 3, 4, 4)},
        {"pixel_values": torch.ones(1, 3, 2, 8)},
        {"pixel_values": torch.ones(1, 3, 4, 4, dtype=torch.float64)},
        {"image_grid_thw": torch.tensor([[1, 4, 8]])},
        {"image_sizes": torch.tensor([[56, 112]])},
        {"image_sizes": [(56, 112)]},
        {"pixel_attention_mask": torch.ones(1, 1, 4, 4)},
    ],
)
def test_a_pictures_key_holds_all_that_describes_it(changed: dict[str, Any]) -> None:
    assert picture_key({**PLAIN_CALL, **changed}) != picture_key(PLAIN_CALL)


def test_equal_pixels_in_another_grid_have_another_key() -> None:
    wide = call([1, IMAGE], image_grid_thw=torch.tensor([[1, 4, 8]]))
    high = call([1, IMAGE], image_grid_thw=torch.tensor([[1, 8, 4]]))
    assert picture_key(wide) != picture_key(high)
    assert picture_key(wide) == picture_key({**wide, "input_ids": torch.tensor([[5]])})


def test_half_precision_pictures_have_keys() -> None:
    half = torch.ones(1, 3, 4, 4, dtype=torch.bfloat16)
    assert picture_key(call([1], pixel_values=half)) is not None


def test_a_prompt_without_a_picture_has_no_key() -> None:
    text = {"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.ones(1, 2)}
    assert picture_key({**text, "pixel_values": None, "use_cache": True}) is None
    assert not has_picture({**text, "pixel_values": None})
    assert has_picture(PLAIN_CALL)


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_a_common_prefix_is_the_longest_shared_beginning(a: list[int], b: list[int]) -> None:
    n = common_prefix(a, b)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def filled(lease: Any, length: int) -> Any:
    """The lease after a call that computed a prompt and two tokens more."""
    states = torch.ones(1, 1, length + 2 - lease.length, 2)
    lease.cache.update(states, states, 0)
    return lease


def kept(ids: list[int], **more: Any) -> Prefixes:
    model = Model()
    prefixes = Prefixes(model)
    lease = prefixes.take(call(ids, **more))
    assert lease.length == 0
    prefixes.keep(model, filled(lease, len(ids)))
    return prefixes


FIRST = [1, IMAGE, IMAGE, 2, 3, 4]


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        ([1, IMAGE, IMAGE, 2, 3, 9, 9], 5),
        ([1, IMAGE, IMAGE, 2, 3, 4, 7], 6),
        # The same prompt, or a shorter one: one token must be left to compute.
        ([1, IMAGE, IMAGE, 2, 3, 4], 5),
        ([1, IMAGE, IMAGE, 2], 3),
        # Nothing past the picture is shared.
        ([1, IMAGE, IMAGE], 0),
        ([8, IMAGE, IMAGE, 2, 3, 4], 0),
        ([1, IMAGE, 2, 3, 4], 0),
        ([1, IMAGE, IMAGE, 2, IMAGE, 4], 0),
    ],
)
def test_what_is_shared_ends_past_the_picture_and_before_the_last_token(
    ids: list[int], length: int
) -> None:
    lease = kept(FIRST).take(call(ids))
    assert lease.length == length
    assert lease.cache.get_seq_length() == length


def test_another_picture_and_text_alone_share_nothing() -> None:
    prefixes = kept(FIRST)
    assert prefixes.take({"input_ids": torch.tensor([[1, 2]]), "pixel_values": None}) is None
    assert prefixes.kept is not None
    assert prefixes.take(call(FIRST, pixel_values=torch.zeros(1, 3, 4, 4))).length == 0
    assert prefixes.kept is None


def test_a_lease_is_handed_out_once() -> None:
    prefixes = kept(FIRST)
    assert prefixes.take(call(FIRST)).length == 5
    assert prefixes.take(call(FIRST)).length == 0


def test_a_cache_of_another_length_than_its_tokens_is_not_shared() -> None:
    model = Model()
    prefixes = Prefixes(model)
    lease = prefixes.take(call(FIRST))
    prefixes.keep(model, filled(lease, 1))
    assert prefixes.take(call(FIRST)).length == 0


def test_one_picture_at_most_is_kept() -> None:
    prefixes = kept(FIRST)
    first = prefixes.kept.cache
    lease = prefixes.take(call(FIRST, pixel_values=torch.zeros(1, 3, 4, 4)))
    assert lease.cache is not first
    prefixes.forget()
    assert prefixes.kept is None


def inputs_of(backend: str, folder: Any, docs: list[dict[str, Any]]) -> tuple[Any, list[Any]]:
    """A stock backend, and what its `generate` gets for each document."""
    lm = stock(backend, folder)
    tasks = FakeTasks({"t": docs})
    lm.task_dict = tasks.task_dict
    inputs = [stock_pass(lm, request).inputs for request in tasks.requests(simple=lm.is_simple)]
    return lm, [
        {**one, "attention_mask": torch.ones_like(one["input_ids"]), "max_new_tokens": 2,
         "do_sample": False}
        for one in inputs
    ]  # fmt: skip


def first_logps(interceptor: Interceptor, inputs: Any, *, plain: bool = False) -> torch.Tensor:
    """Log-probabilities of the whole vocabulary before the first token."""
    vocabulary = [[token] for token in range(interceptor.model.config.get_text_config().vocab_size)]
    with interceptor.session(vocabulary, plain=plain) as session:
        interceptor.model.generate(**inputs)
    return session.captures[0].logps[0]


def interleaved(lm: Any, calls: list[Any]) -> tuple[torch.Tensor, Interceptor]:
    """The greatest difference that sharing makes: first picture, text alone, first picture."""
    interceptor = Interceptor(lm.model)
    expected = first_logps(interceptor, calls[1], plain=True)
    first_logps(interceptor, calls[0])
    first_logps(interceptor, calls[2])
    difference = (first_logps(interceptor, calls[1]) - expected).abs().max()
    interceptor.detach()
    return difference, interceptor


def qwen_calls(tiny_models: TinyModels) -> tuple[Any, list[Any]]:
    docs = captions_of([picture(1, 56, 56)], 2)
    lm, calls = inputs_of("qwen2_5_vl", tiny_models("qwen2_5_vl"), docs)
    text = torch.tensor([[40, 41, 42, 43]])
    calls.append({"input_ids": text, "attention_mask": torch.ones_like(text), "max_new_tokens": 2})
    return lm, calls


def test_a_prompt_in_between_does_not_move_a_kept_picture(tiny_models: TinyModels) -> None:
    difference, interceptor = interleaved(*qwen_calls(tiny_models))
    assert interceptor.paths["reused"] == 1
    assert difference < 1e-4


def test_without_restored_rope_deltas_it_would(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Prefixes.keep

    def keep_no_deltas(self: Any, model: Any, lease: Any) -> None:
        keep(self, model, lease)
        lease.rope_deltas = []

    monkeypatch.setattr(Prefixes, "keep", keep_no_deltas)
    difference, _ = interleaved(*qwen_calls(tiny_models))
    assert difference > 1e-3


def test_an_unknown_architecture_is_checked_before_it_is_trusted(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intercept, "KNOWN_ARCHITECTURES", frozenset())
    docs = captions_of([picture(1, 56, 56)], 4)
    lm, calls = inputs_of("llava_hf", tiny_models("llava_hf"), docs)
    interceptor = Interceptor(lm.model)
    for one in calls:
        first_logps(interceptor, one)
    assert interceptor.paths == {"prefilled": 1, "reused": 3, "plain": 1}
    interceptor.detach()

    keep = Prefixes.keep

    def corrupt(self: Any, model: Any, lease: Any) -> None:
        for layer in lease.cache.layers:
            layer.keys.add_(1.0)
        keep(self, model, lease)

    monkeypatch.setattr(Prefixes, "keep", corrupt)
    interceptor = Interceptor(lm.model)
    shared = [first_logps(interceptor, one) for one in calls]
    assert not interceptor.share
    assert interceptor.paths == {"prefilled": 1, "reused": 1, "plain": 3}
    for one, seen in zip(calls, shared, strict=True):
        assert (first_logps(interceptor, one, plain=True) - seen).abs().max() < 1e-5
    interceptor.detach()


def test_what_fails_in_a_shared_call_runs_plain_and_keeps_nothing(
    tiny_models: TinyModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = captions_of([picture(1, 56, 56)], 2)
    lm, calls = inputs_of("llava_hf", tiny_models("llava_hf"), docs)
    interceptor = Interceptor(lm.model)
    expected = first_logps(interceptor, calls[1], plain=True)
    first_logps(interceptor, calls[0])
    update = DynamicCache.update
    left = [1]

    def fail_once(self: Any, *args: Any, **kwargs: Any) -> Any:
        if left and left.pop():
            raise RuntimeError("CUDA out of memory")
        return update(self, *args, **kwargs)

    monkeypatch.setattr(prefix.DynamicCache, "update", fail_once)
    assert (first_logps(interceptor, calls[1]) - expected).abs().max() < 1e-5
    assert interceptor.paths["plain"] == 2
    assert interceptor.prefixes.kept is None
    interceptor.detach()
    assert "generate" not in vars(lm.model)
