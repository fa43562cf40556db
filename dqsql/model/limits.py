"""Settings that bound what a run does: of the model, else of the project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dqsql.model.plan import Check
from dqsql.model.project import CheckModel, Project

_SETTINGS = ("begin", "lookback", "max_segments", "failures_limit", "store_failures")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """`begin` and `lookback` are about batches, `max_segments` and the rest about what is kept.

    Without a `failures_limit` all failing rows are kept, in a table of the model's own. `fpr` is
    the false-positive rate of a monitor that names none.
    """

    begin: str | None = None
    lookback: int = 0
    max_segments: int = 1_000
    failures_limit: int | None = 100
    store_failures: bool = False
    fpr: float = 0.01

    @property
    def keeps_all_failures(self) -> bool:
        """Whether failing rows are kept without a limit."""
        return self.failures_limit is None

    def samples(self, check: Check) -> bool:
        """Whether failing rows of a check are kept."""
        return bool(check.settings.options.get("store_failures", self.store_failures))


def limits_of(
    model: CheckModel, project: Project, *, store_failures: bool = False, fpr: float = 0.01
) -> RunLimits:
    """The limits of a model.

    `store_failures` is the wish of the command line, `fpr` the rate of monitors that name none.
    """
    given: dict[str, Any] = {
        name: settings[name]
        for settings in (project.settings, model.config.extra)
        for name in _SETTINGS
        if name in settings
    }
    if store_failures:
        given["store_failures"] = True
    return RunLimits(**given, fpr=fpr)
