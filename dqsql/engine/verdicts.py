"""Stored verdicts by the names that people give them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from dqsql.compiler.privacy import pii_columns, withheld
from dqsql.engine.history import stored_rows
from dqsql.engine.rows import Row
from dqsql.engine.storage import Store
from dqsql.errors import UsageError, nearest
from dqsql.model.batches import as_known, batch_order
from dqsql.model.plan import Declared, Plan
from dqsql.model.project import WARN_HALF, Severity
from dqsql.model.results import FINDINGS, BatchStatus, Status, distance_outside
from dqsql.model.tables import BATCHES, RESULTS
from dqsql.model.wording import first_of

_Place = tuple[str, str, str | None]  # check, batch, segment
# Without a batch, the newest so many are looked at.
_LOOKED_AT = 400
_SUGGESTED, _NEAR = 5, 3
_STATUS = ("check_id", "batch", "status")
# What of a verdict may tell values.
_TELLING = ("observed", "observed_text", "message", "details")
_COLUMNS = (*_STATUS, "segment", "severity", "message")


@dataclass(frozen=True)
class VerdictFinder:
    """Finds the row that a person named.

    `checks` are the rows of `dq_checks`. A check may be named by its id or, where that is unique,
    by its name: of an adopted test of dbt that is what `dbt test` calls it. `declared` gives the
    checks that the project has now, whether or not a run has looked at them: they are asked for
    only where no stored check has the name.
    """

    store: Store
    checks: Sequence[Mapping[str, Any]]
    text: str
    batch: str | None
    segment: str | None
    declared: Callable[[], Sequence[Declared]] = tuple

    def row(self) -> dict[str, Any]:
        """The row. Raises UsageError: there is none, or there are several."""
        wanted = self._named() if self.batch is not None else self._by_id()
        rows = [row for place in wanted if (row := self._stored(*place)) is not None]
        if len({(r["batch"], r["segment"]) for r in rows}) > 1:
            raise UsageError(
                f"{self.text!r} names {len(rows)} verdicts",
                hint="name the check, and add --batch and --segment",
            )
        if not rows:
            if self.batch is None and wanted == []:
                self._refuse_unjudged(self.text)
            where = "" if self.batch is None else f" on batch {self.batch!r}"
            if self.segment is not None:
                where += f", segment {self.segment!r}"
            raise UsageError(
                f"there is no verdict {self.text!r}{where}",
                hint=f"{self._checked()}write CHECK@BATCH or CHECK@BATCH/SEGMENT, with check_id,"
                " batch and segment of dq_results",
            )
        return max(rows, key=_finding_rank)

    @cached_property
    def _declared(self) -> Sequence[Declared]:
        return self.declared()

    def _models(self) -> dict[str, str]:
        return {r["check_id"]: r["model"] for r in self.checks}

    def _ids(self, text: str) -> list[str]:
        """The checks of an id or a name: one, the two halves of a test of dbt, or none."""
        if text in self._models():
            return [text]
        ids = {r["check_id"] for r in self.checks if r["check_name"] == text}
        if len(ids) > 1:
            raise UsageError(
                f"{len(ids)} checks are called {text!r}",
                hint=f"name one by its id: {', '.join(sorted(ids)[:_SUGGESTED])}",
            )
        warns = {r["check_id"] for r in self.checks if r["check_name"] == f"{text}{WARN_HALF}"}
        return sorted(ids) + sorted(warns if ids else ())

    def _unknown(self, text: str) -> UsageError:
        now = {c.id: c.model for c in self._declared}
        models = {**now, **self._models()}
        if text in models.values():
            known = sorted(i for i, model in models.items() if model == text)
            return UsageError(
                f"{text!r} is a check model, and a verdict belongs to one of its checks",
                hint=f"its checks: {first_of(known, _SUGGESTED)}; or see all of them:"
                f" dqsql report --text {text}",
            )
        self._refuse_unjudged(text)
        hint = _near_of_model(text, models)
        if hint is None:
            names = [*(r["check_name"] for r in self.checks), *(c.name for c in self._declared)]
            hint = nearest(text, [*models, *names]) or "`dqsql ls` lists the checks"
        return UsageError(f"there is no check {text!r}", hint=hint)

    def _refuse_unjudged(self, text: str) -> None:
        """Refuse a check that exists and has no verdict. Raises UsageError."""
        for check in self._declared:
            if text in (check.id, check.name):
                raise UsageError(
                    f"no run has evaluated the check {text!r} yet",
                    hint=f"dqsql run --select {check.model} checks new batches with it, and with"
                    " --batch BATCH one that was checked before",
                )

    def _checked(self) -> str:
        """The first and the last batch of the model whose check is named, before a hint."""
        places = [i for i, c in enumerate(self.text) if c == "@"]
        names = [self.text, *(self.text[:place] for place in places)]
        check = next((ids[0] for name in names if (ids := self._ids(name))), None)
        batches = checked_batches(self.store, self._models()[check]) if check else []
        return f"its model's batches are {batches[0]} to {batches[-1]}; " if batches else ""

    def _named(self) -> list[_Place]:
        ids = self._ids(self.text)
        if not ids:
            raise self._unknown(self.text)
        model = self._models()[next(iter(ids))]
        batch = as_known(self.batch or "", checked_batches(self.store, model))
        if self.segment is not None:
            return [(check, batch, self.segment) for check in ids]
        # What a finding is about: the whole batch, unless a segment is worse.
        worst = (max(self._on(check, batch), key=_finding_rank, default=None) for check in ids)
        return [(row["check_id"], batch, row["segment"]) for row in worst if row is not None]

    def _by_id(self) -> list[_Place]:
        """The checks, batches and segments that the id may mean: names may hold `@` and `/`."""
        if self.segment is not None:
            raise UsageError("--segment needs --batch", hint="or write CHECK@BATCH/SEGMENT")
        if ids := self._ids(self.text):
            return self._newest(ids)
        candidates: list[_Place] = []
        places = [i for i, c in enumerate(self.text) if c == "@"]
        known = {self.text[:place]: self._ids(self.text[:place]) for place in places}
        for named, checks in known.items():
            rest = self.text[len(named) + 1 :]
            for check in checks:
                for batch in checked_batches(self.store, self._models()[check]):
                    if as_known(rest, [batch]) == batch:
                        candidates.append((check, batch, None))
                    elif rest.startswith(f"{batch}/"):
                        candidates.append((check, batch, rest[len(batch) + 1 :]))
        if not any(known.values()):
            raise self._unknown(self.text[: places[0]] if places else self.text)
        return candidates

    def _newest(self, checks: Collection[str]) -> list[_Place]:
        """The newest verdict of the checks that found something, else their newest one."""
        model = next(self._models()[check] for check in checks)
        known = checked_batches(self.store, model, retired=False)
        batches = (known or checked_batches(self.store, model))[-_LOOKED_AT:]
        rows = stored_rows(self.store, RESULTS, model, batches)
        mine = (r for r in rows if r["check_id"] in checks)
        best = max(mine, key=_finding_rank, default=None)
        return [] if best is None else [(best["check_id"], best["batch"], best["segment"])]

    def _stored(self, check: str, batch: str, segment: str | None) -> dict[str, Any] | None:
        return next((r for r in self._on(check, batch) if r["segment"] == segment), None)

    def _on(self, check: str, batch: str) -> list[dict[str, Any]]:
        """The verdicts of a check on a batch and its segments."""
        rows = stored_rows(self.store, RESULTS, self._models()[check], [batch])
        return [r for r in rows if r["check_id"] == check]


def _near_of_model(text: str, models: Mapping[str, str]) -> str | None:
    """A hint on the id of a check that begins with the name of a model; None of other texts."""
    model, _, name = text.partition(".")
    own = {i.removeprefix(f"{model}."): i for i, m in models.items() if m == model}
    if not own or not name:
        return None
    close = [own[n] for n in get_close_matches(name, own, n=_NEAR)]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"checks of {model}: {first_of(sorted(own.values()), _SUGGESTED)}"


def _finding_rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Orders verdicts: findings first (last in this order), the newest, failures, whole batches.

    Of segments the one that is furthest outside its bounds, as a run names it.
    """
    is_finding, whole = row["status"] in FINDINGS, row["segment"] is None
    failed = row["status"] in (Status.ERROR.value, Status.FAIL.value)
    error = row["severity"] == Severity.ERROR.value
    far = distance_outside(row["observed"], row["lower_bound"], row["upper_bound"])
    return (is_finding, batch_order(row["batch"]), failed, whole, far, row["segment"] or "", error)


