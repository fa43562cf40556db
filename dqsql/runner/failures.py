"""Samples of failing rows: of the failing checks of a model that are about rows, in one pass."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dqsql.compiler.privacy import pii_columns
from dqsql.compiler.rowchecks import (
    CHECK,
    ROW,
    FailingRows,
    SampleQuery,
    failing_rows,
)
from dqsql.compiler.scan import BatchFilter
from dqsql.errors import EngineError
from dqsql.model.plan import Plan
from dqsql.model.results import Result, Status
from dqsql.model.tables import FAILURES
from dqsql.runner.limits import RunLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FAILING = (Status.FAIL, Status.WARN)


@dataclass(frozen=True)
class Samples:
    """Rows of `dq_failures`, the verdicts with a word on them, and what went wrong."""

    results: list[Result]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    scans: int = 0


@dataclass(frozen=True)
class FailureSampler:
    """Samples the failing rows of one model, whose view is registered."""

    plan: Plan
    spark: SparkSession
    limits: RunLimits
    run_id: str
    now: dt.datetime

    def sample(
        self, results: Sequence[Result], batch_type: str, columns: Mapping[str, str], label: str
    ) -> Samples:
        """Sample what failed. A sample that cannot be taken is a note, not an error."""
        failed = self._failed(results)
        failing = [f for f in self._candidates() if f.check.id in failed]
        if not failing:
            return Samples(list(results))
        from dqsql.engine.discovery import sample_rows

        wanted = sorted({b for f in failing for b in failed[f.check.id]})
        hidden = pii_columns(self.plan.model)
        query = SampleQuery(
            plan=self.plan,
            failing=failing,
            failed=failed,
            columns=[c for c in columns if c.lower() not in hidden],
            batches=BatchFilter(tuple(wanted), batch_type, columns),
            label=label,
            limit=self.limits.failures_limit,
        )
        try:
            found = sample_rows(self.spark, self.plan.model.name, query.query())
        except EngineError as error:
            return Samples(list(results), notes=(error.message,), scans=1)
        return Samples(self._told(results, found), [self._row(r) for r in found], scans=1)

    def _candidates(self) -> list[FailingRows]:
        wanted = [c for c in self.plan.checks if self.limits.samples(c)]
        rows = [failing_rows(self.plan, c) for c in wanted]
        return [r for r in rows if r is not None]

    def _failed(self, results: Sequence[Result]) -> dict[str, set[str]]:
        """The batches in which each check failed, as a whole or in a segment."""
        failed: dict[str, set[str]] = {}
        for result in results:
            if result.status in _FAILING and result.batch is not None:
                failed.setdefault(result.check_id, set()).add(result.batch)
        return failed

    def _row(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "check_id": found[CHECK],
            "model": self.plan.model.name,
            "batch": found["batch"],
            "segment": None,
            "row": found[ROW],
            "captured_at": self.now,
        }

    def _told(self, results: Sequence[Result], found: Sequence[Mapping[str, Any]]) -> list[Result]:
        """The verdicts, with the place of the sample in the messages of those that failed."""
        counts: dict[tuple[str, str | None], int] = {}
        for row in found:
            key = (row[CHECK], row["batch"])
            counts[key] = counts.get(key, 0) + 1
        return [_with_sample(r, counts.get((r.check_id, r.batch), 0)) for r in results]


def _with_sample(result: Result, rows: int) -> Result:
    if not rows or result.status not in _FAILING or result.segment is not None:
        return result
    word = "row is" if rows == 1 else "rows are"
    return replace(
        result,
        message=f"{result.message}; {rows:,} failing {word} in {FAILURES.name}",
        details={**result.details, "failures": {"table": FAILURES.name, "rows": rows}},
    )
