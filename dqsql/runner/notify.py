"""Tells people of findings: once when one is opened, once when it is resolved."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.decisions.lifecycle import DQSQL, heeded, is_muted, was_muted_since
from dqsql.engine.exclusive import locked
from dqsql.engine.ledger import CompletedRuns
from dqsql.errors import DqsqlError
from dqsql.model.project import Project
from dqsql.model.results import ACKNOWLEDGED, RESOLVED, Status
from dqsql.model.routes import SETTING, Route, read_routes
from dqsql.model.tables import CHECKS, FINDINGS, MODELS
from dqsql.report.notifications import REPORT_URL, Notice, notice_of, send, unset_variables
from dqsql.runner.compilation import Place, Where
from dqsql.runner.warehouse import Step, open_tables, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store


@dataclass(frozen=True)
class Notified:
    """What was told, or would be: by route the findings. `problems` are messages not handed over.

    Findings of which a message was not handed over are told again by the next run.
    """

    sent: tuple[tuple[Route, tuple[Notice, ...]], ...] = ()
    problems: tuple[str, ...] = ()


def notify(
    project_dir: str | PathLike[str] = ".",
    *,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    step: Step = silent,
    **place: Unpack[Place],
) -> Notified:
    """Send the messages about findings that are due, as set by the project's `on_finding`.

    Args:
        project_dir: folder of the project.
        dry_run: only return what would be sent.
        spark: an existing session to use.
        **place: target, profile and variables, as in `Place`.
        step: called with a description of what is being done.

    Raises:
        DqsqlError: the project or `on_finding` is wrong, or the tables cannot be read or written.
    """
    project = Where(project_dir, **place).stored_project()
    read_routes(project.settings.get(SETTING))
    names = [m.name for m in project.models]
    with locked(project.target, names), open_tables(project, spark, step, writes=True) as store:
        return tell(store, project, names, dry_run=dry_run)


@dataclass(frozen=True)
class AfterRun:
    """A run that has just ended: when it started, and the models that were checked before it."""

    started: dt.datetime
    known: Collection[str]

    def opened(self, row: Mapping[str, Any]) -> bool:
        """Whether the run opened a finding; what a model's first one finds is long past."""
        began = row["opened_at"] is not None and row["opened_at"] >= self.started
        return began and row["model"] in self.known


def tell(
    store: Store,
    project: Project,
    models: Sequence[str],
    *,
    dry_run: bool = False,
    after: AfterRun | None = None,
) -> Notified:
    """Tell of what is due in some models, after a run if any; see `notify`.

    Their tables must be locked. Raises StorageError, ConfigError.
    """
    routes = read_routes(project.settings.get(SETTING))
    if not routes:
        return Notified()
    now = dt.datetime.now(dt.UTC)
    completed = CompletedRuns(store, None if after is None else after.started)
    rows = [heeded(r, now) for r in store.rows(FINDINGS) if r["model"] in set(models)]
    owners = {r["model"]: r for r in store.rows(MODELS) if r["valid_to"] is None}
    checks = {r["check_id"]: r for r in store.rows(CHECKS) if r["valid_to"] is None}
    notices = {
        row["finding_id"]: notice_of(row, event, owners, checks, project.settings.get(REPORT_URL))
        for row in rows
        if (event := _due(row, now, after, completed)) is not None
    }
    again = {r["finding_id"]: to for r in rows if (to := _again(r, notices)) is not None}
    sent, problems, unsent = [], [], set[str]()
    failed: dict[str, list[str]] = {}
    for route in routes:
        wanted = tuple(
            n
            for n in notices.values()
            if route.wants(n) and route.name in again.get(n.finding_id, (route.name,))
        )
        missing = _unset(route)
        if missing and (wanted or dry_run):
            # Who is told elsewhere is not told again in each run until somebody sets it.
            problems += missing
            unsent |= {n.finding_id for n in wanted}
        if not wanted or (missing and not dry_run):
            continue
        try:
            if not dry_run:
                send(route, project.name, wanted, os.environ)
            sent.append((route, wanted))
        except DqsqlError as error:
            problems.append(f"messages were not sent: {error}")
            for notice in wanted:
                failed.setdefault(notice.finding_id, []).append(route.name)
    delivered = {n.finding_id for _, taken in sent for n in taken} | again.keys()
    if notices and not dry_run:
        changed = {row["model"] for row in rows if row["finding_id"] in notices}
        for row in rows:
            name = row["finding_id"]
            if name not in notices:
                continue
            missed = failed.get(name)
            row["undelivered_at"] = now if missed or name in unsent - delivered else None
            # Who has heard of it is not told again.
            row["undelivered_to"] = missed if name in delivered else None
            if name in delivered or row["undelivered_at"] is None:
                row[_COLUMNS[notices[name].event]] = now
                if row["state"] == RESOLVED:
                    row["resolution_notified_at"] = now
        store.replace_partition(FINDINGS, [r for r in rows if r["model"] in changed])
    return Notified(tuple(sent), tuple(problems))


def _unset(route: Route) -> list[str]:
    """What keeps a message from going out, found without sending one."""
    return [
        f"messages could not be sent: the environment variable {name} is not set ({route.kind})"
        for name in unset_variables(route, os.environ)
    ]


_COLUMNS = {"opened": "notified_at", "resolved": "resolution_notified_at"}


def _again(row: Mapping[str, Any], notices: Mapping[str, Notice]) -> Sequence[str] | None:
    """The routes that a message is sent to again; None where it is for all."""
    notice = notices.get(row["finding_id"])
    if notice is None or row[_COLUMNS[notice.event]] is None or was_muted_since(row):
        return None
    return row["undelivered_to"] or None


def _due(
    row: Mapping[str, Any], now: dt.datetime, after: AfterRun | None, completed: CompletedRuns
) -> str | None:
    """What is to be told of a finding: `opened`, `resolved`, or nothing.

    What an earlier run resolved before anybody heard of it is no news, unless a message about it
    could not be delivered, or the run that opened it was killed; nor is what somebody has taken
    note of. A failure that the run itself resolved is news: its batches wait for a review.
    """
    if row["state"] == RESOLVED:
        if row["notified_at"] is None:
            waits = row["status"] == Status.FAIL.value and row["author"] == DQSQL
            by_run = after is not None and after.opened(row)
            is_news = waits and (by_run or completed.lack(row["model"], row["opened_at"]))
            return "opened" if is_news or row["undelivered_at"] is not None else None
        missed = row["undelivered_to"]
        return "resolved" if row["resolution_notified_at"] is None or missed else None
    if row["state"] == ACKNOWLEDGED or is_muted(row, now):
        return None
    is_owed = row["notified_at"] is None or row["undelivered_to"]
    return "opened" if is_owed or was_muted_since(row) else None
