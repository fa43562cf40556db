"""The pattern index of a lake: built, updated, shown, and asked for columns of one domain.

An index is learned from the string columns of tables, files, sources and check models (see
`monitors.lake`) and kept in the warehouse (see `monitors.lake_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqsql.errors import UsageError, nearest
from dqsql.model.tables import PATTERN_INDEX
from dqsql.model.wording import plural
from dqsql.monitors.lake import Lake
from dqsql.monitors.lake_index import (
    IndexSize,
    index_size,
    lake_index,
    location,
    relations_with,
    write_index,
)
from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.general import with_general
from dqsql.patterns.index import PatternStatistics
from dqsql.patterns.infer import NoPattern, TaggedColumn, TagPattern, tag_pattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import spark_regex
from dqsql.runner.compilation import Where
from dqsql.runner.warehouse import Step, open_tables, open_warehouse, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class IndexResult:
    """What became of an index: the relations that were read, and those that could not be."""

    location: str
    report: IndexSize
    relations: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexContent:
    """The most common patterns of an index, and its size."""

    location: str
    report: IndexSize
    head: tuple[PatternStatistics, ...]


@dataclass(frozen=True)
class TagResult:
    """Columns of the lake that share a domain with a column, and the pattern that says so."""

    relation: str
    column: str
    pattern: TagPattern
    columns: tuple[TaggedColumn, ...]
    notes: tuple[str, ...] = ()


def build(
    where: Where,
    relations: Sequence[str] = (),
    *,
    tau: int | None = None,
    max_values: int | None = None,
    spark: SparkSession | None = None,
    step: Step = silent,
) -> IndexResult:
    """Build the index of a target anew.

    Of `relations`: check models, sources, tables, `schema.*`, files and globs; else of all sources
    and check models of the project, of which what cannot be read is a note, no error. Values of
    more than `tau` tokens are left out, 8 by default; `max_values` rows are read of each relation,
    1,000 by default. Raises DqsqlError; the index that was there then stays as it was.
    """
    given = {"tau": tau, "max_values": max_values}
    settings = IndexSettings(**{k: v for k, v in given.items() if v is not None})
    return _write(where, relations, settings, spark, step)


def update(
    where: Where,
    relations: Sequence[str] = (),
    *,
    spark: SparkSession | None = None,
    step: Step = silent,
) -> IndexResult:
    """Add relations to the index, or replace what they contributed; see `build`.

    An index is made when there is none.
    """
    return _write(where, relations, None, spark, step)


def _write(
    where: Where,
    relations: Sequence[str],
    settings: IndexSettings | None,
    spark: SparkSession | None,
    step: Step,
) -> IndexResult:
    from dqsql.engine.exclusive import locked
    from dqsql.engine.failures import hiding_values, translated

    project = where.project()
    with (
        locked(project.target, [PATTERN_INDEX.name]),
        open_warehouse(project, spark, writes=True) as (session, store),
    ):
        lake = Lake(project, session, (settings or IndexSettings()).max_values)
        frames = lake.frames(relations) if relations else lake.own()
        if not frames:
            raise (
                lake.failures[0]
                if lake.failures
                else UsageError(
                    "there is nothing to index: the project has no sources and no check models",
                    hint="name tables, schemas or files",
                )
            )
        step(f"indexing {plural(len(frames), 'relation')}")
        shown = {name: lake.without_private(name, frame) for name, frame in frames.items()}
        with hiding_values(lake.private_of(*frames)), translated("cannot read the columns"):
            write_index(session, store, shown, settings)
        notes = tuple(f"left out: {error.message}" for error in lake.failures)
        return IndexResult(location(store), index_size(store), tuple(sorted(frames)), notes)


def show(where: Where, *, limit: int = 20, spark: SparkSession | None = None) -> IndexContent:
    """The head of the index: the common domains of the lake. Raises DqsqlError."""
    project = where.project()
    with open_tables(project, spark) as store:
        head = lake_index(store).head(limit)
        return IndexContent(location(store), index_size(store), tuple(head))


def tag(
    where: Where,
    relation: str,
    column_name: str,
    *,
    max_false_negatives: float = 0.1,
    spark: SparkSession | None = None,
    step: Step = silent,
) -> TagResult | NoPattern:
    """Find the columns of the lake that share a domain with a string column (paper, section 2.3).

    The most restrictive pattern of the column is looked up in the index; of the tables that have
    columns with matches, a sample is read again. `max_false_negatives` is the share of a domain's
    values that may be missed, in [0, 1). Raises DqsqlError.
    """
    from dqsql.engine.failures import hiding_values, translated
    from dqsql.patterns.spark_job import column_values, matching_shares, string_columns

    project = where.project()
    with open_warehouse(project, spark) as (session, store):
        index = lake_index(store)
        lake = Lake(project, session, index.settings.max_values)
        relation, frame = lake.single(relation)
        name = _string_column(relation, column_name, string_columns(frame))
        lake.refuse_private(relation, name)
        with hiding_values(lake.private_of(relation)), translated(f"cannot read {relation}"):
            values = column_values(frame, name, index.settings.max_values)
        domain = tag_pattern(values, with_general(index), max_false_negatives=max_false_negatives)
        if isinstance(domain, NoPattern):
            return domain
        tables = relations_with(store, domain.pattern)
        step(f"reading {plural(len(tables), 'relation')}")
        regex = spark_regex(parse_pattern(domain.pattern))
        with hiding_values(lake.private_of(*tables)), translated("cannot read the columns"):
            shares = matching_shares(lake.known(tables), regex, index.settings.max_values)
    least = 1 - max_false_negatives
    shared = [s for s in shares if s.share >= least and (s.table, s.column) != (relation, name)]
    shared.sort(key=lambda s: (-s.share, s.table, s.column))
    notes = tuple(f"left out: {error.message}" for error in lake.failures)
    return TagResult(relation, name, domain, tuple(shared), notes)


def _string_column(relation: str, wanted: str, columns: Sequence[str]) -> str:
    exact = [c for c in columns if c == wanted] or [
        c for c in columns if c.lower() == wanted.lower()
    ]
    if exact:
        return exact[0]
    raise UsageError(
        f"{relation} has no string column {wanted}",
        hint=nearest(wanted, columns)
        or (f"its string columns are {', '.join(columns)}" if columns else "it has none"),
    )
