"""What a model reads, as far as files alone can tell: whether anything can be new since a run.

Where all that a model reads are files of this machine, and neither they nor what is said about the
model have changed since it was last checked, nothing can be new, and a run need not ask Spark.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dqsql.compiler.aggregates.facts import is_about_now
from dqsql.dialect import parse_statement, tables_read, unquoted
from dqsql.engine.head_start import WatchedFiles, watched
from dqsql.engine.small import FEW_KNOWN_ROWS, FEW_ROWS, SMALL_BYTES, Scale
from dqsql.model.functions import RANDOM
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel, Project, view_name
from dqsql.model.tables import INPUTS
from dqsql.version import VERSION

if TYPE_CHECKING:
    import datetime as dt

    from dqsql.engine.rows import Row
    from dqsql.engine.storage import Store

# Functions whose value is another one in the next run.
_UNSTEADY = re.compile(
    r"\b(current_date|curdate|current_time|current_timestamp|localtimestamp|now|unix_timestamp"
    rf"|{'|'.join(sorted(RANDOM))}|current_user|session_user|user)\b"
    # Literals of Spark's: date 'today'.
    r"|'\s*(now|today|tomorrow|yesterday)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FileInputs:
    """What a model read: a fingerprint of files and definitions, and how much there was of files.

    `fingerprint` is a hash of the definitions and one of the files; it is None where files alone do
    not tell what is new. `size` is in bytes. `watched` are the files and those that define the
    model.
    """

    fingerprint: str | None
    files: int
    size: int
    watched: WatchedFiles | None = field(default=None, compare=False, repr=False)

    def rewrites(self, other: FileInputs) -> bool:
        """Whether these are other files, and as many: some of them were written again."""
        new, old = ((inputs.fingerprint or "").rpartition(" ") for inputs in (self, other))
        return bool(old[0]) and new[2] != old[2] and self.files == other.files


def inputs_of(plan: Plan, project: Project) -> FileInputs | None:
    """The inputs of a model; None where they are tables of a catalog or lie on other machines.

    There is no fingerprint of SQL that looks at the clock, of a check of how old the data is, and
    of a model without `batch_by`, of which each run is a batch.
    """
    if plan.model.relation is not None or project.target.method != "session":
        return None
    models = _read_by(plan, project)
    paths = None if models is None else _paths(plan, models, project)
    data = None if paths is None else watched(paths)
    if models is None or data is None:
        return None
    listed = sorted(data.files)
    known = _is_steady(plan, models)
    fingerprint = _fingerprint(plan, models, project, listed) if known else None
    own = watched([project.root / model.path for model in models]) or WatchedFiles()
    return FileInputs(fingerprint, len(listed), sum(size for _, size, _ in listed), data | own)


def watched_by(inputs: Iterable[FileInputs | None], project: Project) -> WatchedFiles | None:
    """What tells by a change that something is new: data, models and settings of the project.

    `inputs` are those of the models of a run. None where files do not tell it of all of them.
    """
    watched_files = watched(list(project.root.glob("*.yml")))
    for known in inputs:
        if (
            watched_files is None
            or known is None
            or known.fingerprint is None
            or known.watched is None
        ):
            return None
        watched_files |= known.watched
    return watched_files


def scale_of(models: Iterable[tuple[FileInputs | None, int | None, int, int]]) -> Scale:
    """How much a run reads of models.

    Of each: what it reads; the bytes that it read before, None if it never did; the rows checked so
    far; how many of these are checked again.
    """
    new, known, size = 0.0, 0, 0
    for now, before, rows, again in models:
        if now is None:
            return Scale.ANY
        size += now.size
        known += rows
        # Rows are taken to have grown as the files have.
        new += again
        new += rows * max(0, now.size - before) / before if before and rows else math.inf
    if size > SMALL_BYTES:
        return Scale.ANY
    return Scale.FEW if new <= FEW_ROWS and known <= FEW_KNOWN_ROWS else Scale.SMALL


def _is_steady(plan: Plan, models: Sequence[CheckModel]) -> bool:
    """Whether a model says the same of the same files, whenever it is asked."""
    batch_by = plan.model.config.batch_by
    if batch_by is None or plan.rejected or any(is_about_now(s) for s in plan.states):
        return False
    return not any(_UNSTEADY.search(text) for text in (batch_by, *(m.sql for m in models)))


def _fingerprint(
    plan: Plan,
    models: Sequence[CheckModel],
    project: Project,
    listed: Sequence[tuple[str, int, int]],
) -> str:
    definitions, files = hashlib.sha256(), hashlib.sha256()
    for text in _definitions(plan, models, project):
        definitions.update(text.encode())
        definitions.update(b"\0")
    for name, size, changed in listed:
        files.update(f"{name}\0{size}\0{changed}\0".encode("utf-8", "surrogateescape"))
    return f"{definitions.hexdigest()} {files.hexdigest()}"


def stored_inputs(store: Store) -> dict[str, FileInputs]:
    """What models read when they were last checked, by model."""
    return {
        row["model"]: FileInputs(row["fingerprint"], row["files"], row["bytes"])
        for row in store.rows(INPUTS)
        if row["fingerprint"]
    }


def forget_inputs(store: Store, models: Collection[str] | None = None) -> None:
    """Let a run describe models again, all by default, though their files are as they were.

    As should they come back after they were gone.
    """
    if models is not None and not models:
        return
    rows = [r for r in store.rows(INPUTS) if models is None or r["model"] in models]
    if rows:
        store.replace_partition(INPUTS, [{**r, "fingerprint": ""} for r in rows])


def store_inputs(
    store: Store, inputs: Mapping[str, FileInputs], run_id: str, now: dt.datetime
) -> None:
    """Remember what models have read, once all that was found of it is stored."""
    rows: list[Row] = [
        {
            "model": model,
            "fingerprint": file_inputs.fingerprint,
            "files": file_inputs.files,
            "bytes": file_inputs.size,
            "run_id": run_id,
            "seen_at": now,
        }
        for model, file_inputs in sorted(inputs.items())
    ]
    if rows:
        store.replace_partition(INPUTS, rows)


def _read_by(plan: Plan, project: Project) -> list[CheckModel] | None:
    """The model and all models that it reads; None where a relation is none that is known."""
    by_id = {m.unique_id: m for m in project.models}
    models: dict[str, CheckModel] = {}
    waiting = [plan.model]
    for relation in plan.relations:
        if relation.unique_id is None:
            return None
        if relation.unique_id in by_id:
            waiting.append(by_id[relation.unique_id])
    while waiting:
        model = waiting.pop()
        if model.relation is not None:
            return None
        if model.unique_id not in models:
            models[model.unique_id] = model
            waiting += [by_id[d] for d in model.depends_on if d in by_id]
    return [models[key] for key in sorted(models)]


def _paths(plan: Plan, models: Sequence[CheckModel], project: Project) -> list[Path] | None:
    """The files and folders that models read; None where some are elsewhere, or no files."""
    known = {source.unique_id: source for source in project.sources}
    wanted = {d for model in models for d in model.depends_on if d in known}
    wanted |= {r.unique_id for r in plan.relations if r.unique_id in known}
    names = {unquoted(known[uid].relation) for uid in wanted}
    names |= {view_name(model) for model in models}
    if not all(_reads_only(model, names) for model in models):
        return None
    paths: list[Path] = []
    for name in sorted(wanted):
        path = known[name].path
        if path is None or "://" in path or not Path(path).exists():
            return None
        paths.append(Path(path))
    return paths


def _reads_only(model: CheckModel, names: Collection[str]) -> bool:
    """Whether a model reads something, and nothing but what `names` name."""
    query = parse_statement(model.sql) if model.depends_on else None
    if query is None:
        return False
    read = (".".join(part.name for part in table.parts) for table in tables_read(query))
    return all(name in names for name in read)


def _definitions(plan: Plan, models: Sequence[CheckModel], project: Project) -> Iterator[str]:
    """All that decides, besides data, what a run finds."""
    yield VERSION
    target = project.target
    yield repr((target.master, sorted(target.spark_conf.items()), target.ansi))
    for model in models:
        yield repr((model.name, model.sql, model.annotations))
    yield repr(plan.model.config)
    yield repr(sorted(project.settings.items(), key=lambda item: item[0]))
    for source in project.sources:
        yield repr(
            (source.unique_id, source.path, source.file_format, sorted(source.options.items()))
        )
    for file in project.macros:
        yield file.text
