"""Samples of failing rows: of the failing checks of a model that are about rows, in one pass."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dqsql.compiler.keys import batch_text, model_table
from dqsql.compiler.marked_rows import CHECK, RANK, ROW, SampleQuery
from dqsql.compiler.privacy import pii_columns
from dqsql.compiler.rowchecks import FailingRows, failing_rows
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import formula, literal, parse_expression, quoted, to_spark, to_sql
from dqsql.engine.failures import translated
from dqsql.engine.selects import fetched
from dqsql.engine.statements import computed_once, rows_of
from dqsql.errors import EngineError, StorageError
from dqsql.model.limits import RunLimits
from dqsql.model.plan import Check, Plan
from dqsql.model.project import DBT_VALUES, CheckModel
from dqsql.model.results import Result, Status
from dqsql.model.tables import FAILURES, failures_table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


# Rows of a check and batch in dq_failures where all are in a table of their own.
_SHOWN = 100
# Of a table of all failing rows.
_COLUMNS = (
    "batch string, check_id string, row string, run_id string, model string,"
    " captured_at timestamp_ltz"
)
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
    store: Store
    limits: RunLimits
    run_id: str
    now: dt.datetime

    def sample(
        self, results: Sequence[Result], batch_type: str, columns: Mapping[str, str], label: str
    ) -> Samples:
        """Sample what failed. A sample that cannot be taken is a note, not an error."""
        failed = failed_batches(results)
        failing = [f for f in self._candidates() if f.check.id in failed]
        self._clear(results)
        if not failing:
            return Samples(list(results))
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
            if self.limits.keeps_all_failures:
                return self._all(results, query, wanted)
            sample_rows = rows_of(
                self.spark, query.query(), f"cannot sample failing rows of {self.plan.model.name}"
            )
        except StorageError:
            raise
        except EngineError as error:
            return Samples(list(results), notes=(error.message,), scans=1)
        counts = Counter((r[CHECK], r["batch"]) for r in sample_rows)
        noted_results = _with_samples(results, counts, FAILURES.name)
        return Samples(noted_results, [self._row(r) for r in sample_rows], scans=1)

    def _all(
        self, results: Sequence[Result], query: SampleQuery, batches: Sequence[str]
    ) -> Samples:
        """All failing rows go to a table of their own, written by Spark; a sample to the usual one.

        Raises StorageError.
        """
        text = to_spark(query.query())
        frame = computed_once(self.spark, text, "cannot keep the failing rows")
        model = self.plan.model.name
        table = failures_table_name(model)
        rows = frame.selectExpr(
            *(quoted(name) for name in frame.columns if name != RANK),
            f"{to_sql(literal(self.run_id))} as run_id",
            f"{to_sql(literal(model))} as model",
            f"timestamp_micros({int(self.now.timestamp() * 1_000_000)}L) as captured_at",
        )
        self.store.replace_rows(table, rows, "batch", batches)
        with translated("cannot count the failing rows"):
            sample_rows = fetched(frame.where(f"{quoted(RANK)} <= {_SHOWN}").drop(RANK)).to_pylist()
            counted = fetched(frame.groupBy("batch", CHECK).count()).to_pylist()
        noted_results = _with_samples(
            results, {(r[CHECK], r["batch"]): r["count"] for r in counted}, table
        )
        return Samples(noted_results, [self._row(r) for r in sample_rows], scans=1)

    def _clear(self, results: Sequence[Result]) -> None:
        """Take what earlier runs kept of these batches out of the table of all failing rows."""
        name = failures_table_name(self.plan.model.name)
        batches = sorted({r.batch for r in results if r.batch is not None})
        if batches and self.store.has(name):
            none = self.spark.createDataFrame([], _COLUMNS)
            self.store.replace_rows(name, none, "batch", batches)

    def _candidates(self) -> list[FailingRows]:
        wanted = [c for c in self.plan.checks if self.limits.samples(c)]
        return [r for c in wanted if (r := failing_rows(self.plan, c)) is not None]

    def _row(self, sample_row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "check_id": sample_row[CHECK],
            "model": self.plan.model.name,
            "batch": sample_row["batch"],
            "segment": None,
            "row": sample_row[ROW],
            "captured_at": self.now,
        }


def _with_samples(
    results: Sequence[Result], counts: Mapping[tuple[str, str | None], int], table: str
) -> list[Result]:
    """The verdicts, with the place of the rows in the messages of those that failed."""
    return [_with_sample(r, counts.get((r.check_id, r.batch), 0), table) for r in results]


def failed_batches(results: Iterable[Result]) -> dict[str, set[str]]:
    """The batches in which each check failed, as a whole or in a segment."""
    failed: dict[str, set[str]] = {}
    for result in results:
        if result.status in _FAILING and result.batch is not None:
            failed.setdefault(result.check_id, set()).add(result.batch)
    return failed


def _with_sample(result: Result, rows: int, table: str) -> Result:
    if not rows or result.status not in _FAILING or result.segment is not None:
        return result
    word = "row is" if rows == 1 else "rows are"
    return replace(
        result,
        message=f"{result.message}; {rows:,} failing {word} in {table}",
        details={**result.details, "failures": {"table": table, "rows": rows}},
    )


@dataclass(frozen=True)
class Returned:
    """Rows that tests of dbt return by check, what went wrong, and how often the model was read."""

    rows: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scans: int = 0


def returned_rows(
    plan: Plan,
    spark: SparkSession,
    results: Sequence[Result],
    filter_of: Callable[[tuple[str, ...]], BatchFilter],
) -> Returned:
    """Count the rows that dbt's queries of failing tests return, where these are others.

    `accepted_values` fails for each row with another value, and dbt reports the values. The scan
    counts rows, since to count values takes a pass of its own; it is made here, for tests that fail
    only, and for all of them together. `filter_of` gives the condition of batches. What cannot be
    counted is a note, not an error: the verdicts stand.
    """
    of_values = {c.id: c for c in plan.checks if DBT_VALUES in c.settings.options}
    failed = failed_batches(r for r in results if r.check_id in of_values)
    if not failed:
        return Returned()
    batches = filter_of(tuple(sorted(set().union(*failed.values()))))
    query = _query(
        plan.model, [(of_values[i], check_batches) for i, check_batches in failed.items()], batches
    )
    try:
        (row,) = rows_of(spark, query, f"cannot count the failing values of {plan.model.name}")
    except EngineError as error:
        return Returned(notes=(error.message,), scans=1)
    return Returned({i: int(row[f"n{at}"]) for at, i in enumerate(failed)}, scans=1)


def _query(
    model: CheckModel, failed: Sequence[tuple[Check, set[str]]], batches: BatchFilter
) -> exp.Select:
    """One row with the distinct values of each check, over the batches in which it failed."""
    query = exp.Select()
    for at, (check, mine) in enumerate(failed):
        value = parse_expression(str(check.settings.options[DBT_VALUES]))
        if check.settings.where is not None:
            condition = exp.Paren(this=parse_expression(check.settings.where))
            value = formula("case when {0} then {1} end", condition, value)
        text = batch_text(model)
        if text is not None and mine != set(batches.batches):
            names = [exp.Literal.string(b) for b in sorted(mine)]
            mine_only = exp.In(this=text, expressions=names)
            value = formula("case when {0} then {1} end", mine_only, value)
        query = query.select(exp.alias_(formula("count(distinct {0})", value), f"n{at}"))
    query = query.from_(model_table(model))
    restricted = batches.condition(model)
    return query if restricted is None else query.where(restricted)
