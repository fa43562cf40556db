"""The settings of `@row_anomalies`, and what it learns from by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dqsql.dialect import unquoted
from dqsql.errors import AnnotationError
from dqsql.model.plan import Monitor
from dqsql.model.settings import Reader, as_bool, as_rate, at_least
from dqsql.monitors.settings import literal_value, read_settings

NAME = "row_anomalies"

SETTINGS: Mapping[str, Reader] = {
    "contamination": as_rate,
    "fpr": as_rate,
    "min_history": at_least(2),
    "window": at_least(2),
    "refit_every": at_least(1),
    "sample_size": at_least(50),
    "quarantine": as_bool,
    "store_failures": as_bool,
}


@dataclass(frozen=True)
class RowSettings:
    """The settings of a monitor.

    A model is learned from the newest `window` accepted batches, of each at most `sample_size`
    rows; anew with every `refit_every`-th accepted batch.
    """

    contamination: float = 0.002
    fpr: float | None = None
    min_history: int = 5
    window: int = 14
    refit_every: int = 7
    sample_size: int = 2_000
    store_failures: bool | None = None
    quarantine: bool | None = None
    columns: tuple[str, ...] = ()


def row_settings(monitor: Monitor, defaults: Mapping[str, Any] | None = None) -> RowSettings:
    """The settings of a monitor. Raises AnnotationError."""
    given = read_settings(monitor, SETTINGS, defaults, positional=True)
    settings = RowSettings(**given, columns=tuple(map(column_named, monitor.positional)))
    if settings.window < settings.min_history:
        raise AnnotationError(
            f"@{NAME}: a window of {settings.window} batches is smaller than min_history"
            f" ({settings.min_history})",
            span=monitor.span,
            hint="make window larger, or min_history smaller",
        )
    return settings


def column_named(text: str) -> str:
    """The column that an argument names: by a name, or a text."""
    return str(literal_value(text)) if text.startswith(("'", '"')) else unquoted(text)


def learned_from(accepted: Sequence[str], settings: RowSettings) -> list[str]:
    """The batches to learn from: the newest at the last time that a model was learned."""
    number = len(accepted) - len(accepted) % settings.refit_every
    number = max(number, settings.min_history)
    return list(accepted[:number][-settings.window :])


def lacking(wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    """Those of some columns that are not among the known ones."""
    lower = {name.lower() for name in known}
    return [name for name in wanted if name.lower() not in lower]
