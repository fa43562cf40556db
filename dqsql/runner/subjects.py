"""The relation that a profile or suggestions are about, by the name that a person gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dqsql.compiler.keys import model_view
from dqsql.compiler.privacy import pii_columns
from dqsql.errors import UsageError
from dqsql.model.project import CheckModel, ModelConfig, Project, Source, view_name
from dqsql.monitors.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Subject:
    """A relation whose rows stand in the view of `view`.

    `table` is its name for people who read names (the last part). `reads` is what a check model
    that reads the whole relation says behind FROM. `model` is set when it is a check model,
    `source` when it is a source. `private` are the columns, in lower case, of which no value may be
    shown: those of the check model, of a source those of the check models that read it.
    """

    name: str
    view: str
    types: Mapping[str, str]
    reads: str
    model: CheckModel | None = None
    source: Source | None = None
    private: frozenset[str] = frozenset()

    @property
    def table(self) -> str:
        """The last part of the name, without a file's ending."""
        last = re.split(r"[/\\]", self.name)[-1]
        stem = last.rsplit(".", 1)
        return stem[0] if self.is_file else stem[-1]

    @property
    def is_file(self) -> bool:
        """Whether it is a file or folder that no source names."""
        named = self.model is not None or self.source is not None
        return not named and _is_file(self.name)

    @property
    def config(self) -> ModelConfig:
        """The settings of the check model; none for other relations."""
        return self.model.config if self.model is not None else ModelConfig()

    @property
    def unique_id(self) -> str | None:
        """The id of the check model or source, None for what only Spark knows."""
        if self.model is not None:
            return self.model.unique_id
        return self.source.unique_id if self.source is not None else None


_ENDINGS = ("parquet", "csv", "tsv", "json", "orc", "txt")


def _is_file(name: str) -> bool:
    return "/" in name or name.rpartition(".")[2] in _ENDINGS


@dataclass
class Subjects:
    """Registers relations of a project by name; each once."""

    project: Project
    spark: SparkSession
    _found: dict[str, Subject] = field(default_factory=dict)
    _registered: set[str] = field(default_factory=set)

    def find(self, name: str) -> Subject:
        """A check model, source, table or file. Raises DqsqlError."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def others(self, subject: Subject) -> list[str]:
        """The names of the project's other models and sources, without those in its lineage."""
        own = subject.model
        upstream = {*own.depends_on} if own is not None else {subject.unique_id}
        models = [
            m.name
            for m in self.project.models
            if m.config.enabled
            and m.unique_id not in (subject.unique_id, *upstream)
            and not upstream & {*m.depends_on}
            and subject.unique_id not in m.depends_on
        ]
        sources = [s.full_name for s in self.project.sources if s.unique_id not in upstream]
        return [*models, *sources]

    def _find(self, name: str) -> Subject:
        for model in self.project.models:
            if model.name == name:
                return self._model(model)
        for source in self.project.sources:
            if source.full_name == name:
                return self._source(source)
        return self._other(name)

    def _model(self, model: CheckModel) -> Subject:
        from dqsql.engine.relations import column_types, register_model

        if not model.config.enabled:
            raise UsageError(f"the check model {model.name} is disabled")
        register_model(self.spark, self.project, model, self._registered)
        types = column_types(self.spark, model_view(model), model.name)
        reads = f"{{{{ ref('{model.name}') }}}}"
        private = pii_columns(model)
        return Subject(model.name, model.name, types, reads, model=model, private=private)

    def _source(self, source: Source) -> Subject:
        from dqsql.engine.profiling import register
        from dqsql.engine.relations import read_source

        frame = read_source(self.spark, source)
        view = f"source__{source.name}__{source.table}"
        types = register(frame, view_name(view))
        reads = f"{{{{ source('{source.name}', '{source.table}') }}}}"
        readers = (m for m in self.project.models if source.unique_id in m.depends_on)
        private = frozenset[str]().union(*map(pii_columns, readers))
        return Subject(source.full_name, view, types, reads, source=source, private=private)

    def _other(self, name: str) -> Subject:
        from dqsql.engine.profiling import register

        found, frame = Lake(self.project, self.spark, 1).single(name)
        view = "relation__" + re.sub(r"\W+", "_", found)
        types = register(frame, view_name(view))
        ending = name.rpartition(".")[2]
        kind = ending if ending in _ENDINGS else "parquet"
        reads = f"{kind}.`{name}`" if _is_file(name) else found
        return Subject(found, view, types, reads)
