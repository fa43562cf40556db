"""Suggests `batch_by` for a table: the column that says on which day a row happened.

Without batches each run looks at the whole table, and what learns from earlier batches never
learns. A column is proposed where its type, its name and its values agree, and none where two
columns are as good as each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dqsql.model.plain_names import plain_name
from dqsql.suggestions.names import singular_of, words

# Fewer days are no history, and fewer rows a day say little about a day.
MIN_DAYS, MIN_ROWS_A_DAY = 3, 5
# At most so many columns are looked at.
_MOST = 10
_DATE, _TIMES, _TEXT = "date", ("timestamp", "timestamp_ntz"), "string"
# Words of dates that no row happened on: of validity, of people, of what is to come, of changes.
_OTHER_DATES = frozenset(
    {"birth", "birthday", "birthdate", "born", "dob", "death", "died", "valid", "validity"}
    | {"expiry", "expire", "expires", "expired", "expiration", "due", "until", "to", "end", "ends"}
    | {"effective", "from", "start", "since", "planned", "scheduled", "expected", "promised"}
    | {"estimated", "target", "next", "renewal", "maturity", "retention", "hire", "hired"}
    | {"update", "updated", "modified", "changed", "modification", "deleted", "last", "previous"}
    | {"first", "closed", "cancelled", "canceled"}
)
_ODD = frozenset("'\"\\{}`")
_EXACT = frozenset({"day", "date", "ds", "dt"})
# What, before a word for a date or time, says that a row came with it.
_EVENT = frozenset(
    {"event", "batch", "partition", "business", "snapshot", "load", "run", "log", "report"}
)
_CREATED = frozenset(
    {"created", "inserted", "occurred", "happened", "received", "recorded", "logged", "ingested"}
)
_DATE_WORDS = frozenset({"date", "day", "ds", "dt"})
_TIME_WORDS = frozenset({"at", "on", "ts", "time", "timestamp", "datetime", "tstamp"})


@dataclass(frozen=True)
class DayColumn:
    """A column of a Spark type that may say on which day a row happened.

    A lower `rank` is a better name.
    """

    name: str
    kind: str
    rank: int

    @property
    def day(self) -> str:
        """Its day, as a SQL expression: of texts, themselves."""
        name = plain_name(self.name)
        return f"to_date({name})" if self.kind in _TIMES else name

    @property
    def known(self) -> str:
        """The number of rows whose day it says, as a SQL expression: texts may be no days."""
        name = plain_name(self.name)
        if self.kind != _TEXT:
            return f"count({name})"
        return f"count(case when length({name}) = 10 then try_cast({name} as date) end)"


@dataclass(frozen=True)
class DayCounts:
    """What is measured of a column: rows with a value, and about how many days there are."""

    rows: int
    days: float


@dataclass(frozen=True)
class ProposedBatches:
    """A proposal for `batch_by`: the SQL expression, and why."""

    batch_by: str
    reason: str


def day_columns(table: str, types: Mapping[str, str]) -> list[DayColumn]:
    """The columns of a table whose type and name fit, the best names first.

    Names that need quotes of their own in `config(batch_by = '..')` are left out.
    """
    own = {singular_of(w) for w in words(table)}
    columns = [
        DayColumn(name, kind, rank)
        for name, kind in types.items()
        if kind in (_DATE, *_TIMES, _TEXT) and name.isprintable() and not _ODD & set(name)
        if (rank := _rank(name, own)) is not None
    ]
    return sorted(columns, key=lambda c: c.rank)[:_MOST]


def _rank(name: str, table: frozenset[str] | set[str]) -> int | None:
    """How well a name says when a row happened, 0 best; None where it says something else."""
    parts = words(name)
    if not parts or _OTHER_DATES & {*parts}:
        return None
    if len(parts) == 1 and parts[0] in _EXACT:
        return 0
    *before, last = parts
    if last not in _DATE_WORDS | _TIME_WORDS:
        return None
    about = {singular_of(w) for w in before}
    if about & _EVENT:
        return 1
    if about & table:
        # `order_date` in `orders`.
        return 2
    if about & _CREATED:
        return 3
    return 4 if before or last in _TIME_WORDS - {"at", "on"} else None


def proposed_batches(
    columns: Sequence[DayColumn], counts: Mapping[str, DayCounts], rows: int
) -> ProposedBatches | None:
    """The column by whose days the rows should be checked; None where that is not clear."""
    best = _best(columns, counts, rows)
    if len(best) != 1:
        return None
    (chosen,) = best
    days = round(counts[chosen.name].days)
    return ProposedBatches(
        chosen.day,
        f"{chosen.name} has {days:,} days with {rows / days:,.0f} rows each on average, and no"
        " nulls: each day is a batch",
    )


def undecided_batches(
    columns: Sequence[DayColumn], counts: Mapping[str, DayCounts], rows: int
) -> str | None:
    """What to do where several columns say equally well when a row happened."""
    best = _best(columns, counts, rows)
    if len(best) < 2:
        return None
    names = ", ".join(c.name for c in best)
    return (
        f"all rows are one batch, since the day of a row may be any of {names}: choose one, as in"
        f" {{{{ config(batch_by = '{best[0].day}') }}}}, and suggest again: bounds that depend on"
        " what a batch is (of means, extremes, shares) are left out until then"
    )


def _best(
    columns: Sequence[DayColumn], counts: Mapping[str, DayCounts], rows: int
) -> list[DayColumn]:
    fit = [c for c in columns if _fits(counts.get(c.name), rows)]
    return [c for c in fit if c.rank == fit[0].rank]


def _fits(counts: DayCounts | None, rows: int) -> bool:
    """Whether every row has a day, and days are several with several rows each."""
    if counts is None or counts.rows < rows or counts.days < MIN_DAYS:
        return False
    return rows / counts.days >= MIN_ROWS_A_DAY
