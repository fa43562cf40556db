"""What statements read, and how far they are, as Spark counts it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.core.status import StatusTracker
    from pyspark.sql import SparkSession

_GROUP = "spark.jobGroup.id"
_INTERVAL = 2.0  # seconds
# Of fewer tasks nobody waits for a share.
_FEWEST_TASKS = 4


@contextmanager
def counting_bytes(spark: SparkSession) -> Iterator[Callable[[], int | None]]:
    """What gives the bytes of input of the jobs that this thread has run inside the block.

    It gives None where Spark does not say so: a server of Spark Connect.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        yield lambda: None
        return
    group, before = f"dqsql-{uuid.uuid4().hex}", context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    try:
        yield lambda: _bytes_of(context, group)
    finally:
        # Should the JVM have died, what went wrong before is told, and not this.
        with suppress(Py4JError, OSError):
            context.setLocalProperty(_GROUP, before)


def _bytes_of(context: Any, group: str) -> int | None:
    tracker = context.statusTracker()
    try:
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        store = context._jsc.sc().statusStore()
        return sum(_bytes_of_stage(store, stage) for stage in stages)
    except Py4JError:
        return None


def _bytes_of_stage(store: Any, stage: int) -> int:
    try:
        return int(store.lastStageAttempt(stage).inputBytes())
    except Py4JError:
        return 0  # another job had its result already


@contextmanager
def watched_tasks(
    spark: SparkSession, on_progress: Callable[[int, int], None], interval: float = _INTERVAL
) -> Iterator[None]:
    """Tell every few seconds how many tasks of the stages at work are done, and how many there are.

    A server of Spark Connect does not say so.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        yield
        return
    tracker, done = context.statusTracker(), threading.Event()

    def watch() -> None:
        while not done.wait(interval):
            try:
                finished, total = _tasks(tracker)
            except Py4JError:
                return  # the session is gone
            if total >= _FEWEST_TASKS:
                on_progress(finished, total)

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
