"""What a profile says of a relation: plain numbers, from which rules suggest checks."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any

from dqsql.model.types import FLOATS, TIMES, WHOLE_NUMBERS


class Kind(StrEnum):
    """What the rules tell columns apart by."""

    INTEGER = "integer"
    FRACTIONAL = "fractional"
    TEXT = "text"
    TIME = "time"
    BOOLEAN = "boolean"
    OTHER = "other"


_KINDS = {
    **dict.fromkeys(WHOLE_NUMBERS, Kind.INTEGER),
    **dict.fromkeys((*FLOATS, "decimal"), Kind.FRACTIONAL),
    **dict.fromkeys(("string", "char", "varchar"), Kind.TEXT),
    **dict.fromkeys(TIMES, Kind.TIME),
    "boolean": Kind.BOOLEAN,
}
# What a text column's values may read as, in the order of the macro `data_type`.
DETECTED = ("integral", "fractional", "boolean", "timestamp")


def kind_of(spark_type: str) -> Kind:
    """The kind of a Spark type."""
    base = spark_type.partition("(")[0].partition(" ")[0].lower()
    return _KINDS.get(base, Kind.OTHER)


@dataclass(frozen=True)
class Distribution:
    """The most frequent values as text, with their numbers of rows, most frequent first.

    `other` is the number of rows with further values; 0 means that all values are listed.
    """

    values: tuple[str, ...]
    counts: tuple[int, ...]
    other: int = 0

    @property
    def complete(self) -> bool:
        """Whether every value is listed."""
        return self.other == 0

    @property
    def total(self) -> int:
        """The number of rows with a value."""
        return sum(self.counts) + self.other

    @property
    def has_dates(self) -> bool:
        """Whether the values are days or months in one way of writing them."""
        listed = self.values
        return bool(listed) and any(all(_is_date(v, way) for v in listed) for way in _DATES)


# Days and months as people write them in texts.
_DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d-%m-%Y", "%Y/%m/%d"),
    *("%Y.%m.%d", "%Y%m%d", "%Y-%m", "%Y/%m", "%d %b %Y"),
)


def _is_date(value: str, way: str) -> bool:
    if value.isdigit() and len(value) != len("20240131"):
        # Python reads 190112 as a day, too.
        return False
    try:
        dt.datetime.strptime(value, way)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Summary:
    """Summary statistics of numbers; `quantiles` stand at equally spaced ranks (i + 1/2) / n."""

    minimum: float
    maximum: float
    mean: float
    stddev: float | None = None
    quantiles: tuple[float, ...] = ()


@dataclass(frozen=True)
class ColumnProfile:
    """One column. `rows` are those of the relation, `count` those with a value.

    `distinct` is approximate (relative standard error 1.6 %), None where the type has no sketch.
    `types` counts, for texts, the values that read as each type of `DETECTED`. `summary` is that of
    numbers, also of numbers in texts. `earliest` and `latest` are those of dates and times. Of a
    `private` column nothing that shows values is there.
    """

    name: str
    spark_type: str
    rows: int
    count: int
    distinct: float | None = None
    types: Mapping[str, int] = field(default_factory=dict)
    summary: Summary | None = None
    lengths: Summary | None = None
    earliest: str | None = None
    latest: str | None = None
    nan: int = 0
    distribution: Distribution | None = None
    private: bool = False

    @property
    def about_distinct(self) -> float | None:
        """An estimate of distinct values for people: a sketch may see more than there are."""
        return None if self.distinct is None else min(self.distinct, float(self.count))

    @property
    def kind(self) -> Kind:
        """The kind of the column's Spark type."""
        return kind_of(self.spark_type)

    @property
    def completeness(self) -> float | None:
        """Share of rows with a value; None without rows."""
        return self.count / self.rows if self.rows else None

    @property
    def detected(self) -> str | None:
        """What all values of a text column read as, if that is more than a string."""
        if self.kind is not Kind.TEXT or not self.count:
            return None
        whole = self.types.get("integral", 0)
        both = whole + self.types.get("fractional", 0)
        if both == self.count:
            return "integral" if whole == both else "fractional"
        return next((t for t in DETECTED if self.types.get(t, 0) == self.count), None)

    @property
    def is_zero_filled(self) -> bool:
        """Whether the values are texts of digits, of one length, some of which begin with zero."""
        lengths, numbers = self.lengths, self.summary
        if self.detected != "integral" or lengths is None or numbers is None:
            return False
        same = lengths.minimum == lengths.maximum > 1
        return same and 0 <= numbers.minimum < 10 ** (lengths.minimum - 1)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether the values are numbers, be it as text."""
        return self.kind in (Kind.INTEGER, Kind.FRACTIONAL) or self.detected in (
            "integral",
            "fractional",
        )

    @property
    def is_plain_text(self) -> bool:
        """Whether the values are texts for their own sake: read as another type, they lose some."""
        return self.kind is Kind.TEXT and (self.detected is None or self.is_zero_filled)

    @property
    def is_integral(self) -> bool:
        """Whether the values are whole numbers, be it as text."""
        return self.kind is Kind.INTEGER or self.detected == "integral"


@dataclass(frozen=True)
class TimeOrder:
    """How often `first` is not after `second`, among rows in which both have a value."""

    first: str
    second: str
    both: int
    ordered: int
    equal: int


@dataclass(frozen=True)
class Profile:
    """A relation. `passes` is how often its rows were read."""

    relation: str
    rows: int
    columns: tuple[ColumnProfile, ...]
    orders: tuple[TimeOrder, ...] = ()
    passes: int = 0

    def column(self, name: str) -> ColumnProfile:
        """A column by name. Raises KeyError."""
        return {c.name: c for c in self.columns}[name]


def histogram(summary: Summary, bins: int = 8) -> tuple[float, ...]:
    """The share of values in each of `bins` intervals of equal width between the extremes.

    Read off the quantiles, between which values are taken to lie evenly; the shares sum to 1. Empty
    without quantiles, or where the extremes are equal or not finite.
    """
    low, high = summary.minimum, summary.maximum
    if not summary.quantiles or not math.isfinite(low) or not math.isfinite(high) or low >= high:
        return ()
    points = [low, *summary.quantiles, high]
    n = len(summary.quantiles)
    ranks = [0.0, *((i + 0.5) / n for i in range(n)), 1.0]
    edges = [low + (high - low) * i / bins for i in range(1, bins)]
    shares = [0.0, *(_rank_of(edge, points, ranks) for edge in edges), 1.0]
    return tuple(max(0.0, b - a) for a, b in pairwise(shares))


def _rank_of(value: float, points: list[float], ranks: list[float]) -> float:
    """The share of values up to `value`."""
    last = max(i for i, p in enumerate(points) if p <= value)
    if last == len(points) - 1:
        return 1.0
    width = points[last + 1] - points[last]
    part = (value - points[last]) / width if width > 0 else 0.0
    return ranks[last] + part * (ranks[last + 1] - ranks[last])


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile as JSON-ready values: its fields, with what follows from them."""
    columns = []
    for column in profile.columns:
        shares = () if column.summary is None else histogram(column.summary)
        columns.append(
            asdict(column)
            | {
                "distinct": column.about_distinct,
                "kind": column.kind.value,
                "completeness": column.completeness,
                "detected_type": column.detected,
                "histogram": list(shares),
            }
        )
    return {
        "relation": profile.relation,
        "rows": profile.rows,
        "passes": profile.passes,
        "columns": columns,
        "orders": [asdict(o) for o in profile.orders],
    }