@dataclass(frozen=True)
class StoredVerdicts:
    """What checks said of batches of a model in earlier runs; read when asked for.

    `ledger` are all its batches, `tested` those of the run.
    """

    store: Store
    model: str
    ledger: Collection[str]
    tested: Collection[str]

    def after(self, check_id: str, batch: str) -> list[str]:
        """The batches after one on which a check passed, oldest first. Raises StorageError."""
        order = batch_order(batch)
        if self._first is None or order < self._first:
            return replace(self, tested=(batch,)).after(check_id, batch)
        return [b for b in self._passed.get(check_id, ()) if batch_order(b) > order]

    def of(self, check_id: str, batches: Sequence[str]) -> list[dict[str, Any]]:
        """The verdicts of a check on batches, as rows. Raises StorageError."""
        new = [b for b in batches if b not in self._stored_verdicts]
        self._stored_verdicts.update((b, []) for b in new)
        for row in stored_rows(self.store, RESULTS, self.model, new, columns=_COLUMNS):
            self._stored_verdicts[row["batch"]].append(row)
        return [r for b in batches for r in self._stored_verdicts[b] if r["check_id"] == check_id]

    @cached_property
    def _stored_verdicts(self) -> dict[str, list[dict[str, Any]]]:
        """What was read of batches so far."""
        return {}

    @cached_property
    def _first(self) -> Any:
        """The place of the oldest batch of the run; None where it has none."""
        return min(map(batch_order, self.tested), default=None)

    @cached_property
    def _passed(self) -> dict[str, list[str]]:
        """The batches behind the oldest one of the run, by the checks that passed on them."""
        first, mine = self._first, self.tested
        later = [b for b in self.ledger if batch_order(b) > first and b not in mine]
        statuses: dict[tuple[str, str], set[str]] = {}
        for row in stored_rows(self.store, RESULTS, self.model, later, columns=_STATUS):
            statuses.setdefault((row["check_id"], row["batch"]), set()).add(row["status"])
        passed: dict[str, list[str]] = {}
        for check_id, batch in sorted(statuses, key=lambda place: batch_order(place[1])):
            seen = statuses[check_id, batch]
            if Status.PASS in seen and not seen & FINDINGS:
                passed.setdefault(check_id, []).append(batch)
        return passed


def replaced_rows(plan: Plan, rows: Sequence[Row], now: dt.datetime) -> list[Row]:
    """Verdicts of a model as they are kept when others take their place.

    Without values that have become private since.
    """
    hidden = withheld(plan.metrics, plan.states, pii_columns(plan.model))
    private = {d.id for d in plan.declared if not hidden.isdisjoint(d.metrics)}
    kept = dict.fromkeys(_TELLING) | {"replaced_at": now}
    return [{**r, **(kept if r["check_id"] in private else {"replaced_at": now})} for r in rows]


def checked_batches(store: Store, model: str, *, retired: bool = True) -> list[str]:
    """The batches of a model that were checked, oldest first, with `retired` ones or without."""
    rows = store.select(BATCHES, ("batch", "status"), {"model": [model]})
    known = (r["batch"] for r in rows if retired or r["status"] != BatchStatus.RETIRED.value)
    return sorted(known, key=batch_order)
