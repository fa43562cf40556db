"""Checks models one after the other, or several at a time; what is told of them keeps its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from dqsql.model.events import RunListener
from dqsql.model.plan import Plan
from dqsql.model.results import ModelResult

# Seconds after which an interrupt is heeded at the latest.
_AWAKE = 1.0


@dataclass
class InOrder:
    """Runs `work` for each plan in `threads` threads; Spark shares its cores among their jobs.

    The listener hears of each model from its start to its end before it hears of the next, in the
    order of the plans, however many are at work: the lines of a run are always the same.
    """

    listener: RunListener
    threads: int = 1
    _shown: str = ""

    def run(
        self, plans: Sequence[Plan], work: Callable[[Plan], ModelResult]
    ) -> Iterator[ModelResult]:
        """The result of each plan, in order, as soon as it is there.

        An exception of `work` is raised in its place; models that nobody has begun are not begun.
        """
        total = len(plans)
        threads = min(self.threads, total)
        if threads <= 1:
            for index, plan in enumerate(plans, start=1):
                self._start(index, total, plan)
                yield self._finish(index, total, work(plan))
            return
        executor = ThreadPoolExecutor(threads, thread_name_prefix="dqsql")
        try:
            running = [executor.submit(work, plan) for plan in plans]
            for index, (plan, future) in enumerate(zip(plans, running, strict=True), start=1):
                self._start(index, total, plan)
                # A signal that comes just before it waits is heeded when it wakes.
                while not future.done():
                    wait([future], _AWAKE)
                yield self._finish(index, total, future.result())
        finally:
            executor.shutdown(wait=False, cancel_futures=True)

    def step(self, model: str, text: str) -> None:
        """Tell of a step of a model, if it is the one that is being told of."""
        if model == self._shown:
            self.listener.model_step(model, text)

    def _start(self, index: int, total: int, plan: Plan) -> None:
        self._shown = plan.model.name
        self.listener.model_started(index, total, plan.model.name)

    def _finish(self, index: int, total: int, result: ModelResult) -> ModelResult:
        self.listener.model_finished(index, total, result)
        return result
