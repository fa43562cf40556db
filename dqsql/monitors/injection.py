"""Measures injected issues: the sample of a batch, its variants, and their metrics, in Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dqsql.compiler.catalog import Catalog
from dqsql.compiler.issues import SEPARATOR, VALUE, Injection, neighbors, variants_model
from dqsql.compiler.monitors import family_of, for_types
from dqsql.compiler.plan import compile_model
from dqsql.compiler.queries import metric_query
from dqsql.compiler.scan import BatchFilter, Scan, scan_groups
from dqsql.model.plan import PROFILES, Family, Monitor, Plan
from dqsql.model.project import view_name
from dqsql.model.results import MetricProfile
from dqsql.model.types import type_of
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.context import Workplace

_TYPES = {Family.NUMERIC: "double", Family.TEXT: "string", Family.TIME: "timestamp"}


@dataclass(frozen=True)
class Variant:
    """The metrics of one variant of a column, by the monitor's names."""

    values: Mapping[str, float]
    profiles: Mapping[str, MetricProfile]


# By batch and column: the variants by name, `clean` among them.
Measured = Mapping[tuple[str, str], Mapping[str, Variant]]


@dataclass
class Injector:
    """Injects issues into samples of batches of one model and measures them."""

    place: Workplace

    @cached_property
    def _catalog(self) -> Catalog:
        return catalog_of(self.place.project)

    def measure(self, monitors: Sequence[Monitor], batches: Sequence[str], size: int) -> Measured:
        """The variants of the monitors' columns on some batches.

        A batch that the model has no rows of (any more) is missing. Raises EngineError.
        """
        place = self.place
        groups: dict[tuple[Family, str | None, str], list[str]] = defaultdict(list)
        for monitor in monitors:
            if monitor.column is not None:
                family = family_of(type_of(monitor.column, place.types))
                groups[(family, monitor.settings.where, monitor.kind)].append(monitor.column)
        chosen = BatchFilter(tuple(batches), place.batch_type, place.types)
        variants: dict[tuple[str, str], dict[str, Variant]] = {}
        for (family, where, kind), columns in groups.items():
            alike = [name for name, type_ in place.types.items() if family_of(type_) is family]
            cells = tuple(neighbors(alike, list(dict.fromkeys(columns))))
            injection = Injection(place.plan.model, family, cells, chosen, size, place.label, where)
            for made_of, variant in self._measured(injection, kind):
                batch, column, issue = made_of.split(SEPARATOR)
                for name in (c for c in columns if c.lower() == column.lower()):
                    variants.setdefault((batch, name), {})[issue] = variant
        return variants

    def _measured(self, injection: Injection, kind: str) -> list[tuple[str, Variant]]:
        """The variants that an injection makes, each with what it was made of."""
        place, family = self.place, injection.family
        variants = injection.query(self._catalog.library)
        # A name of its own: models may run at the same time.
        name = f"{place.plan.model.name}: injected issues ({family.value})"
        model = replace(variants_model(family, kind), name=name)
        compiled = compile_model(model, place.project, self._catalog)
        plan = for_types(compiled, {VALUE: _TYPES[family]})
        states = {s.name: _TYPES[family] for s in plan.states}
        scan = Scan(model, scan_groups(plan.states, states)).query()
        measure = metric_query(plan.metrics, (), scan.subquery("measured"))
        # Imported here because it starts with pyspark, which takes half a second.
        from dqsql.engine.statements import kept_view, rows_of

        doing = "cannot measure injected issues"
        with kept_view(place.spark, view_name(model), variants, doing):
            rows = rows_of(place.spark, measure, doing)
        return [(row["batch"], _variant(plan, row)) for row in rows]


def _variant(plan: Plan, row: Mapping[str, object]) -> Variant:
    values: dict[str, float] = {}
    profiles: dict[str, MetricProfile] = {}
    for watched in plan.monitors[0].watched:
        value = row[watched.alias]
        if watched.name in PROFILES:
            if value is not None:
                profiles[watched.name] = MetricProfile.from_json(str(value))
        else:
            values[watched.name] = float("nan") if value is None else float(str(value))
    return Variant(values, profiles)
