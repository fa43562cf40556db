"""A person's verdicts on batches: kept in dq_reviews, and followed by the ledger."""

from __future__ import annotations

import datetime as dt
import getpass
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack

from dqsql.compiler.meaning import Meaning
from dqsql.decisions.lifecycle import REVIEWED, accepted_findings, heeded, updated_findings
from dqsql.decisions.reviews import (
    Extent,
    follow,
    newest_rows,
    refuse_other_states,
    refuse_other_words,
    standing,
    waiting_batches,
    without_accepted,
)
from dqsql.engine.batches import outdated_note
from dqsql.engine.exclusive import locked
from dqsql.engine.history import stored_rows
from dqsql.engine.ledger import batch_record, ledger_rows
from dqsql.engine.verdicts import StoredVerdicts
from dqsql.errors import UsageError, nearest
from dqsql.model.batches import as_known, batch_order
from dqsql.model.by_key import by_key
from dqsql.model.project import Project, models_read_anew
from dqsql.model.results import BatchRecord, BatchStatus, Status
from dqsql.model.tables import BATCHES, FINDINGS, RESULTS, REVIEWS
from dqsql.model.wording import texts_of
from dqsql.runner.tables import with_watched_tables
from dqsql.runner.warehouse import Access, Opening, open_tables, opened
from dqsql.selection.choosing import chosen_names

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


Verdict = Literal["accept", "reject"]
_FINDINGS = (Status.FAIL.value, Status.ERROR.value)


@dataclass(frozen=True)
class Reviewed:
    """What a review made of one batch.

    `before` and `after` are its status in the ledger. An incomplete batch stays so: its checks are
    evaluated in the next run, which then heeds the review. `note` is told once: how to measure
    again what was measured of later batches, where these batches count now or do not any more.
    """

    model: str
    batch: str
    before: BatchStatus
    after: BatchStatus
    note: str = ""


@dataclass(frozen=True)
class WaitingFinding:
    """A finding of severity error on a batch that waits for a review."""

    check: str
    column: str | None
    segment: str | None
    detector: str
    message: str
    check_id: str


@dataclass(frozen=True)
class WaitingBatch:
    """A batch that waits for a review, with what was found."""

    model: str
    batch: str
    rows: int
    findings: tuple[WaitingFinding, ...]


def review(
    model: str,
    batches: Sequence[str],
    verdict: Verdict,
    reason: str,
    *,
    first: str | None = None,
    last: str | None = None,
    every: bool = False,
    author: str | None = None,
    **at: Unpack[Opening],
) -> tuple[Reviewed, ...]:
    """Accept or reject batches that have been checked.

    Monitors learn from an accepted batch, and cumulative metrics contain it, despite its findings.
    A rejected batch is left out. If it is checked again and passes, it is accepted.

    Args:
        model: name of the check model.
        batches: names of the batches, as in `dq_batches`.
        first: also take batches that wait for a review: those from this one on.
        last: and not after this one.
        every: also take all batches that wait for a review.
        verdict: `accept` or `reject`.
        reason: the reason, which is stored.
        author: your name, which is stored; by default the user of this process.
        **at: `project_dir`, `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing
            session) and `step` (called with what is being done).

    Raises:
        DqsqlError: the model or batch does not exist, there is no reason, a run of the model is
            active, or the tables cannot be written. In these cases nothing was written.
    """
    if verdict not in REVIEWED:
        raise UsageError(f"a review says 'accept' or 'reject', not {verdict!r}")
    if not reason.strip():
        raise UsageError("a review needs a reason", hint="--reason 'snow, ask ops'")
    extent = Extent(first, last, every)
    if first is not None and last is not None and batch_order(first) > batch_order(last):
        raise UsageError(f"{first} comes after {last}", hint=f"--from {last} --until {first}")
    if not batches and extent.is_empty:
        raise UsageError(
            "a review needs a batch",
            hint="`dqsql review list` shows what waits; --until BATCH and --all choose from it",
        )
    where, spark, step = opened(at)
    project = where.stored_project()
    with locked(project.target, [model]), open_tables(project, spark, step, writes=True) as store:
        step("Writing the review")
        project = with_watched_tables(project, store)
        replaced = model in models_read_anew(project.models)
        work = _Review(store, model, verdict, reason.strip(), author or user_of_process(), replaced)
        return work.write(texts_of(batches), [m.name for m in project.models], extent)


