"""`@matches_relation(other, keys => .., columns => ..)`: the rows of another relation, by key."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sqlglot import exp

from dqsql.compiler.arguments import split_arguments
from dqsql.compiler.diff import (
    BATCH,
    BUCKET,
    BUCKETS,
    CHANGED,
    COUNT,
    DIFFERENCE,
    EXTRA,
    HERE,
    MISSING,
    ROW,
    THERE,
    ComparedColumn,
    ComparedSide,
    RelationDiff,
    changed_counts,
    compared_type,
    counted_differences,
    sampled_differences,
)
from dqsql.compiler.keys import batch_columns, batch_text, model_view
from dqsql.compiler.privacy import pii_columns, private_of_relation
from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.trees import parts_of
from dqsql.dialect import as_type, parse_expression, shortened, to_sql
from dqsql.errors import AnnotationError, CompileError, DqsqlError, QueryError, Span, nearest
from dqsql.model.monitors import MonitorSpec, MonitorUse, WatchedMetric
from dqsql.model.plan import Monitor, Relation
from dqsql.model.results import Result, Status
from dqsql.model.settings import as_bool, as_given
from dqsql.model.tables import FAILURES
from dqsql.model.wording import plural
from dqsql.monitors.context import (
    MonitorByMonitor,
    derived_value,
    failed_status,
    result_of,
    with_details,
)
from dqsql.monitors.demands import missing_status
from dqsql.monitors.kind import MonitorKind
from dqsql.monitors.settings import literal_value, read_braces

_NAME = "matches_relation"
_METRIC = "differing_rows"
_EXAMPLE = f"@{_NAME}(ledger, keys => id, columns => (amount, status), tolerance => 0.01)"
_SETTINGS = {"store_failures": as_bool, "warn_if": as_given, "error_if": as_given}
_NUMBER = re.compile(r">\s*(\d{1,18})")
# More buckets than these are no filter worth a join.
_MANY = 20 * BUCKETS
# Where all rows are wanted: they pass through this process.
_ALL_ROWS = 10_000


@dataclass(frozen=True)
class MatchCall:
    """The other relation, the keys, what is compared (nothing: all they share), the tolerance."""

    relation: str
    keys: tuple[str, ...]
    columns: tuple[str, ...] = ()
    tolerance: float = 0.0


def match_call(expression: str, span: Span) -> MatchCall:
    """The call in an annotation's expression. Raises CompileError."""
    ast = parse_expression(expression, span).unnest()
    arguments = list(ast.expressions) if isinstance(ast, exp.Anonymous) else []
    given, by_name = split_arguments(arguments)
    named = {name.lower(): value for name, value in by_name.items()}
    for unknown in named.keys() - {"keys", "columns", "tolerance"}:
        raise CompileError(
            f"@{_NAME} has no argument {unknown!r}",
            span=span,
            hint=nearest(unknown, ("keys", "columns", "tolerance")) or f"for example {_EXAMPLE}",
        )
    if len(given) != 1 or "keys" not in named:
        raise CompileError(
            f"@{_NAME} takes a relation and the keys that identify its rows",
            span=span,
            hint=f"for example {_EXAMPLE}",
        )
    tolerance = literal_value(to_sql(named["tolerance"])) if "tolerance" in named else 0
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or tolerance < 0:
        raise CompileError(
            f"the tolerance must be a number of at least 0, not {tolerance!r}", span=span
        )
    names = {k: _names(v, k, span) for k, v in named.items() if k != "tolerance"}
    return MatchCall(to_sql(given[0]), names["keys"], names.get("columns", ()), float(tolerance))


def _names(node: exp.Expr, argument: str, span: Span) -> tuple[str, ...]:
    parts = parts_of(node)
    for part in parts:
        if not (isinstance(part, exp.Column) or (isinstance(part, exp.Literal) and part.is_string)):
            raise CompileError(
                f"{argument} takes names of columns that both relations have, not {to_sql(part)}",
                span=span,
                hint="compute it in the SELECTs of both",
            )
    return tuple(part.name for part in parts)


