"""The settings of `@avh`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dqsql.decisions.avh import AvhConfig
from dqsql.decisions.bounds import history_for, least_fpr
from dqsql.model.plan import Monitor
from dqsql.model.settings import Reader, as_bool, as_rate, as_text, at_least, one_of
from dqsql.monitors.settings import read_settings

NAME = "avh"
_DEFAULT_WINDOW = 30
_REFIT_EVERY = 30
_SAMPLE_SIZE = 1000
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
    window: int = _DEFAULT_WINDOW
    refit_every: int = _REFIT_EVERY
    sample_size: int = _SAMPLE_SIZE
    exclude_where: str | None = None


def avh_settings(
    monitor: Monitor, defaults: Mapping[str, Any] | None = None, fpr: float = 0.01
) -> AvhSettings:
    """The settings of a monitor. Raises AnnotationError."""
    given = read_settings(monitor, SETTINGS, defaults)
    own = {k: given.pop(k) for k in _OWN if k in given}
    settings = AvhSettings(AvhConfig(**{"fpr": fpr, **given}), **own)
    return replace(settings, window=max(settings.window, settings.config.min_history))


def rate_note(monitor: Monitor, defaults: Mapping[str, Any]) -> str | None:
    """Whether a monitor's rate is rarer than its window can promise, in words; None if it is not.

    Raises AnnotationError.
    """
    given = read_settings(monitor, SETTINGS, defaults)
    settings = avh_settings(monitor, defaults)
    fpr, least = settings.config.fpr, least_fpr(settings.window)
    if "fpr" not in given or fpr >= least:
        return None
    return (
        f"fpr {fpr:g} is less than a history of {settings.window} batches can promise"
        f" ({least:.2g}): good batches may break bounds more often; {history_for(fpr):,} batches"
        f" can promise it: {{window: {history_for(fpr)}}}"
    )
