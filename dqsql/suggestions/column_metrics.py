"""The metrics that the profile of a column is made of, as SQL, and what their values say of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dqsql.dialect import quoted
from dqsql.model.types import FLOATS
from dqsql.suggestions.profiles import (
    DETECTED,
    ColumnProfile,
    Distribution,
    Kind,
    Summary,
    TimeOrder,
    kind_of,
)

# Columns with at most so many distinct values get their exact distribution.
_MAX_VALUES = 100
# A distribution holds values of at most so many characters: longer ones are no categories.
MAX_VALUE_LENGTH = 64
_SKETCHED = (Kind.INTEGER, Kind.FRACTIONAL, Kind.TEXT, Kind.TIME, Kind.BOOLEAN)


@dataclass(frozen=True)
class ProfiledColumn:
    """One column, and the metrics that its kind allows."""

    key: str
    name: str
    spark_type: str
    private: bool = False

    @property
    def kind(self) -> Kind:
        """What its values are."""
        return kind_of(self.spark_type)

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return quoted(self.name)

    @property
    def numbers(self) -> str:
        """Its numbers in SQL: NaN is none, and would make the largest and the mean NaN."""
        is_float = self.spark_type in FLOATS
        return f"nanvl({self.sql}, cast(null as double))" if is_float else self.sql

    def counts(self) -> dict[str, str]:
        """Pass 1. Of a private column, only what tells no value."""
        expressions = {f"{self.key}.count": f"count({self.sql})"}
        if self.kind is Kind.TEXT:
            expressions |= {f"{self.key}.{t}": f"type_count({self.sql}, '{t}')" for t in DETECTED}
            expressions |= self._summary("length", f"length({self.sql})", spread=False)
        if self.kind in (Kind.INTEGER, Kind.FRACTIONAL) and not self.private:
            expressions |= self._summary("value", self.numbers)
        if self.spark_type in FLOATS:
            expressions[f"{self.key}.nan"] = f"count_if(isnan({self.sql}))"
        if self.kind is Kind.TIME and not self.private:
            # As text: Python's calendar ends with the year 9999.
            zone = "+00:00" if self.spark_type == "timestamp" else ""
            expressions |= {
                f"{self.key}.{e}": f"concat(cast({e}({self.sql}) as string), '{zone}')"
                for e in ("min", "max")
            }
        return expressions

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

    def sketches(self, profile: ColumnProfile) -> dict[str, str]:
        """Pass 2."""
        wanted: dict[str, str] = {}
        if self.kind in _SKETCHED:
            wanted[f"{self.key}.distinct"] = f"approx_count_distinct({self.sql})"
        if not profile.is_numeric or not profile.count or self.private:
            return wanted
        number = self.numbers
        if self.kind is Kind.TEXT:
            number = f"try_cast({self.sql} as double)"
            wanted |= self._summary("value", number)
        wanted[f"{self.key}.quantiles"] = f"quantile_profile({number})"
        return wanted

    def with_sketches(self, profile: ColumnProfile, values: Mapping[str, Any]) -> ColumnProfile:
        """What pass 1 and 2 found."""
        distinct = values.get(f"{self.key}.distinct")
        summary = profile.summary or self._read_summary(values, "value")
        quantiles = values.get(f"{self.key}.quantiles")
        if summary is not None and quantiles:
            points = tuple(float(q) for q in json.loads(quantiles))
            summary = replace(summary, quantiles=points)
        return replace(
            profile, distinct=None if distinct is None else float(distinct), summary=summary
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


def has_few(column: ColumnProfile) -> bool:
    """Whether the exact distribution is worth a frequency table."""
    if column.distinct is None or not column.count or column.kind is Kind.TIME or column.private:
        return False
    short = column.lengths is None or column.lengths.maximum <= MAX_VALUE_LENGTH
    return short and column.distinct <= _MAX_VALUES


def with_values(column: ColumnProfile, text: str | None) -> ColumnProfile:
    """The profile with its exact distribution, which `value_profile` gives as JSON."""
    if text is None:
        return column
    data = json.loads(text)
    counts = tuple(int(n) for n in data["counts"])
    return replace(
        column, distribution=Distribution(tuple(data["values"]), counts, int(data["other"]))
    )


def order_metrics(a: ProfiledColumn, b: ProfiledColumn) -> dict[str, str]:
    """What tells whether one column of times is never later than another."""
    key = f"{a.key}.{b.key}"
    return {
        f"{key}.both": f"count_if({a.sql} is not null and {b.sql} is not null)",
        f"{key}.ordered": f"count_if({a.sql} <= {b.sql})",
        f"{key}.equal": f"count_if({a.sql} = {b.sql})",
    }


def order_of(a: ProfiledColumn, b: ProfiledColumn, values: Mapping[str, Any]) -> TimeOrder:
    """What `order_metrics` found."""
    both, ordered, equal = (
        int(values[f"{a.key}.{b.key}.{n}"]) for n in ("both", "ordered", "equal")
    )
    return TimeOrder(a.name, b.name, both, ordered, equal)
