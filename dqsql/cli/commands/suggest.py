"""`dqsql suggest`: from a relation to its checks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import DqsqlError, UsageError
from dqsql.model.wording import plural
from dqsql.report.text import padded, printable

if TYPE_CHECKING:
    from dqsql.model.project import Project
    from dqsql.runner.compilation import Where
    from dqsql.suggestions.proposal import Proposal
    from dqsql.suggestions.suggestion import Suggestion

_SHARE = click.FloatRange(0, 1)
_ANSWERS = "a: accept, r: reject, e: edit, A: accept all that follow, q: reject all that follow"


@click.command("suggest", cls=Command)
@click.argument("relation")
@option(
    "--write", is_flag=True, help="Write the check file, or insert comments into the model's file."
)
@option("--yes", "-y", is_flag=True, help="Accept all suggestions without asking.")
@option(
    "--sample",
    type=_SHARE,
    metavar="SHARE",
    help="Share of rows to learn from [default: 0.1, more if there are few rows].",
)
@option(
    "--holdout",
    type=_SHARE,
    metavar="SHARE",
    help="Share of rows to hold out from learning; the same as --sample of all others.",
)
@option(
    "--from-incidents",
    is_flag=True,
    help="Suggest what would have caught the batches of a model that people rejected.",
)
@option(
    "--monitors",
    is_flag=True,
    help="Suggest what `monitors: auto` watches in a model, as annotations.",
)
@options(*PROJECT, "output")
@with_session
def command(
    session: Session,
    *,
    relation: str,
    write: bool,
    yes: bool,
    sample: float | None,
    holdout: float | None,
    from_incidents: bool,
    monitors: bool,
    **where: Any,
) -> int:
    """Suggest checks for RELATION: a check model, a source, a table or a file.

    Each comes with its reason and the share of held-out rows that comply. Without --write, the
    check file (or, for a model, the change of its file) is printed. With --write it is written,
    after each suggestion was accepted, rejected or edited in the terminal; --yes accepts all.

    --from-incidents and --monitors need a check model; they look at stored metrics, not at rows.
    """
    from dqsql.runner.compilation import Where
    from dqsql.runner.pinning import suggest_from_incidents, suggest_monitors
    from dqsql.runner.suggest import suggest
    from dqsql.suggestions.files import draft
    from dqsql.suggestions.files import write as write_file

    asks = write and not yes
    if asks and (session.json or not sys.stdin.isatty()):
        raise UsageError(
            "--write asks about each suggestion, and there is no terminal to ask in",
            hint="add --yes to accept all of them, or leave --write out to see them",
        )
    place = Where(**where)
    if from_incidents and monitors:
        raise UsageError("--from-incidents and --monitors cannot be used together")
    if write:
        _require_place(session, place, relation)
    with session.progress() as progress:
        if monitors:
            proposal = suggest_monitors(place, relation, step=progress.step)
        elif from_incidents:
            proposal = suggest_from_incidents(place, relation, step=progress.step)
        else:
            proposal = suggest(place, relation, sample=sample, holdout=holdout, step=progress.step)
    project = place.project()
    if not session.json:
        _explain(session, proposal)
    accepted = _reviewed(session, project, proposal) if asks else list(proposal.new)
    made = (
        write_file(place.project, proposal, accepted)
        if write
        else draft(project, proposal, accepted)
    )
    if session.json:
        session.print_outcome(**_record(proposal, made.path, made.after, written=write))
        return 0
    if not made.changed:
        session.say(f"Nothing to add to {printable(made.path)}.")
    elif write:
        session.say(f"Wrote {plural(len(accepted), 'check')} to {printable(made.path)}.")
    else:
        session.say()
        text = made.diff if made.before else made.after
        for line in text.splitlines():
            session.out.line(line)
    return 0


def _require_place(session: Session, place: Where, relation: str) -> None:
    """Refuse what nothing could be written for; for a file, print the YAML that names it."""
    from dqsql.suggestions.files import UndeclaredFile, require_place

    try:
        require_place(place.project(), relation)
    except UndeclaredFile as error:
        if not session.json:
            for line in error.declaration.splitlines():
                session.out.line(line)
        raise


# --- what is shown -----------------------------------------------------------------------------


def _explain(session: Session, proposal: Proposal) -> None:
    from dqsql.suggestions.suggestion import SuggestionVerdict

    batches = f" in {plural(proposal.batches, 'batch')}" if proposal.batches else ""
    held_out = f"; coverage on {proposal.held_out:,} others" if proposal.held_out else ""
    rows = f"learned from {proposal.learned:,} of {proposal.rows:,} rows{batches}{held_out}"
    what = rows if proposal.rows else f"{plural(len(proposal.new), 'annotation')}{batches}"
    session.say(f"{printable(proposal.subject.name)}: {what}")
    refused = [s for s in proposal.suggestions if s.verdict is SuggestionVerdict.REFUSED]
    existing = [s for s in proposal.suggestions if s.verdict is SuggestionVerdict.EXISTS]
    if proposal.proposed is not None:
        reason = session.out.style(printable(proposal.proposed.reason), "dim")
        config = printable(f"config(batch_by = '{proposal.proposed.batch_by}')")
        session.say(f"  {'':>7}  {'':<20}  {config}  {reason}")
    for suggestion in proposal.new:
        session.say("  " + _line(session, suggestion))
    if refused:
        session.say("Not suggested:")
        for suggestion in refused:
            session.say("  " + _line(session, suggestion))
    if existing:
        words = ("more suggested check already exists", "more suggested checks already exist")
        session.say(f"{plural(len(existing), *words)}.")
    for note in proposal.notes:
        session.say(printable(f"note: {note}"))


def _line(session: Session, suggestion: Suggestion) -> str:
    coverage = "" if suggestion.measured is None else _share(suggestion.measured)
    about = printable(suggestion.column or "")
    text = printable(suggestion.annotation(inside=True))
    reason = session.out.style(printable(suggestion.reason), "dim")
    return f"{coverage:>7}  {padded(about, 20)}  {text}  {reason}"


def _share(value: float) -> str:
    return "100%" if value == 1 else f"{min(value, 0.9999):.2%}"


def _record(proposal: Proposal, path: str, text: str, *, written: bool) -> dict[str, Any]:
    from dqsql.suggestions.profiles import profile_record

    return {
        "relation": proposal.subject.name,
        "rows": proposal.rows,
        "learned_rows": proposal.learned,
        "held_out_rows": proposal.held_out,
        "batches": proposal.batches,
        "batch_by": None if proposal.proposed is None else proposal.proposed.batch_by,
        "suggestions": [_suggestion_record(s) for s in proposal.suggestions],
        "notes": list(proposal.notes),
        "path": path,
        "written": written,
        "text": text,
        "profile": profile_record(proposal.profile),
    }


def _suggestion_record(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "rule": suggestion.rule,
        "column": suggestion.column,
        "annotation": suggestion.annotation(inside=True),
        "verdict": suggestion.verdict.value,
        "reason": suggestion.reason,
        "coverage": suggestion.measured,
        "batches": suggestion.batches,
        "batches_held": suggestion.held,
        "name_probability": suggestion.score,
    }


# --- review ------------------------------------------------------------------------------------


def _reviewed(session: Session, project: Project, proposal: Proposal) -> Sequence[Suggestion]:
    """Ask about each suggestion; ends of input reject what is left."""
    accepted: list[Suggestion] = []
    waiting = list(proposal.new)
    if waiting:
        session.say(_ANSWERS)
    while waiting:
        suggestion = waiting.pop(0)
        answer = _answer(suggestion)
        if answer == "A":
            return [*accepted, suggestion, *waiting]
        if answer == "q":
            break
        if answer == "a":
            accepted.append(suggestion)
        elif answer == "e":
            changed = _edited(session, project, proposal, suggestion)
            accepted += [changed] if changed is not None else []
    return accepted


def _answer(suggestion: Suggestion) -> str:
    about = printable(suggestion.column or "the relation")
    text = f"{about}: {printable(suggestion.annotation(inside=True))}"
    choice = click.Choice(["a", "r", "e", "A", "q"], case_sensitive=True)
    try:
        answer: str = click.prompt(text, type=choice, default="a", err=True)
    except click.Abort:
        return "q"
    return answer


def _edited(
    session: Session, project: Project, proposal: Proposal, suggestion: Suggestion
) -> Suggestion | None:
    """What a person writes instead, until it compiles; nothing written rejects."""
    from dqsql.suggestions.files import edited

    while True:
        try:
            text = click.prompt("instead", default="", show_default=False, err=True)
        except click.Abort:
            return None
        if not text.strip():
            return None
        try:
            return edited(project, proposal.subject, suggestion, text)
        except DqsqlError as error:
            session.print_error(error)
