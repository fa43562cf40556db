"""Profiles a relation in at most three passes, whatever the number of its columns.

Pass 1: counts, completeness, what texts read as, extremes and moments of numbers, dates and
lengths, the order of dates; all of it stays on Spark's code-generated path. Pass 2: sketches, that
is distinct values and quantiles, and the numbers in texts. Pass 3: the exact values of the columns
that have few, by one frequency table. After Schelter et al., VLDB 2018, section 3.3, with the work
divided by how Spark executes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from dqsql.dialect import quoted
from dqsql.engine.failures import hiding_values
from dqsql.engine.measuring import Measurer
from dqsql.errors import UsageError
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.subjects import Subject, Subjects, files_named
from dqsql.runner.compilation import Where
from dqsql.runner.warehouse import Step, open_warehouse, silent
from dqsql.selection.choosing import chosen_names
from dqsql.suggestions import column_metrics
from dqsql.suggestions.profiles import Kind, Profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# At most so many columns of dates and times are compared with each other.
_MAX_TIMES = 10


@dataclass(frozen=True)
class ProfileWithSketches:
    """A profile, and the HLL sketch of each column's values, by the column's name."""

    profile: Profile
    sketches: Mapping[str, bytes]


def profile(
    where: Where,
    relations: Sequence[str] = (),
    *,
    select: Sequence[str] = (),
    spark: SparkSession | None = None,
    step: Step = silent,
) -> tuple[Profile, ...]:
    """Profile check models, sources, tables or files, and the check models of a selection.

    Raises DqsqlError: there is no such relation, or it cannot be read.
    """
    project = where.project()
    names = [*relations]
    if select:
        names += chosen_names(project, select)
    if not names:
        raise UsageError(
            "no relation is named, and no check model is selected",
            hint="dqsql profile RELATION, or dqsql profile --select MODEL",
        )
    catalog = catalog_of(project)
    files = files_named(project, names)
    with open_warehouse(project, spark, step, files) as (session, _):
        subjects = Subjects(project, session)
        profiles = []
        for name in dict.fromkeys(names):
            subject = subjects.find(name)
            measurer = Measurer(session, project, catalog, subject.view)
            profiles.append(measured_profile(measurer, subject, step).profile)
        return tuple(profiles)


def measured_profile(
    measurer: Measurer, subject: Subject, step: Step = silent
) -> ProfileWithSketches:
    """Profile the view of a measurer, which has the columns of a subject. Raises EngineError."""
    with hiding_values(subject.private):
        return _measured(measurer, subject, step)


def _measured(measurer: Measurer, subject: Subject, step: Step) -> ProfileWithSketches:
    columns = [
        column_metrics.ProfiledColumn(f"c{i}", n, t, n.lower() in subject.private)
        for i, (n, t) in enumerate(subject.types.items())
    ]
    step(f"{subject.name}: counts and moments")
    times = [c for c in columns if c.kind is Kind.TIME][:_MAX_TIMES]
    pairs = [p for p in combinations(times, 2) if p[0].spark_type == p[1].spark_type]
    first = {"rows": "count(*)"}
    for each in columns:
        first |= each.counts()
    for a, b in pairs:
        first |= column_metrics.order_metrics(a, b)
    values = measurer.measure(first)
    rows = int(values["rows"])
    known = [c.profile(values, rows) for c in columns]
    second: dict[str, str] = {}
    for each, column_profile in zip(columns, known, strict=True):
        second |= each.sketches(column_profile)
    passes = 1
    if second and rows:
        step(f"{subject.name}: sketches")
        values |= measurer.measure(second, sketches=True)
        known = [c.with_sketches(p, values) for c, p in zip(columns, known, strict=True)]
        passes += 1
    few = {c.key: c for c, p in zip(columns, known, strict=True) if column_metrics.has_few(p)}
    if few and rows:
        step(f"{subject.name}: values")
        third = {f"{k}.values": f"value_profile({quoted(c.name)})" for k, c in few.items()}
        values |= measurer.measure(third)
        known = [
            column_metrics.with_values(p, values.get(f"{c.key}.values"))
            for c, p in zip(columns, known, strict=True)
        ]
        passes += 1
    orders = tuple(column_metrics.order_of(a, b, values) for a, b in pairs)
    sketches = {c.name: values.get(f"sketch:{c.key}.distinct") for c in columns}
    return ProfileWithSketches(
        Profile(subject.name, rows, tuple(known), orders, passes),
        {n: bytes(s) for n, s in sketches.items() if s is not None},
    )
