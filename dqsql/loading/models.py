"""Loads check models: renders each file, reads its `config(..)`, binds its annotations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from dqsql.dialect import quoted
from dqsql.errors import ConfigError, DqsqlError, LoadError, Span, error_of, nearest
from dqsql.loading.binding import BoundModel, bind_model, relation_call, with_calls
from dqsql.loading.config import ProjectConfig, merge_settings
from dqsql.loading.documents import read_text
from dqsql.loading.rendering import Rendering, render_model
from dqsql.loading.settings import read_model_settings
from dqsql.model.project import CheckModel, ModelConfig, Source, view_name
from dqsql.template_limits import SURROGATE
from dqsql.templating import MacroLibrary, call_error, locate

_MAX_CHARACTERS = 1_000_000
_MACRO_PREFIXES = ("check_", "metric_")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that holds a check model. `path` is relative to the project's root."""

    name: str
    path: str
    file: Path


@dataclass(slots=True)
class _Recorder:
    """What rendering one model records."""

    file: ModelFile
    raw: str
    settings: dict[str, Any] = field(default_factory=dict)
    depends_on: dict[str, None] = field(default_factory=dict)
    relations: dict[str, str] = field(default_factory=dict)


class ModelContext:
    """The functions that Jinja in check models sees: `config`, `ref` and `source`.

    One context serves all models, so that macros can call `ref` too; it knows which model is
    being rendered.
    """

    def __init__(self, models: Collection[str], sources: Sequence[Source]) -> None:
        self._models = frozenset(models)
        self._sources = {(s.name, s.table): s for s in sources}
        self.current: _Recorder | None = None

    def functions(self) -> dict[str, object]:
        """The functions by name."""
        return {"config": self.config, "ref": self.ref, "source": self.source}

    def config(self, values: Mapping[str, Any] | None = None, /, **settings: Any) -> str:
        """Take settings of the model, as in `config(batch_by = 'day')`; renders to nothing."""
        recorder = self._recorder("config")
        read, problems = read_model_settings({**(values or {}), **settings})
        if problems:
            raise error_of(p.at(ConfigError, _config_span(recorder, p.key)) for p in problems)
        recorder.settings = merge_settings(recorder.settings, read)
        return ""

    def ref(self, *names: str, **_: Any) -> str:
        """Render another check model as a relation, as in `ref('flights')`."""
        recorder = self._recorder("ref")
        name = names[-1] if names else ""
        if name not in self._models:
            shown = names[0] if names else ""
            hint = nearest(name, self._models) or "a table is read by source('..', '..')"
            raise call_error("ref", shown, f"there is no check model {name!r}", hint)
        recorder.depends_on[f"model.{name}"] = None
        view = quoted(view_name(name))
        recorder.relations[view] = relation_call("ref", name)
        return view

    def source(self, name: str, table: str) -> str:
        """Render a table or file that a sources file names, as in `source('nyc', 'flights')`."""
        recorder = self._recorder("source")
        source = self._sources.get((name, table))
        if source is None:
            raise self._unknown_source(name, table)
        recorder.depends_on[source.unique_id] = None
        recorder.relations[source.relation] = relation_call("source", name, table)
        return source.relation

    def _unknown_source(self, name: str, table: str) -> LoadError:
        names = {source for source, _ in self._sources}
        if name in names:
            tables = [t for source, t in self._sources if source == name]
            hint = nearest(table, tables) or f"its tables: {', '.join(sorted(tables))}"
            message = f"the source {name!r} has no table {table!r}"
            return call_error("source", name, message, hint)
        hint = nearest(name, names) or "declare it under `sources:` in a YAML file"
        return call_error("source", name, f"there is no source {name!r}", hint)

    def _recorder(self, function: str) -> _Recorder:
        if self.current is None:
            raise LoadError(f"{function}() can only be used in a check model")
        return self.current


def _config_span(recorder: _Recorder, key: str) -> Span:
    """The place of a key in a model's `config(..)`, else of the call."""
    raw = recorder.raw
    call = locate(raw, r"\bconfig\s*\(") or (1, 1)
    place = locate(raw, rf"\b{re.escape(key)}\b\s*[=:'\"]", call[0]) or call
    return Span(recorder.file.path, place[0], place[1], key)


# What the name of a table in a folder cannot contain.
_NO_TABLE = re.compile(r"[\[\]^|\\%]")


def check_model_names(files: Sequence[ModelFile]) -> list[DqsqlError]:
    """One error for each second model of a name; Spark's views know no upper and lower case.

    And one for each name that is no text.
    """
    seen: dict[str, ModelFile] = {}
    errors: list[DqsqlError] = []
    for file in files:
        if SURROGATE.search(file.path):
            message = "the name of the file is not UTF-8 text"
            errors.append(LoadError(message, span=Span(file.path), hint="rename the file"))
        elif match := _NO_TABLE.search(file.name):
            message = f"a check model cannot be called {file.name!r}, as no table may be"
            hint = f"rename the file without {match.group()!r}"
            errors.append(LoadError(message, span=Span(file.path), hint=hint))
        first = seen.setdefault(file.name.lower(), file)
        if first is not file:
            names = " or ".join(dict.fromkeys(repr(f.name) for f in (first, file)))
            message = f"two check models are called {names}: {first.path} and {file.path}"
            errors.append(LoadError(message, span=Span(file.path), hint="rename one of the files"))
    return errors


