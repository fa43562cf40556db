"""One stored verdict in full: what was seen and expected, and the same computed again."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.decisions.lifecycle import heeded
from dqsql.errors import UsageError, nearest
from dqsql.model.batches import batch_order
from dqsql.model.plan import Plan
from dqsql.model.project import WARN_HALF, Severity
from dqsql.model.results import FINDINGS, result_id
from dqsql.model.tables import BATCHES, CHECKS, FAILURES, METRICS, RESULTS
from dqsql.model.tables import FINDINGS as FINDINGS_TABLE
from dqsql.model.wording import plural
from dqsql.monitors.history import History
from dqsql.monitors.recompute import Compared, Recomputed, StoredVerdict, batches_of
from dqsql.monitors.registry import recompute
from dqsql.runner.compilation import Place
from dqsql.runner.warehouse import Step, open_tables, silent
from dqsql.runner.where import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

_Place = tuple[str, str, str | None]  # check, batch, segment
# Without a batch, the newest so many are looked at.
_LOOKED_AT = 400
_SUGGESTED = 5


# Says in an odd row which columns make it odd.
_ODD = "odd by"


@dataclass(frozen=True)
class Explanation:
    """A verdict of `dq_results`, and what comes out when it is decided again.

    Attributes:
        id: what names it; see `dqsql.model.results.result_id`.
        row: its row of dq_results, without the details.
        details: its details.
        past: the batches that it rests on, oldest first.
        values: the stored values of the metric that it is about, by batch, its own last; empty
            where it is about many metrics.
        compared: its numbers, as stored and computed again.
        same: whether they are equal; None where nothing could be computed.
        note: why not, or what to know of it.
        failures: the sampled rows of the batch that failed, as JSON, where the run stored them.
        where: the condition on the rows that the check is about.
        place: where it was written, `file:line`.
        finding: the row of dq_findings that it belongs to; None of a verdict that is none.
    """

    id: str
    row: Mapping[str, Any]
    details: Mapping[str, Any]
    past: tuple[str, ...]
    values: tuple[tuple[str, float | None], ...]
    compared: tuple[Compared, ...]
    same: bool | None
    note: str | None
    failures: tuple[str, ...] = ()
    where: str | None = None
    place: str | None = None
    finding: Mapping[str, Any] | None = None


def explain(
    result: str,
    *,
    batch: str | None = None,
    segment: str | None = None,
    project_dir: str | PathLike[str] = ".",
    spark: SparkSession | None = None,
    step: Step = silent,
    **place: Unpack[Place],
) -> Explanation:
    """Explain one stored verdict, and decide again from stored metrics. No data is scanned.

    Args:
        result: a verdict's id (`check_id@batch`, `check_id@batch/segment`), or a check's; for the
            check's id its name may stand, where no other check has it.
        batch: the batch, if `result` is a check's id; by default the newest on which it found
            something, else the newest.
        segment: the segment, if `result` is a check's id; the whole batch without.
        project_dir: folder of the project.
        spark: an existing session to use.
        **place: target, profile and variables, as in `Place`.
        step: is told what is being done.

    Raises:
        DqsqlError: no such verdict, the project is wrong, or the tables cannot be read.
    """
    compiled = Where(project_dir, **place).compile()
    with open_tables(compiled.project, spark, step) as store:
        step("Reading the verdict")
        checks = store.rows(CHECKS)
        row = _Finder(store, checks, result, batch, segment).row()
        return _explained(store, row, _declared(checks, row), compiled.plans)


@dataclass(frozen=True)
class _Finder:
    """Finds the row that a person named.

    `checks` are the rows of `dq_checks`. A check may be named by its id or, where that is unique,
    by its name: of an adopted test of dbt that is what `dbt test` calls it.
    """

    store: Store
    checks: Sequence[Mapping[str, Any]]
    text: str
    batch: str | None
    segment: str | None

    def row(self) -> dict[str, Any]:
        wanted = self._named() if self.batch is not None else self._by_id()
        found = [row for place in wanted if (row := self._stored(*place)) is not None]
        if len({(r["batch"], r["segment"]) for r in found}) > 1:
            raise UsageError(
                f"{self.text!r} names {len(found)} verdicts",
                hint="name the check, and add --batch and --segment",
            )
        if not found:
            where = "" if self.batch is None else f" on batch {self.batch!r}"
            if self.segment is not None:
                where += f", segment {self.segment!r}"
            raise UsageError(
                f"there is no verdict {self.text!r}{where}",
                hint="target/run_results.json has the ids of findings",
            )
        return max(found, key=_finding_rank)

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
        known = [*self._models(), *(r["check_name"] for r in self.checks)]
        return UsageError(
            f"no check {text!r} has been run",
            hint=nearest(text, known) or "`dqsql ls` lists the checks",
        )

    def _named(self) -> list[_Place]:
        ids = self._ids(self.text)
        if not ids:
            raise self._unknown(self.text)
        return [(check, self.batch or "", self.segment) for check in ids]

    def _by_id(self) -> list[_Place]:
        """The checks, batches and segments that the id may mean: names may hold `@` and `/`."""
        if self.segment is not None:
            raise UsageError("--segment goes with --batch", hint="or write CHECK@BATCH/SEGMENT")
        if ids := self._ids(self.text):
            return self._newest(ids)
        found: list[_Place] = []
        places = [i for i, c in enumerate(self.text) if c == "@"]
        known = {self.text[:place]: self._ids(self.text[:place]) for place in places}
        for named, checks in known.items():
            rest = self.text[len(named) + 1 :]
            for check in checks:
                for batch in _checked(self.store, self._models()[check]):
                    if rest == batch:
                        found.append((check, batch, None))
                    elif rest.startswith(f"{batch}/"):
                        found.append((check, batch, rest[len(batch) + 1 :]))
        if not any(known.values()):
            raise self._unknown(self.text[: places[0]] if places else self.text)
        return found

    def _newest(self, checks: Collection[str]) -> list[_Place]:
        """The newest verdict of the checks that found something, else their newest one."""
        from dqsql.engine.history import stored_rows

        model = next(self._models()[check] for check in checks)
        batches = _checked(self.store, model)[-_LOOKED_AT:]
        rows = stored_rows(self.store, RESULTS, model, batches)
        mine = (r for r in rows if r["check_id"] in checks)
        best = max(mine, key=_finding_rank, default=None)
        return [] if best is None else [(best["check_id"], best["batch"], best["segment"])]

    def _stored(self, check: str, batch: str, segment: str | None) -> dict[str, Any] | None:
        from dqsql.engine.history import stored_rows

        rows = stored_rows(self.store, RESULTS, self._models()[check], [batch])
        mine = (r for r in rows if r["check_id"] == check and r["segment"] == segment)
        return next(mine, None)


def _finding_rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Orders verdicts: findings first (last in this order), the newest, the whole batch, errors."""
    found, whole = row["status"] in FINDINGS, row["segment"] is None
    error = row["severity"] == Severity.ERROR.value
    return (found, batch_order(row["batch"]), whole, row["segment"] or "", error)