@dataclass
class _BatchDiff:
    """What differs in one batch: rows by kind and by changed column, and rows of both sides."""

    here: int = 0
    there: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many rows differ."""
        return sum(self.kinds.values())


@dataclass
class MatchDetector(MonitorByMonitor):
    """Decides on all `@matches_relation` of one model."""

    kind: ClassVar[str] = _NAME
    _found: dict[str, Mapping[str, _BatchDiff] | DqsqlError] = field(default_factory=dict)

    def prepare(self, batches: Sequence[str]) -> None:
        """Compare the relations in all batches of the run at once."""
        for monitor in self.monitors:
            try:
                self._found[monitor.id] = self._compared(monitor, batches)
            except DqsqlError as error:
                self._found[monitor.id] = error

    # --- comparing -----------------------------------------------------------------------------

    def _compared(self, monitor: Monitor, batches: Sequence[str]) -> Mapping[str, _BatchDiff]:
        # Imported here because it starts with pyspark, which takes half a second.
        from dqsql.engine.statements import kept_view, rows_of, view_of_rows

        diff = self._diff(monitor, batches)
        spark, name = self.place.spark, self.place.plan.model.name
        doing = f"cannot compare {name} with {self._relation(monitor).name}"
        batch_diffs: dict[str, _BatchDiff] = defaultdict(_BatchDiff)
        pairs: list[dict[str, Any]] = []
        for row in rows_of(spark, diff.buckets(), doing):
            batch_diffs[self._batch(row)] = _BatchDiff(int(row[HERE]), int(row[THERE]))
            pairs += [{BATCH: row[BATCH], BUCKET: bucket} for bucket in row[BUCKET]]
        if not pairs:
            return batch_diffs
        view = f"dqsql__{name}: differences of {monitor.id}"
        buckets = f"{view}, buckets" if len(pairs) <= _MANY else None
        rows = nullcontext() if buckets is None else view_of_rows(spark, buckets, pairs)
        with rows, kept_view(spark, view, diff.differences(buckets), doing):
            for row in rows_of(spark, counted_differences(view, diff.values), doing):
                one = batch_diffs[self._batch(row)]
                one.kinds[row[DIFFERENCE]] = int(row[COUNT])
                if row[DIFFERENCE] == CHANGED:
                    one.columns = changed_counts(row, diff.values)
            if monitor.settings.options.get("store_failures", self.context.store_failures):
                limit = self.place.failures_limit or _ALL_ROWS
                for row in rows_of(spark, sampled_differences(view, limit), doing):
                    batch_diffs[self._batch(row)].rows.append(row[ROW])
        return batch_diffs

    def _batch(self, row: Mapping[str, Any]) -> str:
        return self.place.label if row[BATCH] is None else str(row[BATCH])

    def _relation(self, monitor: Monitor) -> Relation:
        return next(r for r in self.place.plan.relations if r.sql == monitor.relations[0])

    def _diff(self, monitor: Monitor, batches: Sequence[str]) -> RelationDiff:
        from dqsql.engine.relations import column_types

        call, relation = match_call(monitor.expression, monitor.span), self._relation(monitor)
        model = self.place.plan.model
        theirs = {
            n.lower(): t
            for n, t in column_types(self.place.spark, relation.sql, relation.name).items()
        }
        ours = {n.lower(): (n, t) for n, t in self.place.types.items()}
        batch = relation.batch
        own = batch_text(model)
        if own is not None and batch is None:
            for name in batch_columns(model):
                self._require(name, theirs, relation.name, "batch_by reads it")
            batch = own.this
        keys = {k.lower() for k in call.keys}
        wanted = call.columns or [
            n for key, (n, _) in ours.items() if key in theirs and key not in keys
        ]
        for name in (*call.keys, *wanted):
            self._require(name, theirs, relation.name, "the comparison needs it")
            self._require(name, ours, model.name, "the comparison needs it")
        models = self.place.project.models
        hidden = pii_columns(model) | private_of_relation(models, relation.unique_id)
        columns = {
            n: ComparedColumn(
                ours[n.lower()][0],
                compared_type(ours[n.lower()][1], theirs[n.lower()]),
                n.lower() not in hidden and not monitor.settings.pii,
            )
            for n in (*call.keys, *wanted)
        }
        where = monitor.settings.where
        chosen = BatchFilter(tuple(batches), self.place.batch_type, self.place.types)
        conditions = [parse_expression(where, monitor.span)] if where is not None else []
        if own is not None and batch is not None:
            batch = as_type(batch.copy(), "string")
            names = [exp.Literal.string(b) for b in batches]
            conditions.append(exp.In(this=batch.copy(), expressions=names))
        return RelationDiff(
            ComparedSide(model_view(model), own, chosen.condition(model, where)),
            ComparedSide(
                relation.sql,
                None if own is None else batch,
                exp.and_(*conditions) if conditions else None,
            ),
            tuple(columns[k] for k in call.keys),
            tuple(columns[c] for c in wanted),
            call.tolerance,
        )

    def _require(self, name: str, known: Mapping[str, object], relation: str, why: str) -> None:
        if name.lower() not in known:
            raise QueryError(
                f"{relation} has no column {name}, and {why}",
                hint=nearest(name.lower(), known) or f"it has {', '.join(known)}",
            )

    # --- telling -------------------------------------------------------------------------------

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        comparison = self._found[monitor.id]
        if isinstance(comparison, DqsqlError):
            text = f"{monitor.span}: {monitor.expression}: {comparison.message}"
            failed = result_of(monitor, batch, Status.ERROR, text)
            return with_details(failed, hint=comparison.hint)
        one, other = comparison.get(batch, _BatchDiff()), self._relation(monitor).name
        if not one.here and not one.there:
            status = missing_status(monitor, self.place.plan.model.config.no_data)
            return result_of(monitor, batch, status, f"neither side has rows, here and in {other}")
        fails, warns = _limits(monitor)
        broken = one.total > fails
        is_warning = one.total > (fails if warns is None else warns)
        status = failed_status(monitor.severity) if broken else Status.WARN
        status = status if is_warning or broken else Status.PASS
        self._keep(monitor, batch, one)
        result = replace(
            result_of(monitor, batch, status, _words(one, other)),
            observed=float(one.total),
            upper=float(fails),
            warn_upper=None if warns is None else float(warns),
        )
        details: dict[str, Any] = {
            "rows": {HERE: one.here, THERE: one.there},
            "differences": {k: one.kinds.get(k, 0) for k in (MISSING, EXTRA, CHANGED)},
            "changed": one.columns,
        }
        if one.rows:
            details["failures"] = {"table": FAILURES.name, "rows": len(one.rows)}
            are = plural(len(one.rows), "differing row is", "differing rows are")
            result = replace(result, message=f"{result.message}; {are} in {FAILURES.name}")
        return with_details(result, **details)

    def _keep(self, monitor: Monitor, batch: str, diff: _BatchDiff) -> None:
        """Store the number of differing rows, and some of them."""
        call = match_call(monitor.expression, monitor.span)
        compared = f"{call.relation}, {', '.join(call.keys)}"
        total = derived_value(monitor, batch, _METRIC, compared, diff.total, diff.here)
        self.context.derived.append(total)
        for row in diff.rows:
            self.context.keep_row(monitor, batch, row)


def _words(diff: _BatchDiff, other: str) -> str:
    rows = f"{plural(diff.here, 'row')} here, {diff.there:,} in {other}"
    if not diff.total:
        return f"{rows}: all the same"
    kinds = diff.kinds
    parts = []
    if kinds.get(MISSING):
        parts.append(f"{kinds[MISSING]:,} of {other} {_be(kinds[MISSING])} missing")
    if kinds.get(EXTRA):
        parts.append(f"{kinds[EXTRA]:,} {_be(kinds[EXTRA])} not in {other}")
    if kinds.get(CHANGED):
        which = ", ".join(f"{name} {n:,}" for name, n in diff.columns.items())
        parts.append(f"{kinds[CHANGED]:,} {_be(kinds[CHANGED])} changed ({which})")
    differ = plural(diff.total, "row differs", "rows differ")
    return f"{differ}: {', '.join(parts)} ({rows})"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _limits(monitor: Monitor) -> tuple[int, int | None]:
    """More differing rows than these fail, and warn. Raises AnnotationError."""
    options = monitor.settings.options
    limits = {}
    for name in ("error_if", "warn_if"):
        match = _NUMBER.fullmatch(str(options.get(name, "> 0")).strip())
        if match is None:
            raise AnnotationError(
                f"{name!r} of @{_NAME} must be a number of differing rows,"
                f" not {shortened(str(options[name]))!r}",
                span=monitor.span,
                hint=f'for example {{{name}: "> 10"}}',
            )
        limits[name] = int(match.group(1))
    if "error_if" not in options and "warn_if" not in options:
        return 0, None
    if limits["warn_if"] >= limits["error_if"]:
        raise AnnotationError(
            "the warning would never appear: the check fails first",
            span=monitor.span,
            hint='write both: {warn_if: "> 0", error_if: "> 10"}',
        )
    return limits["error_if"], limits["warn_if"]


def _read(monitor: Monitor) -> object:
    read_braces(monitor, _SETTINGS)
    return _limits(monitor)


def _watches(use: MonitorUse) -> list[WatchedMetric]:
    annotation, model = use.annotation, use.model
    call = match_call(annotation.expression, annotation.span)
    known = {c.lower() for c in model.columns or ()}
    for name in (*call.keys, *call.columns):
        if known and name.lower() not in known:
            raise CompileError(
                f"the model {model.name} has no column {name!r}",
                span=annotation.span,
                hint=nearest(name, model.columns or ())
                or f"its columns are {', '.join(model.columns or ())}",
            )
    return []


def _relations(use: MonitorUse) -> list[str]:
    return [match_call(use.annotation.expression, use.annotation.span).relation]


KIND = MonitorKind(
    MonitorSpec(
        name=_NAME,
        settings=_SETTINGS,
        watches=_watches,
        configurable=False,
        several=True,
        symptom="values",
        relations=_relations,
    ),
    detector=MatchDetector,
    order=20,
    read=_read,
)
