"""`dqsql fit`: learn the programs of monitors from the stored history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import PROJECT, SELECTION, TESTS, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import unique_errors
from dqsql.model.wording import plural
from dqsql.report.errors import error_record
from dqsql.report.text import number, printable

if TYPE_CHECKING:
    from dqsql.monitors.replay import Learned
    from dqsql.runner.fit import ModelFit


@click.command("fit", cls=Command)
@click.option("--show", is_flag=True, help="Only show what runs have learned. Needs no Spark.")
@options(*SELECTION, *PROJECT, *TESTS, "output")
@with_session
def command(session: Session, **given: Any) -> int:
    """Learn the bounds of monitors from all accepted batches, and show them.

    Reads what runs have stored, and a sample of the newest batch to inject issues into. Every run
    learns; this shows the bounds that the next batch will be compared with. Exits with 2 if an
    error prevented learning.
    """
    from dqsql.runner.fit import fit

    with session.progress() as progress:
        fitted = fit(step=progress.step, **given)
    errors = [f.error for f in fitted if f.error is not None]
    code = EXIT_ERROR if errors else 0
    session.print_outcome(
        code,
        programs=[_record(f.model, one) for f in fitted for one in f.learned],
        errors=[error_record(e) for e in unique_errors(errors)],
    )
    if not fitted:
        session.say(_nothing())
    for model in fitted:
        _print_model(session, model)
    return code


def _nothing() -> str:
    from dqsql.monitors.registry import all_kinds

    names = ", ".join(f"@{kind.name}" for kind in all_kinds() if kind.learner is not None)
    return (
        f"Nothing to learn: no selected model has a monitor that is fitted ({names}); others learn"
        " in every run."
    )


def _record(model: str, learned: Learned) -> dict[str, Any]:
    stored, monitor = learned.stored, learned.monitor
    return {
        "model": model,
        "check_id": monitor.id,
        "column": monitor.column,
        "monitor": monitor.kind,
        "bounds": stored.description if stored else None,
        "learned_from": stored.learned_from if stored else None,
        "learned_to": stored.learned_to if stored else None,
        "batches": stored.batches if stored else None,
        "version": stored.version if stored else None,
        "fpr": stored.fpr if stored else None,
        "fpr_bound": learned.fpr_bound,
        "issues": learned.issues,
        "caught": learned.caught,
        "note": learned.note,
        "program": dict(stored.program) if stored else None,
    }


def _print_model(session: Session, fitted: ModelFit) -> None:
    if fitted.error is not None:
        session.print_error(fitted.error)
    if fitted.error is not None and not fitted.learned:
        return
    session.say(session.out.style(printable(fitted.model), "bold"))
    for learned in fitted.learned:
        monitor, stored = learned.monitor, learned.stored
        name = printable(f"  {monitor.column or 'model'} @{monitor.kind}")
        if stored is None:
            session.say(f"{name}: {printable(learned.note or 'nothing was learned')}")
            continue
        facts = [
            f"{plural(stored.batches, 'batch')} {stored.learned_from} to {stored.learned_to}",
            f"version {stored.version}",
        ]
        if learned.fpr_bound is not None:
            facts.append(f"false positives at most {learned.fpr_bound:.2%}")
        if learned.issues:
            facts.append(
                f"catches {number(learned.caught or 0)} of {learned.issues} issues in sample"
            )
        session.say(f"{name}: {printable('; '.join(facts))}")
        for bound in stored.description.split("; "):
            session.say(f"    {printable(bound)}")
        if learned.note:
            session.say(f"    note: {printable(learned.note)}")
