"""What statements read, as Spark counts it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP = "spark.jobGroup.id"


@contextmanager
def counting_bytes(spark: SparkSession) -> Iterator[Callable[[], int | None]]:
    """What gives the bytes of input of the jobs that this thread has run inside the block.

    It gives None where Spark does not tell: a server of Spark Connect.
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
