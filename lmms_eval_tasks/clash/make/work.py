"""Work that may ask a language model for hours: several units at once, each outcome on disk.

Whoever builds or checks samples hands in units and a function; what a unit became is in the journal
before it is handed on, in the units' order whoever is faster. An interrupted job finds it there and
asks nothing twice. Nothing here knows what a unit is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Generic, NamedTuple, TypeVar

from lmms_eval_tasks.clash.make.endpoint import Asker, Budget, Limits, endpoint_of
from lmms_eval_tasks.dataset.journal import Journal

T = TypeVar("T")


class Stopped(ValueError):
    """A job that could not be finished; what is finished is on disk."""


class Unit(NamedTuple, Generic[T]):
    """Something to work on, and the name of its outcome in the journal."""

    key: str
    content: T


class Work:
    """One job's workers, and the endpoint that they ask, if any."""

    def __init__(
        self, journal: Journal, limits: Limits, seed: int, name: str | None, model: str | None
    ) -> None:
        """Take what decides how much is asked at once.

        Args:
            journal: Where outcomes go; it also keeps what earlier runs spent.
            limits: What the endpoint may be asked for.
            seed: Seed of the pauses between tries.
            name: The endpoint (see `endpoint_of`); None for a job that asks nobody.
            model: The endpoint's model.
        """
        self._journal, self._workers = journal, 1
        self._stop = threading.Event()
        self._endpoint = None
        self.asker: Asker | None = None
        if name is not None:
            self._endpoint = endpoint_of(name, model, limits.timeout_s)
            spent = int(journal["spent"]) if "spent" in journal else 0
            budget = Budget(limits.token_budget, spent)
            self.asker = Asker(self._endpoint.send, limits, budget, seed, self._stop)
            self._workers = limits.parallel

    def __enter__(self) -> Work:
        """The work itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the endpoint."""
        if self._endpoint is not None:
            self._endpoint.close()

    def outcomes(
        self,
        units: Iterable[Unit[T]],
        make: Callable[[T], Any],
        room: Callable[[], int] | None = None,
    ) -> Generator[tuple[T, Any], None, None]:
        """Units with their outcomes, in the units' order.

        Args:
            units: What to work on; the next one is taken when there is room for it.
            make: What becomes of a unit, as a JSON value.
            room: How many units may be under way, so that no request is wasted.

        Raises:
            EndpointError: A unit could not be asked about. What was finished is in the journal.
        """
        begun: list[tuple[Unit[T], Future[Any]]] = []
        todo = iter(units)
        pool = ThreadPoolExecutor(self._workers)
        most = 4 * self._workers
        try:
            while True:
                while len(begun) < (most if room is None else min(room(), most)):
                    unit = next(todo, None)
                    if unit is None:
                        break
                    begun.append((unit, self._begin(pool, unit, make)))
                if not begun:
                    return
                if not begun[0][1].done():
                    wait([future for _, future in begun], return_when=FIRST_COMPLETED)
                failure = self._keep(begun)
                if failure is not None:
                    raise failure
                while begun and begun[0][0].key in self._journal:
                    unit = begun.pop(0)[0]
                    yield unit.content, self._journal[unit.key]
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._keep(begun)

    def _begin(
        self, pool: ThreadPoolExecutor, unit: Unit[T], make: Callable[[T], Any]
    ) -> Future[Any]:
        """A unit's outcome: from the journal, or made by one of the workers."""
        if unit.key not in self._journal:
            return pool.submit(make, unit.content)
        known: Future[Any] = Future()
        known.set_result(self._journal[unit.key])
        return known

    def _keep(self, begun: Sequence[tuple[Unit[Any], Future[Any]]]) -> BaseException | None:
        """Write what is finished to the journal; gives what stops the job, if anything does."""
        failure: BaseException | None = None
        for unit, future in begun:
            if not future.done() or future.cancelled() or unit.key in self._journal:
                continue
            if future.exception() is not None:
                failure = failure or future.exception()
                continue
            self._journal.put(unit.key, future.result())
            if self.asker is not None:
                self._journal.put("spent", self.asker.budget.spent)
        return failure
