"""A model's `generate`, intercepted for as long as one request of a backend runs.

The interceptor decides whether the call may share a kept prefix, taps its raw logits, and counts:
how many calls took which path, how many pictures were prefilled. A backend that swallows an
exception is found out here, because every exception is noted before it is raised again. Outside a
session the model's own `generate` runs untouched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from loguru import logger

from model_wrappers.verdict.capture import (
    Capture,
    Tap,
    captures_without_scores,
    end_ids,
    setting,
    tapped,
)
from model_wrappers.verdict.prefix import KNOWN_ARCHITECTURES, Lease, Prefixes, has_picture, refusal

PATHS = ("reused", "prefilled", "plain", "text_only")
"""What became of a call: a kept prefix shared, one computed and kept, no sharing, no picture."""

_CHECK_TOLERANCE = {torch.float32: 1e-3}
_CHECK_TOLERANCE_HALF = 0.05
"""Total variation between the first-step distributions of a shared and a plain pass. Half
precision differs by up to 1.5e-2 in a log-probability; a wrong prefix differs by far more."""


@dataclass
class Session:
    """What happened in `generate` while one request, or one batch of them, ran."""

    token_sets: Sequence[Sequence[int]]
    plain: bool
    captures: list[Capture] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)


def generating_module(backend: Any) -> Any:
    """The module of a backend whose `generate` makes the answers.

    Some remote-code models wrap a language model and call *its* `generate`: then it is that one.

    Raises:
        TypeError: The backend has no such module.
    """
    model = getattr(backend, "model", None)
    if isinstance(model, torch.nn.Module):
        for module in model.modules():
            if hasattr(module, "generate") and hasattr(module, "_get_logits_processor"):
                return module
    raise TypeError(
        f"{type(backend).__module__}.{type(backend).__name__} has neither a transformers model "
        "whose `generate` can be tapped nor an OpenAI client: run it without `verdict` (no "
        "scores), or serve the model and use backend=openai"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device's memory did not suffice."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in str(error).lower()


def free_memory() -> None:
    """Hand cached device memory back."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Interceptor:
    """Stands in for a model's `generate`.

    Args:
        model: The module whose `generate` is intercepted.
        share: Whether prefixes may be shared.
    """

    def __init__(self, model: Any, share: bool = True) -> None:
        """Takes the place of `generate` until `detach`."""
        self.model = model
        self.share = share
        self.prefixes = Prefixes(model)
        self.paths: Counter[str] = Counter()
        self.prefills = 0
        """How often a picture went through the model."""
        self.refusals: Counter[str] = Counter()
        self._trusted = getattr(model.config, "model_type", None) in KNOWN_ARCHITECTURES
        self._session: Session | None = None
        self._original: Callable[..., Any] = model.generate
        model.generate = self._generate

    def detach(self) -> None:
        """Give the model its own `generate` back and let go of it."""
        self.prefixes.forget()
        if self.model is not None:
            del self.model.generate
        del self._original
        self.model = None

    @contextmanager
    def session(
        self, token_sets: Sequence[Sequence[int]], plain: bool = False
    ) -> Iterator[Session]:
        """Intercept the calls of `generate` made while the block runs.

        Args:
            token_sets: Ids whose summed probability is kept at each step.
            plain: Whether to share no prefix.
        """
        self._session = Session(token_sets, plain)
        try:
            yield self._session
        finally:
            self._session = None

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        if session is None:
            return self._original(*args, **kwargs)
        try:
            output, tap = self._run(session, args, kwargs)
            session.captures += self._captures(output, tap, kwargs)
        except Exception as error:
            session.errors.append(error)
            raise
        return output

    def _captures(self, output: Any, tap: Tap, kwargs: Mapping[str, Any]) -> list[Capture]:
        known: dict[str, Any] = {
            "end_ids": end_ids(self.model, kwargs),
            "repetition_penalty": float(setting(self.model, kwargs, "repetition_penalty", 1.0)),
        }
        if self._rows_are_answers(kwargs):
            captures = tap.captures(output, **known)
        else:
            ids = kwargs.get("input_ids")
            length = ids.shape[1] if isinstance(ids, torch.Tensor) else 0
            several = int(setting(self.model, kwargs, "num_return_sequences", 1))
            captures = captures_without_scores(output, length, **known)[::several]
        if self.model.config.is_encoder_decoder:
            # The prompt went into the encoder; what stands before the answer is a start token.
            captures = [replace(capture, prompt_ids=()) for capture in captures]
        return captures

    def _rows_are_answers(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether each row that a logits processor sees is one answer, token by token."""
        return (
            setting(self.model, kwargs, "num_beams", 1) == 1
            and setting(self.model, kwargs, "num_return_sequences", 1) == 1
            and kwargs.get("assistant_model") is None
            and not setting(self.model, kwargs, "prompt_lookup_num_tokens")
        )

    def _run(
        self, session: Session, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Tap]:
        mask = kwargs.get("attention_mask")
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and not bool(mask[:, -1].all()):
            raise RuntimeError("the backend pads rows on the right: their answers would be wrong")
        lease = None if session.plain or not self.share else self._lease(args, kwargs)
        if lease is not None:
            try:
                return self._shared(session, args, kwargs, lease)
            except Exception as error:
                # Whatever the cache went through, it is no prefix any more.
                self.prefixes.forget()
                if is_out_of_memory(error):
                    free_memory()
                logger.warning(f"verdict: plain path after {type(error).__name__}: {error}")
            del lease
        return self._call(session, args, kwargs, "plain")

    def _lease(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Lease | None:
        reason = refusal(self.model, args, kwargs)
        if reason is not None:
            self.prefixes.forget()
            if has_picture(kwargs):
                self.refusals[reason] += 1
            return None
        try:
            return self.prefixes.take(kwargs)
        except Exception as error:
            self.prefixes.forget()
            self.refusals[f"{type(error).__name__}: {error}"] += 1
            return None

    def _shared(
        self, session: Session, args: Sequence[Any], kwargs: Mapping[str, Any], lease: Lease
    ) -> tuple[Any, Tap]:
        path = "reused" if lease.length else "prefilled"
        check = path == "reused" and not self._trusted
        shared = {**kwargs, "past_key_values": lease.cache}
        output, tap = self._call(session, args, shared, path, keep_first=check)
        self.prefixes.keep(self.model, lease)
        if not check:
            return output, tap
        plain_output, plain_tap = self._call(session, args, kwargs, "plain", keep_first=True)
        assert tap.first is not None
        assert plain_tap.first is not None
        distance = float((tap.first.exp() - plain_tap.first.exp()).abs().sum() / 2)
        limit = _CHECK_TOLERANCE.get(self.model.dtype, _CHECK_TOLERANCE_HALF)
        if distance <= limit:
            self._trusted = True
            return output, tap
        self.share = False
        self.prefixes.forget()
        logger.warning(
            f"verdict: a shared prefix of {type(self.model).__name__} moved the next token's "
            f"distribution by {distance:.3g} (limit {limit:g}): no prefix is shared in this run"
        )
        return plain_output, plain_tap

    def _call(
        self,
        session: Session,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        path: str,
        keep_first: bool = False,
    ) -> tuple[Any, Tap]:
        picture = has_picture({k: v for k, v in kwargs.items() if k != "past_key_values"})
        self.paths[path if picture else "text_only"] += 1
        if picture and path != "reused":
            self.prefills += 1
        tap = Tap(session.token_sets, keep_first=keep_first)
        with tapped(self.model, tap):
            return self._original(*args, **kwargs), tap
