"""`dqsql debug`: check the installation, the project and the connection, step by step."""

from __future__ import annotations

from typing import Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import PROJECT, options
from dqsql.cli.session import Session, with_session
from dqsql.report.text import printable

_LABEL_WIDTH = 24


@click.command("debug", cls=Command)
@options(*PROJECT, "output")
@with_session
def command(session: Session, **where: Any) -> int:
    """Check Python, Java, PySpark, the project, the profile, the connection and the warehouse."""
    from dqsql.runner.api import debug

    steps: list[dict[str, Any]] = []
    with session.progress() as progress:
        progress.step("Checking")
        for what, ok, detail in debug(**where):
            steps.append({"what": what, "ok": ok, "detail": detail})
            with progress.hidden():
                _print(session, what, ok, detail)
    code = 0 if all(step["ok"] for step in steps) else EXIT_ERROR
    session.print_outcome(code, steps=steps)
    session.say("All is well." if code == 0 else "Something is wrong, see above.")
    return code


def _print(session: Session, what: str, ok: bool, detail: str) -> None:
    if session.json or (session.quiet and ok):
        return
    word = session.out.style("OK   ", "green") if ok else session.out.style("ERROR", "red")
    first, *rest = detail.splitlines() or [""]
    session.out.line(f"{word} {printable(what).ljust(_LABEL_WIDTH)} {printable(first)}".rstrip())
    for line in rest:
        session.out.line(f"      {' ' * _LABEL_WIDTH} {printable(line)}")
