"""Profiles of other relations, measured as those of the model are: what drift is told against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.keys import relation_table
from dqsql.compiler.monitors import fits
from dqsql.compiler.plan import compile_model
from dqsql.compiler.queries import metric_query
from dqsql.compiler.scan import BatchFilter, Scan, scan_groups
from dqsql.dialect import to_sql
from dqsql.errors import DqsqlError, Span
from dqsql.model.plan import Family, Relation
from dqsql.model.project import Annotation, CheckSettings, ModelConfig, view_name
from dqsql.model.types import type_of
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.context import Workplace

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
    try:
        return _measured(place, relation, wanted, batches)
    except DqsqlError as error:
        return ReferenceValues({}, error=error)


def _measured(
    place: Workplace, relation: Relation, wanted: Sequence[Wanted], batches: Sequence[str]
) -> ReferenceValues:
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
    fitting = [w for w in wanted if _fits(w, types)]
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
    found = rows_of(place.spark, query, f"cannot measure {relation.name}", len(plan.states))
    alias = {c.name: c.metrics[0] for c in plan.checks}
    return ReferenceValues(
        {
            (w, str(row["batch"]), row["segment"]): row[alias[f"r{i}"]]
            for row in found
            for i, w in enumerate(fitting)
        },
        batch_by is not None,
        segmented,
    )


def _fits(wanted: Wanted, types: Mapping[str, str]) -> bool:
    return fits(wanted.family, type_of(wanted.about, types), (wanted.family,))
