"""Reads dbt's `manifest.json` and `run_results.json`: what dbt built, where, and when.

Manifests of versions 10 to 12 (dbt 1.6 and later) are understood. dbt itself need not be installed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dqsql.errors import ConfigError, Span
from dqsql.json_text import Shape, misfit, parse_json
from dqsql.loading.documents import read_text
from dqsql.model.project import MacroFile
from dqsql.model.wording import first_of

_VERSIONS = (10, 11, 12)
# What dbt builds a relation for.
_BUILT = ("model", "seed", "snapshot")
_SCHEMA = re.compile(r"/manifest/v(\d{1,9})\.json$")
_PARSE = "run `dbt parse` (or `dbt build`)"
_SHOWN = 3
# Whose implementations of a macro dbt looks for.
_ADAPTERS = ("default", "spark", "databricks")

_Json = Mapping[str, Any]
# What is read of a manifest.
_NODE: dict[str, Shape] = {
    "unique_id": str,
    "resource_type": str,
    "name": str,
    "package_name?": str,
    "version?": (str, int, float),
    "source_name?": str,
    "relation_name?": str,
    "original_file_path?": str,
    "patch_path?": str,
    "attached_node?": str,
    "column_name?": str,
    "group?": str,
    "raw_code?": str,
    "compiled_code?": str,
    "description?": str,
    "identifier?": str,
    "schema?": str,
    "language?": str,
    "checksum?": {"checksum?": str},
    "test_metadata?": {"name?": str, "namespace?": str, "kwargs?": dict},
    "depends_on?": {"nodes?": [str], "macros?": [str]},
    "fqn?": [str],
    "tags?": [str],
    "columns?": {...: {"meta?": dict, "config?": dict, "description?": str}},
    "config?": dict,
    "meta?": dict,
}
_SHAPE: Shape = {
    "metadata": dict,
    "nodes?": {...: _NODE},
    "sources?": {...: {**_NODE, "source_name": str}},
    "macros?": {...: {"macro_sql?": str, "original_file_path?": str}},
    "groups?": {...: {"name?": str, "owner?": dict}},
    "exposures?": {...: {"unique_id": str, "name": str, "label?": str, "depends_on?": dict}},
    "disabled?": {...: [{"package_name?": str, "original_file_path?": str}]},
}
RESULTS = "run_results.json"
# Folders of tests with files that are no nodes: macros, and data of unit tests.
_NO_NODES = frozenset({"generic", "fixtures"})


@dataclass(frozen=True)
class Node:
    """A node or source of the manifest, as dbt wrote it."""

    data: _Json

    @property
    def unique_id(self) -> str:
        """`model.shop.orders`."""
        return str(self.data["unique_id"])

    @property
    def resource_type(self) -> str:
        """Model, seed, snapshot, source or test."""
        return str(self.data["resource_type"])

    @property
    def package(self) -> str:
        """The dbt package (or project) that it belongs to."""
        return str(self.data.get("package_name", ""))

    @cached_property
    def name(self) -> str:
        """The name that people use; that of a versioned model ends with its version."""
        name, version = str(self.data["name"]), self.data.get("version")
        if self.resource_type == "source":
            return f"{self.data['source_name']}__{name}"
        return name if version is None else f"{name}_v{version}"

    @property
    def relation(self) -> str | None:
        """The relation as SQL text, or None where dbt builds none."""
        relation_name = self.data.get("relation_name")
        return str(relation_name) if relation_name else None

    @property
    def path(self) -> str:
        """The file, relative to the folder of its package."""
        return str(self.data.get("original_file_path", ""))

    @property
    def config(self) -> _Json:
        """The node's configuration."""
        return _mapping(self.data, "config")

    @property
    def materialized(self) -> str:
        """How dbt builds it."""
        return str(self.config.get("materialized") or "")

    @property
    def meta(self) -> _Json:
        """Its `meta`: that of `config` over the one beside it, which older versions wrote."""
        return {**_mapping(self.data, "meta"), **_mapping(self.config, "meta")}

    @property
    def columns(self) -> _Json:
        """The described columns by name."""
        return _mapping(self.data, "columns")

    def column_meta(self, name: str) -> _Json:
        """The `meta` of a column."""
        return Node(self.columns[name]).meta

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return tuple(str(t) for t in self.data.get("tags") or ())

    @property
    def parents(self) -> tuple[str, ...]:
        """The unique ids of what it reads."""
        return tuple(str(n) for n in _mapping(self.data, "depends_on").get("nodes") or ())

    @property
    def macros(self) -> tuple[str, ...]:
        """The unique ids of the macros that it calls."""
        return tuple(str(n) for n in _mapping(self.data, "depends_on").get("macros") or ())

    @property
    def properties_file(self) -> str | None:
        """The YAML file that describes it, relative to its package, or None."""
        if self.resource_type == "source":
            return self.path
        patch = self.data.get("patch_path")
        return str(patch).partition("://")[2] or None if patch else None


