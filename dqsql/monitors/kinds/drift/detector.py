"""Decides on all `@drift` and `@drift_pvalue` of one model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.keys import relation_table
from dqsql.compiler.monitors import fits
from dqsql.compiler.plan import compile_model
from dqsql.compiler.privacy import hides_values
from dqsql.compiler.queries import metric_query
from dqsql.compiler.scan import BatchFilter, Scan, scan_groups
from dqsql.decisions.drift import OF_NUMBERS, Drift
from dqsql.dialect import quoted, to_sql
from dqsql.engine.history import stored_metrics
from dqsql.errors import DqsqlError, Span
from dqsql.model.batches import batch_order
from dqsql.model.plan import Family, Metric, Monitor, Relation
from dqsql.model.project import Annotation, CheckSettings, ModelConfig, view_name
from dqsql.model.results import MetricProfile, Result, Status
from dqsql.model.types import type_of
from dqsql.model.wording import number_text
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.context import (
    MonitorContext,
    Workplace,
    derived_value,
    finite,
    result_of,
    with_details,
)
from dqsql.monitors.demands import Demands, demands_of, missing_status
from dqsql.monitors.history import key_of
from dqsql.monitors.kinds.drift.call import P_VALUE, DriftCall, drift_call
from dqsql.monitors.kinds.drift.stored import (
    COUNT,
    PROFILE,
    QUANTILES,
    Distribution,
    distributions,
    drift_of,
    reported_value,
)
from dqsql.monitors.recompute import rests_on, shown_key

VALUES, ROWS = "value_profile", "row_count"


@dataclass(frozen=True)
class _DriftUnit:
    """One monitor: its call, its demands, and the metrics that it watches."""

    monitor: Monitor
    call: DriftCall
    demands: Demands
    profile: Metric
    count: Metric | None
    rows: Metric
    relation: str | None


@dataclass
class DriftDetector:
    """Compares the stored distributions of columns; only those of relations are measured."""

    place: Workplace
    context: MonitorContext
    kind: str
    _units: dict[str, _DriftUnit | str] = field(default_factory=dict)
    _relations: dict[str, ReferenceValues] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for monitor in self._monitors:
            self._units[monitor.id] = self._unit(monitor)

    @property
    def _monitors(self) -> list[Monitor]:
        return self.context.plan.monitors_of(self.kind)

    def _unit(self, monitor: Monitor) -> _DriftUnit | str:
        """The monitor taken apart; what is wrong, where it cannot be decided on."""
        call = drift_call(monitor.expression, monitor.column, monitor.span)
        metric = self.context.metric
        rows = metric(monitor, ROWS)
        profile = metric(monitor, QUANTILES) or metric(monitor, VALUES)
        if rows is None or profile is None:
            kind = type_of(monitor.column or "", self.place.types)
            if call.measure in OF_NUMBERS and self.context.first_error(monitor) is None:
                hint = "psi, js, kl and chi2 also compare texts"
                return f"{call.measure} compares numbers, and {monitor.column} is {kind}: {hint}"
            return self.context.unmeasured(monitor, "its distribution could not be measured")
        hidden = hides_values(self.place.plan.model, monitor.column, monitor.settings)
        if hidden and (profile.name == QUANTILES or call.against.relation is not None):
            return f"no distribution of the private column {monitor.column} is kept to compare"
        return _DriftUnit(
            monitor,
            call,
            demands_of(monitor),
            profile,
            metric(monitor, COUNT),
            rows,
            monitor.relations[0] if monitor.relations else None,
        )

    # --- references ----------------------------------------------------------------------------

    def prepare(self, batches: Sequence[str]) -> None:
        """Measure the relations that batches are compared with, and read the counts of batches."""
        units = [u for u in self._units.values() if isinstance(u, _DriftUnit)]
        by_sql = {r.sql: r for r in self.place.plan.relations}
        asked = tuple(self.context.rows)
        for sql in dict.fromkeys(u.relation for u in units if u.relation is not None):
            wanted = [w for u in units if u.relation == sql for w in _wanted(u)]
            try:
                self._relations[sql] = measured_reference(self.place, by_sql[sql], wanted, asked)
            except DqsqlError as error:
                self._relations[sql] = ReferenceValues({}, error=error)
        fixed = {u.call.against.batch for u in units if u.call.against.batch is not None}
        stored = [b for b in fixed if b not in self.context.rows]
        names = {COUNT, ROWS}
        model = self.place.plan.model.name
        self.context.history.add_metrics(stored_metrics(self.place.store, model, stored, names))

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch, and on its segments."""
        return [r for m in self._monitors for r in self._verdicts(m, batch)]

    def _verdicts(self, monitor: Monitor, batch: str) -> list[Result]:
        unit = self._units[monitor.id]
        if isinstance(unit, str):
            return [result_of(monitor, batch, Status.ERROR, f"{monitor.span}: {unit}")]
        error = self._relations[unit.relation].error if unit.relation is not None else None
        if error is not None:
            text = f"{monitor.span}: {monitor.expression}: {error.message}"
            return [result_of(monitor, batch, Status.ERROR, text)]
        segmented = bool(self.place.plan.model.config.segment_by) and monitor.judges_segments
        segments = self.context.history.segments(batch) if segmented else []
        return [self._verdict(unit, batch, s) for s in (None, *segments)]

    def _verdict(self, unit: _DriftUnit, batch: str, segment: str | None) -> Result:
        monitor = unit.monitor
        now = self._parts(unit, segment, [batch])
        named, past, why = self._reference(unit, batch, segment)
        if why is not None:
            return result_of(monitor, batch, Status.SKIPPED, why, segment)
        parts = self._of_relation(unit, batch, segment) if unit.relation is not None else []
        parts += self._parts(unit, segment, past)
        if not now or not parts:
            who = f"{monitor.column} has no values"
            what = f"{who}, or had another type, in {named}" if now else who
            status = missing_status(monitor, self.place.plan.model.config.no_data)
            return result_of(monitor, batch, status, f"{what}: nothing to compare", segment)
        hidden = hides_values(self.place.plan.model, monitor.column, monitor.settings)
        drift = drift_of(unit.call.measure, parts, now[0], shows_values=not hidden)
        if math.isnan(drift.value):
            text = f"{monitor.column} is NaN throughout, here or in {named}: nothing to compare"
            status = missing_status(monitor, self.place.plan.model.config.no_data)
            return result_of(monitor, batch, status, text, segment)
        result = self._drift_result(unit, batch, segment, drift, named)
        keys = {PROFILE: unit.profile, COUNT: unit.count}
        series = {name: m and shown_key(key_of(m)) for name, m in keys.items()}
        return with_details(result, series=series, **rests_on(self.context.history, past))

    def _reference(
        self, unit: _DriftUnit, batch: str, segment: str | None
    ) -> tuple[str, list[str], str | None]:
        """What the batch is compared with, in words and as batches; or why with nothing yet."""
        to, history = unit.call.against, self.context.history
        if unit.relation is not None:
            relation = next(r for r in self.place.plan.relations if r.sql == unit.relation)
            return relation.name, [], None
        if to.batch is not None:
            if batch_order(batch) < batch_order(to.batch):
                return to.batch, [], f"the batch is before its reference {to.batch}"
            return to.batch, [to.batch], None
        batches = history.before(batch, to.batches)
        if not batches:
            return "", [], "no accepted batch before it to compare with"
        key = key_of(unit.rows, segment)
        if segment is not None and not any(history.measured(key, b) for b in batches):
            return "", [], "the segment is new: there is nothing to compare with"
        named = batches[0] if len(batches) == 1 else f"{batches[0]} to {batches[-1]}"
        return named, batches, None

    def _parts(
        self, unit: _DriftUnit, segment: str | None, batches: Sequence[str]
    ) -> list[Distribution]:
        count = None if unit.count is None else key_of(unit.count, segment)
        return distributions(self.context.history, key_of(unit.profile, segment), count, batches)

    def _of_relation(self, unit: _DriftUnit, batch: str, segment: str | None) -> list[Distribution]:
        reference = self._relations[unit.relation or ""]
        profile, count = (reference.of(w, batch, segment) for w in _wanted(unit))
        rows = 0.0 if count is None else float(str(count))
        return [(MetricProfile.from_json(str(profile)), rows)] if profile and rows else []

    def _drift_result(
        self, unit: _DriftUnit, batch: str, segment: str | None, drift: Drift, named: str
    ) -> Result:
        monitor, measure = unit.monitor, unit.call.measure
        value = reported_value(drift, self.kind)
        status, broken = unit.demands.status(value, monitor.severity)
        shifts = f" ({'; '.join(drift.shifts)})" if drift.shifts else ""
        what = f"the p-value of {measure}" if self.kind == P_VALUE else measure
        text = f"{what} of {monitor.column} from {named} is {number_text(value)}{broken}{shifts}"
        result = result_of(monitor, batch, status, text, segment)
        fails, warns = unit.demands.fails, unit.demands.warns
        where = "" if monitor.settings.where is None else f" where {monitor.settings.where}"
        parameters, rows = f"{unit.call.shown}{where}", self.context.rows.get(batch)
        sample = rows if segment is None else None
        self.context.derived.append(
            derived_value(
                monitor, batch, self.kind, parameters, value, sample, monitor.column, segment
            )
        )
        result = replace(
            result,
            observed=finite(value),
            lower=fails.bounds.lower,
            upper=fails.bounds.upper,
            warn_lower=warns.bounds.lower if warns else None,
            warn_upper=warns.bounds.upper if warns else None,
        )
        return with_details(
            result,
            measure=measure,
            against=named,
            value=finite(drift.value),
            p_value=drift.p_value,
            shifts=list(drift.shifts),
            thresholds=dict(unit.demands.shown(monitor.severity)),
        )


