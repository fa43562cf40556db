"""Reads `dqsql_project.yml`: the project's settings, before any model is looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from dqsql.errors import ConfigError, DqsqlError, Span, UsageError, error_of
from dqsql.loading import documents
from dqsql.loading.settings import project_settings, read_model_settings
from dqsql.model.project import MacroFile, NoData, Project, Severity, Target
from dqsql.model.settings import Reader, as_names, as_text, one_of
from dqsql.resources import resource_dir
from dqsql.templating import MacroLibrary, base_context

FILE_NAME = "dqsql_project.yml"
_FILES = (FILE_NAME, "dbt_project.yml")
_TARGET_KEYS = frozenset({"warehouse", "table_format", "schema", "ansi", "spark_conf", "threads"})


def _as_paths(value: Any) -> tuple[str, ...]:
    return tuple(str(PurePosixPath(path)) for path in as_names(value))


def _as_folder(value: Any) -> str:
    return os.path.expanduser(as_text(value))


# Fields of ProjectConfig that one key gives.
_FIELDS: Mapping[str, Reader] = {
    "profile": as_text,
    "model_paths": _as_paths,
    "macro_paths": _as_paths,
    "source_paths": _as_paths,
    "target_path": _as_folder,
    "severity": one_of(*Severity),
    "no_data": one_of(*NoData),
    "functions": as_names,
}
_OTHER_KEYS = frozenset({"name", "version", "config_version", "vars", "models", "sources"})
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class FolderDefaults:
    """Settings that a folder gives to the models below it. `folder` () is the whole project."""

    folder: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """The project file as read. `document` is kept for the places of its keys."""

    name: str
    document: documents.Document
    profile: str | None = None
    model_paths: tuple[str, ...] = ("checks",)
    macro_paths: tuple[str, ...] = ("macros",)
    source_paths: tuple[str, ...] = ()
    target_path: str = "target"
    vars: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = Severity.ERROR
    no_data: NoData = NoData.WARN
    functions: tuple[str, ...] = ()
    target_defaults: Mapping[str, Any] = field(default_factory=dict)
    folder_defaults: tuple[FolderDefaults, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_preliminary: bool = False

    @property
    def target_places(self) -> dict[str, Span]:
        """The places of the settings of the target: of their own, or below `warehouse`."""
        top = {str(k).replace("-", "_") for k in self.document.data}
        return {
            key: self.document.span(key if key in top else "warehouse")
            for key in self.target_defaults
        }

    def defaults_for(self, path: str) -> dict[str, Any]:
        """The settings of all folders above a model, outermost first; tags add up."""
        result: dict[str, Any] = {}
        parts = self._below_model_path(path)
        for defaults in self.folder_defaults:
            if parts[: len(defaults.folder)] == defaults.folder:
                result = merge_settings(result, defaults.settings)
        return result

    def unused_folders(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Folders or models with settings under `models:` that are above none of the paths."""
        places = [self._below_model_path(path) for path in paths]
        folders = [defaults.folder for defaults in self.folder_defaults]
        return tuple(
            ".".join(folder)
            for folder in folders
            if not any(place[: len(folder)] == folder for place in places)
        )

    def _below_model_path(self, path: str) -> tuple[str, ...]:
        file = PurePosixPath(path).with_suffix("")
        for folder in sorted(self.model_paths, key=len, reverse=True):
            if file.is_relative_to(folder):
                return file.relative_to(folder).parts
        return file.parts


# A model that names a tag or a private column of its own keeps those of its folders.
ADD_UP = ("tags", "pii")


