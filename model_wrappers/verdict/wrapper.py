"""`verdict`: scores and shared prefixes on top of any backend of the harness.

`--model verdict --model_args backend=<harness model id>,<that backend's arguments>` builds the
harness's own backend and delegates to it. What the backend answers is not changed; a response line
with the log-probabilities of the task's answer sets follows it (`postprocess.response.line`). The
requests of all tasks are deduplicated and grouped by picture, and a request that fails is tried
once more and then reported as failed: an empty text is never passed off as an answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval import utils
from lmms_eval.api.instance import GenerationResult
from lmms_eval.api.model import CacheHook, lmms
from lmms_eval.models import get_model
from loguru import logger
from tqdm import tqdm

from model_wrappers.verdict.intercept import PATHS
from model_wrappers.verdict.local import LocalRunner
from model_wrappers.verdict.profiles import Loading
from model_wrappers.verdict.reading import ReadingRule, SetScore
from model_wrappers.verdict.requests import Job, JobAnswer, plan
from model_wrappers.verdict.servers import ServerRunner, is_server, talks_to_a_server
from postprocess.read.verdict import read_verdict
from postprocess.response.line import attach_response, failure_text, score_of

LOW_MASS = 0.5
"""Below this probability on all answer sets together a score is counted as resting on little."""

_COUNTED = (
    "requests", "duplicates", "failed", "scored", "low_mass", "censored", "compared",
    "disagreements",
)  # fmt: skip


def _of_backend(name: str, doc: str) -> Any:
    """A property that is the backend's; `lmms` has its own, so `__getattr__` is not asked."""
    return property(
        lambda self: getattr(self.backend, name),
        lambda self, value: setattr(self.backend, name, value),
        doc=doc,
    )


