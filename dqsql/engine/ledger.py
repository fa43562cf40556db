"""The ledger `dq_batches`: which batches have been checked, and whether the tables have their rows.

A run writes its tables one after the other and the ledger last, so that a crash leaves more than
the ledger says and never less. Less means that something was deleted, cut or put back from a copy.
Looked at are the logs of the tables, not their rows; `dqsql doctor` looks at these.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dqsql.compiler.meaning import Meaning, batch_by_text, other_batch_by, other_segments
from dqsql.engine.batches import batch_flags
from dqsql.errors import StorageError, UsageError
from dqsql.model.batches import batch_order, wall_time_of
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel
from dqsql.model.results import BatchRecord, BatchStatus, StoredRows
from dqsql.model.tables import (
    ALL_TABLES,
    BATCHES,
    METRICS,
    MODEL_RUNS,
    MODELS,
    RESULTS,
    RUNS,
    frequency_table_name,
    state_table_name,
)
from dqsql.model.wording import first_of, plural

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


Row = dict[str, Any]
_RUNS_VERSION = re.compile(rf'"{RUNS.name}": ?(\d+)')
# By model and batch.
Ledgers = Mapping[str, Mapping[str, BatchRecord]]


def read_ledgers(store: Store) -> dict[str, dict[str, BatchRecord]]:
    """The ledger of every model: its batches by name. Raises StorageError."""
    ledgers: dict[str, dict[str, BatchRecord]] = {}
    for row in store.rows(BATCHES):
        record = batch_record(row)
        ledgers.setdefault(record.model, {})[record.batch] = record
    return ledgers


def refuse_unsound(store: Store, ledgers: Ledgers, models: Collection[str], project: str) -> None:
    """Refuse tables that have lost rows, or that another project writes. Raises DqsqlError."""
    refuse_lost_rows(store, ledgers, models)
    refuse_other_project(store, ledgers, models, project)


def refuse_other_project(
    store: Store, ledgers: Ledgers, models: Iterable[str], project: str
) -> None:
    """Refuse models whose newest batch another project has checked into the same tables.

    A batch of the same name would count as checked. Raises UsageError and StorageError.
    """
    for model, other in _checked_by(store, ledgers, models).items():
        if other not in (project, None):
            raise UsageError(
                f"the project {other!r} has checked a model {model} into the same tables"
                f" ({store.location})",
                hint="give each project a `schema` or a `warehouse` of its own in profiles.yml; if"
                f" {other} is the former name of this one, run once with --full-refresh",
            )


def gone_models(
    store: Store, ledgers: Ledgers, existing: Collection[str], project: str
) -> list[str]:
    """The models that are described as there, that the project has checked, and that it lacks."""
    others = {model for model, ledger in ledgers.items() if ledger}.difference(existing)
    if not others:
        return []
    described = {row["model"] for row in store.rows(MODELS) if row["valid_to"] is None}
    owners = _checked_by(store, ledgers, others & described)
    return sorted(model for model, by in owners.items() if by == project)


def _checked_by(store: Store, ledgers: Ledgers, models: Iterable[str]) -> Mapping[str, str | None]:
    """By model the project that has checked its newest batch of a run that is known; else None."""
    known = {model: ledger.values() for model in models if (ledger := ledgers.get(model))}
    if not known:
        return {}
    newest = {max(records, key=_recency).run_id for records in known.values()}
    projects = _projects(store, newest)
    if not newest <= projects.keys():
        # A run that was killed is in no table.
        projects = _projects(store, {r.run_id for records in known.values() for r in records})
    return {model: _owner(records, projects) for model, records in known.items()}


def newest_runs(store: Store, ledgers: Ledgers) -> set[str]:
    """The newest run of each model that is known."""
    known = {row["run_id"] for row in store.select(RUNS, ("run_id",))}
    return {
        max(records, key=_recency).run_id
        for ledger in ledgers.values()
        if (records := [r for r in ledger.values() if r.run_id in known])
    }


def _owner(records: Iterable[BatchRecord], projects: Mapping[str, str]) -> str | None:
    of_known = [r for r in records if r.run_id in projects]
    return projects[max(of_known, key=_recency).run_id] if of_known else None


def _projects(store: Store, runs: Collection[str]) -> dict[str, str]:
    rows = store.select(RUNS, ("run_id", "project"), {"run_id": sorted(runs)})
    return {row["run_id"]: row["project"] for row in rows}


def _recency(record: BatchRecord) -> tuple[bool, dt.datetime | None]:
    return record.checked_at is not None, record.checked_at


@dataclass(frozen=True)
class CompletedRuns:
    """When the runs of models began that came to their end: they told what was found until then.

    `dq_model_runs` is read when something is asked; `now` is the start of the run that asks.
    """

    store: Store
    now: dt.datetime | None = None

    @cached_property
    def _starts(self) -> Mapping[str, set[dt.datetime]]:
        starts: dict[str, set[dt.datetime]] = {}
        for row in self.store.select(MODEL_RUNS, ("model", "started_at"), {}):
            if row["started_at"] != self.now:
                starts.setdefault(row["model"], set()).add(row["started_at"])
        return starts

    def lack(self, model: str, start: dt.datetime | None) -> bool:
        """Whether the run that began then was the last one before this one, and killed.

        What it stored was told to nobody. What the first run of a model finds is long past.
        """
        known = self._starts.get(model, set())
        return start is not None and bool(known) and max(known) < start != self.now


def unreported_failures(store: Store, ledgers: Ledgers) -> dict[str, list[str]]:
    """By model the batches that wait for a review since a run flagged them that was killed then."""
    completed = CompletedRuns(store)
    return {
        model: [
            batch
            for batch in sorted(ledger, key=batch_order)
            if ledger[batch].status is BatchStatus.FLAGGED
            and completed.lack(model, ledger[batch].checked_at)
        ]
        for model, ledger in ledgers.items()
    }


def take_retired(ledger: dict[str, BatchRecord], model: CheckModel) -> dict[str, BatchRecord]:
    """Take out of a ledger the batches that another `batch_by` has made than the model has now.

    They say nothing of what the batches of today are like, and stay retired should it change back.
    Returns them as they are to be stored.
    """
    old = [
        b
        for b, r in ledger.items()
        if r.status is BatchStatus.RETIRED or other_batch_by(model, r.fingerprint) is not None
    ]
    return {b: replace(ledger.pop(b), status=BatchStatus.RETIRED) for b in old}


def unlike_segmented(ledger: Mapping[str, BatchRecord], model: CheckModel) -> frozenset[str]:
    """The batches that were checked by other segments than the model has now.

    What was measured of those says nothing of the segments of today.
    """
    return frozenset(b for b, r in ledger.items() if other_segments(model, r.fingerprint))


def take_renamed(
    ledger: dict[str, BatchRecord], meaning: Meaning, batches: Iterable[str | None]
) -> dict[str, BatchRecord]:
    """Take out of a ledger the batches whose names are written in another way than those of now.

    As those of a `batch_by` that was a date and is a timestamp: all rows would count twice.
    `batches` are those in the data. See `take_retired`.
    """
    names = [batch for batch in batches if batch is not None]
    written = {_shape(name) for name in names}
    digits = max((len(n) for n in names if n.isdecimal() and n.startswith("0")), default=0)
    old = [
        b
        for b, r in ledger.items()
        if written
        and meaning.other_type(r.fingerprint)
        and (_shape(b) not in written or (b.isdecimal() and len(b) < digits))
    ]
    return {b: replace(ledger.pop(b), status=BatchStatus.RETIRED) for b in old}


def _shape(batch: str) -> str:
    """How the name of a batch is written: `0-0-0`."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", batch))


