"""What `dqsql doctor` examines and mends, and what `dqsql clean --older-than` deletes.

Mending never guesses: rows that no one vouches for go, and batches of which rows are lost are
marked to be checked again. Nothing here needs Spark.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from dqsql.engine.delta_log import among
from dqsql.engine.inputs import forget_inputs
from dqsql.engine.ledger import (
    Ledgers,
    ledger_rows,
    newest_runs,
    older_tables,
    read_ledgers,
    versions_after,
)
from dqsql.engine.storage_base import Store
from dqsql.engine.upkeep import Upkeep
from dqsql.errors import UsageError
from dqsql.model.batches import in_zone
from dqsql.model.by_key import by_key
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.model.tables import (
    ALL_TABLES,
    BATCHES,
    CHECKS,
    COLUMNS,
    FAILURES,
    FINDINGS,
    METRICS,
    MODEL_RUNS,
    MODELS,
    RESULT_HISTORY,
    RESULTS,
    REVIEWS,
    RUNS,
    failures_table_name,
    frequency_table_name,
    state_table_name,
)
from dqsql.model.wording import plural
from dqsql.version import VERSION

_CAPTURED = "captured_at"
# What is kept for people and not for detectors, with the column that tells its age.
_AGING = (
    (RESULTS.name, "evaluated_at"),
    (RESULT_HISTORY.name, "replaced_at"),
    (FAILURES.name, _CAPTURED),
    (RUNS.name, "started_at"),
    (MODEL_RUNS.name, "started_at"),
)
_AGE = re.compile(r"(\d{1,9})\s*(d|days?|w|weeks?)?")
# What nothing builds again.
_OF_PAST = {FAILURES.name, RESULT_HISTORY.name, RUNS.name, MODEL_RUNS.name}
# What a run describes of models in which it finds anything new.
_DESCRIBED = {MODELS.name, CHECKS.name, COLUMNS.name}
# What follows from the tables themselves: it is built again when it is needed.
_DERIVED = ("dq_total__", "dq_frequency_total__")


@dataclass(frozen=True)
class Ailment:
    """Something that is wrong with a table: a sentence without a full stop.

    `remedy` is what `--repair` does about it; a `harmless` one loses nothing and counts nothing
    twice.
    """

    table: str
    what: str
    remedy: str
    harmless: bool = False
    mended: bool = False


@dataclass(frozen=True)
class Examination:
    """What `dqsql doctor` found, table by table."""

    location: str
    tables: int
    ailments: tuple[Ailment, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing is wrong or all of it was mended, else 1: also if there are no tables."""
        return int(not self.tables or any(not a.harmless and not a.mended for a in self.ailments))


@dataclass(frozen=True)
class Cleaned:
    """What went of one table: rows that were too old, and files that nothing needs any more."""

    table: str
    rows: int
    files: int


