"""How far Spark is with the statements that it is at, by the tasks of their stages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dqsql.engine.failures import SPARK_FAILURES

if TYPE_CHECKING:
    from pyspark.core.status import StatusTracker
    from pyspark.sql import SparkSession

_INTERVAL = 2.0
# Of fewer tasks nobody waits for a share.
_FEWEST_TASKS = 4


@contextmanager
def watched_tasks(
    spark: SparkSession, tell: Callable[[int, int], None], interval: float = _INTERVAL
) -> Iterator[None]:
    """Tell every few seconds how many tasks of the stages at work are done, and how many there are.

    A Connect server does not say so.
    """
    if ".connect." in type(spark).__module__:
        yield
        return
    tracker, done = spark.sparkContext.statusTracker(), threading.Event()

    def watch() -> None:
        while not done.wait(interval):
            try:
                finished, total = _tasks(tracker)
            except SPARK_FAILURES:
                return  # the session is gone
            if total >= _FEWEST_TASKS:
                tell(finished, total)

    thread = threading.Thread(target=watch, name="tasks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tasks(tracker: StatusTracker) -> tuple[int, int]:
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
