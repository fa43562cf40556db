"""The relation that a profile or suggestions are about, by the name that a person gives it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from dqsql.compiler.keys import model_view
from dqsql.compiler.privacy import pii_columns, private_of_relation
from dqsql.engine.registered import Registered
from dqsql.errors import UsageError, nearest
from dqsql.loading.documents import relative_to
from dqsql.loading.sources import UNNAMED, is_known_format, unnamed_source
from dqsql.model.project import CheckModel, ModelConfig, Project, Source, view_name
from dqsql.monitors.lake import Lake
from dqsql.resources import expanded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Subject:
    """A relation whose rows stand in the view of `view`.

    `table` is its name for people who read names (the last part). `reads` is what a check model
    that reads the whole relation says behind FROM. `model` is set when it is a check model,
    `source` when it is a source. `private` are the columns, in lower case, of which no value may be
    shown: those of the check model, of a source those of the check models that read it.
    `batch_by` is what is proposed for a relation without a check model.
    """

    name: str
    view: str
    types: Mapping[str, str]
    reads: str
    model: CheckModel | None = None
    source: Source | None = None
    private: frozenset[str] = frozenset()
    batch_by: str | None = None

    @property
    def table(self) -> str:
        """The last part of the name, without a file's ending."""
        parts = re.split(r"[/\\]", self.name)
        return _table_of(parts) if self.is_file else parts[-1].rsplit(".", 1)[-1]

    @property
    def is_file(self) -> bool:
        """Whether it is a file or folder that no source names."""
        named = self.model is not None or self.source is not None
        return not named and _is_file(self.name)

    @property
    def config(self) -> ModelConfig:
        """The settings of the check model; of other relations what is proposed."""
        return self.model.config if self.model is not None else ModelConfig(batch_by=self.batch_by)

    @property
    def unique_id(self) -> str | None:
        """The id of the check model or source, None for what only Spark knows."""
        if self.model is not None:
            return self.model.unique_id
        return self.source.unique_id if self.source is not None else None


_ENDINGS = ("parquet", "csv", "tsv", "json", "jsonl", "ndjson", "orc", "txt", "gz", "xlsx", "xls")


def _is_file(name: str) -> bool:
    return "/" in name or "\\" in name or name.rpartition(".")[2].lower() in _ENDINGS


def file_of(project: Project, name: str) -> Path | None:
    """The file or folder that a relation's name means, relative to the project or to where you are.

    None for a name that means none: of a source, a check model or a table. Raises UsageError where
    there is no such file.
    """
    named = {m.name for m in project.models} | {s.full_name for s in project.sources}
    if name in named or not _is_file(name) or "://" in name:
        return None
    places = (project.root / expanded(name), Path.cwd() / expanded(name))
    if is_pattern(name) and not any(place.exists() for place in places):
        return None
    for path in places:
        if path.is_dir() or (path.is_file() and is_known_format(path.name)):
            return path.resolve()
        if path.is_file():
            raise UsageError(
                f"{name} has no ending that says how to read it",
                hint="files are .parquet, .csv, .tsv, .json, .jsonl or .orc",
            )
    beside = places[0].parent
    near = nearest(places[0].name, [f.name for f in beside.iterdir()]) if beside.is_dir() else None
    raise UsageError(f"there is no file {name}", hint=near or f"it is looked for in {project.root}")


def source_of_file(project: Project, path: Path) -> Source | None:
    """The source that reads a file or folder of this machine, if one does."""
    of_files = (s for s in project.sources if s.path is not None and "://" not in s.path)
    return next((s for s in of_files if Path(str(s.path)).resolve() == path), None)


_GLOB = re.compile(r"[*?\[]")


def is_pattern(name: str) -> bool:
    """Whether a relation's name means all files that a pattern matches."""
    return _is_file(name) and "://" not in name and _GLOB.search(name) is not None


def files_of(project: Project, name: str) -> tuple[Path, list[Path]]:
    """A pattern of files, and those of this machine that it matches, as Spark reads them.

    Like a file's name it is relative to the project or to where you are.
    """
    for folder in (project.root.resolve(), Path.cwd()):
        matches = sorted(glob(str(expanded(name)), root_dir=folder))
        files = [folder / f for f in matches if not Path(f).name.startswith("_")]
        if files:
            return folder / expanded(name), files
    return project.root.resolve() / expanded(name), []


