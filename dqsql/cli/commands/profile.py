"""`dqsql profile`: what is in a relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, option, options
from dqsql.cli.session import Session, with_session
from dqsql.report.profile import ColumnLine, ProfileTable, profile_table, save_profiles
from dqsql.report.text import display_width, printable, shorten
from dqsql.separators import separator_note

_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_WIDEST_TYPE = 40
_HEADERS = ("column", "type", "filled", "distinct", "min", "mean", "max", "", "most frequent")


@click.command("profile", cls=Command)
@click.argument("relations", nargs=-1, metavar="[RELATION]...")
@options("select", *PROJECT)
@option(
    "--save", is_flag=True, help="Keep the profiles in target/profiles.json, for `dqsql report`."
)
@options("output")
@with_session
def command(
    session: Session, *, relations: Sequence[str], select: Sequence[str], save: bool, **where: Any
) -> int:
    """Show what is in relations: completeness, types, distinct values, extremes, distributions.

    RELATION is a check model, a source (nyc.flights), a table or a file. A relation is read at
    most three times, whatever the number of its columns. Distinct values are approximate.
    """
    from dqsql.runner.compilation import Where
    from dqsql.runner.profile import profile
    from dqsql.suggestions.profiles import profile_record

    place = Where(**where)
    with session.progress() as progress:
        profiles = profile(place, relations, select=select, step=progress.step)
    records = [profile_record(p) for p in profiles]
    path = save_profiles(place.project(), records) if save else None
    session.print_outcome(profiles=records, **({} if path is None else {"path": str(path)}))
    for each, record in zip(profiles, records, strict=True):
        _show(session, profile_table(record))
        if (note := separator_note([c.name for c in each.columns])) is not None:
            session.say(printable(f"note: {note}"))
    if path is not None:
        session.say(printable(f"Wrote {path}"))
    return 0


def _show(session: Session, profile: ProfileTable) -> None:
    session.say(f"{session.out.style(profile.relation, 'bold')}: {profile.size}")
    rows = [_HEADERS, *(_cells(session, c) for c in profile.columns)]
    widths = [max(display_width(r[i]) for r in rows) for i in range(len(_HEADERS))]
    right = {2, 3, 4, 5, 6}
    for row in rows:
        cells = []
        for i, cell in enumerate(row):
            gap = " " * (widths[i] - display_width(cell))
            cells.append(gap + cell if i in right else cell + gap)
        session.say("  " + "  ".join(cells).rstrip())
    session.say()


def _cells(session: Session, column: ColumnLine) -> tuple[str, ...]:
    return (
        column.name,
        # That of a struct with many fields would leave no room for the rest.
        shorten(column.kind, _WIDEST_TYPE),
        column.filled,
        column.distinct,
        column.low,
        column.mean,
        column.high,
        _bars(column.shares, unicode=session.out.unicode),
        column.frequent,
    )


def _bars(shares: Sequence[float], *, unicode: bool) -> str:
    steps = _BARS if unicode else _ASCII_BARS
    top = max(shares, default=0.0)
    if not top:
        return ""
    # What is there at all gets the smallest bar.
    levels = [0 if s <= 0 else max(1, round(s / top * (len(steps) - 1))) for s in shares]
    return "".join(steps[level] for level in levels)