def waiting(
    project_dir: str | PathLike[str] = ".",
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    **at: Unpack[Access],
) -> tuple[WaitingBatch, ...]:
    """The batches with findings of severity error that nobody has reviewed, oldest first by model.

    `at` may name `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing session) and
    `step` (called with what is being done). Raises DqsqlError.
    """
    where, spark, step = opened({**at, "project_dir": project_dir})
    project = where.stored_project()
    with open_tables(project, spark, step) as store:
        step("Reading findings")
        project = with_watched_tables(project, store)
        names = chosen_names(project, select, exclude)
        return tuple(_waiting(store, names, models_read_anew(project.models)))


@dataclass(frozen=True)
class _Review:
    store: Store
    model: str
    verdict: Verdict
    reason: str
    author: str | None
    replaced: bool

    def write(
        self, batches: Sequence[str], models: Sequence[str], extent: Extent
    ) -> tuple[Reviewed, ...]:
        """Write the review, then the ledger: where the second fails, reviewing again does it."""
        rows = self.store.rows(BATCHES)
        ledger = {r["batch"]: r for r in rows if r["model"] == self.model}
        named = (as_known(batch, ledger) for batch in batches)
        waits = waiting_batches(ledger.values(), replaced=self.replaced)
        chosen = list(dict.fromkeys((*named, *extent.of(waits))))
        self._check(chosen, ledger, {r["model"] for r in rows}, models)
        if not chosen:
            return ()
        now = dt.datetime.now(dt.UTC)
        note = self._note(ledger, chosen)
        self.store.append(REVIEWS, [self._row(ledger[batch], now) for batch in chosen])
        reviewed = []
        for batch in chosen:
            row = ledger[batch]
            before = BatchStatus(row["status"])
            after = before if before is BatchStatus.INCOMPLETE else REVIEWED[self.verdict]
            reviewed.append(Reviewed(self.model, batch, before, after, note))
            note = ""
            if after is not BatchStatus.INCOMPLETE:
                row.update(status=after.value, counted=after is BatchStatus.ACCEPTED)
        ordered = sorted(ledger.values(), key=lambda r: batch_order(r["batch"]))
        self.store.replace_partition(BATCHES, ordered)
        if self.verdict == "accept":
            self._resolve(ledger, now)
        return tuple(reviewed)

    def _note(self, ledger: Mapping[str, Row], chosen: Sequence[str]) -> str:
        """What to do about the totals of later batches that had these batches, or had them not."""
        records = {b: batch_record({**r}) for b, r in ledger.items() if r["fingerprint"]}
        before = {b: r for b, r in records.items() if r.status is not BatchStatus.RETIRED}
        meanings = {b: Meaning.read(r.fingerprint) for b, r in before.items()}
        totals = {b: r for b, r in before.items() if (known := meanings[b]) and known.rows}
        counts = self.verdict == "accept"
        changed = [
            b
            for b in chosen
            if b in totals
            and totals[b].status is not BatchStatus.INCOMPLETE
            and totals[b].counts is not counts
        ]
        sound = changed if counts else ()
        return "".join(outdated_note(totals, sound, changed, what="review"))

    def _resolve(self, ledger: Mapping[str, Row], now: dt.datetime) -> None:
        """Resolve the findings that are about batches only that a person accepted."""
        rows = [r for r in self.store.rows(FINDINGS) if r["model"] == self.model]
        if rows:
            reviews = newest_rows(self.store.rows(REVIEWS)).get(self.model, {})
            # One that fails again since it was accepted waits for another review.
            waits = {b for b, r in ledger.items() if r["status"] == BatchStatus.FLAGGED.value}
            accepted = [
                b for b, r in reviews.items() if r["verdict"] == "accept" and b not in waits
            ]
            findings = accepted_findings(
                rows, accepted, author=self.author, reason=self.reason, now=now
            )
            self.store.replace_partition(FINDINGS, findings)

    def _row(self, entry: Mapping[str, Any], now: dt.datetime) -> dict[str, Any]:
        return {
            "model": self.model,
            "batch": entry["batch"],
            "verdict": self.verdict,
            "reason": self.reason,
            "author": self.author,
            "at": now,
            "run_id": entry["run_id"],
        }

    def _check(
        self,
        chosen: Sequence[str],
        ledger: Mapping[str, Any],
        checked: Iterable[str],
        models: Sequence[str],
    ) -> None:
        if not ledger and self.model not in models:
            known = [*models, *checked]
            raise UsageError(
                f"there is no check model {self.model!r}",
                hint=nearest(self.model, known) or "`dqsql ls` lists the check models",
            )
        unknown = [b for b in chosen if b not in ledger]
        if unknown:
            names = ", ".join(repr(b) for b in unknown)
            raise UsageError(
                f"{self.model} has no checked batch {names}",
                hint=nearest(unknown[0], ledger) or "dq_batches names the batches",
            )


