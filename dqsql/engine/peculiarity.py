"""The index of peculiarity of text columns, from the trigrams of their values.

Of a trigram xyz it is 1/2 (ln n(xy) + ln n(yz)) - ln n(xyz), with n the counts among all values of
the column in the batch (Morris & Cherry 1975); of a column, the root mean square over all its
trigrams. Source: Redyuk et al., "Automating Data Quality Validation for Dynamic Data Ingestion",
EDBT 2021, section 3.1, which takes the mean over texts instead; that needs the texts a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.dialect import column, literal, to_sql
from dqsql.engine.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Characters of a value that are looked at, so that long texts need bounded memory.
MAX_TEXT = 1_000


def index_of_peculiarity(
    spark: SparkSession,
    view: str,
    batch: exp.Expr,
    columns: Sequence[str],
    condition: exp.Expr | None = None,
) -> dict[tuple[str, str], float]:
    """Measure text columns by batch, in one scan.

    Args:
        spark: the session.
        view: the relation as SQL text.
        batch: the batch of a row, as text.
        columns: at least one.
        condition: which rows; all by default.

    Returns:
        By batch and column, >= 0; missing where no value has three characters.

    Raises:
        EngineError: Spark refused the statement or failed.
    """
    with translated("cannot measure the index of peculiarity"):
        rows = spark.sql(_query(view, batch, columns, condition)).toArrow().to_pylist()
    return {(r["batch"], columns[r["c"]]): float(r["value"]) for r in rows}


def _query(view: str, batch: exp.Expr, columns: Sequence[str], condition: exp.Expr | None) -> str:
    entries = ", ".join(
        f"named_struct('c', {to_sql(literal(i))},"
        f" 'v', left(cast({to_sql(column(name))} as string), {MAX_TEXT}))"
        for i, name in enumerate(columns)
    )
    where = "" if condition is None else f" where {to_sql(condition)}"
    return f"""
        with entries as (
            select {to_sql(batch)} as batch, explode(array({entries})) as e from {view}{where}
        ), texts as (
            select batch, e.c as c, e.v as v, count(*) as n from entries
            where length(e.v) > 1 group by 1, 2, 3
        ), places as (
            select batch, c, v, n, explode(sequence(1, length(v) - 1)) as i from texts
        ), grams as (
            select batch, c, substr(v, i, 2) as two,
                case when i < length(v) - 1 then substr(v, i, 3) end as three, sum(n) as n
            from places group by 1, 2, 3, 4
        ), twos as (
            select batch, c, two, sum(n) as n from grams group by 1, 2, 3
        ), threes as (
            select batch, c, three, sum(n) as n from grams where three is not null group by 1, 2, 3
        ), peculiar as (
            select t.batch, t.c, t.n, (ln(a.n) + ln(b.n)) / 2 - ln(t.n) as value
            from threes as t
            join twos as a on a.batch = t.batch and a.c = t.c and a.two = left(t.three, 2)
            join twos as b on b.batch = t.batch and b.c = t.c and b.two = right(t.three, 2)
        )
        select batch, c, sqrt(sum(n * value * value) / sum(n)) as value from peculiar group by 1, 2
    """
