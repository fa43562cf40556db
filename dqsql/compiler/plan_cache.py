"""What was compiled of models, kept for the next command.

A model compiles to the same plan as long as its text, the relations that it names, the macros, the
settings of its monitors and dqsql itself stay as they are. The plan and its statements lie in the
user's cache, two files for each model of a project, which a change replaces. A file is believed
only if its hash is right, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlglot import exp

from dqsql.compiler.adoption import CompiledModel
from dqsql.model.by_key import by_key
from dqsql.model.monitors import monitor_specs
from dqsql.model.plan import Query
from dqsql.model.project import CheckModel, Project
from dqsql.resources import cache_dir, is_private, is_switched_off, package_files, write_private
from dqsql.version import VERSION

T = TypeVar("T")

_SWITCH = "DQSQL_PLAN_CACHE"
_HASH = hashlib.sha256
_HASH_BYTES = 32
_OURS = "dqsql."
_PLAN, _QUERIES = "plan", "queries"
_MOST_FILES = 5_000
_WORD = re.compile(r"\w+")
_ESCAPED = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)")
_VARIABLE = re.compile(r"\bvar\s*\(")
_ENVIRONMENT = re.compile(r"\benv_var\s*\(\s*['\"](\w+)['\"]")


class PlanCache:
    """The kept plans of a project. Where the cache cannot be read or written there are none."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._folder = cache_dir() / "plans"
        self._keys: dict[tuple[int, int | None], tuple[CheckModel, bytes]] = {}
        self._models = _ByName((m.name, m) for m in project.models)
        self._sources = _ByName((s.table, s) for s in project.sources)
        self._of_relation = by_key((model.relation, model) for model in project.models)
        self._used = not is_switched_off(_SWITCH) and all(
            # What other packages bring may change without a new version.
            spec.watches.__module__.startswith(_OURS)
            for spec in monitor_specs().values()
        )
        common = repr(
            (
                _installation(),
                sorted(monitor_specs()),
                project.macros,
                _read_by_macros(project),
                project.functions,
                project.severity,
                project.no_data,
                project.settings,
                project.sources,
            )
        )
        # What is the same for all models is hashed once, however many there are.
        self._common = _HASH(common.encode("utf-8", "surrogatepass")).digest()

    def plan(self, model: CheckModel, limit: int | None) -> CompiledModel | None:
        """What the model was compiled to, if it would be compiled to the same now.

        `limit` are the scans that it may take.
        """
        kept: CompiledModel | None = self._get(_PLAN, model, limit)
        return None if kept is None else replace(kept, plan=replace(kept.plan, model=model))

    def keep_plan(self, model: CheckModel, limit: int | None, compiled: CompiledModel) -> None:
        """Keep what the model was compiled to, unless something is wrong with it."""
        if not compiled.plan.rejected:
            self._put(_PLAN, model, limit, compiled)

    def queries(self, model: CheckModel, limit: int | None) -> tuple[Query, ...] | None:
        """The statements that are shown of the model, if they would be the same now."""
        kept: tuple[Query, ...] | None = self._get(_QUERIES, model, limit)
        return kept

    def keep_queries(
        self, model: CheckModel, limit: int | None, queries: tuple[Query, ...]
    ) -> None:
        """Keep the statements that are shown of the model."""
        self._put(_QUERIES, model, limit, queries)

    def _get(self, kind: str, model: CheckModel, limit: int | None) -> Any:
        if not self._used:
            return None
        try:
            if not is_private(self._folder):
                return None
            text = self._path(kind, model).read_bytes()
        except OSError:
            return None
        seal, body = text[: 2 * _HASH_BYTES], text[2 * _HASH_BYTES :]
        if seal != self._key(model, limit) + _HASH(body).digest():
            return None
        return pickle.loads(zlib.decompress(body))

    def _put(self, kind: str, model: CheckModel, limit: int | None, kept: object) -> None:
        if not self._used:
            return
        try:
            # The fastest level makes it a tenth of the size.
            body = zlib.compress(_pickled(kept), 1)
            seal = self._key(model, limit) + _HASH(body).digest()
            write_private(self._path(kind, model), seal + body)
            self._prune()
        except (OSError, RecursionError):
            return  # no room, no right to write, or a very deep expression: compiled again

    def _prune(self) -> None:
        """Models are renamed and projects deleted: of many files the oldest go."""
        names = list(self._folder.iterdir())
        if len(names) > _MOST_FILES:
            by_age = sorted(names, key=lambda path: path.stat().st_mtime)
            for path in by_age[: len(names) // 2]:
                path.unlink(missing_ok=True)

    def _path(self, kind: str, model: CheckModel) -> Path:
        place = repr((str(self._project.root), self._project.target.name, model.name, kind))
        return self._folder / _HASH(place.encode()).hexdigest()[:32]

    def _key(self, model: CheckModel, limit: int | None) -> bytes:
        # The object is kept beside its key: another one may come to lie where it was.
        known, key = self._keys.get((id(model), limit), (None, b""))
        if known is None:
            text = repr(model)
            parts = (self._common, text, limit, *self._named(text))
            key = _HASH(repr(parts).encode("utf-8", "surrogatepass")).digest()
            self._keys[id(model), limit] = model, key
        return key

    def _named(self, text: str) -> Iterator[CheckModel]:
        """The models that the text of a model may name, or that are of the same relation."""
        tables = {s.relation for s in self._sources.mentioned(text)}
        mentioned = self._models.mentioned(text)
        yield from mentioned
        for relation in sorted((tables | {m.relation for m in mentioned}) - {None}, key=repr):
            yield from self._of_relation.get(relation, ())


class _ByName(Generic[T]):
    """Things that a text may name, found by its words: there may be thousands of them."""

    def __init__(self, things: Iterable[tuple[str, T]]) -> None:
        self._by_word: dict[str, list[T]] = {}
        self._others: list[tuple[str, T]] = []  # their names are not one word
        for name, thing in things:
            if _WORD.fullmatch(name):
                self._by_word.setdefault(name, []).append(thing)
            else:
                self._others.append((name, thing))

    def mentioned(self, text: str) -> list[T]:
        """The things whose names the `repr` of something may contain, in one order for each."""
        words = set(_WORD.findall(_ESCAPED.sub(" ", text)))
        # Names of views have prefixes: dqsql__orders, dqsql_source__shop__orders.
        prefixed = [word.split("__") for word in words if "__" in word]
        words.update("__".join(parts[i:]) for parts in prefixed for i in range(1, len(parts)))
        known = [self._by_word[word] for word in sorted(words & self._by_word.keys())]
        return [t for some in known for t in some] + [t for n, t in self._others if n in text]


def _read_by_macros(project: Project) -> object:
    """The variables, also of the environment, that the project's macros may read."""
    text = "\n".join(macro.text for macro in project.macros)
    names = sorted(set(_ENVIRONMENT.findall(text)))
    target = project.target
    return (
        sorted(project.vars.items()) if _VARIABLE.search(text) else None,
        (target.name, target.profile, target.method, target.schema, target.threads),
        [(name, os.environ.get(name)) for name in names],
    )


class _TreePickler(pickle.Pickler):
    """Writes nodes of trees as calls of their classes.

    sqlglot's own form, a list of all nodes of a tree, takes four times as long to be read.
    """

    def reducer_override(self, thing: Any) -> Any:
        """How nodes are made again; see `pickle.Pickler`."""
        if not isinstance(thing, exp.Expr):
            return NotImplemented
        # As `sqlglot.serde` reads them: `type` is more than what was put there.
        beside = (thing.comments, thing._type, thing._meta)
        return _node, (type(thing), thing.args, beside if any(beside) else None)


def _node(
    kind: type[exp.Expr], args: dict[str, Any], beside: tuple[Any, Any, Any] | None
) -> exp.Expr:
    node = kind(**args)
    if beside is not None:
        node.comments, node._type, node._meta = beside
    return node


def _pickled(kept: object) -> bytes:
    """Raises RecursionError: it has a very deep dataclass."""
    written = BytesIO()
    try:
        _TreePickler(written, protocol=5).dump(kept)
    except RecursionError:
        # A very deep expression: sqlglot's own form is flat.
        return pickle.dumps(kept, protocol=5)
    return written.getvalue()


@cache
def _installation() -> tuple[object, ...]:
    """What tells one installation of dqsql from another, an edited one included."""
    return (VERSION, version("sqlglot"), sys.version, package_files())
