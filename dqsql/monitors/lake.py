"""The relations that an index may be built of, read by name.

The columns of a check model with batches are sampled over its history and in its order, because an
index also rehearses how patterns of a column's first values fare on its later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from dqsql.compiler.keys import check_batch_by, model_view
from dqsql.compiler.privacy import private_of_relation
from dqsql.compiler.scan import BatchFilter
from dqsql.compiler.segments import batches_query
from dqsql.dialect import column, to_sql
from dqsql.engine.paths import files_at
from dqsql.engine.registered import Registered
from dqsql.errors import DqsqlError, SourceNotFoundError, UsageError, nearest
from dqsql.model.project import CheckModel, Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A history is sampled at this many of its batches, evenly spread.
_BATCHES_OF_HISTORY = 20


@dataclass
class Lake:
    """Reads relations of a project and its session by name.

    Of a history, about `max_values` rows are read. `failures` are the relations that could not be
    read where that was no reason to stop. Tables of a schema that Spark cannot read are added to
    `unreadable`, where it is a list, and raise where it is none.
    """

    project: Project
    spark: SparkSession
    max_values: int
    failures: list[DqsqlError] = field(default_factory=list)
    unreadable: list[str] | None = None
    _registered: Registered = field(default_factory=Registered)

    def frames(self, names: Sequence[str]) -> dict[str, DataFrame]:
        """The relations of these names, schemas and globs. Raises DqsqlError for any of them."""
        relations: dict[str, DataFrame] = {}
        for name in names:
            relations |= self._named(name)
        return relations

    def single(self, name: str) -> tuple[str, DataFrame]:
        """One relation and its name in an index. Raises UsageError where there are several."""
        relations = self._named(name)
        if len(relations) != 1:
            raise UsageError(f"{name} matches {len(relations):,} relations; name one of them")
        return next(iter(relations.items()))

    def own(self) -> dict[str, DataFrame]:
        """The sources and check models of the project; what cannot be read is a failure."""
        models = [model.name for model in self.project.models if model.config.enabled]
        sources = [source.full_name for source in self.project.sources]
        return self.known([*sources, *models])

    def known(self, names: Sequence[str]) -> dict[str, DataFrame]:
        """The relations of these names that can be read; the others are failures."""
        relations: dict[str, DataFrame] = {}
        for name in names:
            try:
                relations |= self._named(name)
            except DqsqlError as error:
                self.failures.append(error)
        return relations

    def private_of(self, *names: str) -> frozenset[str]:
        """The private columns of relations by the project's models, in lower case."""
        return frozenset[str]().union(*map(self._private_of, names))

    def without_private(self, name: str, frame: DataFrame) -> DataFrame:
        """A relation without its private columns: patterns of few values are these values."""
        private = self.private_of(name)
        return frame.drop(*(column for column in frame.columns if column.lower() in private))

    def refuse_private(self, name: str, column_name: str) -> None:
        """Raise UsageError if a column of a relation is private."""
        if column_name.lower() in self.private_of(name):
            raise UsageError(
                f"{column_name} of {name} is private: a pattern may tell its values",
                hint="tag another column, or take this one out of pii",
            )

    @cached_property
    def _files_of_sources(self) -> dict[str, frozenset[Path]]:
        return {s.unique_id: _files(s.path) for s in self.project.sources if s.path}

    def _private_of(self, name: str) -> frozenset[str]:
        models, plain = self.project.models, _plain(name)
        ids = [
            m.unique_id
            for m in models
            if m.name == name or (m.relation and _plain(m.relation) == plain)
        ]
        ids += [
            s.unique_id
            for s in self.project.sources
            if plain in (_plain(s.full_name), _plain(s.relation))
        ]
        files = _files(self.project.root / name)
        ids += [i for i, own in self._files_of_sources.items() if not own.isdisjoint(files)]
        return frozenset[str]().union(*(private_of_relation(models, i) for i in ids))

    def _named(self, name: str) -> dict[str, DataFrame]:
        from dqsql.engine.relations import read_source

        for model in self.project.models:
            if model.name == name:
                return {name: self._model(model)}
        for source in self.project.sources:
            if source.full_name == name:
                return {name: read_source(self.spark, source)}
        return self._others(name)

    def _others(self, name: str) -> dict[str, DataFrame]:
        from dqsql.engine.failures import translated
        from dqsql.engine.file_options import csv_options
        from dqsql.patterns.spark_job import file_format, sources

        known = [m.name for m in self.project.models]
        known += [s.full_name for s in self.project.sources]
        try:
            with translated(f"cannot read {name}"):
                return sources(
                    self.spark,
                    name,
                    root=self.project.root,
                    unreadable=self._refuse_or_note,
                    csv_options=partial(csv_options, self.spark),
                )
        except SourceNotFoundError as error:
            if not name.endswith(".*") and file_format(name) is None:
                # There is a view of this name, and what it reads is gone.
                raise
            raise UsageError(
                f"there is no table, schema or file {name}", hint=nearest(name, known)
            ) from error
        except UsageError as error:
            raise UsageError(error.message, hint=nearest(name, known) or error.hint) from error

    def _refuse_or_note(self, name: str, error: Exception) -> None:
        if self.unreadable is None:
            raise error
        self.unreadable.append(name)

    def _model(self, model: CheckModel) -> DataFrame:
        """The rows of a model; those of a model with batches in the order of its history."""
        from dqsql.engine.relations import register_model

        register_model(self.spark, self.project, model, self._registered)
        whole = self.spark.sql(f"select * from {model_view(model)}")
        return whole if model.config.batch_by is None else self._history(model, whole)

    def _history(self, model: CheckModel, whole: DataFrame) -> DataFrame:
        from dqsql.engine.failures import translated
        from dqsql.engine.relations import expression_types
        from dqsql.engine.values import types_of
        from dqsql.patterns.spark_job import string_columns

        names = string_columns(whole)
        batch_by = check_batch_by(model)
        if batch_by is None or not names:
            return whole
        view = model_view(model)
        about = f"check model {model.name}"
        kind = expression_types(self.spark, view, [to_sql(batch_by)], about)[0]
        types = types_of(whole.schema)
        batches = self._batches(model)
        filters = [BatchFilter((b,), kind, types).condition(model) for b in batches]
        rows = -(-self.max_values // max(1, len(batches)))
        columns = [to_sql(column(name)) for name in names]
        with translated(f"cannot read the history of {model.name}"):
            # A handful of small reads, not one of all rows: each stops when it has its rows.
            parts = [
                whole.where(to_sql(condition)).select(*columns).limit(rows)
                for condition in filters
                if condition is not None
            ]
            # One partition keeps the order of the parts.
            return reduce(lambda a, b: a.unionByName(b), parts).coalesce(1) if parts else whole

    def _batches(self, model: CheckModel) -> list[str]:
        """Batches of the model in order, evenly spread over its history."""
        from dqsql.engine.discovery import find_batches
        from dqsql.model.batches import batch_order

        query = batches_query(replace(model, config=replace(model.config, segment_by=())))
        if query is None:
            return []
        batches = find_batches(self.spark, model.name, query)
        history = sorted((b for b in batches.rows if b is not None), key=batch_order)
        return _spread(history)


def _files(path: str | Path) -> frozenset[Path]:
    return frozenset(file.resolve() for file in files_at(Path(path)) or ())


def _plain(name: str) -> str:
    """A table's name as Spark compares it."""
    return name.replace("`", "").lower().removeprefix("spark_catalog.")


def _spread(batches: list[str]) -> list[str]:
    """At most so many of the batches, evenly spread, the first and last among them."""
    step = (len(batches) - 1) / (_BATCHES_OF_HISTORY - 1)
    return batches if step <= 1 else [batches[round(i * step)] for i in range(_BATCHES_OF_HISTORY)]
