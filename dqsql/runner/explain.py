"""One stored verdict in full: what was seen and expected, and the same computed again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from dqsql.engine.layout import batch_order
from dqsql.errors import UsageError, nearest
from dqsql.model.plan import Plan
from dqsql.model.results import FINDINGS, result_id
from dqsql.model.tables import BATCHES, CHECKS, FAILURES, METRICS, RESULTS
from dqsql.model.wording import plural
from dqsql.runner.compilation import Variables, compile_project
from dqsql.runner.monitors.history import History, MetricKey, key_of
from dqsql.runner.recompute import Compared, Recomputed, Stored, batches_of, recompute
from dqsql.runner.warehouse import Step, open_warehouse, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.decisions.novelty_metrics import Feature
    from dqsql.engine.storage import Store

# Without a batch, the newest so many are looked at.
_LOOKED_AT = 400


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
        failures: the sampled rows that failed, as JSON, where the run stored them.
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


def explain(
    result: str,
    *,
    batch: str | None = None,
    segment: str | None = None,
    project_dir: str | PathLike[str] = ".",
    spark: SparkSession | None = None,
    target: str | None = None,
    profile: str | None = None,
    profiles_dir: str | PathLike[str] | None = None,
    vars: Variables = None,
    step: Step = silent,
) -> Explanation:
    """Explain one stored verdict, and decide again from stored metrics. No data is scanned.

    Args:
        result: a verdict's id (`check_id@batch`, `check_id@batch/segment`), or a check's.
        batch: the batch, if `result` is a check's id; by default the newest on which it found
            something, else the newest.
        segment: the segment, if `result` is a check's id; the whole batch without.
        project_dir: folder of the project.
        spark: an existing session to use.
        target: output of the profile.
        profile: profile name, instead of the project's.
        profiles_dir: folder of `profiles.yml`.
        vars: variables that override the project's.
        step: is told what is being done.

    Raises:
        DqsqlError: no such verdict, the project is wrong, or the tables cannot be read.
    """
    compiled = compile_project(
        project_dir, target=target, profile=profile, profiles_dir=profiles_dir, vars=vars
    )
    with open_warehouse(compiled.project, spark, step) as (_, store):
        step("Reading the verdict")
        row = _Finder(store, result, batch, segment).row()
        return _explained(store, row, compiled.plans)


@dataclass(frozen=True)
class _Finder:
    """Finds the row that a person named."""

    store: Store
    text: str
    batch: str | None
    segment: str | None

    def row(self) -> dict[str, Any]:
        models = {r["check_id"]: r["model"] for r in self.store.rows(CHECKS)}
        wanted = self._named(models) if self.batch is not None else self._by_id(models)
        found = [row for place in wanted if (row := self._stored(models, *place)) is not None]
        if len(found) > 1:
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
        return found[0]

    def _named(self, models: Mapping[str, str]) -> list[tuple[str, str, str | None]]:
        if self.text not in models:
            raise UsageError(
                f"no check {self.text!r} has been run",
                hint=nearest(self.text, models) or "`dqsql ls` lists the checks",
            )
        return [(self.text, self.batch or "", self.segment)]

    def _by_id(self, models: Mapping[str, str]) -> list[tuple[str, str, str | None]]:
        """The checks, batches and segments that the id may mean: names may hold `@` and `/`."""
        if self.segment is not None:
            raise UsageError("--segment goes with --batch", hint="or write CHECK@BATCH/SEGMENT")
        if self.text in models:
            return self._newest(models[self.text])
        found: list[tuple[str, str, str | None]] = []
        places = [i for i, c in enumerate(self.text) if c == "@"]
        for place in places:
            check, rest = self.text[:place], self.text[place + 1 :]
            if check not in models:
                continue
            for batch in self._batches(models[check]):
                if rest == batch:
                    found.append((check, batch, None))
                elif rest.startswith(f"{batch}/"):
                    found.append((check, batch, rest[len(batch) + 1 :]))
        if not found and places:
            check = self.text[: places[0]]
            if not any(self.text[:place] in models for place in places):
                raise UsageError(f"no check {check!r} has been run", hint=nearest(check, models))
        return found

    def _newest(self, model: str) -> list[tuple[str, str, str | None]]:
        """The newest verdict of the check that found something, else its newest one."""
        from dqsql.engine.history import stored_rows

        rows = stored_rows(self.store, RESULTS, model, self._batches(model)[-_LOOKED_AT:])
        mine = [r for r in rows if r["check_id"] == self.text]

        def rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
            found = row["status"] in FINDINGS
            return (found, batch_order(row["batch"]), row["segment"] is None, row["segment"])

        best = max(mine, key=rank, default=None)
        return [] if best is None else [(self.text, best["batch"], best["segment"])]

    def _batches(self, model: str) -> list[str]:
        return _checked(self.store, model)

    def _stored(
        self, models: Mapping[str, str], check: str, batch: str, segment: str | None
    ) -> dict[str, Any] | None:
        from dqsql.engine.history import stored_rows

        rows = stored_rows(self.store, RESULTS, models[check], [batch])
        mine = (r for r in rows if r["check_id"] == check and r["segment"] == segment)
        return next(mine, None)


def _checked(store: Store, model: str) -> list[str]:
    names = (r["batch"] for r in store.rows(BATCHES) if r["model"] == model)
    return sorted(names, key=batch_order)


def _explained(store: Store, row: Mapping[str, Any], plans: Sequence[Plan]) -> Explanation:
    from dqsql.engine.history import stored_rows

    details = json.loads(row["details"] or "{}")
    past = batches_of(details, _checked(store, row["model"]))
    history = History(past)
    history.add_metric_rows(stored_rows(store, METRICS, row["model"], [*past, row["batch"]]))
    stored = Stored(row, details, history, past, _vector(plans, row))
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
        failures=_failures(store, row) if "failures" in details else (),
    )


def _failures(store: Store, row: Mapping[str, Any]) -> tuple[str, ...]:
    from dqsql.engine.history import stored_rows

    rows = stored_rows(store, FAILURES, row["model"], [row["batch"]])
    return tuple(sorted(r["row"] for r in rows if r["check_id"] == row["check_id"]))


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


def _vector(plans: Sequence[Plan], row: Mapping[str, Any]) -> dict[Feature, MetricKey]:
    """The metrics of a `@novelty`; those of another type than the column's have no values."""
    from dqsql.decisions.novelty_metrics import Feature

    keys: dict[Feature, MetricKey] = {}
    for plan in plans:
        for monitor in plan.monitors:
            if monitor.id != row["check_id"] or monitor.kind != "novelty":
                continue
            for watched in monitor.watched:
                metric = plan.metric(watched.alias)
                keys.setdefault(Feature(metric.column, metric.name), key_of(metric))
    return keys


__all__ = ["Compared", "Explanation", "explain"]
