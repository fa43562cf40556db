"""The settings of `@avh`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dqsql.decisions.avh import AvhConfig
from dqsql.model.plan import Monitor
from dqsql.model.settings import Reader, as_bool, as_rate, as_text, at_least, one_of
from dqsql.monitors.settings import read_settings

NAME = "avh"
DEFAULT_WINDOW = 30
REFIT_EVERY = 30
SAMPLE_SIZE = 1000
SETTINGS: Mapping[str, Reader] = {
    "fpr": as_rate,
    "bounds": one_of("calibrated", "paper"),
    "stationarity": as_bool,
    "two_distribution": as_bool,
    "max_clauses": at_least(1),
    "min_history": at_least(3),
    "window": at_least(3),
    "refit_every": at_least(1),
    "sample_size": at_least(10),
    "exclude_where": as_text,
}
# Settings that are not the program's: what is learned from.
_OWN = ("window", "refit_every", "sample_size", "exclude_where")


@dataclass(frozen=True)
class AvhSettings:
    """The settings of one `@avh`."""

    config: AvhConfig
    window: int = DEFAULT_WINDOW
    refit_every: int = REFIT_EVERY
    sample_size: int = SAMPLE_SIZE
    exclude_where: str | None = None


def avh_settings(
    monitor: Monitor, defaults: Mapping[str, Any] | None = None, fpr: float = 0.01
) -> AvhSettings:
    """The settings of a monitor. Raises AnnotationError."""
    given = read_settings(monitor, SETTINGS, defaults)
    own = {k: given.pop(k) for k in _OWN if k in given}
    settings = AvhSettings(AvhConfig(**{"fpr": fpr, **given}), **own)
    return replace(settings, window=max(settings.window, settings.config.min_history))
