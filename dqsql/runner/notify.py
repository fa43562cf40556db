"""Tells people of findings: once when one is opened, once when it is resolved."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.decisions import messages
from dqsql.decisions.lifecycle import heeded
from dqsql.engine.exclusive import locked
from dqsql.engine.history import stored_rows
from dqsql.engine.ledger import CompletedRuns
from dqsql.engine.rows import RESULT_COLUMNS, result_of_row
from dqsql.errors import DqsqlError
from dqsql.model.project import Project, models_upstream
from dqsql.model.results import STATUS_ORDER, BatchFinding, Status
from dqsql.model.routes import SETTING, Route, read_routes
from dqsql.model.tables import CHECKS, FINDINGS, MODELS, RESULTS
from dqsql.monitors.grouping import grouped
from dqsql.report.findings import check_label, odd_upstream
from dqsql.report.notifications import REPORT_URL, Notice, notice_of, send, unset_variables
from dqsql.runner.warehouse import Access, open_tables, opened

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


@dataclass(frozen=True)
class Notified:
    """What was told, or would be: by route the findings. `problems` are messages not handed over.

    Findings of which a message was not handed over are told again by the next run.
    """

    sent: tuple[tuple[Route, tuple[Notice, ...]], ...] = ()
    problems: tuple[str, ...] = ()


def notify(
    project_dir: str | PathLike[str] = ".", *, dry_run: bool = False, **at: Unpack[Access]
) -> Notified:
    """Send the messages about findings that are due, as set by the project's `on_finding`.

    Args:
        project_dir: folder of the project.
        dry_run: only return what would be sent.
        **at: `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing session) and `step`
            (called with what is being done).

    Raises:
        DqsqlError: the project or `on_finding` is wrong, or the tables cannot be read or written.
    """
    where, spark, step = opened({**at, "project_dir": project_dir})
    project = where.stored_project()
    read_routes(project.settings.get(SETTING))
    names = [m.name for m in project.models]
    with locked(project.target, names), open_tables(project, spark, step, writes=True) as store:
        return notify_due(store, project, names, dry_run=dry_run)


@dataclass(frozen=True)
class AfterRun:
    """A run that has just ended: when it started, and the models that were checked before it."""

    started: dt.datetime
    known: Collection[str]

    def opened(self, row: Mapping[str, Any], now: dt.datetime) -> bool:
        """Whether the run opened a finding; what a model's first one finds is long past.

        What a run with a faster clock opened is not of this one.
        """
        began = row["opened_at"] is not None and self.started <= row["opened_at"] <= now
        return began and row["model"] in self.known


def notify_due(
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
    # Who was told of a finding is told what became of it, though the check or model is gone.
    began = itemgetter("valid_from")
    owners = {r["model"]: r for r in sorted(store.rows(MODELS), key=began)}
    checks = {r["check_id"]: r for r in sorted(store.rows(CHECKS), key=began)}
    fresh = {
        r["finding_id"]: messages.due(
            r,
            now,
            opened_by_run=after is not None and after.opened(r, now),
            is_lost=partial(completed.lack, r["model"], r["opened_at"]),
        )
        for r in rows
    }
    owed = {r["finding_id"]: messages.owed(r, now) for r in rows}
    upstream = models_upstream(project.models)
    due = [r for r in rows if fresh[r["finding_id"]] or owed[r["finding_id"]]]
    groups = cache(partial(_groups, store))
    causes = {r["finding_id"]: (0, "") for r in due}
    for row in due:
        name = row["finding_id"]
        # Of what is only over no cause is told.
        if fresh[name] == "opened" or owed[name]:
            causes[name] = _place_in(groups(*_batch_of(row)), row)

    def urgency(row: Mapping[str, Any]) -> tuple[bool, int, int, str]:
        is_over = fresh[row["finding_id"]] == "resolved"
        return is_over, _rank(row), len(upstream.get(row["model"], ())), row["model"]

    # What failed comes first, what is over last; of a batch, what explains the others.
    urgent = sorted(due, key=urgency)
    order = {batch: n for n, batch in enumerate(dict.fromkeys(map(_batch_of, urgent)))}
    due.sort(key=lambda r: (order[_batch_of(r)], causes[r["finding_id"]][0]))
    url = project.settings.get(REPORT_URL)

    def event(row: Mapping[str, Any], route: Route) -> str | None:
        # What a route has missed comes first.
        return owed[row["finding_id"]].get(route.name) or fresh[row["finding_id"]]

    sent, problems = [], []
    delivered, unsent = set[str](), set[str]()
    missed: dict[str, list[str]] = {}
    for route in routes:
        notices = (
            notice_of(r, e, owners, checks, url, causes[r["finding_id"]][1])
            for r in due
            if (e := event(r, route))
        )
        wanted = _with_roots(tuple(n for n in notices if route.wants(n)), upstream)
        missing = _unset(route)
        if missing and (wanted or dry_run):
            # Who is told elsewhere is not told again in each run until somebody sets it.
            problems += missing
            unsent |= {n.finding_id for n in wanted}
        if not wanted or (missing and not dry_run):
            lost = tuple(n for n in wanted if route.name in owed[n.finding_id])
        else:
            lost = _send(route, project.name, wanted, problems) if not dry_run else ()
            if not lost:
                sent.append((route, wanted))
                delivered |= {n.finding_id for n in wanted}
        for notice in lost:
            missed.setdefault(notice.finding_id, []).append(messages.debt(notice.event, route.name))
    if due and not dry_run:
        for row in due:
            name = row["finding_id"]
            is_lost = name in unsent or name in missed
            heard = name in delivered or fresh[name] is None or not is_lost
            row.update(messages.noted(row, fresh[name], missed.get(name, []), now, heard=heard))
        changed = {row["model"] for row in due}
        store.replace_partition(FINDINGS, [r for r in rows if r["model"] in changed])
    return Notified(tuple(sent), tuple(problems))


def _with_roots(
    notices: tuple[Notice, ...], upstream: Mapping[str, Collection[str]]
) -> tuple[Notice, ...]:
    """The notices of one message; what follows from a finding that is not in it stands alone."""
    opened = [n for n in notices if n.event == "opened"]
    opened_keys = {(n.model, n.last_batch, n.label) for n in opened}
    models = {(n.model, n.last_batch) for n in opened}
    new_notices = []
    for notice in notices:
        cause = (
            notice.cause if (notice.model, notice.last_batch, notice.cause) in opened_keys else ""
        )
        about = notice.model, notice.last_batch
        read = odd_upstream(*about, models, upstream) if notice.event == "opened" else ""
        new_notices.append(replace(notice, cause=cause, upstream=read))
    return tuple(new_notices)


def _groups(store: Store, model: str, batch: str) -> tuple[BatchFinding, ...]:
    rows = stored_rows(store, RESULTS, model, [batch], RESULT_COLUMNS)
    return grouped(map(result_of_row, rows))


def _place_in(groups: Sequence[BatchFinding], row: Mapping[str, Any]) -> tuple[int, str]:
    """How far behind the root of its newest batch a finding comes, and what it follows from."""
    for group in groups:
        for number, finding in enumerate(group.findings):
            if finding.result.check_id != row["check_id"]:
                continue
            cause = finding.cause
            if cause is None or cause.check_id == row["check_id"]:
                return number, ""
            return number, check_label(cause.check_name, cause.column)
    return 0, ""


def _rank(row: Mapping[str, Any]) -> int:
    return STATUS_ORDER.index(Status(row["status"]))


def _batch_of(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["model"], row["last_batch"]


def _send(
    route: Route, project: str, wanted: tuple[Notice, ...], problems: list[str]
) -> tuple[Notice, ...]:
    """Send a message; what of it was not handed over."""
    try:
        send(route, project, wanted, os.environ)
    except DqsqlError as error:
        problems.append(f"messages were not sent: {error}")
        return wanted
    return ()


def _unset(route: Route) -> list[str]:
    """What keeps a message from going out, found without sending one."""
    return [
        f"messages could not be sent: the environment variable {name} is not set ({route.kind})"
        for name in unset_variables(route, os.environ)
    ]
