"""Writes what the models of a run leave behind: several models at once, the ledger last.

A write of a table costs the same for ten models as for one (a statement, a commit, with a metastore
several calls). So what models find is gathered and written together, at the end of the run or when
the oldest of it is `_PATIENCE` seconds old, also while a model is at work. A run that is killed
before has lost that work, no more: batches that are not in the ledger are checked by the next run.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from dqsql.errors import DqsqlError
from dqsql.model import tables
from dqsql.model.table import Table

if TYPE_CHECKING:
    from dqsql.engine.storage import BatchPart, Store

_PATIENCE = 30.0
# Seconds between two looks at whether work is due.
_LOOK = 1.0
# Tables that are written at a time. A write is mostly waiting: for commits, listings, a metastore.
_WRITERS = 4


@dataclass(frozen=True)
class Work:
    """What a run of one model leaves: rows by table, then the ledger, which makes them count.

    `batches` are those that the rows are of; the `ledger` is the model's, with all batches.
    `findings` are all of the model's, where one of them has changed; `replaced` are rows of
    dq_results that new ones take the place of. `state` writes the model's state rows, unless they
    are stored already.
    """

    model: str
    batches: Sequence[str]
    parts: Mapping[Table, BatchPart]
    programs: Sequence[Mapping[str, Any]]
    ledger: Sequence[Mapping[str, Any]]
    findings: Sequence[Mapping[str, Any]] = ()
    replaced: Sequence[Mapping[str, Any]] = ()
    state: Callable[[], None] | None = None


@dataclass
class Journal:
    """Gathers the work of models, each named once between two writes.

    Models may be checked in several threads. Several tables are written at a time, each by one
    thread. `seconds` is how long writing has taken; `failed` are the models whose work could not be
    written, with the errors.
    """

    store: Store
    patience: float = _PATIENCE
    seconds: float = 0.0
    failed: dict[str, DqsqlError] = field(default_factory=dict)
    _works: list[Work] = field(default_factory=list)
    _since: float = 0.0
    _watching: Future[None] | None = None
    _gathering: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def add(self, work: Work) -> None:
        """Take the work of a model. Nothing is written yet."""
        if self._watching is not None and self._watching.done():
            self._watching.result()  # a defect has ended it
        with self._gathering:
            if not self._works:
                self._since = time.monotonic()
            self._works.append(work)

    def write_now(self, work: Work) -> None:
        """Write the work of a model that goes on and reads it. Raises StorageError."""
        self._write([work])

    def reopen(self, ledger: Sequence[Mapping[str, Any]]) -> None:
        """Write a ledger with batches that are about to be checked again. Raises StorageError."""
        with self._writing:
            self.store.replace_partition(tables.BATCHES, ledger)

    @contextmanager
    def writing_in_time(self) -> Iterator[None]:
        """Write work that is due while models are at work: the next one may take hours."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_LOOK):
                if self.due:
                    self.write()

        with ThreadPoolExecutor(1, thread_name_prefix="dqsql-journal") as pool:
            try:
                self._watching = pool.submit(watch)
                yield
            finally:
                done.set()
            self._watching.result()
        self._watching = None

    @property
    def due(self) -> bool:
        """Whether work has waited long enough."""
        return bool(self._works) and time.monotonic() - self._since >= self.patience

    def write(self) -> None:
        """Write what was gathered; `failed` has those of which it could not be.

        What cannot be written for all together is written model by model: a write may be done
        twice, and one model's trouble is not another's.
        """
        with self._gathering:
            works, self._works = self._works, []
        if works:
            self._write_or_note(works)

    def _write_or_note(self, works: Sequence[Work]) -> None:
        try:
            self._write(works)
        except DqsqlError as error:
            if len(works) == 1:
                self.failed[works[0].model] = error
                return
            for work in works:
                self._write_or_note([work])

    def _write(self, works: Sequence[Work]) -> None:
        from dqsql.engine.failures import reporting_loss

        with self._writing:
            start = time.monotonic()
            try:
                with reporting_loss("what was found could not be stored"):
                    self._write_all(works)
            finally:
                self.seconds += time.monotonic() - start

    def _write_all(self, works: Sequence[Work]) -> None:
        writes = [work.state for work in works if work.state is not None]
        for table in dict.fromkeys(t for work in works for t in work.parts):
            parts = [work.parts[table] for work in works if table in work.parts]
            writes.append(partial(self.store.replace_batches, table, parts))
        for table, rows in (
            (tables.PROGRAMS, [row for work in works for row in work.programs]),
            (tables.FINDINGS, [row for work in works for row in work.findings]),
        ):
            if rows:
                writes.append(partial(self.store.replace_partition, table, rows))
        # First: what comes in the place of verdicts must not be there before these are kept.
        self._keep_replaced([row for work in works for row in work.replaced])
        self._do(writes)
        self.store.replace_partition(
            tables.BATCHES, [row for w in works for row in self._vouched(w)]
        )

    def _keep_replaced(self, replaced: Sequence[Mapping[str, Any]]) -> None:
        """Keep the verdicts that are replaced, but for those that a killed run has kept already."""
        if not replaced:
            return
        table = tables.RESULT_HISTORY
        where = {name: sorted({row[name] for row in replaced}) for name in ("model", "batch")}
        key = itemgetter(*table.keys)
        kept = {key(row) for row in self.store.select(table, table.keys, where)}
        rows = [row for row in replaced if key(row) not in kept]
        if rows:
            self.store.append(table, rows)

    def _vouched(self, work: Work) -> list[Mapping[str, Any]]:
        """The ledger's rows with the versions of the tables that have the batches of this run."""
        names = (tables.METRICS.name, tables.RESULTS.name, tables.state_table_name(work.model))
        versions = json.dumps(self.store.versions(names), sort_keys=True)
        batches = set(work.batches)
        return [{**r, "versions": versions} if r["batch"] in batches else r for r in work.ledger]

    def _do(self, writes: Sequence[Callable[[], None]]) -> None:
        """Do all writes, of different tables, in any order; raises what the first one raises."""
        with ThreadPoolExecutor(_WRITERS) as pool:
            for done in [pool.submit(write) for write in writes]:
                done.result()
