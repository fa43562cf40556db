"""Cumulative state in Spark: running totals, and the history that prefixes are merged from.

The running totals of a model (`dq_total__<model>`, a row a segment; `dq_frequency_total__<model>`,
a row a segment and value) are of all counted batches up to `up_to`. `made_of` is a fingerprint of
the ledger's entries of these batches. A total whose fingerprint is not that of the ledger is not
used: it is built again from the rows that are kept by batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from dqsql.dialect import quoted, to_sql
from dqsql.engine.failures import translated
from dqsql.engine.layout import TableFamily
from dqsql.engine.session_use import put_view
from dqsql.errors import StorageError
from dqsql.model.batches import batch_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dqsql.engine.storage import Store

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_BEFORE_ALL = -1


@dataclass(frozen=True)
class StateHistory:
    """The batches that cumulative metrics of a run are about.

    `counted` are batches checked before that count, in any order; `tested` those under test.
    `made_of` is the fingerprint of `counted`.
    """

    counted: tuple[str, ...]
    tested: tuple[str, ...]
    made_of: str

    @property
    def appends(self) -> bool:
        """Whether every tested batch lies behind all counted ones."""
        if not self.counted:
            return True
        last = max(batch_order(b) for b in self.counted)
        return all(batch_order(b) > last for b in self.tested)


@dataclass(frozen=True)
class Kept:
    """The history of one family of tables of a model, for statements that read the view `view`.

    `columns` are what a row holds besides batch and segment, with the types that they have in a
    total. A total of `few` rows is stored without a job of Spark's.
    """

    spark: SparkSession
    store: Store
    model: str
    family: TableFamily
    view: str
    columns: Mapping[str, str]
    few: bool = False

    def use(self, history: StateHistory, passed: frozenset[str]) -> bool:
        """Put the rows of `history` before the statements; `passed` tested batches count.

        Where all tested batches come after the running total, and it is up to date, it stands for
        the batches before: no other row that is kept by batch is read. Returns whether it does.
        """
        base = self._usable_total(history) if history.counted and history.appends else None
        earlier = () if base is not None else history.counted
        rows = self._placed((*earlier, *history.tested), history, passed)
        if base is not None:
            rows = base.unionByName(rows)
        put_view(rows, self.view)
        return base is not None

    def query(self, statement: exp.Expr) -> DataFrame:
        """What a statement over the view gives."""
        with translated(f"merging the states of {self.model} failed"):
            return self.spark.sql(to_sql(statement))

    def store_total(self, total: exp.Expr, counted: Sequence[str], made_of: str) -> None:
        """Store the running total of all that counts; `made_of` is the fingerprint of `counted`.

        `total` is the statement that merges what the view has.
        """
        last = max(counted, key=batch_order) if counted else None
        labels = pa.table(
            {
                "up_to": pa.array([last], pa.string()),
                "batches": pa.array([len(counted)], pa.int64()),
                "made_of": pa.array([made_of], pa.string()),
            }
        )
        with translated(f"merging the states of {self.model} failed"):
            rows = self.spark.sql(to_sql(total))
            rows = rows.selectExpr("segment", *self._texts(rows))
            rows = rows.crossJoin(self.spark.createDataFrame(labels).hint("broadcast"))
            total_rows = rows.toArrow() if self.few else rows
        self.store.replace_total(self.model, total_rows, self.family)

    # --- rows ----------------------------------------------------------------------------------

    def _usable_total(self, history: StateHistory) -> DataFrame | None:
        frame = self.store.read_total(self.model, self.family)
        if frame is None:
            return None
        with translated(f"cannot read the running total of {self.model}"):
            found = frame.select("made_of").distinct().toArrow()["made_of"].to_pylist()
        if found != [history.made_of]:
            return None
        return frame.selectExpr(
            "cast(null as string) as batch",
            "segment",
            *self._texts(frame),
            f"{_BEFORE_ALL} as position",
            f"{_BEFORE_ALL} as block",
            "true as counts",
            "false as tested",
        )

    def _placed(
        self, batches: Sequence[str], history: StateHistory, passed: frozenset[str]
    ) -> DataFrame:
        """The state rows of some batches, each with its place and part."""
        ordered = sorted(batches, key=batch_order)
        size = max(1, math.isqrt(len(ordered)))
        tested = set(history.tested)
        places = pa.table(
            {
                "batch": ordered,
                "position": pa.array(range(len(ordered)), pa.int32()),
                "block": pa.array([i // size for i in range(len(ordered))], pa.int32()),
                "counts": [b not in tested or b in passed for b in ordered],
                "tested": [b in tested for b in ordered],
            }
        )
        rows = self.store.read_state(self.model, ordered, self.family)
        if rows is None:
            raise StorageError(
                f"the state of the checked batches of {self.model} is missing",
                hint="check all batches again with --full-refresh",
            )
        rows = rows.selectExpr("batch", "segment", *self._texts(rows))
        return rows.join(self.spark.createDataFrame(places).hint("broadcast"), "batch")

    def _texts(self, frame: DataFrame) -> list[str]:
        """The columns with the types of a total, as SQL; null where they were not computed."""
        have = set(frame.columns)
        texts = []
        for column, kind in self.columns.items():
            name = quoted(column)
            value = name if column in have else "null"
            texts.append(f"cast({value} as {kind}) as {name}")
        return texts


def total_type(state_type: str) -> str:
    """The type of a total over states of a type.

    Spark widens the sum of decimals by ten digits; once is enough for a total, however many
    batches are added one after another.
    """
    match = _DECIMAL.fullmatch(state_type)
    if match is None:
        return state_type
    return f"decimal({min(38, int(match[1]) + 10)},{match[2]})"
