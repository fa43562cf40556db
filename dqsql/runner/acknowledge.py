"""Takes note of findings: somebody works on them, or nobody is to hear of them for a while."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from dqsql.errors import UsageError, nearest
from dqsql.model.tables import FINDINGS
from dqsql.runner.compilation import Variables
from dqsql.runner.exclusive import alone
from dqsql.runner.lifecycle import ACKNOWLEDGED, MUTED
from dqsql.runner.review import user_of_process
from dqsql.runner.warehouse import Step, open_tables, silent
from dqsql.runner.where import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Acknowledged:
    """A finding that somebody took note of."""

    finding_id: str
    model: str
    state: str


def acknowledge(
    checks: Sequence[str],
    reason: str,
    *,
    mute_until: dt.date | None = None,
    author: str | None = None,
    project_dir: str | PathLike[str] = ".",
    spark: SparkSession | None = None,
    target: str | None = None,
    profile: str | None = None,
    profiles_dir: str | PathLike[str] | None = None,
    vars: Variables = None,
    step: Step = silent,
) -> tuple[Acknowledged, ...]:
    """Take note of the open findings of checks; `notify` is silent about them from then on.

    The batches stay what they are; see `review` for these.

    Args:
        checks: ids of checks or findings.
        reason: why, for those who ask later.
        mute_until: the day on which people hear of them again, in UTC; None: not while they are
            open.
        author: who says so; by default the user of this process.
        project_dir: folder of the project.
        spark: an existing session to use.
        target: output of the profile.
        profile: profile name, instead of the project's.
        profiles_dir: folder of `profiles.yml`.
        vars: variables that override the project's.
        step: is told what is being done.

    Raises:
        DqsqlError: a check has no open finding, there is no reason, a run is at work, or the tables
            cannot be written.
    """
    if not reason.strip():
        raise UsageError("taking note of a finding needs a reason", hint="--reason 'ticket 123'")
    project = Where(project_dir, target, profile, profiles_dir, vars).project()
    with (
        alone(project.target, [m.name for m in project.models]),
        open_tables(project, spark, step) as store,
    ):
        rows = store.rows(FINDINGS)
        chosen = _chosen(rows, checks)
        now = dt.datetime.now(dt.UTC)
        until = mute_until and dt.datetime.combine(mute_until, dt.time(), dt.UTC)
        for row in chosen:
            row.update(
                state=ACKNOWLEDGED if until is None else MUTED,
                acknowledged_at=now,
                muted_until=until,
                author=author or user_of_process(),
                reason=reason.strip(),
            )
        changed = {row["model"] for row in chosen}
        store.replace_partition(FINDINGS, [r for r in rows if r["model"] in changed])
    return tuple(Acknowledged(r["finding_id"], r["model"], r["state"]) for r in chosen)


def _chosen(rows: Sequence[dict[str, Any]], checks: Sequence[str]) -> list[dict[str, Any]]:
    open_rows = [r for r in rows if r["resolved_at"] is None]
    found = []
    for name in dict.fromkeys(checks):
        mine = [r for r in open_rows if name in _names(r)]
        if not mine:
            known = [n for r in open_rows for n in _names(r)]
            raise UsageError(
                f"there is no open finding of {name!r}",
                hint=nearest(name, known) or "dq_findings and `dqsql report` have them",
            )
        found += [r for r in mine if r not in found]
    return found


def _names(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["check_id"], row["finding_id"]
