"""Which batches and segments there are: small questions to a model's view, or to its file."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlglot import exp

from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.segments import batch_source, batches_query, segment_count_query
from dqsql.dialect import as_type, column, quoted, to_sql
from dqsql.engine.batches import BatchChoice, BatchRequest, Period, choose_batches, period_of
from dqsql.engine.failures import translated
from dqsql.engine.relations import known_schema
from dqsql.engine.selects import fetched
from dqsql.engine.small import SMALL_BYTES
from dqsql.engine.statements import rows_of
from dqsql.errors import ConfigError, NoBatchError, Span, UsageError
from dqsql.model.batches import batch_order
from dqsql.model.limits import RunLimits
from dqsql.model.project import CheckModel, Project
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.model.types import TIMES
from dqsql.model.wording import first_of, plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOMENT = re.compile(r"\s*[+-]?\d+-\d{1,2}-\d{1,2}([ T]\d{1,2}:\S.*|[ T]\d{1,2})?\s*$")
_YEAR_OR_MONTH = re.compile(r"\s*\d{4}(-\d{1,2})?\s*")
# Sketches of 4,096 registers are off by 1.6 % (one sigma): below this share of the limit they
# are as good as counting.
_SURE = 0.9

# Of a model without batch_by.
_ANEW = "each run of a model without batch_by is a batch of its own, and checks the rows of now"


@dataclass(frozen=True)
class FoundBatches:
    """Batches with their numbers of rows and segments; the key None is for rows without batch."""

    rows: Mapping[str | None, int]
    segments: Mapping[str | None, int] = field(default_factory=dict)
    sketches: Mapping[str | None, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Discovery:
    """Looks at the batches and segments of one model, whose view is registered.

    `batch_type` is the Spark type of `batch_by`, `columns` gives those of the model's columns.
    `known` is what was found for models that read the same rows, by the query; it is added to.
    """

    spark: SparkSession
    project: Project
    model: CheckModel
    limits: RunLimits
    batch_type: str
    columns: Mapping[str, str]
    known: dict[str, FoundBatches] = field(default_factory=dict)

    def choose(
        self,
        request: BatchRequest,
        ledger: Mapping[str, BatchRecord],
        own_batch: str,
        looked: Callable[[Iterable[str | None]], None] = lambda found: None,
    ) -> BatchChoice:
        """The batches to check. Raises DqsqlError, also for too many segments in them.

        `looked` is told the batches in the data before they are compared with the ledger.
        """
        period = period_of(request, self.limits.begin, self.model, self.batch_type)
        if self.model.config.batch_by is None:
            earlier = first_of([b for b in request.batches if b in ledger], 1)
            notes = (f"batch {earlier} cannot be read again: {_ANEW}",) if earlier else ()
            choice = BatchChoice((own_batch,), notes=notes)
            if self._check_segments(choice, FoundBatches({})) == 0:
                # No row has a segment that the whole batch could be merged from.
                return replace(choice, empty=choice.batches)
            # Mostly about what it was; if not, what is planned by it is only slower.
            last = max(ledger.values(), key=lambda r: batch_order(r.batch), default=None)
            return choice if last is None else replace(choice, sizes={own_batch: last.rows})
        if request.batches:
            request = replace(request, batches=self._named(request.batches))
        if period.bounded and not period.asked:
            # A batch that was asked for by name, while a run was killed, may lie outside.
            died = (b for b, r in ledger.items() if r.status is BatchStatus.INCOMPLETE)
            period = replace(period, also=tuple(sorted(died)))
        batches = self._found(period)
        looked(batches.rows)
        has_older = self._has_older(ledger, period, batches.rows)
        choice = choose_batches(
            request, batches.rows, ledger, period, self.limits, has_older=has_older
        )
        self._check_segments(choice, batches)
        sizes = {b: rows for b, rows in batches.rows.items() if b is not None}
        if choice.unbatched and not sizes and not period.bounded:
            raise NoBatchError(
                f"no row of {self.model.name} belongs to a batch: batch_by is null in"
                f" {plural(choice.unbatched, 'row')}",
                span=Span(self.model.path),
                hint=f"batch_by is {self.model.config.batch_by}: name the column that says when"
                " rows came",
            )
        return replace(choice, sizes=sizes)

    def _has_older(
        self, ledger: Mapping[str, BatchRecord], period: Period, found: Collection[str | None]
    ) -> bool:
        """Whether there are batches before a period whose first ones have no rows any more."""
        if period.start is None or not period.asked:
            return False
        known = (b for b, record in ledger.items() if record.rows and period.has(b))
        first = min((b for b in (*known, *found) if b is not None), key=batch_order, default=None)
        if first is None or first in found:
            return False
        before = replace(period, start=None, end=period.start)
        return any(b is not None and before.has(b) for b in self._found(before).rows)

    def _found(self, period: Period) -> FoundBatches:
        """The batches of a period, and maybe others."""
        condition = period.condition(self.columns)
        query = batches_query(self.model, condition, self.batch_type)
        assert query is not None, "there is a batch_by"
        # Of whichever model: those that share what is known have other names only.
        key = f"{self.model.config.batch_by} {self.model.config.segment_by} {condition}"
        if key not in self.known:
            self.known[key] = self._counted(period, query)
        return self.known[key]

    def _counted(self, period: Period, query: exp.Expr) -> FoundBatches:
        counted = rows_of_batches(self.spark, self.project, self.model, self.batch_type)
        if counted is None:
            return find_batches(self.spark, self.model.name, query)
        whole = period.with_unbatched or not period.bounded
        inside = (b for b in counted if b is not None or whole)
        return FoundBatches({b: counted[b] for b in inside})

    def _named(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The names of batches that were asked for: `2013-2-8` is the date 2013-02-08.

        Raises UsageError: a text is no value of `batch_by`, so that no batch has it.
        """
        if self.batch_type.startswith("string"):
            return tuple(dict.fromkeys(texts))
        names = names_of_batches(self.spark, self.model.name, texts, self.batch_type)
        for text, name in zip(texts, names, strict=True):
            # Spark takes a month for its first day, and drops what stands behind a date.
            is_whole = self.batch_type not in TIMES or _MOMENT.match(text)
            if name is None or not is_whole:
                raise UsageError(
                    f"--batch {text} does not fit {self.model.name}, whose batches are of type"
                    f" {self.batch_type}",
                    hint="--event-time-start and --event-time-end name all batches of a time"
                    if not is_whole and _YEAR_OR_MONTH.fullmatch(text)
                    else "write them as dq_batches and `dqsql run` do",
                )
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def _check_segments(self, choice: BatchChoice, batch_counts: FoundBatches) -> int | None:
        """About how many segments the batches have; None where that is of no interest.

        Raises ConfigError when they are more than the limit.
        """
        columns, limit = self.model.config.segment_by, self.limits.max_segments
        if not columns or not choice.batches:
            return None
        number = self._segments(choice, batch_counts)
        if number <= limit:
            return number
        raise ConfigError(
            f"segment_by {', '.join(columns)} gives {number:,} segments,"
            f" more than max_segments = {limit:,}",
            span=Span(self.model.path),
            hint="segment by fewer or coarser columns, or raise max_segments in config(..)"
            " or dqsql_project.yml",
        )

    def _segments(self, choice: BatchChoice, batch_counts: FoundBatches) -> int:
        """The number of segments; only exact where it matters."""
        chosen = [b for b in choice.batches if b in batch_counts.segments]
        counts = [batch_counts.segments[b] for b in chosen]
        limit = self.limits.max_segments
        if batch_counts.rows and sum(counts) <= limit:
            return max(counts, default=0)
        if batch_counts.rows and max(counts) <= limit:
            estimate = estimate_union(self.spark, [batch_counts.sketches[b] for b in chosen])
            if estimate <= _SURE * limit:
                return estimate
        batches = BatchFilter(tuple(chosen), self.batch_type, self.columns)
        query = segment_count_query(self.model, batches)
        doing = f"cannot count the segments of {self.model.name}"
        return int(rows_of(self.spark, query, doing)[0]["segments"])