@dataclass
class Doctor:
    """Examines the tables of a store, and with `repair` mends what can be."""

    upkeep: Upkeep
    repair: bool

    def examine(self) -> Examination:
        """Compare the ledger with every table, and the tables' logs with their files."""
        store = self.upkeep.store
        ailments = list(self._logs())
        if not _is_open(ailments, BATCHES.name):
            # First of all, as it names the models whose tables there are.
            ailments += self._files(BATCHES.name)
        ledgers = {} if _is_open(ailments, BATCHES.name) else self._ledgers()
        names = self.upkeep.tables(ledgers)
        for name in names:
            if name != BATCHES.name and not _is_open(ailments, name):
                ailments += self._files(name)
        broken = {a.table for a in ailments if not a.mended and not a.harmless}
        if BATCHES.name not in broken:
            ledgers = self._ledgers()
            ailments += self._gone(names, ledgers, broken)
            ailments += self._batches(ledgers, broken)
            if self.repair:
                self._reopen_uncounted({a.table for a in ailments if not a.harmless})
        mended = {a.table for a in ailments if a.mended}
        if mended & _DESCRIBED:
            forget_inputs(store)
        if mended:
            self._note_repair(ledgers)
        return Examination(store.location, len(names), tuple(ailments))

    def _ledgers(self) -> Ledgers:
        return read_ledgers(self.upkeep.store)

    # --- logs and files ------------------------------------------------------------------------

    def _logs(self) -> Iterator[Ailment]:
        for name in self.upkeep.tables(()):
            why = self.upkeep.unreadable(name)
            if why is None:
                continue
            what, remedy = f"its log cannot be read: {why}", _remedy(name)
            ailment = Ailment(name, what, f"is set aside under another name; {remedy}")
            if self.repair:
                other = self.upkeep.set_aside(name)
                remedy = f"is set aside as {other}; {remedy}"
                ailment = replace(ailment, remedy=remedy, mended=True)
            yield ailment

    def _files(self, name: str) -> Iterator[Ailment]:
        broken = self.upkeep.broken_files(name)
        if broken:
            rows = sum(b.file.rows for b in broken)
            first = f"{broken[0].file.path} {broken[0].why}"
            if self.repair:
                self.upkeep.drop_files(name, broken)
            yield Ailment(
                name,
                f"{plural(len(broken), 'file')} with {plural(rows, 'row')} cannot be read: {first}",
                f"files are taken out; {_remedy(name)}",
                mended=self.repair,
            )
        if left := self.upkeep.left_over(name):
            yield Ailment(
                name,
                f"{plural(len(left), 'file')} of writes that were never finished",
                "`dqsql clean --older-than` deletes them",
                harmless=True,
            )

    # --- the ledger and the tables -------------------------------------------------------------

    def _gone(
        self, names: Collection[str], ledgers: Ledgers, broken: Collection[str]
    ) -> Iterator[Ailment]:
        """Tables that a run has left and that are not there, or older, than then."""
        if RUNS.name in broken:
            return
        if RUNS.name not in names:
            if ledgers:
                yield Ailment(RUNS.name, "is gone", "runs fill it again", mended=self.repair)
            return
        for name, has, version in older_tables(self.upkeep.store, broken):
            what = (
                "is gone" if has is None else f"has version {has}, and a run left version {version}"
            )
            yield Ailment(name, what, _remedy(name), mended=self.repair)

    def _batches(self, ledgers: Ledgers, broken: Collection[str]) -> Iterator[Ailment]:
        tables = [t.name for t in (METRICS, RESULTS) if t.name not in broken]
        stored = {name: self.upkeep.rows_by_batch(name) for name in tables}
        for model, ledger in ledgers.items():
            state = state_table_name(model)
            mine = dict(stored)
            if state not in broken:
                counts = self.upkeep.rows_by_batch(state)
                mine[state] = {(model, batch): n for (_, batch), n in counts.items()}
            yield from self._lost(model, ledger, mine)
        for name, counts in stored.items():
            yield from self._orphans(name, counts, ledgers)

    def _lost(
        self,
        model: str,
        ledger: Mapping[str, BatchRecord],
        stored: Mapping[str, Mapping[tuple[str, str], int]],
    ) -> Iterator[Ailment]:
        """Batches of which a table has other rows than the ledger vouches for."""
        again: set[str] = set()
        for name, counts in stored.items():
            differing = []
            for batch, record in ledger.items():
                if record.stored is None or not record.stored.versions:
                    continue
                expected = {
                    METRICS.name: record.stored.metrics,
                    RESULTS.name: record.stored.results,
                }.get(name, record.stored.states)
                has = counts.get((model, batch), 0)
                # Verdicts that are too old go out of the ledger before they are deleted.
                if has < expected or (has > expected and name != RESULTS.name):
                    differing.append(batch)
            if differing:
                again.update(differing)
                batches = plural(len(differing), "batch", "batches")
                yield Ailment(
                    name,
                    f"lacks rows that the ledger lists, of {batches} of {model}, the first"
                    f" {differing[0]}",
                    "the next run checks them again",
                    mended=self.repair,
                )
        if again and self.repair:
            self._reopen(ledger, again)

    def _reopen(self, ledger: Mapping[str, BatchRecord], again: Collection[str]) -> None:
        """Have batches of a model checked again."""
        marked = {b: r.reopened if b in again else r for b, r in ledger.items()}
        self.upkeep.store.replace_partition(BATCHES, ledger_rows(marked))

    def _reopen_uncounted(self, damaged: Collection[str]) -> None:
        """Have models checked again that lost counts of values; of which batches, none tells."""
        for model, ledger in self._ledgers().items():
            if frequency_table_name(model) in damaged:
                self._reopen(ledger, ledger)

    def _orphans(
        self, name: str, counts: Mapping[tuple[str, str], int], ledgers: Ledgers
    ) -> Iterator[Ailment]:
        """Rows of batches that no run has finished."""
        orphans: dict[str, set[str]] = {}
        rows = 0
        for (model, batch), number in counts.items():
            if batch not in ledgers.get(model, {}):
                orphans.setdefault(model, set()).add(batch)
                rows += number
        if not orphans:
            return
        if self.repair:
            for model, batches in orphans.items():
                self.upkeep.delete_batches(name, model, batches)
        unknown = plural(sum(map(len, orphans.values())), "batch", "batches")
        yield Ailment(
            name,
            f"has {plural(rows, 'row')} of {unknown} that are not in the ledger: of a run that"
            " died, or of a ledger that was lost",
            "they are deleted",
            harmless=True,
            mended=self.repair,
        )

    def _note_repair(self, ledgers: Ledgers) -> None:
        """Tell later runs that the versions of now are the right ones."""
        store, now = self.upkeep.store, dt.datetime.now(dt.UTC)
        row = {
            "run_id": str(uuid.uuid4()),
            "arguments": '{"command": "doctor --repair"}',
            "started_at": now,
            "finished_at": now,
            "status": "repair",
            "dqsql_version": VERSION,
        }
        versions = json.dumps(versions_after(store, ledgers), sort_keys=True)
        store.append(RUNS, [{**row, "versions": versions}])