@dataclass(frozen=True)
class Manifest:
    """A manifest. `shown` is its path for people."""

    shown: str
    data: _Json

    @cached_property
    def project(self) -> str:
        """The name of the root project."""
        return str(self.data["metadata"].get("project_name") or "")

    @cached_property
    def generated_at(self) -> dt.datetime | None:
        """When dbt wrote it."""
        try:
            return dt.datetime.fromisoformat(str(self.data["metadata"].get("generated_at")))
        except ValueError:
            return None

    @cached_property
    def built(self) -> dict[str, Node]:
        """Models, seeds and snapshots by unique id, also ephemeral models."""
        return {uid: n for uid, n in self._nodes.items() if n.resource_type in _BUILT}

    @cached_property
    def tests(self) -> dict[str, Node]:
        """All enabled tests by unique id; unit tests are none of them."""
        return {uid: n for uid, n in self._nodes.items() if n.resource_type == "test"}

    @cached_property
    def unit_tests(self) -> dict[str, str]:
        """The names of all enabled unit tests by unique id."""
        tests = _mapping(self.data, "unit_tests")
        return {
            uid: str(test.get("name"))
            for uid, test in tests.items()
            if (test.get("config") or {}).get("enabled", True)
        }

    @cached_property
    def sources(self) -> dict[str, Node]:
        """Sources by unique id."""
        return self._enabled("sources")

    @cached_property
    def exposures(self) -> dict[str, Node]:
        """Enabled exposures by unique id."""
        return self._enabled("exposures")

    @cached_property
    def relations(self) -> dict[str, Node]:
        """Sources, and what dbt builds (also ephemeral models), by unique id."""
        return {**self.sources, **self.built}

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return self._enabled("nodes")

    def _enabled(self, key: str) -> dict[str, Node]:
        nodes = {uid: Node(data) for uid, data in _mapping(self.data, key).items()}
        return {uid: n for uid, n in nodes.items() if n.config.get("enabled", True)}

    def has_macro(self, package: str, name: str) -> bool:
        """Whether a package defines a macro."""
        return f"macro.{package}.{name}" in _mapping(self.data, "macros")

    def text_of_test(self, package: str, name: str) -> str:
        """The macros that are a test of a package on Spark."""
        names = (f"test_{name}", f"default__test_{name}", f"spark__test_{name}")
        macros = (self.macro(f"macro.{package}.{n}") for n in names)
        return "\n".join(m.text for m in macros if m is not None)

    def macro(self, unique_id: str) -> MacroFile | None:
        """The file and text of a macro, as far as they are known."""
        data = _mapping(_mapping(self.data, "macros"), unique_id)
        if not data.get("macro_sql"):
            return None
        return MacroFile(str(data.get("original_file_path") or self.shown), data["macro_sql"])

    def dispatched(self, package: str, name: str) -> str | None:
        """The package whose implementation of a macro dbt may take instead of the package's own."""
        for unique_id in _mapping(self.data, "macros"):
            _, _, rest = unique_id.partition(".")
            owner, _, macro = rest.partition(".")
            adapter, _, implemented = macro.partition("__")
            if implemented != name or adapter not in _ADAPTERS or owner in (package, "dbt"):
                continue
            # A package that has the macro itself implements its own.
            if not self.has_macro(owner, name):
                return owner
        return None

    def group_owner(self, group: str | None) -> str | None:
        """The owner of a group: the name, else the address."""
        for data in _mapping(self.data, "groups").values():
            if data.get("name") == group:
                owner = data.get("owner") or {}
                return owner.get("name") or owner.get("email")
        return None

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files of all nodes of the root project, also of disabled ones."""
        disabled = [n for nodes in _mapping(self.data, "disabled").values() for n in nodes]
        nodes = [*_mapping(self.data, "nodes").values(), *disabled]
        own = [n for n in nodes if n.get("package_name") == self.project]
        return frozenset(str(n.get("original_file_path")) for n in own)


def _mapping(data: _Json, key: str) -> _Json:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def read_manifest(file: Path, shown: str, project: str) -> Manifest:
    """Read a manifest. Raises ConfigError: missing, unreadable, of another version or project."""
    if not file.is_file():
        raise ConfigError(
            f"there is no {shown}, which says where dbt's relations are",
            span=Span(shown),
            hint=f"{_PARSE} in the dbt project",
        )
    try:
        data = parse_json(read_text(file, shown))
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{shown} is not valid JSON: {error.msg}",
            span=Span(shown, error.lineno, error.colno),
            hint=_PARSE,
        ) from error
    except ValueError as error:
        raise _wrong(shown, f"is {error}") from error
    if misfit(data, {"metadata": dict}):
        raise _wrong(shown, "is not a manifest of dbt")
    _check_version(data["metadata"] or {}, shown)
    if problem := misfit(data, _SHAPE) or _misnamed(data):
        raise _wrong(shown, f"is not a manifest of dbt: {problem}")
    manifest = Manifest(shown, data)
    if manifest.project and manifest.project != project:
        raise _wrong(shown, f"belongs to the project {manifest.project!r}, not of {project!r}")
    return manifest


def _wrong(shown: str, problem: str, hint: str = _PARSE) -> ConfigError:
    return ConfigError(f"{shown} {problem}", span=Span(shown), hint=hint)


def _misnamed(data: _Json) -> str | None:
    """What is wrong with a manifest of which a node is not what it is listed as."""
    for key in ("nodes", "sources"):
        for uid, node in _mapping(data, key).items():
            if node["unique_id"] != uid:
                return f"{key}: {uid!r} is called {node['unique_id']!r}"
    return None


def _check_version(metadata: _Json, shown: str) -> None:
    schema = str(metadata.get("dbt_schema_version"))
    match = _SCHEMA.search(schema)
    version = None if match is None else int(match.group(1))
    if version in _VERSIONS:
        return
    newest = _VERSIONS[-1]
    hint = "use dbt 1.6 or newer, and run `dbt parse`"
    if version is not None and version > newest:
        # Previews of dbt 2 wrote version 20, its releases write 12.
        hint = f"run `dbt parse` with a release of dbt that writes version {newest}"
    read = f"dqsql reads versions {_VERSIONS[0]} to {newest} of dbt's manifest"
    raise _wrong(shown, f"has the schema {schema!r}; {read}", hint)


def check_target(manifest: Manifest, name: str, schemas: Mapping[str, str]) -> None:
    """Raise ConfigError if dbt wrote the manifest for another target: its relations are elsewhere.

    A manifest does not say its target. Models without a `schema` of their own tell it, by where
    they are built. `schemas` are those of the profile's targets, by their names.
    """
    models = [
        n for n in _own(manifest) if n.resource_type == "model" and not n.config.get("schema")
    ]
    built = {str(n.data.get("schema")).lower() for n in models}
    others = [other for other, schema in schemas.items() if schema.lower() in built]
    if others and name in schemas and name not in others:
        raise _wrong(
            manifest.shown,
            f"was written for the target {others[0]!r}, which builds in {schemas[others[0]]},"
            f" and not for {name!r}, which builds in {schemas[name]}",
            f"run `dbt parse --target {name}` in the dbt project",
        )


def checksum_of(text: str) -> str:
    """The checksum of a file's text: white space around it does not count."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