def _wanted(unit: _DriftUnit) -> tuple[Wanted, Wanted]:
    """The profile and the number of values of the relation that a unit is compared with."""
    watched = next(w for w in unit.monitor.watched if w.alias == unit.profile.alias)
    about, where = unit.monitor.column or "", unit.monitor.settings.where
    name = quoted(about)
    return (
        Wanted(f"{unit.profile.name}({name})", where, about, watched.family),
        Wanted(f"count({name})", where, about, watched.family),
    )


# --- distributions of other relations -----------------------------------------------------------


_LABEL = "reference"


@dataclass(frozen=True)
class Wanted:
    """A metric of another relation: its text, the rows that it is of, and the family it is for."""

    text: str
    where: str | None
    about: str
    family: Family


@dataclass(frozen=True)
class ReferenceValues:
    """What was measured of a relation, by metric, batch and segment; or why nothing could be.

    `batched`: it has batches of its own, and each is compared with the one of the same name.
    """

    values: Mapping[tuple[Wanted, str, str | None], object]
    batched: bool = False
    segmented: bool = False
    error: DqsqlError | None = None

    def of(self, wanted: Wanted, batch: str, segment: str | None) -> object:
        """A value; None for null and what was not measured."""
        name = batch if self.batched else _LABEL
        return self.values.get((wanted, name, segment if self.segmented else None))


