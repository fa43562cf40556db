"""Rows that leave Spark in samples, and functions of rows that run where the rows are."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from dqsql.compiler.marked_rows import OddMark
from dqsql.compiler.row_samples import compared_value
from dqsql.dialect import to_spark
from dqsql.engine.failures import translated
from dqsql.engine.selects import fetched, is_remote, select

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

# Of rows as a frame: the score of each, and a text that says why they are odd.
_Scorer = Callable[["pd.DataFrame"], Any]
_Reasons = Callable[["pd.DataFrame"], Sequence[str]]


def sampled_rows(spark: SparkSession, model: str, query: exp.Expr) -> pa.Table:
    """Run the query of a sample. Raises EngineError."""
    with translated(f"cannot sample rows of {model}"):
        return fetched(select(spark, to_spark(query)))


def scored_rows(
    spark: SparkSession,
    model: str,
    query: exp.Expr,
    score: _Scorer,
    reasons: _Reasons,
    threshold: float,
    top: int,
    row: str,
) -> tuple[int, int, list[dict[str, Any]]]:
    """Score all rows of a query where they are; only the `top` oddest come back.

    The query gives the values, and in the column `row` the row as text; rows that score above the
    threshold are odd. Returns the number of rows, of odd ones, and the oddest (`score`, `reasons`,
    `row`), oddest first. Raises EngineError: Spark fails on it, or its Python workers lack dqsql.
    """

    def scored(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas

        for part in parts:
            part.columns = names
            scores = score(part)
            outliers = scores > threshold
            worst = [int(i) for i in (-scores).argsort(kind="stable")[:top] if outliers[i]]
            rows = part.iloc[worst]
            why = list(reasons(rows)) if worst else []
            counts = [len(part), *([0] * len(worst))]
            yield pandas.DataFrame(
                {
                    "rows": counts,
                    "odd": [int(outliers.sum()), *([0] * len(worst))],
                    "score": [None, *(float(scores[i]) for i in worst)],
                    "reasons": [None, *why],
                    "row": [None, *rows[row].tolist()],
                }
            )

    _use_this_python(spark)
    schema = "rows bigint, odd bigint, score double, reasons string, row string"
    with translated(f"cannot score the rows of {model}"):
        rows_of_model = select(spark, to_spark(query))
        names = rows_of_model.columns
        # To Spark a point or backtick in a name is more than a character here.
        plain = rows_of_model.toDF(*(f"c{i}" for i in range(len(names))))
        records = fetched(plain.mapInPandas(scored, schema)).to_pylist()
    rows, outlier_count = (sum(f[name] for f in records) for name in ("rows", "odd"))
    worst = [f for f in records if f["row"] is not None]
    worst.sort(key=lambda f: (-f["score"], f["row"]))
    kept: list[dict[str, Any]] = [_found(f) for f in worst[:top]]
    return rows, outlier_count, kept


@dataclass(frozen=True)
class OddRows:
    """What makes rows of some batches odd to a monitor.

    Attributes:
        check: the id of the monitor.
        batches: those in which it found too many odd rows.
        columns: what it compares, as `comparable` names them.
        where: which rows.
        score: gives the scores of rows.
        reasons: says of rows why they are odd, as JSON.
        threshold: rows above it are odd.
        routes: whether odd rows are quarantined.
    """

    check: str
    batches: list[str]
    columns: tuple[str, ...]
    where: str | None
    score: _Scorer
    reasons: _Reasons
    threshold: float
    routes: bool

    @contextmanager
    def mark(self, spark: SparkSession, types: Mapping[str, str]) -> Iterator[OddMark]:
        """Lend Spark the function that says why rows are odd."""
        from pyspark.sql.pandas.functions import pandas_udf

        name = f"dqsql_odd_{uuid.uuid4().hex}"
        _use_this_python(spark)
        # Its declared overloads want the deprecated type of the function.
        function = pandas_udf(self._function(), "string")  # type: ignore[call-overload]
        spark.udf.register(name, function)
        values = [compared_value(c, types) for c in self.columns]
        try:
            yield OddMark(self.check, name, self.batches, values, self.where, self.routes)
        finally:
            spark.sql(f"drop temporary function if exists {name}")

    def _function(self) -> Callable[..., pd.Series]:
        import pandas

        columns, score, reasons, threshold = self.columns, self.score, self.reasons, self.threshold

        def why(asked: pandas.Series, *values: pandas.Series) -> pandas.Series:
            explanations = pandas.Series([None] * len(asked), dtype=object)
            rows = pandas.DataFrame(dict(zip(columns, values, strict=True)))[asked.astype(bool)]
            if len(rows):
                outliers = rows[score(rows) > threshold]
                explanations[outliers.index] = list(reasons(outliers)) if len(outliers) else []
            return explanations

        # Spark reads from them what the function takes.
        why.__annotations__ = dict.fromkeys(("asked", "values", "return"), pandas.Series)
        return why


def odd_in(finders: Sequence[OddRows], failed: Mapping[str, Collection[str]]) -> list[OddRows]:
    """What finds odd rows, of those batches alone in which its check failed."""
    mine = (
        replace(finder, batches=[b for b in finder.batches if b in failed.get(finder.check, ())])
        for finder in finders
    )
    return [finder for finder in mine if finder.batches]


def _use_this_python(spark: SparkSession) -> None:
    """Let workers on this machine run the Python that dqsql is installed in."""
    if is_remote(spark) or "PYSPARK_PYTHON" in os.environ:
        return
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def _found(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("score", "reasons", "row")}