def retired_note(
    model: CheckModel,
    retired: Mapping[str, BatchRecord],
    before: Mapping[str, BatchRecord],
    meaning: Meaning,
    batches: Sequence[str],
) -> tuple[str, ...]:
    """Say that earlier batches are retired, in the run that checks the first ones of another kind.

    Or that names are written in another way though `batch_by` is the same. `before` is the ledger
    of before the run, without those that are retired; `batches` are those of the run.
    """
    if before:
        return _other_names_note(batches, before) if model.config.batch_by is not None else ()
    if not retired:
        return ()
    last = max(retired.values(), key=_recency)
    was, now = other_batch_by(model, last.fingerprint), batch_by_text(model) or "not set"
    same = [r for r in retired.values() if other_batch_by(model, r.fingerprint) == was]
    if was is None:
        was, now = meaning.other_type(last.fingerprint), f"of type {meaning.batch_type}"
        same = [r for r in retired.values() if meaning.other_type(r.fingerprint) == was]
    if was is None:
        return ()
    count = plural(len(same), "earlier batch is", "earlier batches are")
    return (
        f"batch_by is {now}, and was {was or 'not set'}: {count} retired, and checks start again",
    )


def _other_names_note(batches: Sequence[str], before: Collection[str]) -> tuple[str, ...]:
    known, newest = {_shape(name) for name in before}, max(before, key=batch_order)
    other = [b for b in batches if _shape(b) not in known and not _is_in_order(newest, b)]
    # Of names that are written in many ways, one more is no news.
    if not other or len(known) > 1:
        return ()
    return (
        f"batches are named in another way now: {first_of(other, 1)}, and {newest} before. Monitors"
        " order batches by their names; let batch_by name all of them in one way, as a date",
    )


def _is_in_order(one: str, other: str) -> bool:
    """Whether two batches are times that come one after the other as their names do."""
    times = wall_time_of(one), wall_time_of(other)
    if times[0] is None or times[1] is None:
        return False
    return (times[0] < times[1]) == (batch_order(one) < batch_order(other))