def merge_settings(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Inner settings over outer ones; tags, private columns and settings of monitors add up."""
    added = {
        key: tuple(dict.fromkeys((*outer.get(key, ()), *inner.get(key, ()))))
        for key in ADD_UP
        if key in outer or key in inner
    }
    extra = dict(outer.get("extra", {}))
    for key, value in inner.get("extra", {}).items():
        above = extra.get(key)
        if isinstance(above, dict) and isinstance(value, dict):
            extra[key] = {**above, **value}
        else:
            extra[key] = value
    return {**outer, **inner, **added, "extra": extra}


def parse_vars(text: str) -> dict[str, Any]:
    """The value of `--vars`: a YAML mapping. Raises UsageError."""
    hint = "write --vars '{name: value}'"
    try:
        values = documents.load_yaml(text)
    except (yaml.YAMLError, ValueError):
        # Neither the text nor YAML's words about it: values may be secret.
        raise UsageError("--vars is not YAML", hint=hint) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError("--vars must be a mapping", hint=hint)
    if not all(isinstance(k, str) for k in values):
        raise UsageError("the names in --vars must be texts, not numbers or dates", hint=hint)
    if any(value is None and re.search(r"[\s:=]", key) for key, value in values.items()):
        raise UsageError("a variable in --vars has no value, or no space before it", hint=hint)
    return values


# What templates of the project file may use, and what the file itself says or leads to.
_KNOWN_LATER = re.compile(r"\b(target|var)\b")


def read_project_file(
    root: Path, overrides: Mapping[str, Any], before: tuple[ProjectConfig, Target] | None = None
) -> ProjectConfig:
    """Read `dqsql_project.yml` in `root`; `overrides` are the variables of the command line.

    The file may use its own variables and the target, which it helps to find: it is to be read
    once more then (`is_preliminary`), with what is known `before`. Raises ConfigError with the
    place of what is wrong.
    """
    file = root / FILE_NAME
    if not file.is_file():
        raise ConfigError(
            f"there is no {FILE_NAME} in {root}",
            hint="`dqsql init` writes one; --project-dir names another folder",
        )
    known, target = (overrides, Target("", "")) if before is None else (before[0].vars, before[1])
    library = MacroLibrary((), base_context(known, target))
    texts: list[str] = []

    def render(text: str, path: str) -> str:
        texts.append(text)
        return library.render(text, path)

    document = documents.read_document(file, FILE_NAME, render, later=before is None)
    is_preliminary = before is None and any(map(_KNOWN_LATER.search, texts))
    if not is_preliminary:
        document.refuse_unrendered()
    top = documents.Section(document, normalised(document))
    name = project_name(top)
    variables = top.section("vars", "'vars'").values
    scoped = variables.get(name)
    if isinstance(scoped, dict):
        # dbt's `vars: {project: {..}}`.
        variables = {**{k: v for k, v in variables.items() if k != name}, **scoped}
    config = build_config(top, name, {**variables, **overrides})
    return replace(config, is_preliminary=is_preliminary)


def build_config(top: documents.Section, name: str, variables: Mapping[str, Any]) -> ProjectConfig:
    """The configuration in the top level of a document. Raises ConfigError."""
    given = {key for key, value in top.values.items() if value not in (None, "")}
    fields = {key: top.read(key, reader) for key, reader in _FIELDS.items() if key in given}
    readers = project_settings()
    return ProjectConfig(
        name=name,
        document=top.document,
        vars=variables,
        target_defaults=_target_defaults(top),
        folder_defaults=tuple(_folder_defaults(top.section("models", "'models'"), (), name)),
        settings={
            key: top.read(key, readers[key])
            for key, value in top.values.items()
            if key in readers and value is not None
        },
        **fields,
    )


def normalised(document: documents.Document) -> dict[str, Any]:
    """The top level with `-` and `_` in keys taken for the same, every key known."""
    values: dict[str, Any] = {}
    known = known_keys()
    for key, value in document.data.items():
        plain = key.replace("-", "_")
        if plain not in known:
            documents.Section(document, {key: value}).check_keys(known, "the project file")
        values[plain] = value
    return values


def known_keys() -> frozenset[str]:
    """The settings of the project file."""
    return _OTHER_KEYS.union(_FIELDS, _TARGET_KEYS, project_settings())


def project_name(top: documents.Section) -> str:
    """The project's name. Raises ConfigError: there is none, or it is no identifier."""
    name = top.read("name", as_text)
    if not name:
        raise top.problem("the project has no name", hint="add `name: my_project`")
    if not _NAME.fullmatch(name):
        hint = "use letters, digits and underscores"
        raise top.problem(f"the project name {name!r} is not usable", "name", hint=hint)
    return str(name)


def _target_defaults(top: documents.Section) -> dict[str, Any]:
    """`warehouse: path`, or a mapping of warehouse settings, and the same keys at the top."""
    defaults = {k: v for k, v in top.values.items() if k in _TARGET_KEYS and v is not None}
    warehouse = defaults.get("warehouse")
    if isinstance(warehouse, dict):
        del defaults["warehouse"]
        aliases: dict[str, str] = {"path": "warehouse", "format": "table_format"}
        known = {*_TARGET_KEYS - {"warehouse"}, *aliases}
        section = documents.Section(top.document, warehouse, ("warehouse",))
        section.check_keys(known, "'warehouse'")
        defaults.update({aliases.get(str(k), str(k)): v for k, v in warehouse.items()})
    return defaults


def _folder_defaults(
    models: documents.Section, folder: tuple[str, ...], project: str
) -> Iterator[FolderDefaults]:
    """What `models:` says; without the plus sign a mapping is a folder, as in dbt."""
    own = {k: v for k, v in models.values.items() if k[:1] == "+" or not isinstance(v, dict)}
    if own:
        # dbt puts the project's name above the folders.
        below = folder[1:] if folder[:1] == (project,) else folder
        settings, problems = read_model_settings({k.removeprefix("+"): v for k, v in own.items()})
        if problems:
            written = {key.removeprefix("+"): key for key in own}
            places = (written.get(p.key, p.key) for p in problems)
            raise error_of(
                models.problem(p.message, key, hint=p.hint)
                for p, key in zip(problems, places, strict=True)
            )
        yield FolderDefaults(below, settings)
    for key in models.values:
        if key not in own:
            child = models.section(key, f"the folder {key!r}")
            yield from _folder_defaults(child, (*folder, key), project)


def place_of(project: Project, key: str) -> Span:
    """The line of a key of the project file; the file itself where the key is not found."""
    words = "[-_]".join(re.escape(word) for word in key.split("_"))
    pattern = re.compile(rf"\s*['\"]?{words}['\"]?\s*:")
    for name in _FILES:
        file = project.root / name
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        for number, line in enumerate(lines, start=1):
            if pattern.match(line):
                return Span(name, number, len(line) - len(line.lstrip()) + 1, line.strip())
    return Span(_FILES[0])


def shipped_macros() -> tuple[MacroFile, ...]:
    """The checks and metrics that come with dqsql, by absolute path."""
    files = documents.files_below(resource_dir("macros"), (".",), (".sql",))
    return tuple(MacroFile(str(f), documents.read_text(f, str(f))) for f in files)


def macro_files(
    root: Path, folders: Iterable[str], errors: list[DqsqlError]
) -> tuple[MacroFile, ...]:
    """Shipped files by absolute path, then those in folders of a project by relative path.

    What cannot be read is appended to `errors`.
    """
    files = [*shipped_macros()]
    for file in documents.files_below(root, folders, (".sql",)):
        shown = documents.relative_to(file, root)
        try:
            files.append(MacroFile(shown, documents.read_text(file, shown)))
        except DqsqlError as error:
            errors.append(error)
    return tuple(files)