def load_model(
    file: ModelFile,
    project: ProjectConfig,
    library: MacroLibrary,
    context: ModelContext,
    errors: list[DqsqlError],
) -> CheckModel:
    """Load one file. What is wrong with it is appended to `errors`.

    A model whose annotations are wrong is returned without these, and one that has no SELECT to
    speak of without a text: nothing can read it.
    """
    recorder = _Recorder(file, "")
    try:
        raw = read_text(file.file, file.path)
        if not raw.strip():
            raise LoadError("the file is empty", span=Span(file.path), hint="write a SELECT")
        if len(raw) > _MAX_CHARACTERS:
            message = f"the file is longer than {_MAX_CHARACTERS:,} characters"
            raise LoadError(message, span=Span(file.path), hint="spread it over several models")
        recorder.raw = raw
        rendering = _render(raw, file, library, context, recorder)
        config = _model_config(recorder, project)
    except DqsqlError as error:
        errors.append(error)
        return _unread(recorder, project)
    if not config.enabled:
        # A model is often disabled because it is not finished: its text is not looked at.
        return _model(recorder, rendering, config, BoundModel(rendering.sql, (), ()))
    bound = bind_model(rendering, file.path, known_names(library), errors)
    if bound is None:
        return _unread(recorder, project)
    named = with_calls(bound.annotations, recorder.relations)
    bound = replace(bound, annotations=named)
    return _model(recorder, rendering, config, bound)


def unreadable(
    name: str, path: str, config: ModelConfig, depends_on: Iterable[str] = ()
) -> CheckModel:
    """What is known of a model that nothing can read, by which it may be selected."""
    # Nothing of it is watched, whatever the project watches.
    plain = ModelConfig(tags=config.tags, enabled=config.enabled, extra={"monitors": False})
    return CheckModel(name, path, "", "", plain, (), (), (), depends_on=tuple(depends_on))


def _unread(recorder: _Recorder, project: ProjectConfig) -> CheckModel:
    config, file = _model_config(recorder, project), recorder.file
    return unreadable(file.name, file.path, config, recorder.depends_on)


def known_names(library: MacroLibrary) -> frozenset[str]:
    """The names of check and metric macros, in lower case: annotations may write them otherwise."""
    return frozenset(
        name.removeprefix(prefix).lower()
        for name in library.macros
        for prefix in _MACRO_PREFIXES
        if name.startswith(prefix)
    )


def _render(
    raw: str, file: ModelFile, library: MacroLibrary, context: ModelContext, recorder: _Recorder
) -> Rendering:
    def render(text: str) -> str:
        recorder.settings = {}
        context.current = recorder
        try:
            return library.render(text, file.path)
        finally:
            context.current = None

    return render_model(raw, render)


def _model_config(recorder: _Recorder, project: ProjectConfig) -> ModelConfig:
    return ModelConfig(
        **merge_settings(project.defaults_for(recorder.file.path), recorder.settings)
    )


def _model(
    recorder: _Recorder, rendering: Rendering, config: ModelConfig, bound: BoundModel
) -> CheckModel:
    return CheckModel(
        name=recorder.file.name,
        path=recorder.file.path,
        raw_sql=rendering.raw,
        sql=bound.sql,
        config=config,
        projections=bound.projections,
        annotations=bound.annotations,
        line_map=rendering.line_map,
        depends_on=tuple(recorder.depends_on),
        checksum=hashlib.sha256(rendering.raw.encode()).hexdigest(),
    )


def _refs(models: Mapping[str, CheckModel]) -> dict[str, list[str]]:
    """Which of the models, by their unique ids, each reads."""
    return {uid: [d for d in m.depends_on if d in models] for uid, m in models.items()}


def upstream_first(models: Sequence[CheckModel]) -> tuple[CheckModel, ...]:
    """The models, each behind those that it reads, else in their order; there is no circle."""
    by_id = {model.unique_id: model for model in models}
    places = {uid: place for place, uid in enumerate(by_id)}
    sorter = TopologicalSorter(_refs(by_id))
    sorter.prepare()
    ordered_models: list[CheckModel] = []
    while ready := sorted(sorter.get_ready(), key=places.__getitem__):
        ordered_models += [by_id[uid] for uid in ready]
        sorter.done(*ready)
    return tuple(ordered_models)


def circle_of(models: Sequence[CheckModel]) -> tuple[LoadError, frozenset[str]] | None:
    """An error about a circle of refs, and the names of the models in it; None without one."""
    by_id = {model.unique_id: model for model in models}
    try:
        TopologicalSorter(_refs(by_id)).prepare()
    except CycleError as error:
        # Each is read by the one behind it; people write what a model reads behind it.
        circle = [by_id[uid] for uid in reversed(error.args[1])]
        names = " -> ".join(model.name for model in circle)
        model, following = circle[0], circle[1].name
        written = rf"\bref\s*\(\s*['\"]{re.escape(following)}['\"]"
        place = locate(model.raw_sql, written) or (1, 1)
        span = Span(model.path, *place, f"ref('{following}')")
        message = f"check models refer to each other in a circle: {names}"
        hint = "let one of them read a source instead"
        return LoadError(message, span=span, hint=hint), frozenset(m.name for m in circle)
    return None
