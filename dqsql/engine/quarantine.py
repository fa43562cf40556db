"""Good rows and quarantined ones: the rows of each checked batch are split, once its verdicts are.

The tables are written before the ledger says that the batch is checked, and a batch that is checked
again replaces its part of both. So a run that dies loses no row and doubles none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler import marked_rows
from dqsql.compiler.privacy import pii_columns
from dqsql.compiler.rowchecks import FailingRows, failing_rows
from dqsql.compiler.scan import BatchFilter
from dqsql.dialect import literal, quoted, to_sql
from dqsql.engine.failing_rows import failed_batches
from dqsql.engine.failures import translated
from dqsql.engine.project_key import project_key, with_key
from dqsql.engine.row_scores import OddRows, odd_in
from dqsql.engine.selects import fetched
from dqsql.engine.statements import computed_once
from dqsql.engine.storage import open_store
from dqsql.errors import ConfigError, Span
from dqsql.model.limits import DROP, KEEP, SETTING, Quarantine
from dqsql.model.plan import Check, Plan, StateColumn
from dqsql.model.project import CheckModel, Project, Scope, Severity
from dqsql.model.results import BatchRecord, Result, Status
from dqsql.model.wording import first_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


RUN_ID, QUARANTINED_AT = "dqsql_run_id", "dqsql_quarantined_at"


@dataclass(frozen=True)
class Split:
    """How many rows of each batch were quarantined, and what a person should know of it.

    `good` are the rows that were not, with the columns of the model's SELECT.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scans: int = 0
    good: DataFrame | None = None


def outdated_split_note(
    model: CheckModel, before: Mapping[str, BatchRecord], batches: Sequence[str]
) -> tuple[str, ...]:
    """Say which of the `batches`, whose rows a run has split, are checked now without a split."""
    split = [b for b in batches if b in before and before[b].quarantined is not None]
    if not split:
        return ()
    return (
        f"the good and quarantined rows of {first_of(split, 3)} of {model.name} are those of an"
        " earlier run: check with --quarantine, or set `quarantine` in the model, to replace them",
    )


