"""Which batches of a model a run checks, and whether its segments are few enough."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.segments import batches_query, segment_count_query
from dqsql.errors import ConfigError, Span, UsageError
from dqsql.model.limits import RunLimits
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel
from dqsql.model.results import BatchRecord
from dqsql.monitors.registry import is_due
from dqsql.runner.batches import BatchChoice, BatchRequest, choose_batches, period_of
from dqsql.runner.verdicts import checks_about_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.discovery import FoundBatches

# Sketches of 4,096 registers are off by 1.6 % (one sigma): below this share of the limit they
# are as good as counting.
_SURE = 0.9


@dataclass(frozen=True)
class Discovery:
    """Looks at the batches and segments of one model, whose view is registered.

    `batch_type` is the Spark type of `batch_by`, `columns` gives those of the model's columns.
    """

    spark: SparkSession
    model: CheckModel
    limits: RunLimits
    batch_type: str
    columns: Mapping[str, str]

    def choose(
        self, request: BatchRequest, ledger: Mapping[str, BatchRecord], own_batch: str
    ) -> BatchChoice:
        """The batches to check. Raises DqsqlError, also for too many segments in them."""
        from dqsql.engine.discovery import FoundBatches, find_batches

        period = period_of(request, self.limits.begin, self.model, self.batch_type)
        query = batches_query(self.model, period.condition(self.columns))
        if query is None:
            choice = BatchChoice((own_batch,))
            self._check_segments(choice, FoundBatches({}))
            return choice
        if request.batches:
            request = replace(request, batches=self._named(request.batches))
        found = find_batches(self.spark, self.model.name, query)
        choice = choose_batches(request, found.rows, ledger, period, self.limits.lookback)
        self._check_segments(choice, found)
        sizes = {b: rows for b, rows in found.rows.items() if b is not None}
        return replace(choice, sizes=sizes)

    def _named(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The names of batches that were asked for: `2013-2-8` is the date 2013-02-08.

        Raises UsageError: a text is no value of `batch_by`, so that no batch has it.
        """
        from dqsql.engine.discovery import names_of_batches

        if self.batch_type.startswith("string"):
            return tuple(dict.fromkeys(texts))
        names = names_of_batches(self.spark, self.model.name, texts, self.batch_type)
        for text, name in zip(texts, names, strict=True):
            if name is None:
                raise UsageError(
                    f"--batch {text} does not fit {self.model.name}, whose batches are of type"
                    f" {self.batch_type}",
                    hint="dq_batches and `dqsql run` name them as they are to be written",
                )
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def _check_segments(self, choice: BatchChoice, found: FoundBatches) -> None:
        """Raises ConfigError when the batches have more segments than the limit."""
        columns, limit = self.model.config.segment_by, self.limits.max_segments
        if not columns or not choice.batches:
            return
        number = self._segments(choice, found)
        if number <= limit:
            return
        raise ConfigError(
            f"segment_by {', '.join(columns)} gives {number:,} segments,"
            f" more than max_segments = {limit:,}",
            span=Span(self.model.path),
            hint="segment by fewer or coarser columns, or raise max_segments in config(..)"
            " or dqsql_project.yml",
        )

    def _segments(self, choice: BatchChoice, found: FoundBatches) -> int:
        """The number of segments; only exact where it matters."""
        from dqsql.engine.discovery import count_segments, estimate_union

        chosen = [b for b in choice.batches if b in found.segments]
        counts = [found.segments[b] for b in chosen]
        limit = self.limits.max_segments
        if found.rows and sum(counts) <= limit:
            return max(counts, default=0)
        if found.rows and max(counts) <= limit:
            estimate = estimate_union(self.spark, [found.sketches[b] for b in chosen])
            if estimate <= _SURE * limit:
                return estimate
        batches = BatchFilter(tuple(chosen), self.batch_type, self.columns)
        query = segment_count_query(self.model, batches)
        return count_segments(self.spark, self.model.name, query)


def newest_again(
    choice: BatchChoice, plan: Plan, ledger: Mapping[str, BatchRecord], now: dt.datetime
) -> BatchChoice:
    """The choice; where nothing is new, the newest batch if its age is checked or one is late."""
    if choice.batches or choice.newest is None:
        return choice
    due = is_due(plan, ledger, now)
    if not due and not checks_about_now(plan):
        return choice
    why = "as one should have come since" if due else "as its age is checked"
    note = f"nothing new: {choice.newest} is checked again, {why}"
    return BatchChoice((choice.newest,), (), (*choice.notes, note), sizes=choice.sizes)
