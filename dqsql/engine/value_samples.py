"""Samples of the values of columns, for learning patterns and for showing what does not match.

One statement for all columns. Its rows are chosen by a hash of the values, so that a sample depends
on nothing but the values: not on files, partitions or the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.dialect import column, formula, literal, to_sql
from dqsql.engine.selects import fetched, select
from dqsql.model.by_key import by_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_SAMPLED = 1_000
# Longer values come cut: a thousand values of a megabyte are no sample to hold in memory.
MAX_LENGTH = 2_000

_SPAN = 2**52


@dataclass(frozen=True, slots=True)
class ValueSample:
    """Distinct values of a column with weights: about how many rows each one stands for.

    The weights are exact counts where all values are in the sample (`complete`). Otherwise values
    came in with a probability that grows with their count, and the weights make up for it
    (priority sampling: Duffield, Lund, Thorup, JACM 54(6), 2007).
    """

    values: tuple[str, ...]
    weights: tuple[float, ...]
    complete: bool

    @property
    def rows(self) -> float:
        """The number of non-null rows, estimated unless the sample is complete."""
        return sum(self.weights)

    def spread(self, limit: int = _MAX_SAMPLED) -> list[str]:
        """At most `limit` values, each as often as is its share of the rows.

        Every k-th row is taken of the values in the order of the sample, so that the number of
        copies of a value is off by less than one.
        """
        if self.complete and self.rows <= limit:
            return [
                v for v, w in zip(self.values, self.weights, strict=True) for _ in range(int(w))
            ]
        step = self.rows / limit
        spread: list[str] = []
        reached = 0.0
        for value, weight in zip(self.values, self.weights, strict=True):
            reached += weight
            copies = min(limit, round(reached / step)) - len(spread)
            spread.extend([value] * copies)
        return spread


def sample_values(
    spark: SparkSession,
    model: str,
    view: str,
    columns: Sequence[str],
    condition: exp.Expr | None = None,
    *,
    limit: int = _MAX_SAMPLED,
    not_matching: Mapping[str, str] | None = None,
) -> dict[str, ValueSample]:
    """Sample the non-null values of columns in one job; their order depends on the values alone.

    `view` is the relation as SQL text, `condition` which rows of it (as of a `BatchFilter`), and
    `limit` how many distinct values of each column, of which there is at least one; what is no text
    is taken as one. Values match none of `not_matching`: by column, an anchored regular expression.
    Raises EngineError.
    """
    # Imported here because it starts with pyspark, which takes half a second.
    from dqsql.engine.failures import translated

    query = _query(view, columns, condition, limit, not_matching or {})
    with translated(f"cannot sample values of {model}"):
        rows = fetched(select(spark, query)).to_pylist()
    drawn = by_key((row["c"], (row["priority"], row["n"], row["value"])) for row in rows)
    return {name: _sample(drawn.get(i, []), limit) for i, name in enumerate(columns)}


def _sample(drawn: list[tuple[float, int, str]], limit: int) -> ValueSample:
    """The sample of the `limit` values of highest priority; the next one gives the weights."""
    drawn.sort(key=lambda d: (-d[0], d[2]))
    complete = len(drawn) <= limit
    least = 0.0 if complete else drawn[limit][0]
    # By value, since in the order of priorities frequent values come first.
    kept = sorted(drawn[:limit], key=lambda d: (d[0] / d[1], d[2]))
    return ValueSample(
        tuple(value for _, _, value in kept),
        tuple(float(n) if complete else max(float(n), least) for _, n, _ in kept),
        complete,
    )


def _query(
    view: str,
    columns: Sequence[str],
    condition: exp.Expr | None,
    limit: int,
    not_matching: Mapping[str, str],
) -> str:
    """The statement: values of all columns below each other, counted, the first by priority kept.

    A value of n rows has the priority n / u, where u in (0, 1] comes from a hash of the value.
    """
    entries = []
    for i, name in enumerate(columns):
        value: exp.Expr = formula("cast({0} as string)", column(name))
        if name in not_matching:
            pattern = literal(not_matching[name])
            value = formula("case when not ({0} rlike {1}) then {0} end", value, pattern)
        entries.append(to_sql(formula("named_struct('c', {0}, 'value', {1})", literal(i), value)))
    where = "" if condition is None else f" where {to_sql(condition)}"
    return f"""
        with entries as (
            select explode(array({", ".join(entries)})) as e from {view}{where}
        ), counted as (
            select e.c as c, substr(e.value, 1, {MAX_LENGTH}) as value, count(*) as n
            from entries where e.value is not null group by 1, 2
        ), drawn as (
            select *, n / ((pmod(xxhash64(value), {_SPAN}) + 1) / {_SPAN}) as priority from counted
        ), ranked as (
            select *, row_number() over (partition by c order by priority desc, value) as place
            from drawn
        )
        select c, make_valid_utf8(value) as value, n, priority
        from ranked where place <= {limit + 1}
    """
