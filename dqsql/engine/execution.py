"""Runs one model's plan: its states, their metrics and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from dqsql.compiler.counts import counted_states, stored_query
from dqsql.compiler.privacy import exposing, pii_columns, withheld
from dqsql.compiler.queries import metric_query
from dqsql.compiler.scan import ModelScan
from dqsql.dialect import literal, to_sql
from dqsql.engine.broadcasts import sorting_if_too_large
from dqsql.engine.failures import translated
from dqsql.engine.layout import COUNTS
from dqsql.engine.storage import Store
from dqsql.engine.values import (
    WITHHELD,
    as_number_or_text,
    readable,
    survives_arrow,
    types_of,
    without_held_values,
    without_values,
)
from dqsql.errors import ConnectionLostError, EngineError, QueryError
from dqsql.model.plan import PII_KEY, PROFILES, Check, Metric, Plan, StateColumn
from dqsql.model.project import Scope, view_name
from dqsql.model.results import CheckOutcome, MetricValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Measurement:
    """The metric values and check outcomes of some batches.

    By batch, `rows` are the rows of the data, and `states` those in which its state is kept.
    """

    values: tuple[MetricValue, ...]
    outcomes: tuple[CheckOutcome, ...]
    rows: Mapping[str, int]
    states: Mapping[str, int] = field(default_factory=dict)

    def joined(self, other: Measurement) -> Measurement:
        """Both; the numbers of rows are those of this one."""
        return Measurement(
            (*self.values, *other.values),
            (*self.outcomes, *other.outcomes),
            self.rows,
            self.states,
        )


@dataclass
class Feasible:
    """The part of a plan that Spark can run, and the errors of the part that it cannot.

    The states named in `unscanned` are not computed of a batch: only ever of added counts.
    """

    states: list[StateColumn]
    metrics: list[Metric]
    checks: list[Check]
    types: dict[str, str] = field(default_factory=dict)
    errors: dict[str, EngineError] = field(default_factory=dict)
    metric_errors: dict[str, EngineError] = field(default_factory=dict)
    unscanned: frozenset[str] = frozenset()

    @property
    def scanned(self) -> list[StateColumn]:
        """The states that a batch has."""
        return [s for s in self.states if s.name not in self.unscanned]

    def of_scope(self, scope: Scope) -> Feasible:
        """The metrics and checks of one scope; errors met there are errors of the whole."""
        return Feasible(
            self.states,
            [m for m in self.metrics if m.scope is scope],
            [c for c in self.checks if c.settings.scope is scope],
            self.types,
            self.errors,
            self.metric_errors,
        )

    def drop_states(self, failing: Sequence[tuple[StateColumn, EngineError]]) -> None:
        """Take out states, and with them the states, metrics and checks that need them."""
        broken = {s.name: e for s, e in failing}
        # What merges together cannot be merged without one of them.
        lost_mates = [(s.name, broken[n]) for s in self.states for n in s.group if n in broken]
        broken = {**dict(lost_mates), **broken}
        self.states = [s for s in self.states if s.name not in broken]
        lost = [(m, broken[s]) for m in self.metrics for s in m.states if s in broken]
        self.drop_metrics(lost)

    def drop_metrics(self, failing: Sequence[tuple[Metric, EngineError]]) -> None:
        """Take out metrics, and with them the checks that compare them."""
        broken = {m.alias: e for m, e in failing}
        for alias, error in broken.items():
            self.metric_errors.setdefault(alias, error)
        self.metrics = [m for m in self.metrics if m.alias not in broken]
        lost = [(c, broken[a]) for c in self.checks for a in c.metrics if a in broken]
        self.drop_checks(lost)

    def drop_checks(self, failing: Sequence[tuple[Check, EngineError]]) -> None:
        """Take out checks; the first error of each is kept."""
        for check, error in failing:
            self.errors.setdefault(check.id, error)
        self.checks = [c for c in self.checks if c.id not in self.errors]


# Rows of batches whose counted values are handed over by way of this process: a job of Spark's that
# writes so few takes longer.
_FEW_ROWS = 50_000


def _failing_states(
    states: Sequence[StateColumn], attempt: Callable[[Sequence[StateColumn]], object]
) -> list[tuple[StateColumn, EngineError]]:
    """The states that fail by themselves: together with those that their merges read."""

    def with_groups(some: Sequence[StateColumn]) -> object:
        wanted = {name for s in some for name in (s.name, *s.group)}
        return attempt([s for s in states if s.name in wanted])

    return find_failing(states, with_groups, fails=True)


def states_view(model: str) -> str:
    """The name of the temporary view of a model's state rows."""
    return f"{view_name(model)}: states"