def unchecked_note(plan: Plan, store: Store, ledger: Mapping[str, BatchRecord]) -> tuple[str, ...]:
    """Say which checks have come since the newest batch was checked, where none is new.

    Raises StorageError.
    """
    newest = max(ledger, key=batch_order, default=None)
    if newest is None:
        return ()
    where = {"model": [plan.model.name], "batch": [newest]}
    known = {row["check_id"] for row in store.select(RESULTS, ["check_id"], where)}
    new = [c for c in plan.declared if c.id not in known]
    if not new or not known:
        return ()
    names = first_of([c.name for c in new], 3)
    those, have = plural(len(new), "check"), "has" if len(new) == 1 else "have"
    return (
        f"{those} ({names}) {have} not run on any batch yet: check the newest again with"
        f" {' '.join(batch_flags([newest]))}, or all with --full-refresh",
    )


# Columns of dq_batches that are fields of a BatchRecord.
_PLAIN = tuple(f.name for f in fields(BatchRecord) if f.name in BATCHES.column_names)


def batch_row(record: BatchRecord) -> Row:
    """A row of dq_batches."""
    stored = record.stored
    return {
        **{name: getattr(record, name) for name in _PLAIN},
        "status": record.status.value,
        "metrics": stored and stored.metrics,
        "results": stored and stored.results,
        "states": stored and stored.states,
        "versions": stored and json.dumps(stored.versions, sort_keys=True),
        "batch_start": record.start,
        "batch_end": record.end,
    }


def batch_record(row: Row) -> BatchRecord:
    """What a row of dq_batches says."""
    values = {name: row[name] for name in _PLAIN} | {
        "status": BatchStatus(row["status"]),
        "start": row["batch_start"],
        "end": row["batch_end"],
        "uncomputed": row["uncomputed"] or 0,
    }
    if row["versions"] is not None:
        versions = json.loads(row["versions"])
        values["stored"] = StoredRows(row["metrics"], row["results"], row["states"], versions)
    return BatchRecord(**values)


def ledger_rows(ledger: Mapping[str, BatchRecord]) -> list[Row]:
    """The rows of dq_batches of one model, in the order of its batches."""
    return [batch_row(r) for r in sorted(ledger.values(), key=lambda r: batch_order(r.batch))]


def refuse_lost_rows(store: Store, ledgers: Ledgers, models: Iterable[str]) -> None:
    """Raise StorageError where a table lacks rows of some models, or is older than it was."""
    message = next(lost_rows(store, ledgers, models), None)
    if message is not None:
        raise StorageError(
            message,
            hint="`dqsql doctor` shows what is lost, `dqsql doctor --repair` has it checked again",
        )


def lost_rows(store: Store, ledgers: Ledgers, models: Iterable[str]) -> Iterator[str]:
    """What the tables lack, a sentence each."""
    yield from _older_tables(store)
    stored = {table.name: store.sizes(table.name) for table in (METRICS, RESULTS)}
    for model in models:
        vouched = [r.stored for r in ledgers.get(model, {}).values() if r.stored is not None]
        if not vouched or not any(v.versions for v in vouched):
            continue
        state = state_table_name(model)
        for name, expected, sizes in (
            (METRICS.name, sum(v.metrics for v in vouched), stored[METRICS.name]),
            (RESULTS.name, sum(v.results for v in vouched), stored[RESULTS.name]),
            (state, sum(v.states for v in vouched), store.sizes(state)),
        ):
            key = "" if name == state else model
            has = 0 if sizes is None else sizes.get(key, 0)
            if has < expected:
                yield (
                    f"{name} in {store.location} has {plural(has, 'row')} of {model}, and the"
                    f" ledger lists {expected:,}"
                )


def _older_tables(store: Store) -> Iterator[str]:
    for name, has, version in older_tables(store):
        if has is None:
            yield f"the table {name} is gone from {store.location}"
        else:
            yield (
                f"the table {name} in {store.location} is older than before: it has version"
                f" {has}, and a run left version {version}"
            )


def older_tables(
    store: Store, left_out: Collection[str] = ()
) -> Iterator[tuple[str, int | None, int]]:
    """Tables that are gone, or have a version below the one that a run ended with: has, had."""
    expected = {n: v for n, v in expected_versions(store).items() if n not in left_out}
    versions = store.versions(expected)
    for name, version in sorted(expected.items()):
        has = versions.get(name)
        if has is None or has < version:
            yield name, has, version


def expected_versions(store: Store) -> Mapping[str, int]:
    """The versions of the tables when the newest run ended; empty before the first."""
    runs = store.select(RUNS, ("versions",))
    known = (r["versions"] for r in runs if r["versions"] is not None)
    # Not by the clock, which may go backwards: each run adds to dq_runs.
    newest = max(known, key=_version_of_runs, default="{}")
    return {str(name): int(version) for name, version in json.loads(newest).items()}


def _version_of_runs(versions: str) -> int:
    """That of dq_runs in a JSON of many tables, which takes long to read whole."""
    match = _RUNS_VERSION.search(versions)
    return -1 if match is None else int(match[1])


def versions_after(store: Store, models: Iterable[str]) -> dict[str, int]:
    """The versions of all tables when a run ends, for the row that it adds to dq_runs."""
    names = [table.name for table in ALL_TABLES]
    names += [name(m) for m in models for name in (state_table_name, frequency_table_name)]
    versions = store.versions(names)
    return {**versions, RUNS.name: versions.get(RUNS.name, -1) + 1} if versions else {}
