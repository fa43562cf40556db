"""`dqsql compile`: write the SQL of the checks, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import PROJECT, SELECTION, SELECTOR, STATE, TESTS, options
from dqsql.cli.project import all_errors, compile_project, write_project_artefacts
from dqsql.cli.session import Session, with_session
from dqsql.errors import error_of
from dqsql.model.wording import first_of, plural
from dqsql.report.errors import error_record
from dqsql.report.text import printable

if TYPE_CHECKING:
    from dqsql.model.plan import Plan
    from dqsql.runner.api import CompileResult

_SHOWN_COLUMNS = 20


@click.command("compile", cls=Command)
@options(*SELECTION, *SELECTOR, *STATE, *PROJECT, *TESTS, "output")
@with_session
def command(session: Session, **where: Any) -> int:
    """Write the SQL of the checks to target/compiled and show what it reads.

    Needs no Spark. If something does not compile, prints all errors and exits with 2.
    """
    from dqsql.report.artefacts import ensure_writable

    compiled = compile_project(**where)
    ensure_writable(compiled.project.target_dir)
    files = dict(write_project_artefacts(compiled))
    errors = all_errors(compiled)
    records = [_record(compiled, plan, files.get(plan.model.name)) for plan in compiled.plans]
    code = EXIT_ERROR if errors else 0
    session.print_outcome(code, models=records, errors=[error_record(e) for e in errors])
    for record in records:
        _print_model(session, record)
    if not records and not errors:
        session.say("Nothing to compile: no model with checks is selected.")
    for warning in (*compiled.project.warnings, *_left(compiled)):
        session.warn(warning)
    if errors:
        session.print_error(error_of(errors))
    return code


def _left(compiled: CompileResult) -> list[str]:
    tests = compiled.project.left_tests
    return [f"left to dbt: {t.name}: {t.reason}" for t in tests]


def _record(compiled: CompileResult, plan: Plan, file: Path | None) -> dict[str, Any]:
    from dqsql.loading.documents import relative_to
    from dqsql.report.manifest import columns_read

    queries = compiled.queries.get(plan.model.name, ())
    return {
        "model": plan.model.name,
        "path": plan.model.path,
        "compiled_path": relative_to(file, compiled.project.root) if file else None,
        "checks": len(plan.checks),
        "monitors": len(plan.monitors),
        "rejected": len(plan.rejected),
        "scans": sum(q.scans for q in queries),
        "shuffles": sum(q.shuffles for q in queries),
        "columns": sorted({c for q in queries for c in q.columns} or columns_read(plan)),
        "states": [s.name for s in plan.states],
        "metrics": [m.text for m in plan.metrics],
        "notes": list(plan.notes),
    }


def _print_model(session: Session, record: dict[str, Any]) -> None:
    checks = [plural(record["checks"], "check")]
    if record["monitors"]:
        checks.append(plural(record["monitors"], "monitor"))
    if record["rejected"]:
        checks.append(f"{record['rejected']} that cannot be compiled")
    work = (
        f"{plural(record['scans'], 'scan')}, {plural(len(record['columns']), 'column')} read, "
        f"{plural(record['shuffles'], 'shuffle')}, "
        f"{plural(len(record['states']), 'state')}, {plural(len(record['metrics']), 'metric')}"
    )
    name = session.out.style(printable(record["model"]), "bold")
    session.say(f"{name} ({printable(record['path'])}): {', '.join(checks)}; {work}")
    if record["columns"]:
        session.say(f"  columns: {printable(first_of(record['columns'], _SHOWN_COLUMNS))}")
    for note in record["notes"]:
        session.say(f"  note: {printable(note)}")
    if record["compiled_path"]:
        session.say(f"  {printable(str(record['compiled_path']))}")