def find_batches(spark: SparkSession, model: str, query: exp.Expr) -> FoundBatches:
    """Run the query of batches. Raises EngineError."""
    rows = rows_of(spark, query, f"cannot list the batches of {model}")
    if not rows or "segments" not in rows[0]:
        return FoundBatches({r["batch"]: r["rows"] for r in rows})
    return FoundBatches(
        {r["batch"]: r["rows"] for r in rows},
        {r["batch"]: r["segments"] for r in rows},
        {r["batch"]: r["sketch"] for r in rows},
    )


def names_of_batches(
    spark: SparkSession, model: str, texts: Sequence[str], spark_type: str
) -> list[str | None]:
    """What batches are called whose `batch_by` of a Spark type reads as these texts.

    None where a text is no value of the type. Raises EngineError.
    """
    value = exp.TryCast(
        this=column("text"), to=exp.DataType.build(spark_type, dialect="spark"), safe=True
    )
    name = as_type(value, "string")
    with translated(f"cannot read the names of batches of {model}"):
        frame = spark.createDataFrame(pa.table({"text": list(texts)}))
        rows = fetched(frame.selectExpr("text", f"{to_sql(name)} as name")).to_pylist()
    by_text = {row["text"]: row["name"] for row in rows}
    return [by_text[text] for text in texts]


