"""Loads a project: its settings, sources, macros, target and check models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from dqsql.dialect import quoted
from dqsql.errors import ConfigError, DqsqlError, UsageError, error_of, nearest
from dqsql.loading.config import (
    FILE_NAME,
    ProjectConfig,
    macro_files,
    parse_vars,
    read_project_file,
)
from dqsql.loading.contracts.expand import with_contract
from dqsql.loading.dbt.project import (
    is_dbt_project,
    load_dbt_project,
    own_target_path,
    read_dbt_config,
)
from dqsql.loading.documents import Document, files_below, read_document, relative_to
from dqsql.loading.models import (
    ModelContext,
    ModelFile,
    check_model_names,
    circle_of,
    load_model,
    unreadable,
    upstream_first,
)
from dqsql.loading.profiles import FILE_NAME as PROFILES_FILE
from dqsql.loading.profiles import TargetRequest, target_of
from dqsql.loading.sources import read_sources, refuse_duplicates
from dqsql.model.project import TABLE_FORMATS, CheckModel, MacroFile, Project, Source, Target
from dqsql.resources import expanded
from dqsql.templating import MacroLibrary, base_context

_YAML_KEYS = ("version", "sources")

__all__ = ["load_project", "parse_vars", "read_target_path"]


def load_project(
    project_dir: str | PathLike[str],
    *,
    target: str | None = None,
    profile: str | None = None,
    profiles_dir: str | PathLike[str] | None = None,
    vars: Mapping[str, Any] | str | None = None,
    dbt_tests: bool | None = None,
    all_tests: bool = False,
    strict: bool = True,
    in_place_of: Mapping[str, str] | None = None,
) -> Project:
    """Load the project in `project_dir`.

    `vars` (a mapping, or YAML text) overrides the project's variables. Models are in the order of
    their paths, disabled ones included. A folder with `dbt_project.yml` and no `dqsql_project.yml`
    is loaded as a dbt project; `dbt_tests` then says whether its generic tests are adopted (None:
    as its settings say; with `all_tests` they are unless the settings say no). `in_place_of` gives
    names of views that are read instead of sources (`shop.orders`).

    Raises ConfigError or ProfileError when the settings are wrong; what is wrong with sources,
    macros and models is collected and raised together as an ErrorGroup (a single error as
    itself). Unless `strict`, annotations that cannot be read are not raised: they are what
    `Project.broken` holds. Nothing is written and Spark is not started.
    """
    root = expanded(project_dir).resolve()
    if vars is not None and not isinstance(vars, str | Mapping):
        raise UsageError(f"vars is a mapping or a text, not {type(vars).__name__}")
    overrides = parse_vars(vars) if isinstance(vars, str) else dict(vars or {})
    request = TargetRequest(
        root, profile=profile, target=target, profiles_dir=profiles_dir, vars=overrides
    )
    if not _is_dbt(root):
        if dbt_tests:
            raise UsageError(
                f"--dbt-tests adopts the tests of a dbt project, and {root} is not one",
                hint="name the folder of dbt_project.yml with --project-dir",
            )
        project = _load(request, in_place_of or {})
    elif in_place_of:
        raise UsageError("sources of a dbt project cannot be replaced by a stream")
    else:
        project = load_dbt_project(request, dbt_tests, all_tests=all_tests)
    if strict:
        _raise([error for errors in project.broken.values() for error in errors])
    return project


def _load(request: TargetRequest, views: Mapping[str, str]) -> Project:
    root = request.root
    config, chosen = _configured(request)
    errors: list[DqsqlError] = []
    sources = _replaced(_load_sources(root, config, chosen, errors), views)
    macros = macro_files(root, config.macro_paths, errors)
    _raise(errors)
    models, broken = _load_models(root, config, chosen, sources, macros)
    return Project(
        name=config.name,
        root=root,
        target=replace(chosen, source_formats=_table_formats(sources)),
        models=models,
        sources=sources,
        macros=macros,
        vars=config.vars,
        functions=config.functions,
        target_path=config.target_path,
        severity=config.severity,
        no_data=config.no_data,
        settings=config.settings,
        broken=broken,
        warnings=tuple(
            f"{FILE_NAME}: the settings of {'models.' if folder else 'models'}{folder} match no"
            " check model"
            for folder in config.unused_folders([m.path for m in models])
        ),
    )


def _configured(request: TargetRequest) -> tuple[ProjectConfig, Target]:
    """The project file and the target, each of which the other may depend on."""
    config = read_project_file(request.root, request.vars)
    chosen = target_of(request, config)
    if config.is_preliminary:
        config = read_project_file(request.root, request.vars, (config, chosen))
        chosen = target_of(request, config)
    return config, chosen


def read_target_path(root: Path, overrides: Mapping[str, Any]) -> str:
    """The folder of dqsql's artefacts, relative to the project's. Raises ConfigError."""
    if _is_dbt(root):
        return own_target_path(read_dbt_config(root, overrides))
    config = read_project_file(root, overrides)
    if config.is_preliminary:
        config, _ = _configured(TargetRequest(root, vars=overrides))
    return config.target_path


def _is_dbt(root: Path) -> bool:
    return is_dbt_project(root) and not (root / FILE_NAME).is_file()


def _raise(errors: list[DqsqlError]) -> None:
    if errors:
        raise error_of(errors)


def _replaced(sources: Iterable[Source], views: Mapping[str, str]) -> tuple[Source, ...]:
    """The sources, with views in place of some. Raises UsageError: there is no such source."""
    known_sources = tuple(sources)
    names = [s.full_name for s in known_sources]
    for name in views:
        if name not in names:
            raise UsageError(f"there is no source {name}", hint=nearest(name, names))
    return tuple(
        replace(s, relation=quoted(views[s.full_name]), path=None, file_format=None, options={})
        if s.full_name in views
        else s
        for s in known_sources
    )


def _table_formats(sources: Iterable[Source]) -> tuple[str, ...]:
    """The formats of file sources that are formats of tables."""
    formats = {s.file_format for s in sources if s.file_format in TABLE_FORMATS}
    return tuple(name for name in TABLE_FORMATS if name in formats)


def _load_sources(
    root: Path, config: ProjectConfig, target: Target, errors: list[DqsqlError]
) -> tuple[Source, ...]:
    library = MacroLibrary((), base_context(config.vars, target))
    files = files_below(root, (*config.model_paths, *config.source_paths), (".yml", ".yaml"))
    files += [
        root / path
        for path in ("sources.yml", "sources.yaml", *config.source_paths)
        if (root / path).is_file()
    ]
    sources: list[Source] = []
    documents: list[Document] = [config.document]
    for file in dict.fromkeys(files):
        if file.name in (FILE_NAME, PROFILES_FILE):
            continue
        try:
            documents.append(_source_document(file, root, library))
        except DqsqlError as error:
            errors.append(error)
    for document in documents:
        try:
            sources += read_sources(document, root)
        except ConfigError as error:
            errors.append(error)
    errors.extend(refuse_duplicates(sources))
    return tuple(sources)


def _source_document(file: Path, root: Path, library: MacroLibrary) -> Document:
    document = read_document(file, relative_to(file, root), library.render)
    for key in document.data:
        if key == "models":
            raise document.problem(
                "check models cannot be configured in YAML",
                key,
                hint="use {{ config(..) }} in the model, or `models:` in dqsql_project.yml",
            )
    document.top.check_keys(_YAML_KEYS, "a sources file")
    return document


def _load_models(
    root: Path,
    config: ProjectConfig,
    target: Target,
    sources: tuple[Source, ...],
    macros: tuple[MacroFile, ...],
) -> tuple[tuple[CheckModel, ...], dict[str, tuple[DqsqlError, ...]]]:
    """The models, and by name the errors of those that cannot be read, or not whole."""
    paths = files_below(root, config.model_paths, (".sql",))
    files = [ModelFile(path.stem, relative_to(path, root), path) for path in paths]
    errors = _missing_folders(root, config)
    errors += check_model_names(files)
    context = ModelContext({file.name for file in files}, sources)
    library = MacroLibrary(macros, {**base_context(config.vars, target), **context.functions()})
    loaded: list[CheckModel] = []
    broken: dict[str, tuple[DqsqlError, ...]] = {}
    _raise(errors)
    for file in files:
        own: list[DqsqlError] = []
        model = load_model(file, config, library, context, own)
        model, wrong = with_contract(model, root, severity=config.severity)
        if wrong is not None:
            own.append(wrong)
        loaded.append(model)
        if own:
            broken[model.name] = tuple(own)
    while (circle := circle_of(loaded)) is not None:
        error, names = circle
        broken |= {name: (*broken.get(name, ()), error) for name in names}
        loaded = [unreadable(m.name, m.path, m.config) if m.name in names else m for m in loaded]
    return upstream_first(loaded), broken


def _missing_folders(root: Path, config: ProjectConfig) -> list[DqsqlError]:
    """A folder that the project file names but that is not there, likely misspelt."""
    given = config.document.data
    return [
        ConfigError(
            f"the folder {path!r} of {what} does not exist",
            span=replace(config.document.span(key), text=path),
        )
        for key, what, paths in (
            ("model_paths", "check models", config.model_paths),
            # That of every project may stand there for the macros to come.
            ("macro_paths", "macros", [p for p in config.macro_paths if p != "macros"]),
            ("source_paths", "sources", config.source_paths),
        )
        for path in paths
        if not given.keys().isdisjoint((key, key.replace("_", "-")))
        and not (root / path).is_dir()
        and not (key == "source_paths" and (root / path).is_file())
    ]
