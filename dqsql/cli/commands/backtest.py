"""`dqsql backtest`: replay monitors over what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import EXIT_ERROR, Command
from dqsql.cli.options import PROJECT, SELECTION, TESTS, option, options
from dqsql.cli.session import Session, with_session
from dqsql.errors import unique_errors
from dqsql.model.monitors import monitor_specs
from dqsql.model.wording import plural
from dqsql.report.errors import error_record
from dqsql.report.text import printable, shorten

if TYPE_CHECKING:
    from dqsql.model.plan import Monitor
    from dqsql.monitors.replay import Replayed
    from dqsql.runner.backtest import ModelBacktest

_HEADER = ("monitor", "rate", "alarms", "a month", "flagged", "rejected", "held out", "bounds")
_NAME = 48


def _rates(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < 1 for rate in rates):
        raise click.BadParameter(
            f"{text!r}: write numbers between 0 and 1, as 0.001,0.01,0.05", context, parameter
        )
    return rates


@click.command("backtest", cls=Command)
@options(*SELECTION, *PROJECT, *TESTS)
@option(
    "--fpr",
    "rates",
    callback=_rates,
    metavar="RATE,RATE..",
    help="False-positive rates to try [default: 0.001,0.01,0.05, and the one in use].",
)
@option(
    "--newest",
    type=click.IntRange(min=1),
    help="How many of the newest batches to replay [default: 90].",
)
@options("output")
@with_session
def command(
    session: Session, *, rates: Sequence[float] | None, newest: int | None, **where: Any
) -> int:
    """Replay monitors over stored batches: how often they alarm, and what they catch.

    Each batch is compared with what was learned from the accepted ones before it, and again with
    injected issues that were not used to choose its bounds. Batches that you rejected should be
    found. For monitors that cannot be replayed, it shows what runs decided, with the rate "as run".
    Reads only stored metrics and verdicts. Exits with 2 if something could not be replayed.
    """
    from dqsql.runner.backtest import NEWEST, backtest

    with session.progress() as progress:
        tested = backtest(rates=rates, newest=newest or NEWEST, step=progress.step, **where)
    errors = [t.error for t in tested if t.error is not None]
    code = EXIT_ERROR if errors else 0
    session.print_outcome(
        code,
        models=[_record(t) for t in tested],
        errors=[error_record(e) for e in unique_errors(errors)],
    )
    if not tested:
        session.say("Nothing to replay: no selected model has a monitor.")
    for model in tested:
        _print_model(session, model)
    return code


def _record(tested: ModelBacktest) -> dict[str, Any]:
    return {
        "model": tested.model,
        "first": tested.first,
        "last": tested.last,
        "batches_per_month": tested.batches_per_month,
        "fpr": tested.fpr,
        "metrics": tested.metrics,
        "seconds_per_decision": tested.seconds,
        "monitors": [_replayed_record(tested, r) for r in tested.replayed],
    }


def _replayed_record(tested: ModelBacktest, one: Replayed) -> dict[str, Any]:
    return {
        "check_id": one.monitor.id,
        "column": one.monitor.column,
        "monitor": one.monitor.kind,
        "name": one.monitor.name,
        "fpr": one.fpr,
        "in_use": one.in_use,
        "accepted": one.accepted,
        "alarms": list(one.alarms),
        "alarm_rate": one.alarm_rate,
        "alarms_per_month": tested.alarms_per_month(one),
        "flagged": one.flagged - tested.rejected_by(one)[1],
        "flagged_alarms": [b for b in one.found if b not in tested.rejected],
        "rejected": tested.rejected_by(one)[1],
        "rejected_alarms": [b for b in one.found if b in tested.rejected],
        "learning": one.learning,
        "recall": one.recall,
        "recall_by_type": {k: caught / n for k, (caught, n) in one.kinds.items()},
        "recall_by_issue": {k: caught / n for k, (caught, n) in one.issues.items()},
        "bounds": one.clauses,
        "note": one.note or one.aside,
    }


def _print_model(session: Session, tested: ModelBacktest) -> None:
    if tested.error is not None:
        session.print_error(tested.error)
    if tested.error is not None and not tested.replayed:
        return
    period = f", batches {tested.first} to {tested.last}" if tested.first else ""
    session.say(session.out.style(printable(tested.model), "bold") + printable(period))
    rows: list[tuple[str, ...]] = [_HEADER]
    notes: dict[str, None] = {}
    for one in tested.replayed:
        name = _label(one.monitor)
        if one.note:
            notes[f"  {name}: {one.note}"] = None
        else:
            rate = "as run" if one.fpr is None else f"{one.fpr:.3g}{' in use' * one.in_use}"
            rows.append((name, rate, *_cells(tested, one)))
            if one.aside:
                notes[f"  {name}: {one.aside}"] = None
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
        for row in rows:
            first, *rest = (c.rjust(w) for c, w in zip(row, widths, strict=True))
            session.say(printable(f"  {row[0].ljust(len(first))}  {'  '.join(rest)}"))
        _print_types(session, tested)
    for note in notes:
        session.say(printable(note))
    if tested.seconds is not None:
        session.say(
            f"  cost: {plural(tested.metrics, 'metric')} per batch,"
            f" {tested.seconds * 1000:.1f} ms to learn and decide per monitor and batch"
        )


def _label(monitor: Monitor) -> str:
    """What it watches and what it is; a column or model may have several of `@anomaly`."""
    kind = monitor.kind
    if monitor_specs()[kind].several:
        named = monitor.name.startswith(kind)
        kind = shorten(monitor.name if named else f"{kind} {monitor.name}", _NAME)
    return f"{monitor.column or 'model'} @{kind}"


def _cells(tested: ModelBacktest, one: Replayed) -> tuple[str, ...]:
    month = tested.alarms_per_month(one)
    hits, rejected = tested.rejected_by(one)
    return (
        f"{len(one.alarms)} of {one.accepted}",
        "-" if month is None else f"{month:.2f}",
        f"{len(one.found) - hits} of {one.flagged - rejected}",
        f"{hits} of {rejected}",
        _share(one.recall),
        "-" if one.clauses is None else f"{one.clauses:.1f}",
    )


def _print_types(session: Session, tested: ModelBacktest) -> None:
    """The recall of each type of issue over all monitors, at each rate."""
    from dqsql.decisions.program_words import issue_word

    sums: dict[float | None, dict[str, tuple[int, int]]] = {}
    for one in tested.replayed:
        counts = sums.setdefault(one.fpr, {})
        for kind, (caught, total) in one.kinds.items():
            before = counts.get(kind, (0, 0))
            counts[kind] = (before[0] + caught, before[1] + total)
    for rate, kinds in sums.items():
        names = {k: issue_word(f"{k}_") for k in sorted(kinds)}
        shares = ", ".join(f"{names[k]} {_share(c / n)}" for k, (c, n) in sorted(kinds.items()))
        if shares:
            session.say(f"  held-out recall at {rate:.3g} by type of issue: {shares}")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
