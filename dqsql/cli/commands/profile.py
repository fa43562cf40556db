"""`dqsql profile`: what is in a relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import GLOBAL, PROJECT, options, words
from dqsql.cli.session import Session, with_session
from dqsql.report.text import display_width, number, plural, printable, shorten

if TYPE_CHECKING:
    from dqsql.suggestions.profiles import ColumnProfile, Profile

_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_HEADERS = ("column", "type", "filled", "distinct", "min", "mean", "max", "", "most frequent")
_NAME, _VALUES = 32, 48


@click.command("profile", cls=Command)
@click.argument("relations", nargs=-1, metavar="[RELATION]...")
@options("select", *PROJECT, "output", *GLOBAL)
@with_session
def command(
    session: Session, *, relations: Sequence[str], select: Sequence[str], output: str, **where: Any
) -> int:
    """Show what is in relations: completeness, types, distinct values, extremes, distributions.

    RELATION is a check model, a source (nyc.flights), a table or a file. A relation is read at
    most three times, whatever the number of its columns. Distinct values are approximate.
    """
    from dqsql.runner.index import Where
    from dqsql.runner.profile import profile

    with session.progress() as progress:
        found = profile(Where(**where), relations, select=words(select), step=progress.step)
    if session.json:
        records = [profile_record(p) for p in found]
        session.print_json({"status": "success", "exit_code": 0, "profiles": records})
        return 0
    for each in found:
        _show(session, each)
    return 0


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile as JSON-ready values."""
    from dataclasses import asdict

    columns = []
    for column in profile.columns:
        record = asdict(column)
        record |= {
            "kind": column.kind.value,
            "completeness": column.completeness,
            "detected_type": column.detected,
            "histogram": list(_shares(column)),
        }
        columns.append(record)
    return {
        "relation": profile.relation,
        "rows": profile.rows,
        "passes": profile.passes,
        "columns": columns,
        "orders": [asdict(o) for o in profile.orders],
    }


def _shares(column: ColumnProfile) -> tuple[float, ...]:
    from dqsql.suggestions.profiles import histogram

    return histogram(column.summary) if column.summary is not None else ()


def _show(session: Session, profile: Profile) -> None:
    title = session.out.style(printable(profile.relation), "bold")
    size = f"{plural(profile.rows, 'row')}, {plural(len(profile.columns), 'column')}"
    session.say(f"{title}: {size}, read {plural(profile.passes, 'time')}")
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


def _cells(session: Session, column: ColumnProfile) -> tuple[str, ...]:
    share = column.completeness
    summary = column.summary
    ends = ("", "", "")
    if summary is not None:
        ends = (number(summary.minimum), number(summary.mean), number(summary.maximum))
    elif column.earliest is not None and column.latest is not None:
        ends = (column.earliest[:19], "", column.latest[:19])
    elif column.lengths is not None:
        lengths = column.lengths
        ends = (f"{lengths.minimum:.0f} ch", f"{lengths.mean:.3g} ch", f"{lengths.maximum:.0f} ch")
    kind = column.spark_type if column.detected is None else f"string: {column.detected}"
    return (
        shorten(printable(column.name), _NAME),
        kind,
        "" if share is None else _percent(share),
        "" if column.distinct is None else f"{column.distinct:,.0f}",
        *ends,
        _bars(_shares(column), unicode=session.out.unicode),
        _frequent(column),
    )


def _percent(share: float) -> str:
    """A share that says 100 % only of everything, 0 % only of nothing."""
    return f"{share:.0%}" if share in (0, 1) else f"{min(max(share, 0.001), 0.999):.1%}"


def _bars(shares: Sequence[float], *, unicode: bool) -> str:
    steps = _BARS if unicode else _ASCII_BARS
    top = max(shares, default=0.0)
    if not top:
        return ""
    # What is there at all gets the smallest bar.
    levels = [0 if s <= 0 else max(1, round(s / top * (len(steps) - 1))) for s in shares]
    return "".join(steps[level] for level in levels)


def _frequent(column: ColumnProfile) -> str:
    values = column.distribution
    if values is None:
        return ""
    shown = (
        f"{printable(v)} {n / values.total:.0%}"
        for v, n in zip(values.values[:4], values.counts, strict=False)
    )
    return shorten(", ".join(shown), _VALUES)