@dataclass
class ModelExecution:
    """Executes the plan of one model, whose view is registered.

    `scan` says which rows are scanned. Values of metrics about private columns do not leave Spark,
    nor are their states stored; `key` is the project's key of private values.
    """

    spark: SparkSession
    store: Store
    plan: Plan
    scan: ModelScan
    key: Callable[[], str] = lambda: ""
    _held: pa.Table | None = None
    _local: DataFrame | None = None
    _exposed: frozenset[str] = frozenset()
    _analysed: tuple[str, DataFrame] | None = None

    def _query(self, statement: exp.Expr) -> DataFrame:
        return self.spark.sql(self._text(statement))

    def _text(self, statement: exp.Expr) -> str:
        text = to_sql(statement)
        mark = to_sql(literal(PII_KEY))
        return text.replace(mark, f"'{self.key()}'") if mark in text else text

    def statement(self, states: Sequence[StateColumn], types: Mapping[str, str]) -> exp.Expr:
        """What scans some states."""
        return self.scan.of(states, types).query()

    @property
    def _states(self) -> exp.Expr:
        """The view of the state rows at hand; models may run at the same time."""
        return exp.Table(this=exp.to_identifier(states_view(self.plan.model.name), quoted=True))

    # --- batches -------------------------------------------------------------------------------

    def batch_type(self, expression: str, view: str) -> str:
        """The Spark type of the `batch_by` expression."""
        name = self.plan.model.name
        with translated(f"batch_by of {name} does not work: {expression}"):
            frame = self.spark.sql(f"select ({expression}) as batch from {view} limit 0")
            return str(frame.schema[0].dataType.simpleString())

    # --- what can be computed ------------------------------------------------------------------

    def analyse(
        self,
        states: Sequence[StateColumn],
        broken: Sequence[tuple[StateColumn, EngineError]] = (),
    ) -> Feasible:
        """Let Spark analyse every expression; what it refuses is set apart with its error.

        `states` are those of the plan, ready to be scanned; `broken` is what already failed.
        """
        part = Feasible([*states], list(self.plan.metrics), list(self.plan.checks))
        part.drop_states(broken)
        try:
            rows = self._analyse_states(part.states)
        except EngineError:
            refused = _failing_states(part.states, self._analyse_states)
            if len(refused) == len(part.states):
                # Not even rows can be counted: it is what all states have in common.
                raise
            part.drop_states(refused)
            rows = self._analyse_states(part.states)
        part.types = types_of(rows)
        with translated("Spark refuses the state columns"):
            # Columns of these types, not the scan itself, which every metric would analyse again.
            self.spark.createDataFrame([], rows).createOrReplaceTempView(to_sql(self._states))
        try:
            self._analyse_checks(part.metrics)(part.checks)
        except EngineError:
            part.drop_metrics(find_failing(part.metrics, self._analyse_metrics))
            part.drop_checks(find_failing(part.checks, self._analyse_checks(part.metrics)))
        return part

    def _analyse_states(self, states: Sequence[StateColumn]) -> StructType:
        with translated("Spark refuses it"):
            text = self._text(self.statement(states, {}))
            frame = self.spark.sql(text)
            self._analysed = text, frame
            return frame.schema

    def _analyse_metrics(self, metrics: Sequence[Metric]) -> DataFrame:
        with translated("Spark refuses it"):
            frame = self._query(metric_query(metrics, (), self._states))
            frame.schema  # noqa: B018 - as above
        return frame

    def _analyse_checks(self, metrics: Sequence[Metric]) -> Callable[[Sequence[Check]], None]:
        def attempt(checks: Sequence[Check]) -> None:
            with translated("Spark refuses it"):
                frame = self._query(metric_query(metrics, checks, self._states))
                types = types_of(frame.schema)
            for check in checks:
                second = [] if check.warning is None else [check.warning.alias]
                kinds = {types[alias] for alias in (check.alias, *second)}
                if wrong := sorted(kinds.difference(("boolean", "void"))):
                    raise QueryError(
                        f"{check.expression} is {wrong[0]}, not a condition",
                        span=check.span,
                        hint="compare it with something",
                    )

        return attempt

    # --- scan and measure ----------------------------------------------------------------------

    def scan_states(
        self,
        part: Feasible,
        batches: Collection[str],
        *,
        local: bool = False,
    ) -> None:
        """Compute the state rows of `batches`; isolate states that fail while running.

        They are stored, or, where `local` says that they are few, held until `store_states` does
        it: measuring them then reads no table, and storing them can wait.
        """
        local = local and all(map(survives_arrow, part.types.values()))
        self._exposed = exposing(part.states, pii_columns(self.plan.model))
        try:
            sorting_if_too_large(self.spark, lambda: self._scan_states(part, batches, local))
        except EngineError:
            failing = _failing_states(part.scanned, self._run_states(part))
            if not failing:
                raise
            part.drop_states(failing)
            self._scan_states(part, batches, local)

    def store_counts(self, part: Feasible, batches: Sequence[str]) -> None:
        """Store how often values occur, where cumulative metrics need it.

        Isolates what cannot be counted.
        """
        model, counted = self.plan.model.name, counted_states(part.states, part.metrics)

        def build(states: Sequence[StateColumn]) -> exp.Expr:
            return stored_query(self.scan.of(states, {}), batches)

        def store(states: Sequence[StateColumn]) -> None:
            with translated(f"counting the values of {model} failed"):
                frame = self._query(build(states))
                rows = frame.toArrow() if self._has_few_rows(batches) else frame
            self.store.replace_state(model, rows, batches, COUNTS)

        try:
            sorting_if_too_large(self.spark, lambda: store(counted))
        except EngineError:
            failing = find_failing(counted, lambda states: self._run_only(build(states)))
            if not failing:
                raise
            part.drop_states(failing)
            broken = {s.name for s, _ in failing}
            left = [s for s in counted if s.name not in broken]
            if left:
                store(left)

    def _has_few_rows(self, batches: Collection[str]) -> bool:
        sizes = self.scan.sizes
        return sum(sizes.get(batch, _FEW_ROWS + 1) for batch in batches) <= _FEW_ROWS

    def _scan_states(self, part: Feasible, batches: Collection[str], local: bool) -> None:
        model = self.plan.model.name
        with translated(f"the scan of {model} failed"):
            frame = self._scan_of(part)
            if local:
                rows = frame.toArrow()
                # Spark Connect takes no empty Arrow table.
                held = rows if rows.num_rows else []
                self._held = rows
                self._local = self.spark.createDataFrame(held, frame.schema)
                return
            if self._exposed:
                # What is stored lacks values that measuring needs.
                self._local = frame = frame.localCheckpoint()
        self.store.replace_state(model, without_values(frame, self._exposed), batches)

    def _scan_of(self, part: Feasible) -> DataFrame:
        """What scans the states: mostly what was analysed, which Spark need not do twice."""
        text = self._text(self.statement(part.scanned, part.types))
        known, self._analysed = self._analysed, None
        # A second try needs another plan: a frame keeps the one that it was executed by.
        return known[1] if known is not None and known[0] == text else self.spark.sql(text)

    @property
    def holds_states(self) -> bool:
        """Whether there are state rows that are not stored yet."""
        return self._held is not None

    def store_states(self, batches: Collection[str]) -> None:
        """Store the state rows that are held, if any."""
        if self._held is not None:
            held = without_held_values(self._held, self._exposed)
            self.store.replace_state(self.plan.model.name, held, batches)
            self._held = None

    def _run_states(self, part: Feasible) -> Callable[[Sequence[StateColumn]], None]:
        return lambda states: self._run_only(self.statement(states, part.types))

    def _run_only(self, query: exp.Expr) -> None:
        """Run a statement for its errors."""

        def run() -> None:
            with translated("Spark failed on it"):
                self._query(query).write.format("noop").mode("overwrite").save()

        sorting_if_too_large(self.spark, run)

    def measure_batches(self, part: Feasible, batches: Collection[str]) -> Measurement:
        """Metric values and outcomes of stored state rows; isolate what fails while running."""
        frame = self._local
        if frame is None:
            frame = self.store.read_state(self.plan.model.name, batches)
        return Measurement((), (), {}) if frame is None else self.measure_rows(part, frame)

    def measure_rows(self, part: Feasible, frame: DataFrame) -> Measurement:
        """Metric values and outcomes of state rows; isolate what fails while running."""
        frame.createOrReplaceTempView(to_sql(self._states))
        try:
            return self._measure(part)
        except EngineError:
            part.drop_metrics(find_failing(part.metrics, self._run_metrics))
            part.drop_checks(find_failing(part.checks, self._run_checks(part)))
            return self._measure(part)

    def _run_metrics(self, metrics: Sequence[Metric]) -> None:
        with translated("Spark failed on it"):
            readable(self._analyse_metrics(metrics)).toArrow()

    def _run_checks(self, part: Feasible) -> Callable[[Sequence[Check]], None]:
        def attempt(checks: Sequence[Check]) -> None:
            with translated("Spark failed on it"):
                query = metric_query(part.metrics, checks, self._states)
                readable(self._query(query)).toArrow()

        return attempt

    def _measure(self, part: Feasible) -> Measurement:
        with translated(f"the metrics of {self.plan.model.name} failed"):
            query = metric_query(part.metrics, part.checks, self._states)
            rows = readable(self._query(query)).toArrow().to_pylist()
        rows.sort(key=lambda r: (r["batch"], r["segment"] is not None, r["segment"] or ""))
        values: list[MetricValue] = []
        outcomes: list[CheckOutcome] = []
        whole = {s.name for s in part.states if s.whole_only}
        hidden = withheld(part.metrics, part.states, pii_columns(self.plan.model))
        for row in rows:
            told = [m for m in part.metrics if row["segment"] is None or not whole & {*m.states}]
            by_alias = {m.alias: self._value(m, row, m.alias in hidden) for m in told}
            values.extend(by_alias.values())
            outcomes.extend(
                CheckOutcome(
                    check,
                    row["batch"],
                    row["segment"],
                    row[check.alias],
                    tuple(by_alias[a] for a in check.metrics),
                    True if check.warning is None else row[check.warning.alias],
                )
                for check in part.checks
                if all(a in by_alias for a in check.metrics)
            )
        sizes = {r["batch"]: r["rows"] for r in rows if r["segment"] is None}
        states = Counter(r["batch"] for r in rows)
        return Measurement(tuple(values), tuple(outcomes), sizes, states)

    def _value(self, metric: Metric, row: Mapping[str, Any], withheld: bool) -> MetricValue:
        value, text = as_number_or_text(row[metric.alias])
        if withheld:
            is_told = value is not None or text is not None
            value, text = None, WITHHELD if is_told and metric.name not in PROFILES else None
        return MetricValue(
            model=self.plan.model.name,
            batch=row["batch"],
            segment=row["segment"],
            column=metric.column,
            metric=metric.name,
            parameters=metric.parameters,
            scope=metric.scope.value,
            value=value,
            value_text=text,
            sample_size=row["rows"],
        )


T = TypeVar("T")


def find_failing(
    items: Sequence[T], attempt: Callable[[Sequence[T]], object], *, fails: bool = False
) -> list[tuple[T, EngineError]]:
    """Return the items with which `attempt` raises EngineError, each with its error.

    One call when nothing fails; about 2 k log2(n) calls for k failing ones among n. With `fails`
    it is known that all of them together do. Raises ConnectionLostError: no member's fault.
    """
    if not items:
        return []
    if len(items) == 1 or not fails:
        try:
            attempt(items)
            return []
        except ConnectionLostError:
            raise
        except EngineError as error:
            if len(items) == 1:
                return [(items[0], error)]
    middle = len(items) // 2
    found = find_failing(items[:middle], attempt)
    # Where one half works, it is the other one that fails.
    return [*found, *find_failing(items[middle:], attempt, fails=not found)]
