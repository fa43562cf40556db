"""`dqsql explain`: one stored verdict, and the same computed again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.completion import complete_check
from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.model.metric_traits import metric_words
from dqsql.model.results import CONSTRAINT, OPEN, Status, state_text
from dqsql.model.wording import first_of, plural, range_words
from dqsql.report.console import styled_label
from dqsql.report.text import number, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dqsql.runner.explain import Explanation

_SHOWN_VALUES = 10
_SHOWN_ROWS = 10
_ROW_WIDTH = 400  # characters


@click.command("explain", cls=Command)
@click.argument("result", metavar="RESULT", shell_complete=complete_check)
@option(
    "--batch",
    metavar="BATCH",
    help="The batch, if RESULT is a check [default: the newest with a finding].",
)
@option(
    "--segment",
    metavar="SEGMENT",
    help="The segment of --batch [default: the whole batch, or a segment that is worse].",
)
@options(*PROJECT, "output")
@with_session
def command(session: Session, **given: Any) -> int:
    """Explain a verdict: what was seen and expected, from which history.

    RESULT is the id of a verdict, CHECK@BATCH or CHECK@BATCH/SEGMENT, as in run_results.json, or
    the id of a check, as `dqsql ls` shows it. Instead of the id of a check you can use its name if
    no other check has it, such as the name of an adopted dbt test. Failing rows are shown if the
    run has stored some.

    Verdicts of monitors are computed again from stored metrics and settings, and compared with the
    stored verdict. No data is scanned.
    """
    from dqsql.runner.explain import explain

    with session.progress() as progress:
        explanation = explain(step=progress.step, **given)
    session.print_outcome(**_record(explanation))
    _print(session, explanation)
    return 0


def _record(explanation: Explanation) -> dict[str, Any]:
    return {
        "id": explanation.id,
        **explanation.row,
        "details": explanation.details,
        "where": explanation.where,
        "place": explanation.place,
        "finding": explanation.finding,
        "history": list(explanation.past),
        "values": [{"batch": b, "value": v} for b, v in explanation.values],
        "recomputed": [
            {"name": c.name, "stored": c.stored, "recomputed": c.again, "same": c.same}
            for c in explanation.compared
        ],
        "same": explanation.same,
        "note": explanation.note,
        "failures": [json.loads(row) for row in explanation.failures],
    }


def _print(session: Session, explanation: Explanation) -> None:
    row = explanation.row
    session.say(session.out.style(printable(explanation.id), "bold"))
    word = styled_label(Status(row["status"]), session.out)
    session.say(f"  {word} {printable(row['message'] or row['check_name'])}")
    for name, text in _facts(explanation).items():
        if text is not None:
            session.say(printable(f"  {name:<11}{text}"))
    _print_bounds(session, explanation.details.get("clauses") or ())
    if explanation.values:
        session.say("  what it saw in the batches up to this one:")
    for batch, value in explanation.values[-_SHOWN_VALUES:]:
        session.say(printable(f"    {batch}  {_seen(value)}"))
    _print_again(session, explanation)
    _print_failures(session, explanation)


def _print_bounds(session: Session, clauses: Sequence[Mapping[str, Any]]) -> None:
    """The learned bounds of a column, the nearest first, of which `observed` is the first."""
    if clauses:
        session.say("  learned bounds, the nearest first:")
    for clause in clauses:
        seen = _seen(clause["observed"])
        band = range_words(clause["lower"], clause["upper"], number, "exactly {}")
        session.say(printable(f"    {metric_words(clause['metric'])} is {seen}, expected {band}"))


def _compared(stored: Mapping[str, str] | str | None) -> Mapping[str, str]:
    # Earlier verdicts of @schema have the batch alone.
    return {"against": stored} if isinstance(stored, str) else stored or {}


def _facts(explanation: Explanation) -> dict[str, str | None]:
    row = explanation.row
    written = row["detector"] == CONSTRAINT
    lower, upper = row["lower_bound"], row["upper_bound"]
    exact = written and lower is not None and lower == upper
    return {
        "check": explanation.details.get("expression") or row["check_name"],
        "where": explanation.where,
        "written": explanation.place,
        "observed": row["observed_text"] if row["observed"] is None else _cell(row["observed"]),
        "expected": _cell(lower) if exact else _expected(explanation),
        **(explanation.details.get("thresholds") or {}),
        **_compared(explanation.details.get("compared_with")),
        **{name: _share(*pair) for name, pair in (explanation.details.get("seen") or {}).items()},
        # The bounds of a check do not say whether they are met themselves; its expression does.
        "lower": _cell(lower) if written and not exact and lower is not None else None,
        "upper": _cell(upper) if written and not exact and upper is not None else None,
        "band": None if written else range_words(lower, upper, number, "exactly {}"),
        "score": None if row["score"] is None else _cell(row["score"]),
        "decided by": _method(explanation),
        "history": _history(explanation),
        "finding": _life(explanation.finding),
        "read by": None if explanation.finding is None else explanation.finding["impact"],
    }


def _print_again(session: Session, explanation: Explanation) -> None:
    if explanation.same:
        same = plural(len(explanation.compared), "number")
        session.say(f"  computed again from stored metrics: the same ({same} compared)")
    elif explanation.compared:
        session.say("  computed again from stored metrics: not the same")
        for one in explanation.compared:
            if not one.same:
                text = f"{one.name}: {_cell(one.stored)} then, {_cell(one.again)} now"
                session.say(printable(f"    {text}"))
    if explanation.note:
        session.say(printable(f"  note: {explanation.note}"))


def _print_failures(session: Session, explanation: Explanation) -> None:
    rows, column = explanation.failures, explanation.row["column_name"]
    if not rows:
        return
    whole = "" if explanation.row["segment"] is None else " of the whole batch"
    session.say(f"  {plural(len(rows), 'failing row')}{whole} in dq_failures:")
    for row in rows[:_SHOWN_ROWS]:
        session.say(f"    {shorten(printable(row_text(row, column)), _ROW_WIDTH)}")
    if len(rows) > _SHOWN_ROWS:
        session.say(f"    ... and {len(rows) - _SHOWN_ROWS:,} more")


def row_text(row: str, column: str | None) -> str:
    """A failing row as JSON; where it is to be cut, the column that the check is about is first."""
    if column is None or len(row) <= _ROW_WIDTH:
        return row
    values = json.loads(row)
    first = {name: value for name, value in values.items() if name.lower() == column.lower()}
    return json.dumps(first | values, ensure_ascii=False, separators=(",", ":"))


def _cell(value: Any) -> str:
    if value is None:
        return "none"
    return number(value) if isinstance(value, int | float) else str(value)


def _seen(value: float | str | None) -> str:
    return "no value" if value is None else _cell(value)


def _share(now: float, before: float) -> str:
    return f"{now:.3%} of a batch, at most {before:.3%} before"


def _expected(explanation: Explanation) -> str | None:
    decision = explanation.details.get("decision") or {}
    value = decision.get("expected")
    return None if value is None else _cell(value)


def _method(explanation: Explanation) -> str | None:
    details = explanation.details
    given = details.get("strategy")
    if given is not None:
        chosen = [f"{k} => {v}" for k, v in given.items() if k != "name" and v is not None]
        return f"{given['name']}({', '.join(chosen)})"
    if "pattern" in details:
        return f"{details['test']} test at {details['significance']:g} of {details['pattern']}"
    if details.get("clauses"):
        return f"{plural(len(details['clauses']), 'learned bound')}, together {details['fpr']:g}"
    return None


def _life(finding: Mapping[str, Any] | None) -> str | None:
    """What people do about it."""
    if finding is None:
        return None
    by = f" by {finding['author']}" if finding["author"] and finding["state"] != OPEN else ""
    why = f" ({finding['reason']})" if finding["reason"] else ""
    assigned = f", assigned to {finding['assigned_to']}" if finding["assigned_to"] else ""
    return f"{state_text(finding)}{by}{why}{assigned}"


def _history(explanation: Explanation) -> str | None:
    extent = explanation.details.get("history")
    if not extent:
        return None
    text = f"{plural(extent[2], 'batch')}, {extent[0]} to {extent[1]}"
    left_out = explanation.details.get("left_out") or []
    return f"{text}, without {first_of(left_out, 5)}" if left_out else text