def estimate_union(spark: SparkSession, sketches: Collection[bytes]) -> int:
    """About how many segments sketches have together; reads no data. Raises EngineError."""
    table = pa.table({"sketch": pa.array(list(sketches), type=pa.binary())})
    with translated("cannot merge sketches of segments"):
        frame = spark.createDataFrame(table).selectExpr(
            "hll_sketch_estimate(hll_union_agg(sketch)) as n"
        )
        return int(fetched(frame)["n"][0].as_py())


# Spark's types of batches, as Arrow reads them of a file.
_TYPES: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
}
_TEXTS = (pa.large_string(), pa.string_view())
# Spark writes other dates with other calendars, signs or more digits.
_FIRST, _LAST = dt.date(1900, 1, 1), dt.date(9999, 12, 31)


def rows_of_batches(
    spark: SparkSession, project: Project, model: CheckModel, batch_type: str
) -> Mapping[str | None, int] | None:
    """The batches of a model and their rows; None where only Spark can tell.

    The key None is for rows without batch. `batch_type` is the Spark type of `batch_by`.
    """
    if model.relation is not None or model.config.segment_by or batch_type not in _TYPES:
        return None
    origin = batch_source(model)
    relation, name = origin or ("", "")
    source = next((s for s in project.sources if s.relation == quoted(relation)), None)
    if source is None or source.path is None or known_schema(spark, source) is None:
        return None
    values = _column(Path(source.path), name)
    try:
        if values is not None and pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if values is not None and values.type in _TEXTS:
            values = values.cast(pa.string())
        if values is None or values.type != _TYPES[batch_type]:
            return None
        counts = {c["values"]: c["counts"] for c in pc.value_counts(values).to_pylist()}
    except (pa.ArrowException, UnicodeDecodeError):
        return None  # texts that are no UTF-8
    days = [value for value in counts if isinstance(value, dt.date)]
    if any(not _FIRST <= day <= _LAST for day in days):
        return None
    return {None if value is None else str(value): n for value, n in counts.items()}


def _column(file: Path, name: str) -> Any:
    """The values of a column, whose name may be written in other case; None without a word."""
    try:
        if file.stat().st_size > SMALL_BYTES:
            return None
        reader = pq.ParquetFile(file)
        names = [n for n in reader.schema_arrow.names if n.lower() == name.lower()]
        table = reader.read(columns=names) if len(names) == 1 else None
    except (OSError, pa.ArrowException):
        return None
    return table.column(0) if table is not None and table.column_names == names else None