def _remedy(table: str) -> str:
    """What becomes of a table that has lost rows."""
    if table.startswith(_DERIVED):
        return "what it held is computed again"
    if table == REVIEWS.name:
        return "reviews that are lost must be given again"
    if table == FINDINGS.name:
        return (
            "findings that were open are lost, with assignments and mutes: runs open those of what"
            " they check; batches that wait for a review still do"
        )
    if table in _OF_PAST:
        return "what it held of earlier runs is lost"
    if table in (RESULTS.name, BATCHES.name):
        return (
            "batches that lack rows are checked again; of those that somebody has accepted,"
            " failures wait for a review again"
        )
    known = {t.name for t in ALL_TABLES} - {METRICS.name}
    return "runs fill it again" if table in known else "batches that lack rows are checked again"


def _is_open(ailments: Collection[Ailment], table: str) -> bool:
    """Whether something about the table is not mended."""
    return any(a.table == table and not a.mended and not a.harmless for a in ailments)


def moment_before(now: dt.datetime, text: str) -> dt.datetime:
    """The moment that lies a length of time such as `400d` or `8w` back. Raises UsageError."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not an age", hint="write a number of days: 400d")
    number = int(match[1]) * (7 if (match[2] or "d").startswith("w") else 1)
    try:
        return now - dt.timedelta(days=number)
    except OverflowError as error:
        raise UsageError(
            f"{text!r} is too long ago", hint="write a number of days: 400d"
        ) from error


def cleaned(upkeep: Upkeep, before: dt.datetime) -> Iterator[Cleaned]:
    """Delete what is older than a moment, and put the files of all tables in order.

    The verdicts on batches that wait for a review stay, as they say why, and those on batches that
    have one, since it holds for these failures. Of each model the newest run stays: it says whose
    the model is.
    """
    ledgers = read_ledgers(upkeep.store)
    old, judged = _old_verdicts(upkeep.store, before), _with_reviews(upkeep, ledgers)
    stay = by_key((model, batch) for model, batch in old if batch in judged.get(model, ()))
    runs = newest_runs(upkeep.store, ledgers)
    kept = {
        RESULTS.name: [
            f"{among('model', [model])} and {among('batch', batches)}"
            for model, batches in stay.items()
        ],
        RUNS.name: [among("run_id", runs)] if runs else [],
    }
    columns = dict(_AGING)
    columns.update((failures_table_name(model), _CAPTURED) for model in ledgers)
    gone = {key: n for key, n in old.items() if key[1] not in judged.get(key[0], ())}
    _vouch_for_less(upkeep.store, ledgers, gone)
    for name in upkeep.tables(ledgers):
        moment = _before_the_newest_run(upkeep, before) if name == RUNS.name else before
        those = kept.get(name, ())
        rows = upkeep.delete_before(name, columns[name], moment, those) if name in columns else 0
        yield Cleaned(name, rows, upkeep.compact(name))


def _with_reviews(upkeep: Upkeep, ledgers: Ledgers) -> dict[str, set[str]]:
    """By model the batches that wait for a review, or have one."""
    judged = {
        model: {b for b, r in ledger.items() if r.status is BatchStatus.FLAGGED}
        for model, ledger in ledgers.items()
    }
    for row in upkeep.store.select(REVIEWS, ("model", "batch")):
        if row["batch"] in ledgers.get(row["model"], ()):
            judged[row["model"]].add(row["batch"])
    return judged


def _old_verdicts(store: Store, before: dt.datetime) -> dict[tuple[str, str], int]:
    """How many verdicts are older than a moment, by model and batch."""
    # Counted by Arrow: there may be millions of them, of which hardly any goes.
    stored = store.select_arrow(RESULTS, ("model", "batch", "evaluated_at"))
    old = stored.filter(pc.less(stored["evaluated_at"], pa.scalar(before)))
    counted = old.group_by(["model", "batch"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["model"], row["batch"]): row["count_all"] for row in counted}


def _before_the_newest_run(upkeep: Upkeep, before: dt.datetime) -> dt.datetime:
    """The moment, or the start of the newest run: it says which versions the tables have."""
    rows = upkeep.store.select(RUNS, ("started_at",))
    starts = (in_zone(r["started_at"]) for r in rows if r["started_at"] is not None)
    return min(before, max(starts, default=before))


def _vouch_for_less(store: Store, ledgers: Ledgers, gone: Mapping[tuple[str, str], int]) -> None:
    """Take the verdicts that go out of the ledger first: more than it says is never missed."""
    for model, ledger in ledgers.items():
        changed = {
            batch: replace(
                record,
                stored=replace(
                    record.stored, results=max(0, record.stored.results - gone[model, batch])
                ),
            )
            for batch, record in ledger.items()
            if record.stored is not None and (model, batch) in gone
        }
        if changed:
            store.replace_partition(BATCHES, ledger_rows({**ledger, **changed}))
