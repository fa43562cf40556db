"""Findings and errors as workflow commands, which GitHub shows beside the lines of the files.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dqsql.errors import DqsqlError
from dqsql.model.plan import Check, Monitor, Plan
from dqsql.model.results import RunResult, Status
from dqsql.report.errors import flatten
from dqsql.report.findings import describe, group_findings

_COMMANDS = {Status.ERROR: "error", Status.FAIL: "error"}


def finding_annotations(
    result: RunResult, plans: Sequence[Plan], prefix: str = ""
) -> Iterator[str]:
    """Yield one command for each check with findings, and for each error.

    Args:
        result: the run.
        plans: what was compiled; it says where the checks stand.
        prefix: path of the project's folder in the repository, empty or with a slash at its end.
    """
    places: dict[str, Check | Monitor] = {}
    for plan in plans:
        places |= {c.id: c for c in plan.checks} | {m.id: m for m in plan.monitors}
    for model in result.models:
        if model.error is not None:
            yield from error_annotations(model.error, prefix)
        for group in group_findings(model.results):
            check = places.get(group.check_id)
            file = check.span.file if check else model.path
            line = check.span.line if check else 1
            yield command(
                _COMMANDS.get(group.status, "warning"),
                describe(group, max(len(model.batches), group.batches)),
                file=f"{prefix}{file}",
                line=line,
                title=f"{model.model}: {group.check_name}",
            )


def error_annotations(error: DqsqlError, prefix: str = "") -> Iterator[str]:
    """Yield one command for each independent error."""
    for each in flatten(error):
        text = each.message if each.hint is None else f"{each.message}\nhint: {each.hint}"
        if each.span is None:
            yield command("error", text, title=each.kind)
        else:
            place = each.span
            yield command(
                "error", text, file=f"{prefix}{place.file}", line=place.line, title=each.kind
            )


def command(kind: str, message: str, **properties: str | int) -> str:
    """Return `::error file=a.sql,line=3::message` with everything escaped."""
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{kind} {listed}::{_data(message)}" if listed else f"::{kind}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
