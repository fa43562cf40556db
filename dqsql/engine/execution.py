"""Runs one model's plan: its states, their metrics and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from dqsql.compiler.counts import counted_states, stored_query
from dqsql.compiler.keys import BATCH, SEGMENT, check_batch_by
from dqsql.compiler.privacy import exposing, pii_columns
from dqsql.compiler.queries import metric_query, reads_once
from dqsql.compiler.scan import SMALL_ROWS, Scan, as_part, rows_of, scan_groups
from dqsql.dialect import quoted
from dqsql.engine.failures import translated
from dqsql.engine.feasible import Feasible, failing_states, find_failing
from dqsql.engine.measurement import Measurement, measurement_of
from dqsql.engine.parts import over_views
from dqsql.engine.project_key import with_key
from dqsql.engine.selects import fetched, select
from dqsql.engine.session_use import put_view
from dqsql.engine.statements import sorting_if_too_large
from dqsql.engine.storage import Store
from dqsql.engine.storage_base import COUNTS
from dqsql.engine.values import (
    readable,
    survives_arrow,
    types_of,
    without_held_values,
    without_values,
)
from dqsql.errors import ConnectionLostError, EngineError, QueryError, Span
from dqsql.model.plan import Check, Metric, Plan, StateColumn
from dqsql.model.project import Scope, view_name
from dqsql.model.types import type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


# A sketch is a few kilobytes, so that this many are some tens of megabytes at the most.
_FEW_STATES = 10_000
# Rows that may be read once more where one statement for all does not work.
_READ_TWICE = 1_000_000
_NAMELESS = ("struct", "array", "map", "variant", "interval")
# Columns of states beside metrics: no metric or check has such an alias.
_STATE = "state: "


@dataclass
class ModelExecution:
    """Executes the plan of one model, whose view is registered.

    `scan` says which rows are scanned. Values of metrics about private columns do not leave Spark,
    nor are their states stored; `key` is the project's key of private values.
    """

    spark: SparkSession
    store: Store
    plan: Plan
    scan: Scan
    key: Callable[[], str] = lambda: ""
    _held: pa.Table | None = None
    _local: DataFrame | None = None
    _found: list[dict[str, Any]] | None = None
    _exposed: frozenset[str] = frozenset()
    _analysed: tuple[tuple[object, ...], DataFrame] | None = None
    _reads: int | None = None

    def _query(self, statement: exp.Expr) -> DataFrame:
        return select(self.spark, self._text(statement))

    def _text(self, statement: exp.Expr) -> str:
        return with_key(statement, self.key)

    def statement(self, states: Sequence[StateColumn], types: Mapping[str, str]) -> exp.Expr:
        """What scans some states."""
        return self.scan.of(states, types).query()

    @property
    def _states(self) -> exp.Expr:
        """The view of the state rows at hand; models may run at the same time."""
        name = f"{view_name(self.plan.model.name)}: states"
        return exp.Table(this=exp.to_identifier(name, quoted=True))

    # --- batches -------------------------------------------------------------------------------

    def batch_type(self, expression: str, view: str) -> str:
        """The Spark type of the `batch_by` expression. Raises EngineError and QueryError."""
        spark_type = self._batch_type(expression, view)
        if spark_type.startswith(_NAMELESS):
            raise QueryError(
                f"batch_by, {expression}, is of type {spark_type}, which names no batch",
                span=Span(self.plan.model.path),
                hint="name a date, time, number or text, also of a struct: address.city",
            )
        return spark_type

    def _batch_type(self, expression: str, view: str) -> str:
        batch_by, name = check_batch_by(self.plan.model), self.plan.model.name
        plain = isinstance(batch_by, exp.Column) and not batch_by.table
        if batch_by is not None and plain and (known := type_of(batch_by.name, self.scan.columns)):
            return known
        place = Span(self.plan.model.path)
        with translated(f"batch_by of {name} does not work: {expression}", place):
            frame = select(self.spark, f"select ({expression}) as batch from {view} limit 0")
            return str(frame.schema[0].dataType.simpleString())

    # --- what can be computed ------------------------------------------------------------------

    def analyse(
        self, states: Sequence[StateColumn], broken: Sequence[tuple[StateColumn, EngineError]] = ()
    ) -> Feasible:
        """Let Spark analyse every expression; what it refuses is set apart with its error.

        `states` are those of the plan, ready to be scanned; `broken` is what already failed.
        """
        part = Feasible([*states], list(self.plan.metrics), list(self.plan.checks))
        part.drop_states(broken)
        if not self._analyse_whole(part):
            self._analyse_apart(part)
        return part

    def _analyse_whole(self, part: Feasible) -> bool:
        """Whether one statement is to compute all of it, and Spark accepts that."""
        if not self._is_whole(part):
            return False
        delta, content = part.of_scope(Scope.DELTA), self._content(part, part.states, whole=True)
        try:
            with translated("Spark refuses it"):
                statement = self._whole_statement(part, part.states)
                statement = over_views(self.spark, statement, self._text)
                frame = select(self.spark, self._text(statement))
                rows = _as_states(frame.schema)
            _refuse_values(delta.checks, types_of(frame.schema))
            if len(delta.metrics) < len(part.metrics):
                self._show_types(rows)
                self._analyse(part.metrics, part.of_scope(Scope.CUMULATIVE).checks)
        except EngineError:
            return False
        part.types = types_of(rows)
        self._analysed = content, frame
        return True

    def _is_whole(self, part: Feasible) -> bool:
        """Whether one statement scans the states and finishes them, where Spark accepts it.

        Should it fail, the rows are read again.
        """
        rows = self.scan.rows
        few = rows is not None and rows <= _READ_TWICE and self.are_few(part)
        return few and reads_once(part.of_scope(Scope.DELTA).metrics)

    def are_few(self, part: Feasible) -> bool:
        """Whether state rows are few enough to be handed to Spark from here, without a file."""
        if self.plan.model.config.segment_by or not all(map(survives_arrow, part.types.values())):
            return False
        listed = self.scan.batches.batches if self.scan.batches else ()
        batches = len(listed) + len(self.scan.empty)
        return max(batches, 1) * len(part.states) <= _FEW_STATES

    def _whole_statement(self, part: Feasible, states: Sequence[StateColumn]) -> exp.Expr:
        """What scans states, and finishes metrics and checks of single batches beside them."""
        delta = part.of_scope(Scope.DELTA)
        rows = as_part(self.scan.of(states, part.types).query(), "states")
        names = {s.name: _STATE + s.name for s in states}
        return metric_query(delta.metrics, delta.checks, rows, names)

    def _analyse_apart(self, part: Feasible) -> None:
        try:
            rows = self._analyse_states(part.states)
        except EngineError:
            refused = failing_states(part.states, self._analyse_states)
            if len(refused) == len(part.states):
                # Not even rows can be counted: it is what all states have in common.
                raise
            part.drop_states(refused)
            rows = self._analyse_states(part.states)
        part.types = types_of(rows)
        self._show_types(rows)
        try:
            self._analyse(part.metrics, part.checks)
        except EngineError:
            part.drop_metrics(find_failing(part.metrics, self._analyse))
            part.drop_checks(find_failing(part.checks, partial(self._analyse, part.metrics)))

    def _show_types(self, rows: StructType) -> None:
        """Let metrics be analysed over columns of these types, not over the scan each time."""
        with translated("Spark refuses the state columns"):
            put_view(self.spark.createDataFrame([], rows), self._states.name)

    def _analyse_states(self, states: Sequence[StateColumn]) -> StructType:
        with translated("Spark refuses it"):
            frame = self._query(self.statement(states, {}))
            self._analysed = (scan_groups(states, {}, self.scan.columns),), frame
            return frame.schema

    @translated("Spark refuses it")
    def _analyse(self, metrics: Sequence[Metric], checks: Sequence[Check] = ()) -> None:
        frame = self._query(metric_query(metrics, checks, self._states))
        _refuse_values(checks, types_of(frame.schema))

    # --- scan and measure ----------------------------------------------------------------------

    def scan_states(self, part: Feasible, batches: Collection[str]) -> None:
        """Compute the state rows of `batches`; isolate states that fail while running.

        They are stored, or, where they are few, held until `store_states` does it: measuring them
        then reads no table, and storing them can wait.
        """
        self._exposed = exposing(part.states, pii_columns(self.plan.model))
        if self.holds_states or (self._is_whole(part) and self._scan_and_measure(part)):
            return
        local = self.are_few(part)
        try:
            sorting_if_too_large(self.spark, lambda: self._scan_states(part, batches, local))
        except EngineError:
            failing = failing_states(
                part.scanned, lambda some: self._run_only(self.statement(some, part.types))
            )
            if not failing:
                raise
            part.drop_states(failing)
            if not part.scanned:
                raise
            self._scan_states(part, batches, local)

    def scan_at_once(self, part: Feasible) -> bool:
        """Compute state rows, if they are few, by one statement; whether that worked."""
        if self._is_whole(part):
            return self._scan_and_measure(part)
        if not self.are_few(part):
            return False
        try:
            sorting_if_too_large(self.spark, lambda: self._scan_states(part, (), local=True))
        except ConnectionLostError:
            raise
        except EngineError:
            return False
        return True

    def take(
        self,
        scanned: ModelExecution,
        states: Mapping[str, str],
        values: Mapping[str, str],
        reads: int,
    ) -> None:
        """Hold states, and what is known of them, as another execution has computed them.

        `states` are what the states are called there, by their names here, `values` likewise what
        metrics and checks are. `reads` is how often the source was read for the sake of this one.
        """
        assert scanned._held is not None
        keys = {BATCH: BATCH, SEGMENT: SEGMENT}
        columns = {**keys, **states}
        held = scanned._held.select([*columns.values()])
        self._held, self._reads = held.rename_columns([*columns]), reads
        if scanned._local is not None:
            named = (f"{quoted(there)} as {quoted(here)}" for here, there in columns.items())
            self._local = scanned._local.selectExpr(*named)
        if scanned._found is not None:
            value_names = {**keys, "rows": "rows", **values}
            rows = scanned._found
            self._found = [
                {here: row[there] for here, there in value_names.items()} for row in rows
            ]

    def _scan_and_measure(self, part: Feasible) -> bool:
        """Compute states and all that is said of single batches; whether it worked."""
        content = self._content(part, part.scanned, whole=True)
        states = {_STATE + s.name: s.name for s in part.scanned}
        keys = (BATCH, SEGMENT)

        def run() -> pa.Table:
            with translated("the scan failed"):
                frame = self._known(content)
                if frame is None:
                    frame = self._query(self._whole_statement(part, part.scanned))
                return fetched(readable(frame, kept=states))

        try:
            rows = sorting_if_too_large(self.spark, run)
        except ConnectionLostError:
            raise
        except EngineError:
            return False
        held = rows.select([*keys, *states])
        self._held = held.rename_columns([*keys, *states.values()])
        self._found = rows.drop_columns([*states]).to_pylist()
        return True

    def store_counts(self, part: Feasible, batches: Sequence[str]) -> None:
        """Store how often values occur, where cumulative metrics need it.

        Isolates what cannot be counted.
        """
        model, counted = self.plan.model.name, counted_states(part.states, part.metrics)
        size = rows_of(batches, self.scan.sizes)
        is_small = size is not None and size <= SMALL_ROWS

        def build(states: Sequence[StateColumn]) -> exp.Expr:
            return stored_query(self.scan.of(states, {}), batches)

        def store(states: Sequence[StateColumn]) -> None:
            with translated(f"counting the values of {model} failed"):
                frame = self._query(build(states))
                # A job of Spark's that writes so few takes longer.
                rows = fetched(frame) if is_small else frame
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

    def _scan_states(self, part: Feasible, batches: Collection[str], local: bool) -> None:
        model = self.plan.model.name
        with translated(f"the scan of {model} failed"):
            frame = self._known(self._content(part, part.scanned))
            if frame is None:
                frame = self._query(self.statement(part.scanned, part.types))
            if local:
                rows = fetched(frame)
                # Spark Connect takes no empty Arrow table.
                held = rows if rows.num_rows else []
                self._held = rows
                self._local = self.spark.createDataFrame(held, frame.schema)
                return
            if self._exposed:
                # What is stored lacks values that measuring needs.
                self._local = frame = frame.localCheckpoint()
        self.store.replace_state(model, without_values(frame, self._exposed), batches)

    def _content(
        self, part: Feasible, states: Sequence[StateColumn], *, whole: bool = False
    ) -> tuple[object, ...]:
        """What a statement computes, as it computes it: of equal contents one is as good."""
        groups = scan_groups(states, part.types, self.scan.columns)
        delta = part.of_scope(Scope.DELTA)
        return (groups, delta.metrics, delta.checks) if whole else (groups,)

    def _known(self, content: tuple[object, ...]) -> DataFrame | None:
        """The rows of what was analysed, if it has this content: Spark need not do it twice."""
        known, self._analysed = self._analysed, None
        # A second try needs another plan: a frame keeps the one that it was executed by.
        return known[1] if known is not None and known[0] == content else None

    def source_scans(self, part: Feasible) -> int:
        """How often scanning reads the model's SELECT."""
        if self._reads is not None:
            return self._reads
        return self.scan.of(part.scanned, part.types).source_scans

    @property
    def holds_states(self) -> bool:
        """Whether there are state rows that are not stored yet."""
        return self._held is not None

    def store_states(self, batches: Collection[str], kept: Collection[str] | None = None) -> None:
        """Store the state rows that are held, if any; of the batches that are `kept`."""
        if self._held is not None:
            held = without_held_values(self._held, self._exposed)
            if kept is not None and len(kept) < len(batches):
                held = held.filter(pc.is_in(held[BATCH], pa.array(kept, pa.string())))
            self.store.replace_state(self.plan.model.name, held, batches)
            self._held = None

    def _run_only(self, query: exp.Expr) -> None:
        """Run a statement for its errors."""

        def run() -> None:
            with translated("Spark failed on it"):
                self._query(query).write.format("noop").mode("overwrite").save()

        sorting_if_too_large(self.spark, run)

    def measure_batches(self, part: Feasible, batches: Collection[str]) -> Measurement:
        """Metric values and outcomes of scanned state rows; isolate what fails while running."""
        if self._found is not None:
            return measurement_of(self.plan, part, self._found)
        frame = self._local
        if frame is None:
            frame = self.store.read_state(self.plan.model.name, batches)
        return Measurement((), (), {}) if frame is None else self.measure_rows(part, frame)

    def measure_rows(self, part: Feasible, frame: DataFrame) -> Measurement:
        """Metric values and outcomes of state rows; isolate what fails while running."""
        put_view(frame, self._states.name)
        try:
            return self._measure(part)
        except EngineError:
            part.drop_metrics(find_failing(part.metrics, self._run))
            part.drop_checks(find_failing(part.checks, partial(self._run, part.metrics)))
            return self._measure(part)

    @translated("Spark failed on it")
    def _run(self, metrics: Sequence[Metric], checks: Sequence[Check] = ()) -> None:
        fetched(readable(self._query(metric_query(metrics, checks, self._states))))

    def _measure(self, part: Feasible) -> Measurement:
        with translated(f"the metrics of {self.plan.model.name} failed"):
            query = metric_query(part.metrics, part.checks, self._states)
            rows = fetched(readable(self._query(query))).to_pylist()
        return measurement_of(self.plan, part, rows)


def _refuse_values(checks: Sequence[Check], types: Mapping[str, str]) -> None:
    """Raise QueryError for a check whose columns are no conditions; `types` are those of all."""
    for check in checks:
        second = [] if check.warning is None else [check.warning.alias]
        kinds = {types[alias] for alias in (check.alias, *second)}
        if wrong := sorted(kinds.difference(("boolean", "void"))):
            raise QueryError(
                f"{check.expression} is {wrong[0]}, not a condition",
                span=check.span,
                hint="compare it with something",
            )


def _as_states(schema: StructType) -> StructType:
    """The columns of state rows among those of a whole statement."""
    from pyspark.sql.types import StructField, StructType

    keys = [f for f in schema.fields if f.name in (BATCH, SEGMENT)]
    states = [f for f in schema.fields if f.name.startswith(_STATE)]
    named = (StructField(f.name.removeprefix(_STATE), f.dataType, f.nullable) for f in states)
    return StructType([*keys, *named])
