"""Checks of a DataFrame: the view that the model reads, a store that keeps nothing, the stream."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import pandas
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dqsql.dialect import quoted
from dqsql.engine.failures import SPARK_FAILURES, translated
from dqsql.engine.java import find_java
from dqsql.engine.paths import escaped
from dqsql.engine.selects import fetched
from dqsql.engine.session_settings import configured, users_setting
from dqsql.engine.session_use import drop_view, require_running
from dqsql.engine.statements import tables_in
from dqsql.engine.storage_base import BatchPart, Row, Store, TableFamily, Where, no_rows
from dqsql.engine.values import survives_arrow, types_of
from dqsql.errors import SessionError, UsageError
from dqsql.model.batches import TIME_ZONE, is_utc
from dqsql.model.table import Table

# Nodes of a plan, behind the lines of the tree that they stand in.
_READS_LATE = re.compile(
    r"^[\s:+*()\d-]*(?:\w*Scan (?:csv|json|xml)\b|\w*(?:Python|Pandas|InArrow))",
    re.IGNORECASE | re.MULTILINE,
)
# Two checks of one session would take each other's view, whichever object of Python stands for it.
ONE_AT_A_TIME = threading.Lock()
# The unit of times that is finer than Spark's.
_FINER = "ns"
# What Spark does not take from Arrow, and what holds the same values.
_WIDER = {
    pa.float16(): pa.float32(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def as_frame(data: object, spark: SparkSession | None) -> DataFrame:
    """A DataFrame of Spark's with the rows of one, or of one of pandas.

    That of pandas goes to `spark`, else to the active session, else to one that is started here and
    stays for the process. Raises UsageError for anything else.
    """
    if isinstance(data, DataFrame):
        if data.isStreaming:
            raise UsageError(
                "the DataFrame is a stream, which has no end",
                hint="dqsql.stream checks each of its micro-batches: see docs/streams.md",
            )
        require_running(data.sparkSession)
        return data
    if spark is not None and not isinstance(spark, SparkSession):
        raise UsageError(f"spark takes a SparkSession, not a {type(spark).__name__}")
    if not isinstance(data, pandas.DataFrame):
        kind = type(data).__name__
        raise UsageError(
            f"dqsql.check takes a DataFrame of Spark or pandas, not a {kind}",
            hint="spark.table('name') makes one of a table, spark.createDataFrame(..) of rows",
        )
    session = spark or SparkSession.getActiveSession()
    if session is None:
        try:
            session = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
        except SPARK_FAILURES:
            # Where that is why, it says so; a session over Connect needs no Java.
            find_java()
            raise
    require_running(session)
    rows = _as_arrow(data)
    # A time without a zone means the same whatever the session's zone is.
    zone = configured(session, {TIME_ZONE: "UTC"})
    # A check in another thread may read times by the user's zone just then.
    with ONE_AT_A_TIME, zone, translated("the pandas DataFrame cannot be given to Spark"):
        if rows.num_rows:
            return session.createDataFrame(rows)
        # Spark Connect takes no empty Arrow table.
        return session.createDataFrame(pa.Table.from_pylist([{}], rows.schema)).limit(0)


def _as_arrow(data: pandas.DataFrame) -> pa.Table:
    """The rows of a DataFrame of pandas, its missing values as nulls. Raises UsageError.

    What Spark makes of them without Arrow depends on its settings: NaN is a value then, and a
    number that is too large becomes null.
    """
    if not len(data.columns):
        raise UsageError("the pandas DataFrame has no columns")
    twice = data.columns[data.columns.duplicated()]
    if len(twice):
        raise UsageError(
            f"the pandas DataFrame has two columns {twice[0]!r}", hint="rename one of them"
        )
    sparse = {n: t.subtype for n, t in data.dtypes.items() if isinstance(t, pandas.SparseDtype)}
    data = data.astype(sparse) if sparse else data
    try:
        maps = {name: made for name in data.columns if (made := _maps(data[name])) is not None}
        rows = pa.Table.from_pandas(data.drop(columns=list(maps)), preserve_index=False)
        if maps:
            names = {name: str(name) for name in data.columns}
            columns = {text: maps[n] if n in maps else rows[text] for n, text in names.items()}
            rows = pa.table(columns)
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError) as error:
        raise UsageError(
            f"the pandas DataFrame cannot be given to Spark: {'; '.join(map(str, error.args))}",
            hint="give the column one type, for example df['a'].astype('string')",
        ) from error
    labels = {str(label): label for label in data.columns}
    for field in rows.schema:
        if not _is_known(field.type):
            label = labels[field.name]
            raise UsageError(
                f"the column {field.name!r} of the pandas DataFrame cannot be given to Spark: its"
                f" type is {data.dtypes[label]}",
                hint=f"df[{label!r}].astype('string') makes texts of its values",
            )
    # Names may be there twice: 1 and '1'.
    made = [
        _cast(values, field, labels)
        for values, field in zip(rows.columns, rows.schema, strict=True)
    ]
    return pa.Table.from_arrays(made, names=rows.schema.names)


def _cast(values: pa.ChunkedArray, field: pa.Field, labels: Mapping[str, Any]) -> pa.ChunkedArray:
    """A column with a type that Spark takes. Raises UsageError for what it would cut off."""
    try:
        return values.cast(_wider(field.type))
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"the column {field.name!r} of the pandas DataFrame has nanoseconds, and Spark keeps"
            " microseconds",
            hint=f"df[{labels[field.name]!r}].dt.floor('us') leaves the rest out",
        ) from error


def _is_known(kind: pa.DataType) -> bool:
    """Whether Spark has something like a type, also of what dictionaries hold."""
    if pa.types.is_dictionary(kind):
        return _is_known(kind.value_type)
    return not isinstance(kind, pa.BaseExtensionType) and not pa.types.is_decimal256(kind)


def _wider(kind: pa.DataType) -> pa.DataType:
    """A type that Spark takes from Arrow, also within lists, structs and maps."""
    if pa.types.is_dictionary(kind):
        return _wider(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_wider(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_wider(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _wider(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_wider(kind.key_type), _wider(kind.item_type))
    if pa.types.is_timestamp(kind) and kind.unit == _FINER:
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind) and kind.unit == _FINER:
        return pa.duration("us")
    return _WIDER.get(kind, kind)


def _maps(values: pandas.Series[Any]) -> pa.Array | None:
    """The values of a column of maps, which pandas reads as lists of pairs; None of any other."""
    if values.dtype != object:
        return None
    known = values[values.notna()]
    if not all(isinstance(value, list) for value in known):
        return None
    pairs = list(chain.from_iterable(known))
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        return None
    keys, items = (pa.array(part).type for part in zip(*pairs, strict=True))
    rows = [value if isinstance(value, list) else None for value in values]
    return pa.array(rows, pa.map_(keys, items))


def _changes_with_zone(spark: SparkSession, view: str, zone: str | None) -> bool:
    """Whether times in a view are others in UTC than in the time `zone` of the session's user.

    Spark reads times in text files, and hands times to Python, by the zone at the time when the
    rows are computed; by expressions, they are computed as the frame was made.
    """
    if is_utc(zone or ""):
        return False
    plan = fetched(spark.sql(f"explain select * from {quoted(view)}")).to_pylist()
    return any(_READS_LATE.search(row["plan"]) for row in plan)


def _require_zone(spark: SparkSession, zone: str | None) -> None:
    if spark.conf.get(TIME_ZONE, None) != zone:
        raise SessionError(
            "dqsql works in this session just now, so that rows which Spark reads or computes late"
            f" would have times in UTC and not in {zone}",
            hint="check the DataFrame when that is done, or make it with localCheckpoint() before",
        )


@contextmanager
def as_view(frame: DataFrame, view: str) -> Iterator[None]:
    """The frame as a temporary view; at the end it is dropped, and all whose names begin so.

    To be used while the session's settings are the user's.
    """
    with translated("the DataFrame cannot be read"):
        frame.createOrReplaceTempView(quoted(view))
    try:
        with translated("the DataFrame cannot be read"):
            zone = users_setting(frame.sparkSession, TIME_ZONE)
            if _changes_with_zone(frame.sparkSession, view, zone):
                _require_zone(frame.sparkSession, zone)
                computed = frame.localCheckpoint()
                # A run may have begun meanwhile.
                _require_zone(frame.sparkSession, zone)
                computed.createOrReplaceTempView(quoted(view))
        yield
    finally:
        # Where tables cannot be listed, the next check replaces what is left.
        with suppress(*SPARK_FAILURES):
            drop_view(frame.sparkSession, view)
            for name, is_temporary in tables_in(frame.sparkSession).items():
                if is_temporary and name.startswith(view):
                    drop_view(frame.sparkSession, name)


class MemoryStore(Store):
    """Holds the states of the run in memory and has no tables."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(lambda: spark, "memory")
        self._states: dict[str, DataFrame] = {}

    def select_arrow(
        self, table: Table, columns: Sequence[str] = (), where: Where | None = None
    ) -> pa.Table:
        """Nothing: there is no history."""
        return no_rows(table, columns)

    def make(self, table: Table) -> None:
        """Make nothing."""

    def replace_batches(self, table: Table, parts: Sequence[BatchPart]) -> None:
        """Keep nothing."""

    def replace_partition(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep nothing."""

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep nothing."""

    def _read_states(self, name: str, batches: Collection[str] | None) -> DataFrame | None:
        return self._states.get(name)

    def _replace_states(
        self,
        name: str,
        rows: DataFrame | pa.Table,
        batches: Collection[str] | None,
        family: TableFamily,
    ) -> None:
        """Hold the rows, computed once."""
        schema = None if isinstance(rows, pa.Table) else rows.schema
        with translated("the scan failed"):
            if schema is not None and not all(map(survives_arrow, types_of(schema).values())):
                self._states[name] = rows.localCheckpoint()
                return
            table = rows if isinstance(rows, pa.Table) else fetched(rows)
        # Spark Connect takes no empty Arrow table.
        held: Any = table if table.num_rows or schema is None else []
        self._states[name] = self._spark.createDataFrame(held, schema)

    def has(self, name: str) -> bool:
        """No table is there."""
        return False

    def replace_rows(
        self, name: str, rows: DataFrame, by: str, batches: Collection[str] | None
    ) -> None:
        """Keep nothing."""


def query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id that a query keeps as long as it has its checkpoint; None where it cannot be read."""
    try:
        lines = spark.read.text(escaped(f"{checkpoint}/metadata")).collect()
    except SPARK_FAILURES:
        return None
    return str(json.loads(lines[0].value)["id"]) if lines else None