class VerdictModel(lmms):
    """A backend of the harness with verdict scores; its chat form where it has one.

    Args:
        backend: The harness's id of a model, or a built backend.
        prefix_cache: Whether captions of a picture share its prefix.
        profile: `cpu`, `t4`, `a100` or `auto`, or None to leave the backend's own settings.
        peft: A folder with a PEFT adapter, or None.
        load_dtype: `float32`, `float16` or `bfloat16`, for backends whose type is fixed; None
            leaves it.
        **backend_args: The backend's own arguments.
    """

    is_simple = False
    _force_simple = False

    def __init__(
        self,
        backend: str | lmms,
        prefix_cache: bool | str = True,
        profile: str | None = None,
        peft: str | None = None,
        load_dtype: str | None = None,
        **backend_args: Any,
    ) -> None:
        """Build the backend, if it is not built, and take the place of its `generate`."""
        share = _is_true(prefix_cache)
        self.loading = Loading(profile=profile, peft=peft, dtype=load_dtype)
        self.backend = (
            self._build(backend, backend_args, share) if isinstance(backend, str) else backend
        )
        self.is_simple = self.backend.is_simple
        self.cache_hook = CacheHook(None)
        self.counts: Counter[str] = Counter()
        self._notes: dict[str, Any] | None = None
        self.runner: LocalRunner | ServerRunner = (
            ServerRunner(self.backend, timeout_s=backend_args.get("timeout"))
            if is_server(self.backend)
            else LocalRunner(self.backend, share)
        )

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> VerdictModel:
        """The model for the harness's `--model_args`.

        Args:
            arg_string: `backend=...`, the wrapper's options and the backend's arguments.
            additional_config: What the harness adds (batch size, device); the string wins.

        Raises:
            ValueError: No backend is named.
        """
        more = {name: v for name, v in (additional_config or {}).items() if v is not None}
        args = {**more, **utils.simple_parse_args_string(arg_string)}
        if not args.get("backend"):
            raise ValueError(
                "--model verdict needs the backend to wrap: --model_args backend=llava_hf,..."
            )
        return cls(**args)

    def _build(self, name: str, backend_args: Mapping[str, Any], share: bool) -> Any:
        if name == "verdict":
            raise ValueError("verdict cannot wrap itself: name a backend of the harness")
        model_class = get_model(name, force_simple=self._force_simple)
        args = self.loading.placed(model_class, backend_args)
        if talks_to_a_server(model_class):
            if self.loading != Loading():
                raise ValueError(
                    f"profile, peft and load_dtype load weights; {name} has a server do that"
                )
        elif share and str(args.get("batch_size", 1)) != "1":
            logger.warning(
                "verdict: rows run one by one, since a shared prefix needs a batch of one; with "
                "prefix_cache=false batches of --batch_size run"
            )
            args["batch_size"] = 1
        with self.loading.applied():
            return model_class.create_from_arg_string("", args)

    def __getattr__(self, name: str) -> Any:
        """Whatever the wrapper has not is the backend's: device, accelerator, tokenizer, ..."""
        if "backend" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.__dict__["backend"], name)

    task_dict = _of_backend("task_dict", "Documents by task and split.")
    rank = _of_backend("rank", "This process among the run's.")
    world_size = _of_backend("world_size", "How many processes the run has.")
    _rank = _of_backend("_rank", "What the harness sets the rank by.")
    _world_size = _of_backend("_world_size", "What the harness sets their number by.")

    def loglikelihood(self, requests: list[Any]) -> Any:
        """The backend's own."""
        return self.backend.loglikelihood(requests)

    def generate_until_multi_round(self, requests: list[Any]) -> Any:
        """The backend's own."""
        return self.backend.generate_until_multi_round(requests)

    def generate_until(self, requests: list[Any]) -> list[GenerationResult]:
        """Answers in the order of the requests, each with its response line.

        Args:
            requests: Requests of one or several tasks, in any order.

        Returns:
            One result a request; a failed one holds `records.failure_text`.
        """
        readings = [ReadingRule.of(request.metadata) for request in requests]
        jobs = plan(requests, self.task_dict, simple=self.is_simple)
        self.counts["requests"] += len(requests)
        self.counts["duplicates"] += len(requests) - len(jobs)
        results: dict[int, GenerationResult] = {}
        with tqdm(total=len(jobs), disable=self.rank != 0, desc="verdict") as bar:
            for job, answer in self.runner.run(jobs, readings):
                for asker in job.askers:
                    text = self._text(answer, readings[asker], requests[asker].metadata)
                    results[asker] = GenerationResult(text, answer.token_counts)
                bar.update()
        logger.info(self._summary(jobs))
        return [results[position] for position in range(len(requests))]

    def clean(self) -> None:
        """Let go of the model, as the harness does when inference is over."""
        self._notes = self.run_notes()
        if isinstance(self.runner, LocalRunner):
            self.runner.interceptor.detach()
        self.backend.clean()

    def run_notes(self) -> dict[str, Any]:
        """What the scores of a run rest on, as JSON values.

        Returns:
            Effective type, quantisation, adapter and device map of the model, the counts of
            requests by path, and the rates of low mass and of disagreement between an answer's
            words and the sign of its score. With several ranks the counts are this rank's.
        """
        if self._notes is not None:
            return self._notes
        notes: dict[str, Any] = {
            "backend": f"{type(self.backend).__module__}.{type(self.backend).__name__}",
            "rank": self.rank,
            "world_size": self.world_size,
            "counts": {name: self.counts[name] for name in _COUNTED},
            "low_mass_rate": _rate(self.counts["low_mass"], self.counts["scored"]),
            "disagreement_rate": _rate(self.counts["disagreements"], self.counts["compared"]),
        }
        if isinstance(self.runner, ServerRunner):
            return {**notes, **self.runner.notes()}
        interceptor = self.runner.interceptor
        return {
            **notes,
            "retried": self.runner.retried,
            "unscorable": sorted(set(self.runner.unscorable.values())),
            "prefix_cache": interceptor.share,
            "paths": {name: interceptor.paths[name] for name in PATHS},
            "picture_prefills": interceptor.prefills,
            "not_shared_because": dict(interceptor.refusals),
            **self.loading.effective(interceptor.model),
        }

    def _text(
        self, answer: JobAnswer, reading: ReadingRule | None, metadata: Mapping[str, Any]
    ) -> str:
        """An asker's answer: the backend's words, and the response line its task can read."""
        if answer.failure is not None:
            self.counts["failed"] += 1
            return failure_text(answer.failure, answer.retries)
        if reading is None:
            return answer.text
        details = dict(answer.details.get(reading, {}))
        score = answer.scores.get(reading)
        if score is None:
            return attach_response(answer.text, None, finish=answer.finish, **details)
        if score.censored:
            details["censored"] = list(score.censored)
        self._count(answer.text, score, metadata)
        return attach_response(
            answer.text,
            score.choices,
            step=score.step,
            source="censored" if score.censored else "logprobs",
            finish=answer.finish,
            **details,
        )

    def _count(self, text: str, score: SetScore, metadata: Mapping[str, Any]) -> None:
        self.counts["scored"] += 1
        self.counts["censored"] += bool(score.censored)
        self.counts["low_mass"] += sum(map(math.exp, score.choices.values())) < LOW_MASS
        s = score_of(score.choices).s
        if s is None:
            return
        verdict = read_verdict(text, metadata.get("prompt", "zero_shot"))
        if verdict is not None:
            self.counts["compared"] += 1
            self.counts["disagreements"] += verdict != int(s > 0)

    def _summary(self, jobs: Sequence[Job]) -> str:
        """The line that says how many requests took which path."""
        asked = sum(len(job.askers) for job in jobs)
        pictures = len({job.pictures for job in jobs if job.pictures})
        line = (
            f"verdict rank {self.rank} of {self.world_size}: {asked} requests, "
            f"{asked - len(jobs)} of them answered by another's inference"
        )
        if isinstance(self.runner, LocalRunner):
            paths = self.runner.interceptor.paths
            counts = ", ".join(f"{paths[name]} {name}" for name in PATHS)
            line += f"; {counts}; {self.runner.interceptor.prefills} picture prefills"
        return f"{line} for {pictures} pictures; {self.counts['failed']} failed"


class VerdictModelSimple(VerdictModel):
    """`verdict` over a backend's simple form, for `--force_simple`."""

    is_simple = True
    _force_simple = True


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _is_true(value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if value.lower() not in ("true", "false"):
        raise ValueError(f"prefix_cache must be true or false, not {value!r}")
    return value.lower() == "true"
