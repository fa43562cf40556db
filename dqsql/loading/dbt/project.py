"""Loads a dbt project as it is: models, sources and tests from its manifest and files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from dqsql.errors import ConfigError, DqsqlError, JinjaError, Span, error_of, unique_errors
from dqsql.loading.config import ADD_UP, ProjectConfig, build_config, macro_files, normalised
from dqsql.loading.dbt.failing import Unadoptable
from dqsql.loading.dbt.manifest import (
    RESULTS,
    Manifest,
    Node,
    check_target,
    read_manifest,
    staleness,
)
from dqsql.loading.dbt.models import DbtModels, unknown_columns
from dqsql.loading.dbt.places import Places
from dqsql.loading.dbt.rebuilds import read_last_build
from dqsql.loading.dbt.tests import AdoptedTest, Adopter
from dqsql.loading.documents import Document, Section, read_document
from dqsql.loading.models import known_names
from dqsql.loading.profiles import TargetRequest, target_of
from dqsql.model.project import CheckModel, LeftTest, Project, Reader, Source, Target
from dqsql.model.settings import as_names, as_text
from dqsql.model.wording import first_of
from dqsql.templating import MacroLibrary, base_context

FILE_NAME = "dbt_project.yml"
_VARS_FILE = "vars.yml"
SETTINGS = ("vars", "dqsql")
_MANIFEST = "manifest.json"
_ADOPT = "adopt_dbt_tests"
# What dqsql's own files in dbt's target folder lie under, so that none of dbt's is replaced.
_OWN_FOLDER = "dqsql"
_NOT_FOR_DBT = frozenset({"name", "version", "config_version", "profile", "vars", "models"})
# Ends the name of the model that holds the adopted tests of a whole table.
_WHOLE = "__whole"
# So many comments are named in a warning.
_SHOWN = 10


@dataclass(frozen=True)
class DbtConfig:
    """What dqsql needs of `dbt_project.yml`.

    `own` are the settings under `vars: dqsql:`, with the name and the profile of the project.
    `node_paths` are the folders of models, snapshots and tests, with what is in them; `folders`
    what is set for those of models, seeds, snapshots and sources.
    Since dbt 1.12 variables may stand in `vars.yml` instead.
    """

    own: ProjectConfig
    target_path: str
    node_paths: Mapping[str, str]
    packages_dir: str
    folders: Mapping[str, Any]


def is_dbt_project(root: Path) -> bool:
    """Whether the folder holds a dbt project."""
    return (root / FILE_NAME).is_file()


def read_dbt_config(root: Path, overrides: Mapping[str, Any]) -> DbtConfig:
    """Read `dbt_project.yml`. Raises ConfigError with the place of what is wrong.

    dbt renders much of the file itself; only what dqsql reads is rendered here.
    """
    document = read_document(root / FILE_NAME, FILE_NAME)
    data = {k.replace("-", "_"): v for k, v in document.data.items()}
    holder = _with_variables(root, document)
    variables = holder.top.section("vars", "'vars'").values
    # In its own file dbt knows no variables but those of another one.
    known = {} if holder is document else variables
    library = MacroLibrary((), base_context({**known, **overrides}, None))

    def rendered(key: str, reader: Any) -> Any:
        value = data.get(key)
        if isinstance(value, str) and "{" in value:
            try:
                value = library.render(value, FILE_NAME)
            except JinjaError as error:
                raise document.problem(error.message, key, hint=error.hint) from error
        return Section(document, {key: value}).read(key, reader)

    name = rendered("name", as_text)
    if not name:
        raise document.problem("the dbt project has no name")
    scoped = variables.get(name)
    merged = {**variables, **(scoped if isinstance(scoped, dict) else {}), **overrides}
    merged.pop("dqsql", None)
    target_path = os.environ.get("DBT_TARGET_PATH") or rendered("target_path", as_text) or "target"
    return DbtConfig(
        own=replace(
            _own_settings(holder, name, merged), profile=rendered("profile", as_text) or name
        ),
        target_path=target_path,
        node_paths={
            path: kind
            for kind in ("model", "snapshot", "test")
            for path in rendered(f"{kind}_paths", as_names) or (f"{kind}s",)
        },
        packages_dir=rendered("packages_install_path", as_text) or "dbt_packages",
        folders={
            kind: _without_templates(data.get(f"{kind}s"))
            for kind in ("model", "seed", "snapshot", "source")
        },
    )


def _without_templates(value: Any) -> Any:
    """A value of the file without settings that dbt itself renders: the manifest alone has them."""
    if not isinstance(value, dict):
        return value
    plain = {key: _without_templates(v) for key, v in value.items()}
    for key in ADD_UP:
        if isinstance(plain.get(key), list):
            plain[key] = [item for item in plain[key] if not _is_template(item)]
    return {key: v for key, v in plain.items() if not _is_template(v)}


def _is_template(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_template, value))
    return isinstance(value, str) and any(mark in value for mark in ("{{", "{%", "{#"))


def _with_variables(root: Path, project: Document) -> Document:
    """The file that defines variables: dbt refuses a project in which both do."""
    if project.data.get("vars") or not (root / _VARS_FILE).is_file():
        return project
    return read_document(root / _VARS_FILE, _VARS_FILE)


def _own_settings(document: Document, name: str, variables: Mapping[str, Any]) -> ProjectConfig:
    """What stands under `vars: dqsql:`, the place where dbt allows settings of others."""
    values = document.top.section("vars", "'vars'").section("dqsql", "'dqsql'").values
    depth = len(SETTINGS)
    marks = {k[depth:]: m for k, m in document.marks.items() if k[:depth] == SETTINGS}
    own = Document(document.path, dict(values), marks)
    for key in values:
        if key.replace("-", "_") in _NOT_FOR_DBT:
            raise own.problem(f"{key!r} is set in dbt's own files", key)
    top = Section(own, {"macro_paths": [], **normalised(own)})
    return build_config(top, name, variables)


def own_target_path(config: DbtConfig) -> str:
    """The folder of dqsql's artefacts, below dbt's own."""
    return f"{config.target_path}/{_OWN_FOLDER}"


def load_dbt_project(request: TargetRequest, dbt_tests: bool | None, *, all_tests: bool) -> Project:
    """Load the dbt project in `request.root` (absolute); what is wrong with models is in `broken`.

    `request` and `dbt_tests` are what the command line says; without a word about tests the
    project's settings decide, and without a word there `all_tests`. Raises ConfigError or
    ProfileError when settings are wrong or the manifest is missing.
    """
    root = request.root
    config = read_dbt_config(root, request.vars)
    target = target_of(replace(request, dbt=True), config.own)
    shown = f"{config.target_path}/{_MANIFEST}"
    manifest = read_manifest(root / config.target_path / _MANIFEST, shown, config.own.name)
    check_target(manifest, target.name, target.dbt_schemas)
    return _Loader(root, config, target, manifest, dbt_tests, all_tests).load()


@dataclass
class _Loader:
    root: Path
    config: DbtConfig
    target: Target
    manifest: Manifest
    dbt_tests: bool | None
    all_tests: bool
    left: list[LeftTest] = field(default_factory=list)

    def load(self) -> Project:
        own = self.config.own
        # dbt's own folder of macros is not read: a macro there called `check_x` is not meant for
        # dqsql.
        errors: list[DqsqlError] = []
        macros = macro_files(self.root, own.macro_paths, errors)
        if errors:
            raise error_of(errors)
        library = MacroLibrary(macros, base_context(own.vars, self.target))
        nodes = self._nodes()
        names = _names(nodes, self.manifest.project)
        places = Places(self.root, self.config.packages_dir, self.manifest)
        last_build = read_last_build(self.root / self.config.target_path / RESULTS)
        loader = DbtModels(
            root=self.root,
            manifest=self.manifest,
            library=library,
            known_names=known_names(library),
            names=names,
            ids=self._ids(names),
            places=places,
            rebuilds=last_build.rebuilds,
            folders=self.config.folders,
            severity=own.severity,
            left=self.left,
        )
        models: dict[str, CheckModel] = {}
        broken: dict[str, tuple[DqsqlError, ...]] = {}
        for uid, node in nodes.items():
            models[uid] = loader.load(node)
            if loader.errors:
                broken[models[uid].name] = tuple(unique_errors(loader.errors))
                loader.errors.clear()
        if self._adopts:
            models = self._adopted(models, library, places)
        stale = staleness(self.manifest, self.root, self.config.node_paths)
        sources = [t for t in self.left if t.unique_id in self.manifest.sources]
        return Project(
            name=own.name,
            root=self.root,
            target=self.target,
            models=tuple(models.values()),
            sources=tuple(self._source(s, places) for s in self.manifest.sources.values()),
            macros=macros,
            vars=own.vars,
            functions=own.functions,
            target_path=own_target_path(self.config),
            severity=own.severity,
            no_data=own.no_data,
            settings=own.settings,
            warnings=(
                *filter(None, (stale, last_build.warning(names))),
                *(f"{t.name} is left to `dbt source freshness`: {t.reason}" for t in sources),
                *_prose_warning(loader.prose),
            ),
            left_tests=tuple(self.left),
            broken=broken,
            readers=_readers(self.manifest),
            unasked=self._unasked,
        )

    @property
    def _unasked(self) -> frozenset[str]:
        if self._adopts or self.config.own.settings.get(_ADOPT) is False:
            return frozenset()
        return frozenset(str(node.data["name"]) for node in self.manifest.tests.values())

    @property
    def _adopts(self) -> bool:
        if self.dbt_tests is not None:
            return self.dbt_tests
        return bool(self.config.own.settings.get(_ADOPT, self.all_tests))

    def _nodes(self) -> dict[str, Node]:
        """Everything with a relation, or between such things, upstream first."""
        nodes = self.manifest.relations
        ordered = sorted(nodes.values(), key=lambda n: (n.path, n.unique_id))
        graph = {n.unique_id: [p for p in n.parents if p in nodes] for n in ordered}
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise ConfigError(
                f"{self.manifest.shown} has a circle: {circle}", span=Span(self.manifest.shown)
            ) from error
        return {uid: nodes[uid] for uid in order}

    def _ids(self, names: Mapping[str, str]) -> dict[str, str]:
        """Unique ids of dbt as dqsql writes them."""
        ids = {uid: f"model.{name}" for uid, name in names.items()}
        for uid, source in self.manifest.sources.items():
            ids[uid] = f"source.{source.data['source_name']}.{source.data['name']}"
        return ids

    def _source(self, node: Node, places: Places) -> Source:
        return Source(
            name=str(node.data["source_name"]),
            table=str(node.data["name"]),
            relation=node.relation or "",
            span=places.of_node(node),
            description=str(node.data.get("description") or "") or None,
            tags=node.tags,
        )

    # --- tests of dbt --------------------------------------------------------------------------

    def _adopted(
        self, models: dict[str, CheckModel], library: MacroLibrary, places: Places
    ) -> dict[str, CheckModel]:
        """The models with the tests that dqsql takes over; the others are remembered."""
        tests: dict[str, list[AdoptedTest]] = {}
        adopter = Adopter(
            self.manifest,
            self._references(models),
            library,
            self._spans(places),
            self.config.own.vars,
        )
        for uid, name in self.manifest.unit_tests.items():
            self.left.append(LeftTest(uid, name, "it is a unit test"))
        for uid, node in self.manifest.tests.items():
            try:
                adopted = adopter.adopt(node)
            except Unadoptable as reason:
                self.left.append(LeftTest(uid, str(node.data["name"]), str(reason)))
                continue
            tests.setdefault(adopted.attached, []).append(adopted)
        result: dict[str, CheckModel] = {}
        for uid, model in models.items():
            for name, changed in _with_tests(model, tests.get(uid, ())):
                result[f"{uid}{name}"] = changed
        return result

    def _references(self, models: Mapping[str, CheckModel]) -> dict[str, str]:
        """How an annotation names each relation."""
        named = {uid: f"ref('{m.name}')" for uid, m in models.items() if m.relation is not None}
        for uid, source in self.manifest.sources.items():
            named[uid] = f"source('{source.data['source_name']}', '{source.data['name']}')"
        return named

    def _spans(self, places: Places) -> dict[str, Span]:
        return {
            uid: places.of_test(test, self.manifest.relations.get(_tested(test)))
            for uid, test in self.manifest.tests.items()
        }


def _tested(test: Node) -> str:
    attached = test.data.get("attached_node")
    if attached is None and len(test.parents) == 1:
        return test.parents[0]
    return str(attached)


def _with_tests(
    model: CheckModel, tests: list[AdoptedTest] | tuple[()]
) -> list[tuple[str, CheckModel]]:
    """The model with its tests; those of the whole table apart where it has batches or segments.

    dbt's tests are about all rows of a relation. What can be said row by row is said of the new
    batches; whether a value is unique cannot.
    """
    if not tests:
        return [("", model)]
    splits = model.config.batch_by is not None or bool(model.config.segment_by)
    beside = [t for t in tests if splits and not t.by_row]
    with_model = [a for t in tests if t not in beside for a in t.annotations]
    first = replace(model, annotations=(*model.annotations, *with_model))
    if unknown_columns(model, with_model):
        first = replace(first, projections=())
    if not beside:
        return [("", first)]
    whole = replace(
        model,
        name=f"{model.name}{_WHOLE}",
        config=replace(model.config, batch_by=None, segment_by=()),
        projections=(),
        annotations=tuple(a for t in beside for a in t.annotations),
    )
    return [("", first), (_WHOLE, whole)]


def _names(nodes: Mapping[str, Node], project: str) -> dict[str, str]:
    """A name of its own for each node: with the package's in front where two have the same."""
    own = {uid: n.name for uid, n in nodes.items()}
    counts = Counter(own.values())

    def is_free(uid: str) -> bool:
        node = nodes[uid]
        first = node.package == project and node.resource_type != "source"
        return first or counts[own[uid]] == 1

    return {uid: n if is_free(uid) else uid.replace(".", "__") for uid, n in own.items()}


def _prose_warning(comments: Sequence[str]) -> list[str]:
    """A sentence about comments with an @ that are read as prose, or none."""
    if not comments:
        return []
    shown = first_of(comments, _SHOWN, "; ")
    return [f"no check has such a name, so these comments are read as prose: {shown}"]


def _readers(manifest: Manifest) -> tuple[Reader, ...]:
    """Who reads what dbt built: all nodes and exposures of a manifest, upstream first."""
    readers = {uid: _reader(node) for uid, node in manifest.relations.items()}
    for uid, node in manifest.exposures.items():
        name = str(node.data.get("label") or node.data["name"])
        readers[uid] = Reader(node.unique_id, name, "exposure", node.parents)
    graph = {uid: [p for p in r.parents if p in readers] for uid, r in readers.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError:
        # Told where the models are loaded.
        return ()
    return tuple(readers[uid] for uid in order)


def _reader(node: Node) -> Reader:
    sql = node.data.get("compiled_code")
    return Reader(
        unique_id=node.unique_id,
        name=node.name,
        kind=node.resource_type,
        parents=node.parents,
        relation=node.relation,
        sql=str(sql) if sql and str(node.data.get("language", "sql")) == "sql" else None,
    )