def staleness(manifest: Manifest, root: Path, node_paths: Mapping[str, str]) -> str | None:
    """A sentence about files that changed since dbt wrote the manifest, or None."""
    changes = [*_changed_models(manifest, root), *_new_nodes(manifest, root, node_paths)]
    changes += _changed_properties(manifest, root)
    if not changes:
        return None
    return f"{manifest.shown} is stale ({first_of(changes, _SHOWN)}): {_PARSE}"


def _own(manifest: Manifest) -> Iterator[Node]:
    return (n for n in manifest.built.values() if n.package == manifest.project)


def _changed_models(manifest: Manifest, root: Path) -> Iterator[str]:
    own_tests = (t for t in manifest.tests.values() if t.package == manifest.project)
    singular = (t for t in own_tests if not t.data.get("test_metadata"))
    for node in (*_own(manifest), *singular):
        known = _mapping(node.data, "checksum")
        if node.resource_type == "seed" or known.get("name") != "sha256":
            continue
        file = root / node.path
        if not file.is_file():
            yield f"{node.path} is gone"
        elif node.resource_type in ("model", "test") and not _is_as(
            file, str(known.get("checksum"))
        ):
            yield f"{node.path} has changed"


def _is_as(file: Path, checksum: str) -> bool:
    content = file.read_bytes()
    # dbt reads files with universal newlines. Up to 1.11 white space around the text does not
    # count; from 1.12 on, any white space is one space.
    text = content.replace(b"\r\n", b"\n").decode("utf-8", errors="replace")
    known = (text.strip(), " ".join(text.split()))
    return checksum in (*map(checksum_of, known), hashlib.sha256(content).hexdigest())


def _new_nodes(manifest: Manifest, root: Path, node_paths: Mapping[str, str]) -> Iterator[str]:
    for folder, kind in node_paths.items():
        for file in sorted((root / folder).rglob("*.sql")):
            path = file.relative_to(root).as_posix()
            first = file.relative_to(root / folder).parts[0]
            if path not in manifest.paths and (kind != "test" or first not in _NO_NODES):
                yield f"{path} is new"


def _changed_properties(manifest: Manifest, root: Path) -> Iterator[str]:
    """YAML files have no checksum in the manifest; their times must do."""
    written = manifest.generated_at
    if written is None:
        return
    nodes = [
        *_own(manifest),
        *(s for s in manifest.sources.values() if s.package == manifest.project),
    ]
    for path in sorted({n.properties_file for n in nodes if n.properties_file}):
        file = root / path
        if not file.is_file():
            yield f"{path} is gone"
        elif file.stat().st_mtime > written.timestamp():
            yield f"{path} is newer"