def files_named(project: Project, names: Iterable[str]) -> list[Path] | None:
    """The files beside the project's sources that relations' names mean, of this machine.

    None where one may be a table. Raises UsageError as `file_of`.
    """
    known = {m.name for m in project.models} | {s.full_name for s in project.sources}
    paths: list[Path] = []
    for name in sorted({*names} - known):
        path = file_of(project, name)
        files = [path] if path is not None else files_of(project, name)[1]
        if not files:
            return None
        paths += files
    return paths


@dataclass
class Subjects:
    """Registers relations of a project by name; each once."""

    project: Project
    spark: SparkSession
    _found: dict[str, Subject] = field(default_factory=dict)
    _registered: Registered = field(default_factory=Registered)

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
        from dqsql.engine.relations import read_source
        from dqsql.engine.statements import register

        frame = read_source(self.spark, source)
        view = f"source__{source.name}__{source.table}"
        types = register(frame, view_name(view))
        reads = f"{{{{ source('{source.name}', '{source.table}') }}}}"
        private = private_of_relation(self.project.models, source.unique_id)
        return Subject(source.full_name, view, types, reads, source=source, private=private)

    def _other(self, name: str) -> Subject:
        from dqsql.engine.statements import register

        path = file_of(self.project, name)
        if path is not None:
            source = source_of_file(self.project, path)
            return self._file(path) if source is None else self.find(source.full_name)
        if is_pattern(name):
            path, files = files_of(self.project, name)
            source = source_of_file(self.project, path)
            if source is not None:
                return self.find(source.full_name)
            if files:
                return self._file(path, files)
        lake = Lake(self.project, self.spark, 1)
        full_name, frame = lake.single(name)
        view = "relation__" + re.sub(r"\W+", "_", full_name)
        types = register(frame, view_name(view))
        reads, private = _reads(full_name) if _is_file(name) else full_name, lake.private_of(name)
        return Subject(full_name, view, types, reads, private=private)

    def _file(self, path: Path, files: Sequence[Path] = ()) -> Subject:
        """A file, or the files of a pattern, that no source names, read as if one did."""
        from dqsql.engine.relations import read_source
        from dqsql.engine.statements import register

        shown = relative_to(path, self.project.root.resolve())
        name, table = declared_name(self.project, path)
        source = unnamed_source(str(path), shown, table, next(iter(files), None))
        frame = read_source(self.spark, source, shown)
        view = "relation__" + re.sub(r"\W+", "_", shown)
        reads = f"{{{{ source('{name}', '{table}') }}}}"
        private = Lake(self.project, self.spark, 1).private_of(str(path))
        return Subject(shown, view, register(frame, view_name(view)), reads, private=private)


def table_name(file: str) -> str:
    """What a table of a file is called: its name without endings."""
    name = re.sub(r"\W+", "_", file.partition(".")[0]).strip("_") or UNNAMED
    return f"file_{name}" if name[0].isdigit() else name


def _table_of(parts: Sequence[str]) -> str:
    """What a table of a file or of a pattern of files is called: as the file, or its folder."""
    pattern = _GLOB.search(parts[-1]) is not None
    return table_name("".join(parts[-2:-1]) if pattern else parts[-1])


def _reads(files: str) -> str:
    """How a check model reads files of another machine, once a source names them."""
    table = table_name(re.split(r"[/\\]", files)[-1])
    return f"{{{{ source('{UNNAMED}', '{table}') }}}}"


def declared_name(project: Project, path: Path) -> tuple[str, str]:
    """The source and the table that a file, or a pattern of files, is proposed as."""
    table = _table_of(path.parts)
    taken = {s.name for s in project.sources}
    return (UNNAMED if UNNAMED not in taken else f"{UNNAMED}_{table}"), table


def check_names(relation: str) -> tuple[str, str]:
    """What a check model of a table or source is called: as the table, or with all of its name."""
    table = re.sub(r"\W+", "_", relation.rpartition(".")[2])
    return table, re.sub(r"\W+", "_", relation.replace("`", "")).strip("_")