def measured_reference(
    place: Workplace, relation: Relation, wanted: Sequence[Wanted], batches: Sequence[str]
) -> ReferenceValues:
    """Measure metrics of another relation in one statement; of its batches, where it has some."""
    # Imported here because it starts with pyspark, which takes half a second.
    from dqsql.engine.measuring import made_up_model
    from dqsql.engine.statements import register_query, rows_of

    model = place.plan.model
    # A name of its own: models may run at the same time.
    name = f"{model.name}: {relation.name}"
    rows = exp.select(exp.Star()).from_(relation_table(relation.sql))
    types = register_query(place.spark, rows, view_name(name))
    segments = model.config.segment_by
    segmented = bool(segments) and {s.lower() for s in segments} <= {t.lower() for t in types}
    batch_by = None if relation.batch is None else to_sql(relation.batch)
    fitting = [w for w in wanted if fits(w.family, type_of(w.about, types), (w.family,))]
    reference = replace(
        made_up_model(name, {}, path=model.path),
        config=ModelConfig(batch_by=batch_by, segment_by=segments if segmented else ()),
        annotations=tuple(
            Annotation(
                f"({w.text}) is not null",
                CheckSettings(name=f"r{i}", where=w.where),
                Span(model.path),
            )
            for i, w in enumerate(fitting)
        ),
    )
    plan = compile_model(reference, place.project, catalog_of(place.project))
    for error in plan.rejected:
        raise error
    chosen = None if batch_by is None else BatchFilter(tuple(batches), place.batch_type, types)
    groups = scan_groups(plan.states, {}, types)
    scan = Scan(reference, groups, chosen, _LABEL, columns=types).query()
    query = metric_query(plan.metrics, (), scan.subquery("measured"))
    records = rows_of(place.spark, query, f"cannot measure {relation.name}", len(plan.states))
    alias = {c.name: c.metrics[0] for c in plan.checks}
    return ReferenceValues(
        {
            (w, str(row["batch"]), row["segment"]): row[alias[f"r{i}"]]
            for row in records
            for i, w in enumerate(fitting)
        },
        batch_by is not None,
        segmented,
    )
