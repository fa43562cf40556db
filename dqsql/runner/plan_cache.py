"""What was compiled of models, kept for the next command.

A model compiles to the same plan as long as its text, the relations that it names, the macros, the
settings of its monitors and dqsql itself stay as they are. The plan and its statements lie in the
user's cache, one file for each model of a project, which a change replaces. A file is believed only
if its hash is right, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile

from dqsql.model.monitors import monitor_specs
from dqsql.model.plan import Query
from dqsql.model.project import CheckModel, Project
from dqsql.resources import cache_dir
from dqsql.runner.adoption import CompiledModel
from dqsql.version import VERSION

_SWITCH = "DQSQL_PLAN_CACHE"
_HASH = hashlib.sha256
_HASH_BYTES = 32
_OURS = "dqsql."
_MOST_FILES = 5_000


@dataclass(frozen=True)
class KeptPlan:
    """A compiled model, with the statements that are shown of it once they have been written."""

    compiled: CompiledModel
    queries: tuple[Query, ...] | None = None


class PlanCache:
    """The kept plans of a project. Where the cache cannot be read or written there are none."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._folder = cache_dir() / "plans"
        self._used = os.environ.get(_SWITCH, "1").lower() not in ("0", "false", "no") and all(
            # What other packages bring may change without a new version.
            spec.watches.__module__.startswith(_OURS)
            for spec in monitor_specs().values()
        )
        self._common = repr(
            (
                _installation(),
                sorted(monitor_specs()),
                project.macros,
                project.functions,
                project.severity,
                project.no_data,
                project.settings,
            )
        )

    def get(self, model: CheckModel, limit: int | None) -> KeptPlan | None:
        """What was kept of the model, if it would be compiled to the same now."""
        if not self._used:
            return None
        try:
            if not _is_private(self._folder):
                return None
            text = self._path(model).read_bytes()
        except OSError:
            return None
        key = self._key(model, limit)
        seal, body = text[: 2 * _HASH_BYTES], text[2 * _HASH_BYTES :]
        if seal != key + _HASH(body).digest():
            return None
        kept: KeptPlan = pickle.loads(zlib.decompress(body))
        plan = replace(kept.compiled.plan, model=model)
        return replace(kept, compiled=replace(kept.compiled, plan=plan))

    def put(self, model: CheckModel, limit: int | None, kept: KeptPlan) -> None:
        """Keep what a model was compiled to, unless something is wrong with it."""
        if not self._used or kept.compiled.plan.rejected:
            return
        try:
            # The fastest level makes it a tenth of the size.
            body = zlib.compress(pickle.dumps(kept, protocol=5), 1)
            self._write(self._path(model), self._key(model, limit) + _HASH(body).digest() + body)
        except (OSError, RecursionError):
            return  # no room, no right to write, or a very deep expression: compiled again

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
        self._prune()

    def _prune(self) -> None:
        """Models are renamed and projects deleted: of many files the oldest go."""
        names = list(self._folder.iterdir())
        if len(names) > _MOST_FILES:
            by_age = sorted(names, key=lambda path: path.stat().st_mtime)
            for path in by_age[: len(names) // 2]:
                path.unlink(missing_ok=True)

    def _path(self, model: CheckModel) -> Path:
        place = repr((str(self._project.root), self._project.target.name, model.name))
        return self._folder / _HASH(place.encode()).hexdigest()[:32]

    def _key(self, model: CheckModel, limit: int | None) -> bytes:
        text = repr(model)
        parts = (self._common, text, limit, self._project.sources, *self._named(text))
        return _HASH(repr(parts).encode("utf-8", "surrogatepass")).digest()

    def _named(self, text: str) -> Iterator[CheckModel]:
        """The models that the text of a model may name, or that are of the same relation."""
        tables = {s.relation for s in self._project.sources if s.table in text}
        mentioned = [m for m in self._project.models if m.name in text]
        relations = tables | {m.relation for m in mentioned}
        for model in self._project.models:
            if model in mentioned or (model.relation and model.relation in relations):
                yield model


def _is_private(folder: Path) -> bool:
    """Whether nobody else could have put a file there: what is read back may be any object."""
    if os.name != "posix":
        return True
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@cache
def _installation() -> tuple[object, ...]:
    """What tells one installation of dqsql from another, an edited one included."""
    package = Path(__file__).resolve().parents[1]
    files = (
        (os.path.relpath(path, package), path.stat()) for path in sorted(package.rglob("*.py"))
    )
    stamps = tuple((name, found.st_size, found.st_mtime_ns) for name, found in files)
    return (VERSION, version("sqlglot"), sys.version, stamps)
