"""The warm session of a project's target: started, looked at, stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from os import PathLike
from typing import Any

from dqsql.engine.launching import embedded_settings, scale_of_sources
from dqsql.engine.session import start_warm_session
from dqsql.engine.small import Scale
from dqsql.engine.warm import WarmSession, idle_seconds, place_of, running_session, stop_session
from dqsql.errors import UsageError
from dqsql.model.project import Project, Target
from dqsql.runner.compilation import Where


@dataclass(frozen=True)
class WarmStatus:
    """A running warm session, for people.

    `up` and `unused` are seconds since it started and since it was last used; `idle` is after how
    many it stops.
    """

    port: int
    pid: int
    spark: str
    up: float
    unused: float
    idle: float

    def __str__(self) -> str:
        return (
            f"Spark {self.spark} on 127.0.0.1:{self.port}, process {self.pid}, up for"
            f" {_span(self.up)}, last used {_span(self.unused)} ago, stops after"
            f" {_span(self.idle)} without use"
        )


def start(
    project_dir: str | PathLike[str], *, idle: float, **where: Any
) -> tuple[WarmStatus, bool]:
    """Start the warm session of a target, unless it is there; whether it was started.

    Raises DqsqlError.
    """
    project = Where(project_dir, **where).project()
    target = _embedded(project)
    session, started = start_warm_session(target, idle, scale_of_sources(project) or Scale.ANY)
    return _status(session, target), started


def status(project_dir: str | PathLike[str], **where: Any) -> WarmStatus | None:
    """The running warm session of a target, if any. Raises DqsqlError."""
    target = _target(project_dir, where)
    session = running_session(place_of(embedded_settings(target)))
    return None if session is None else _status(session, target)


def stop(project_dir: str | PathLike[str], **where: Any) -> WarmStatus | None:
    """Stop the warm session of a target; what was stopped, if any. Raises DqsqlError."""
    target = _target(project_dir, where)
    session = stop_session(embedded_settings(target))
    return None if session is None else _status(session, target)


def _target(project_dir: str | PathLike[str], where: dict[str, Any]) -> Target:
    return _embedded(Where(project_dir, **where).project())


def _embedded(project: Project) -> Target:
    """The project's target. Raises UsageError where it has no embedded session."""
    target = project.target
    if target.method != "session":
        raise UsageError(
            f"the target {target.name!r} uses the method {target.method!r}: only embedded sessions"
            " (`method: session`) are kept warm"
        )
    return target


def _status(session: WarmSession, target: Target) -> WarmStatus:
    return WarmStatus(
        port=session.port,
        pid=session.pid,
        spark=session.spark,
        up=time.time() - session.started,
        unused=idle_seconds(place_of(embedded_settings(target))),
        idle=session.idle,
    )


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"
