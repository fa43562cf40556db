"""`dqsql contract`: data contracts in the Open Data Contract Standard."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dqsql.cli.completion import complete_model
from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.model.wording import plural
from dqsql.report.text import printable

_OBJECT = option("--object", "name", metavar="NAME", help="The object [default: all].")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("contract")
def command() -> None:
    """Write, read and compare data contracts (ODCS YAML, version 3).

    A check model names its contract in its config: config(contract = 'orders.odcs.yaml').
    """


@command.command("export", cls=Command)
@click.argument("model", shell_complete=complete_model)
@option("--output-file", type=_FILE, help="The file to write [default: standard output].")
@options(*PROJECT)
@with_session
def export(session: Session, *, model: str, output_file: Path | None, **where: Any) -> int:
    """Write MODEL as a data contract: its columns, keys and checks.

    Types are those of the last run.
    """
    from dqsql.report.artefacts import write_atomically
    from dqsql.runner.contracts import export_contract

    with session.progress() as progress:
        text = export_contract(model, step=progress.step, **where)
    if output_file is None:
        session.out.line(text.rstrip("\n"))
    else:
        write_atomically(output_file, text)
        session.say(f"Wrote {printable(str(output_file))}")
    return 0


@command.command("import", cls=Command)
@click.argument("file", type=_FILE)
@_OBJECT
@option("--write", is_flag=True, help="Write checks/NAME.sql.")
@options(*PROJECT)
@with_session
def read(session: Session, *, file: Path, name: str | None, write: bool, **where: Any) -> int:
    """Make a check model of each object in a data contract, which must be in the project's folder.

    Lists the parts that dqsql does not check.
    """
    from dqsql.runner.contracts import import_contract

    models = import_contract(file, name=name, write=write, **where)
    if not models:
        session.warn(f"{file} describes no objects: there is nothing to check")
    for model in models:
        verb = "Wrote" if model.written else "Left as it is:" if write else "--"
        session.say(printable(f"{verb} {model.path}"))
        if not write:
            session.out.line(model.text.rstrip("\n"))
        for rule in model.contract.left:
            session.warn(printable(f"{model.contract.name}: not checked: {rule}"))
    return 0


@command.command("diff", cls=Command)
@click.argument("before", type=_FILE)
@click.argument("now", type=_FILE)
@_OBJECT
@options("output")
@with_session
def diff(session: Session, *, before: Path, now: Path, name: str | None) -> int:
    """Show what a new version of a contract changes; exit with 1 if it breaks readers."""
    from dqsql.runner.contracts import compare_contracts

    changes_by_object = compare_contracts(before, now, name)
    broken = sum(c.breaking for changes in changes_by_object.values() for c in changes)
    records = [
        {"object": n, **asdict(c)} for n, changes in changes_by_object.items() for c in changes
    ]
    session.print_outcome(int(broken > 0), changes=records)
    for each, changes in changes_by_object.items():
        for change in changes:
            word = "BREAKING" if change.breaking else "compatible"
            session.say(printable(f"{word} {each}: {change.kind} {change.text}"))
    total = sum(map(len, changes_by_object.values()))
    of_them = "it is" if total == broken == 1 else f"{broken} of them"
    session.say(f"{plural(total, 'change')}, {of_them} breaking." if total else "No change.")
    return int(broken > 0)
