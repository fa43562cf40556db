"""Splits the rows of batches into a table of good ones and one of quarantined ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.dialect import quoted, to_sql
from dqsql.engine.broadcasts import sorting_if_too_large
from dqsql.engine.failures import translated
from dqsql.engine.storage_sql import text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store

RUN_ID, QUARANTINED_AT = "dqsql_run_id", "dqsql_quarantined_at"


@dataclass(frozen=True)
class SplitRows:
    """The good rows, as the model's SELECT gives them, and how many are quarantined by batch."""

    good: DataFrame
    quarantined: Mapping[str, int]


def split_rows(
    spark: SparkSession,
    store: Store,
    statement: exp.Expr,
    *,
    kept: Sequence[exp.Expr],
    key: Callable[[str], str],
    tables: tuple[str, str],
    columns: tuple[str, str, str],
    batches: Collection[str] | None,
    run: tuple[str, dt.datetime],
) -> SplitRows:
    """Write the rows of a statement to two tables; each replaces its part in one commit.

    The rows are computed once and kept by Spark until both tables are written, so that a source
    that changes meanwhile puts no row into both or neither.

    Args:
        spark: the session.
        store: where the tables are.
        statement: gives the rows.
        kept: what is stored of the model's columns.
        key: puts what is put in last into a text of SQL.
        tables: the names of the tables of good and of quarantined rows.
        columns: those of the batch, of the failed checks, and of whether a row is quarantined.
        batches: whose rows are replaced; None: all rows.
        run: id and start of the run.

    Raises:
        DqsqlError: the rows cannot be computed or written.
    """
    good, quarantined = tables
    batch, failed, flag = columns

    def rows() -> DataFrame:
        with translated(f"cannot split the rows into {good} and {quarantined}"):
            found: DataFrame = spark.sql(key(to_sql(statement))).localCheckpoint()
        return found

    frame = sorting_if_too_large(spark, rows)
    run_id, now = run
    stored = [*(key(to_sql(expression)) for expression in kept), quoted(batch)]
    bad, rest = frame.where(quoted(flag)), frame.where(f"not {quoted(flag)}")
    told = bad.selectExpr(
        *stored,
        quoted(failed),
        f"{text_literal(run_id)} as {RUN_ID}",
        f"timestamp_micros({int(now.timestamp() * 1_000_000)}L) as {QUARANTINED_AT}",
    )
    store.replace_rows(quarantined, told, batch, batches)
    store.replace_rows(good, rest.selectExpr(*stored), batch, batches)
    with translated(f"cannot count the rows in {quarantined}"):
        counts = bad.groupBy(batch).count().toArrow().to_pylist()
    passed = rest.drop(batch, failed, flag)
    return SplitRows(passed, {row[batch]: row["count"] for row in counts})