def _waiting(
    store: Store, models: Sequence[str], replaced: Collection[str]
) -> Iterable[WaitingBatch]:
    ledger = store.rows(BATCHES)
    for model in models:
        own = {r["batch"]: r for r in ledger if r["model"] == model}
        flagged = waiting_batches(own.values(), replaced=model in replaced)
        results = stored_rows(store, RESULTS, model, flagged)
        for batch in flagged:
            mine = (r for r in results if r["batch"] == batch and r["status"] in _FINDINGS)
            findings = sorted(map(_finding, mine), key=lambda f: (f.segment or "", f.check))
            yield WaitingBatch(model, batch, own[batch]["rows"], tuple(findings))


def _finding(row: Mapping[str, Any]) -> WaitingFinding:
    return WaitingFinding(
        row["check_name"],
        row["column_name"],
        row["segment"],
        row["detector"],
        row["message"],
        row["check_id"],
    )


def user_of_process() -> str | None:
    """The user of this process, or None where the system has no name for it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


Row = Mapping[str, Any]
_Ledger = dict[str, BatchRecord]


def heed_people(
    store: Store, ledgers: Mapping[str, _Ledger], models: Collection[str], now: dt.datetime
) -> tuple[dict[str, dict[str, Row]], dict[str, list[Row]]]:
    """Follow reviews and changes of findings that were made by SQL, and store what follows.

    A review that is younger than the verdicts on its batch changes the ledger, as `dqsql review`
    does; `ledgers` are changed with it. A finding of which one column was changed gets its others.
    The tables of the `models` must be locked.

    Returns by model the newest review of each batch, and the rows of dq_findings, also of others.
    Raises StorageError.
    """
    reviews = newest_rows(r for r in store.rows(REVIEWS) if r["model"] in models)
    for model, rows in reviews.items():
        refuse_other_words(model, rows)
        failing = partial(_failing, store, model)
        reviews[model] = standing(rows, ledgers.get(model, {}), failing)
    every = store.rows(FINDINGS)
    stored = [r for r in every if r["model"] in models]
    others = [r for r in every if r["model"] not in models]
    refuse_other_states(stored)
    findings = [heeded(r, now) for r in stored]
    changed = [m for m in sorted(models) if follow(ledgers.get(m, {}), reviews.get(m, {}))]
    if changed:
        ordered = [row for m in changed for row in ledger_rows(ledgers[m])]
        store.replace_partition(BATCHES, ordered)
    by_model: dict[str, list[Row]] = by_key((r["model"], r) for r in (*findings, *others))
    for model in changed:
        by_model[model] = without_accepted(by_model.get(model, []), reviews[model], now)
    before = {r["finding_id"]: r for r in stored}
    differ = {r["model"] for m in models for r in by_model.get(m, ()) if _differs(r, before, m)}
    if differ:
        store.replace_partition(FINDINGS, [r for m in sorted(differ) for r in by_model[m]])
    return reviews, by_model


def resolve_gone(
    store: Store,
    project: Project,
    findings: Mapping[str, Sequence[Row]],
    ledgers: Mapping[str, Collection[str]],
    checks: Mapping[str, Collection[str]],
    now: dt.datetime,
) -> None:
    """Resolve the findings of checks that are gone; `checks` are the ids that each model has now.

    Those of checks that are there again are open again. `findings` are the rows of dq_findings by
    model, `ledgers` their batches. Raises StorageError.
    """
    rows: list[Row] = []
    for model, ids in checks.items():
        stored = findings.get(model, ())
        known = project.known_checks(ids, stored)
        after = StoredVerdicts(store, model, ledgers.get(model, ()), ()).after
        rows += updated_findings(stored, (), now, known, passed_after=after) or ()
    if rows:
        store.replace_partition(FINDINGS, rows)


def _failing(store: Store, model: str, batches: Collection[str]) -> set[str]:
    """Those of some batches that have a finding, or a check that could not be computed."""
    rows = stored_rows(store, RESULTS, model, batches, ("batch", "status"))
    return {row["batch"] for row in rows if row["status"] in (*_FINDINGS, Status.WARN.value)}


def _differs(row: Row, before: Mapping[str, Row], model: str) -> bool:
    old = before[row["finding_id"]]
    return old["model"] == model and any(value != old.get(name) for name, value in row.items())
