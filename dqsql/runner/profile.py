"""Profiles a relation in at most three passes, whatever the number of its columns.

Pass 1: counts, completeness, what texts read as, extremes and moments of numbers, dates and
lengths, the order of dates; all of it stays on Spark's code-generated path. Pass 2: sketches, that
is distinct values and quantiles, and the numbers in texts. Pass 3: the exact values of the columns
that have few, by one frequency table. After Schelter et al., VLDB 2018, section 3.3, with the work
divided by how Spark executes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from dqsql.dialect import quoted
from dqsql.engine.failures import hiding_values
from dqsql.engine.measuring import Measurer
from dqsql.errors import UsageError
from dqsql.model.types import FLOATS
from dqsql.monitors.catalog import catalog_of
from dqsql.runner.subjects import Subject, Subjects
from dqsql.runner.warehouse import Step, open_warehouse, silent
from dqsql.runner.where import Where
from dqsql.selection.choosing import chosen_names
from dqsql.suggestions.profiles import (
    DETECTED,
    ColumnProfile,
    Distribution,
    Kind,
    Profile,
    Summary,
    TimeOrder,
    kind_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Columns with at most so many distinct values get their exact distribution.
MAX_VALUES = 100
# A distribution holds values of at most so many characters: longer ones are no categories.
MAX_VALUE_LENGTH = 64
# At most so many columns of dates and times are compared with each other.
_MAX_TIMES = 10
_SKETCHED = (Kind.INTEGER, Kind.FRACTIONAL, Kind.TEXT, Kind.TIME, Kind.BOOLEAN)


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
    with open_warehouse(project, spark, step) as (session, _):
        subjects = Subjects(project, session)
        found = []
        for name in dict.fromkeys(names):
            subject = subjects.find(name)
            measurer = Measurer(session, project, catalog, subject.view)
            found.append(measured_profile(measurer, subject, step).profile)
        return tuple(found)


def measured_profile(
    measurer: Measurer, subject: Subject, step: Step = silent
) -> ProfileWithSketches:
    """Profile the view of a measurer, which has the columns of a subject. Raises EngineError."""
    with hiding_values(subject.private):
        return _measured(measurer, subject, step)


def _measured(measurer: Measurer, subject: Subject, step: Step) -> ProfileWithSketches:
    columns = [
        _Column(f"c{i}", n, t, n.lower() in subject.private)
        for i, (n, t) in enumerate(subject.types.items())
    ]
    step(f"{subject.name}: counts and moments")
    times = [c for c in columns if c.kind is Kind.TIME][:_MAX_TIMES]
    pairs = [p for p in combinations(times, 2) if p[0].spark_type == p[1].spark_type]
    first = {"rows": "count(*)"}
    for each in columns:
        first |= each.counts()
    for a, b in pairs:
        first |= _order_metrics(a, b)
    values = measurer.measure(first)
    rows = int(values["rows"])
    known = [c.profile(values, rows) for c in columns]
    second: dict[str, str] = {}
    for each, found in zip(columns, known, strict=True):
        second |= each.sketches(found)
    passes = 1
    if second and rows:
        step(f"{subject.name}: sketches")
        values |= measurer.measure(second, sketches=True)
        known = [c.with_sketches(p, values) for c, p in zip(columns, known, strict=True)]
        passes += 1
    few = {c.key: c for c, p in zip(columns, known, strict=True) if _has_few(p)}
    if few and rows:
        step(f"{subject.name}: values")
        third = {f"{k}.values": f"value_profile({quoted(c.name)})" for k, c in few.items()}
        values |= measurer.measure(third)
        known = [
            _with_values(p, values.get(f"{c.key}.values"))
            for c, p in zip(columns, known, strict=True)
        ]
        passes += 1
    orders = tuple(_order(a, b, values) for a, b in pairs)
    sketches = {c.name: values.get(f"sketch:{c.key}.distinct") for c in columns}
    return ProfileWithSketches(
        Profile(subject.name, rows, tuple(known), orders, passes),
        {n: bytes(s) for n, s in sketches.items() if s is not None},
    )


@dataclass(frozen=True)
class _Column:
    """One column, and the metrics that its kind allows."""

    key: str
    name: str
    spark_type: str
    private: bool = False

    @property
    def kind(self) -> Kind:
        return kind_of(self.spark_type)

    @property
    def sql(self) -> str:
        return quoted(self.name)

    def counts(self) -> dict[str, str]:
        """Pass 1. Of a private column, only what tells no value."""
        found = {f"{self.key}.count": f"count({self.sql})"}
        if self.kind is Kind.TEXT:
            found |= {f"{self.key}.{t}": f"type_count({self.sql}, '{t}')" for t in DETECTED}
            found |= self._summary("length", f"length({self.sql})", spread=False)
        if self.kind in (Kind.INTEGER, Kind.FRACTIONAL) and not self.private:
            found |= self._summary("value", self.sql)
        if self.spark_type in FLOATS:
            found[f"{self.key}.nan"] = f"count_if(isnan({self.sql}))"
        if self.kind is Kind.TIME and not self.private:
            # As text: Python's calendar ends with the year 9999.
            zone = "+00:00" if self.spark_type == "timestamp" else ""
            found |= {
                f"{self.key}.{e}": f"concat(cast({e}({self.sql}) as string), '{zone}')"
                for e in ("min", "max")
            }
        return found

    def _summary(self, what: str, sql: str, spread: bool = True) -> dict[str, str]:
        names = ("min", "max", "mean", "stddev") if spread else ("min", "max", "mean")
        return {f"{self.key}.{what}.{n}": f"{n}({sql})" for n in names}

    def profile(self, values: Mapping[str, Any], rows: int) -> ColumnProfile:
        """What pass 1 found."""
        return ColumnProfile(
            self.name,
            self.spark_type,
            rows,
            int(values[f"{self.key}.count"]),
            types={t: int(values[f"{self.key}.{t}"]) for t in DETECTED if self.kind is Kind.TEXT},
            summary=self._read_summary(values, "value"),
            lengths=self._read_summary(values, "length"),
            earliest=_text(values.get(f"{self.key}.min")),
            latest=_text(values.get(f"{self.key}.max")),
            nan=int(values.get(f"{self.key}.nan") or 0),
            private=self.private,
        )

    def sketches(self, found: ColumnProfile) -> dict[str, str]:
        """Pass 2."""
        wanted: dict[str, str] = {}
        if self.kind in _SKETCHED:
            wanted[f"{self.key}.distinct"] = f"approx_count_distinct({self.sql})"
        if not found.is_numeric or not found.count or self.private:
            return wanted
        number = self.sql
        if self.kind is Kind.TEXT:
            number = f"try_cast({self.sql} as double)"
            wanted |= self._summary("value", number)
        wanted[f"{self.key}.quantiles"] = f"quantile_profile({number})"
        return wanted

    def with_sketches(self, found: ColumnProfile, values: Mapping[str, Any]) -> ColumnProfile:
        """What pass 1 and 2 found."""
        distinct = values.get(f"{self.key}.distinct")
        summary = found.summary or self._read_summary(values, "value")
        quantiles = values.get(f"{self.key}.quantiles")
        if summary is not None and quantiles:
            points = tuple(float(q) for q in json.loads(quantiles))
            summary = replace(summary, quantiles=points)
        return replace(
            found, distinct=None if distinct is None else float(distinct), summary=summary
        )

    def _read_summary(self, values: Mapping[str, Any], what: str) -> Summary | None:
        low, high, mean = (values.get(f"{self.key}.{what}.{n}") for n in ("min", "max", "mean"))
        if low is None or high is None or mean is None:
            return None
        spread = values.get(f"{self.key}.{what}.stddev")
        return Summary(
            float(low), float(high), float(mean), None if spread is None else float(spread)
        )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _has_few(column: ColumnProfile) -> bool:
    """Whether the exact distribution is worth a frequency table."""
    if column.distinct is None or not column.count or column.kind is Kind.TIME or column.private:
        return False
    short = column.lengths is None or column.lengths.maximum <= MAX_VALUE_LENGTH
    return short and column.distinct <= MAX_VALUES


def _with_values(column: ColumnProfile, text: str | None) -> ColumnProfile:
    if text is None:
        return column
    data = json.loads(text)
    counts = tuple(int(n) for n in data["counts"])
    return replace(
        column, distribution=Distribution(tuple(data["values"]), counts, int(data["other"]))
    )


def _order_metrics(a: _Column, b: _Column) -> dict[str, str]:
    key = f"{a.key}.{b.key}"
    return {
        f"{key}.both": f"count_if({a.sql} is not null and {b.sql} is not null)",
        f"{key}.ordered": f"count_if({a.sql} <= {b.sql})",
        f"{key}.equal": f"count_if({a.sql} = {b.sql})",
    }


def _order(a: _Column, b: _Column, values: Mapping[str, Any]) -> TimeOrder:
    both, ordered, equal = (
        int(values[f"{a.key}.{b.key}.{n}"]) for n in ("both", "ordered", "equal")
    )
    return TimeOrder(a.name, b.name, both, ordered, equal)