def _checked(store: Store, model: str) -> list[str]:
    names = (r["batch"] for r in store.rows(BATCHES) if r["model"] == model)
    return sorted(names, key=batch_order)


def _declared(checks: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of `dq_checks` that was valid when the verdict was decided."""
    mine = [c for c in checks if c["check_id"] == row["check_id"]]
    past = [c for c in mine if c["valid_from"] <= row["evaluated_at"]]
    return max(past or mine, key=lambda c: c["valid_from"])


def _explained(
    store: Store, row: Mapping[str, Any], declared: Mapping[str, Any], plans: Sequence[Plan]
) -> Explanation:
    from dqsql.engine.history import stored_rows

    details = json.loads(row["details"] or "{}")
    past = batches_of(details, _checked(store, row["model"]))
    history = History(past)
    history.add_metric_rows(stored_rows(store, METRICS, row["model"], [*past, row["batch"]]))
    stored = StoredVerdict(row, details, history, past, _plan_of(plans, row))
    again = recompute(stored)
    return Explanation(
        id=result_id(row["check_id"], row["batch"], row["segment"]),
        row={k: v for k, v in row.items() if k != "details"},
        details=details,
        past=tuple(past),
        values=_values(again, history, [*past, row["batch"]]),
        compared=again.compared,
        same=again.same,
        note=_note(again, details, past),
        failures=_failures(store, row, details),
        where=declared["where"],
        place=f"{declared['file']}:{declared['line']}",
        finding=_finding(store, row),
    )


def _finding(store: Store, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The newest finding of the verdict's check that is about its batch."""
    now = dt.datetime.now(dt.UTC)
    found = [
        heeded(r, now)
        for r in store.select(FINDINGS_TABLE, where={"model": [row["model"]]})
        if r["check_id"] == row["check_id"] and row["batch"] in r["batches"]
    ]
    return max(found, key=lambda r: r["opened_at"], default=None)


def _failures(store: Store, row: Mapping[str, Any], details: Mapping[str, Any]) -> tuple[str, ...]:
    """The sample of the check's failing rows in the batch: it is taken of all segments together."""
    from dqsql.engine.history import stored_rows

    of_segment = row["segment"] is not None and row["status"] in FINDINGS
    if "failures" not in details and not of_segment:
        return ()
    rows = stored_rows(store, FAILURES, row["model"], [row["batch"]])
    mine = [r for r in rows if r["check_id"] == row["check_id"]]
    mine.sort(key=lambda r: (-(r["score"] or 0.0), r["row"]))
    return tuple(_with_reasons(r) for r in mine)


def _with_reasons(row: Mapping[str, Any]) -> str:
    """A failing row; of an odd one with the columns that make it odd."""
    text = str(row["row"])
    if not row["reasons"]:
        return text
    reasons = (f"{r['column']} {r['share']:.0%}" for r in json.loads(row["reasons"]))
    told = {_ODD: ", ".join(reasons), **json.loads(text)}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def _values(
    again: Recomputed, history: History, batches: Sequence[str]
) -> tuple[tuple[str, float | None], ...]:
    if again.series is None:
        return ()
    found = [(b, history.value(again.series, b)) for b in batches]
    return tuple((b, None if math.isnan(value) else value) for b, value in found)


def _note(again: Recomputed, details: Mapping[str, Any], past: Sequence[str]) -> str | None:
    extent = details.get("history")
    if again.compared and extent and extent[2] != len(past):
        were = plural(extent[2], "batch")
        return f"it was decided on {were}; stored by now: {len(past)}"
    return again.note


def _plan_of(plans: Sequence[Plan], row: Mapping[str, Any]) -> Plan | None:
    return next((p for p in plans if p.model.name == row["model"]), None)


__all__ = ["Compared", "Explanation", "explain"]