@dataclass(frozen=True)
class RowSplitter:
    """Splits the rows of one model, whose view is registered.

    `states` are those that Spark could compute, ready to be scanned; `odd` says which rows
    monitors found odd.
    """

    plan: Plan
    states: Sequence[StateColumn]
    spark: SparkSession
    project: Project
    quarantine: Quarantine
    run_id: str
    now: dt.datetime
    odd: Sequence[OddRows] = ()

    def split(
        self,
        results: Sequence[Result],
        batches: BatchFilter,
        label: str,
        *,
        whole: bool,
        rows: int,
        accepted: Collection[str] = (),
        retired: Collection[str] = (),
    ) -> Split:
        """Write the rows of the batches; of a model without batches, all rows are replaced.

        `rows` is how many there are, for the note; `accepted` are batches that a person accepted,
        which are not quarantined as a whole; those of `retired` batches go. Raises DqsqlError.
        """
        self._refuse_names(batches.types)
        row_checks = self._row_checks()
        failed = failed_batches(r for r in results if _fails(r))
        with ExitStack() as lent:
            statement = marked_rows.SplitQuery(
                plan=self.plan,
                failing=row_checks,
                batches=batches,
                label=label,
                failed=failed,
                routing=[f.check.id for f in row_checks if _routes(f.check)],
                columns=list(batches.types),
                whole=self._whole(results, row_checks, accepted),
                odd=[
                    lent.enter_context(finder.mark(self.spark, batches.types))
                    for finder in odd_in(self.odd, failed)
                ],
            ).query()
            replaced = None if whole else (*batches.batches, *retired)
            good, counts = self._written(statement, batches, replaced)
        return Split(counts, (self._quarantine_message(sum(counts.values()), rows),), 1, good)

    def _written(
        self, statement: exp.Expr, batches: BatchFilter, replaced: Collection[str] | None
    ) -> tuple[DataFrame, dict[str, int]]:
        """Write the rows to both tables: the good ones, and how many by batch are quarantined.

        The rows are computed once and kept by Spark until both tables are written, so that a source
        that changes meanwhile puts no row into both or neither. Each table replaces its part in one
        commit: the batches `replaced`, or None for all rows.
        """
        good, quarantined = self.quarantine.good, self.quarantine.quarantined
        doing = f"cannot split the rows into {good} and {quarantined}"
        frame = computed_once(self.spark, self._text(statement), doing)
        private = pii_columns(self.plan.model)
        left = private if self.quarantine.private == DROP else frozenset()
        hidden = frozenset() if self.quarantine.private == KEEP else private
        columns = [name for name in batches.types if name.lower() not in left]
        kept = marked_rows.kept_columns(columns, batches.types, hidden)
        stored = [*map(self._text, kept), quoted(marked_rows.ROW_BATCH)]
        bad = frame.where(quoted(marked_rows.QUARANTINED))
        rest = frame.where(f"not {quoted(marked_rows.QUARANTINED)}")
        rejected_rows = bad.selectExpr(
            *stored,
            quoted(marked_rows.FAILED_CHECKS),
            quoted(marked_rows.REASONS),
            f"{to_sql(literal(self.run_id))} as {RUN_ID}",
            f"timestamp_micros({int(self.now.timestamp() * 1_000_000)}L) as {QUARANTINED_AT}",
        )
        place = self.quarantine
        target = replace(self.project.target, schema=place.schema, warehouse=place.warehouse)
        store = open_store(self.spark, target)
        store.replace_rows(quarantined, rejected_rows, marked_rows.ROW_BATCH, replaced)
        store.replace_rows(good, rest.selectExpr(*stored), marked_rows.ROW_BATCH, replaced)
        with translated(f"cannot count the rows in {quarantined}"):
            counts = fetched(bad.groupBy(marked_rows.ROW_BATCH).count()).to_pylist()
        store.tidy()
        passed = rest.drop(*marked_rows.OWN_COLUMNS)
        return passed, {row[marked_rows.ROW_BATCH]: row["count"] for row in counts}

    def _text(self, expression: exp.Expr) -> str:
        return with_key(expression, lambda: project_key(self.project.root))

    def _whole(
        self,
        results: Sequence[Result],
        row_checks: Sequence[FailingRows],
        accepted: Collection[str],
    ) -> dict[str, list[str]]:
        """The batches that failed a check that no row is to blame for, with these checks."""
        if not self.quarantine.whole_batches:
            return {}
        named = (*self.plan.checks, *self.plan.monitors)
        not_to_blame = {c.id for c in named if c.settings.options.get(SETTING) is False}
        not_to_blame |= {*(f.check.id for f in row_checks), *(finder.check for finder in self.odd)}
        whole: dict[str, list[str]] = {}
        for result in results:
            if result.status is not Status.FAIL or result.batch in (None, *accepted):
                continue
            name = result.check_id.removeprefix(f"{result.model}.")
            names = whole.setdefault(str(result.batch), [])
            if result.check_id not in not_to_blame and name not in names:
                names.append(name)
        return {batch: names for batch, names in whole.items() if names}

    def _row_checks(self) -> list[FailingRows]:
        """The checks about rows of a batch that are not left out."""
        plan = replace(self.plan, states=tuple(self.states))
        wanted = [
            check
            for check in plan.checks
            if check.settings.scope is Scope.DELTA
            and check.settings.options.get(SETTING) is not False
        ]
        return [r for check in wanted if (r := failing_rows(plan, check)) is not None]

    def _refuse_names(self, types: Mapping[str, str]) -> None:
        taken = sorted(marked_rows.OWN_COLUMNS.intersection(name.lower() for name in types))
        if taken:
            name = self.plan.model.name
            raise ConfigError(
                f"rows of {name} cannot be split: its SELECT has a column {taken[0]}",
                span=Span(self.plan.model.path),
                hint="the tables have columns of these names: leave it out, or rename it",
            )

    def _quarantine_message(self, bad: int, rows: int) -> str:
        where = f"{self.quarantine.schema}.{self.quarantine.quarantined}"
        verb = "is" if bad == 1 else "are"
        return f"{bad:,} of {rows:,} rows {verb} quarantined in {where}"


def _fails(result: Result) -> bool:
    """Whether rows are to blame, and not only told of by the milder one of two thresholds."""
    return result.status is Status.FAIL or result.severity is Severity.WARN


def _routes(check: Check) -> bool:
    """Whether the rows that fail a check are quarantined."""
    return bool(check.settings.options.get(SETTING, check.severity is Severity.ERROR))
