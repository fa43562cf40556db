"""Which batches are known to be odd: the setting `exclude_where` of monitors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from dqsql.errors import DqsqlError
from dqsql.model.plan import Monitor
from dqsql.model.results import Result, Status
from dqsql.monitors.context import result_of

# Which of some batches meet a SQL condition. Raises DqsqlError.
Matching = Callable[[Collection[str], str], Collection[str]]


@dataclass
class Exclusions:
    """The batches that meet conditions, of those `known`; each condition is asked once."""

    matching: Matching
    known: Collection[str]
    _found: dict[str, Collection[str]] = field(default_factory=dict)
    _failed: dict[str, DqsqlError] = field(default_factory=dict)

    def ask(self, conditions: Iterable[str | None]) -> None:
        """Find the batches of each condition; one that Spark refuses is kept with its error."""
        for where in conditions:
            if where is None or where in self._found or where in self._failed:
                continue
            try:
                self._found[where] = frozenset(self.matching(self.known, where))
            except DqsqlError as error:
                self._failed[where] = error

    def batches(self, where: str | None) -> Collection[str]:
        """The batches that meet a condition; none for no condition."""
        return self._found.get(where or "", ())

    def error(self, where: str | None) -> DqsqlError | None:
        """Why a condition could not be asked, if so."""
        return self._failed.get(where or "")

    def refusal(self, monitor: Monitor, where: str | None) -> str | None:
        """What Spark says against a monitor's condition, in words, if so."""
        error = self.error(where)
        return None if error is None else f"{monitor.span}: {monitor.expression}: {error.message}"

    def verdict(self, monitor: Monitor, batch: str, where: str | None) -> Result | None:
        """The verdict where the condition keeps a monitor from judging a batch, else None."""
        refused = self.refusal(monitor, where)
        if refused is not None:
            return result_of(monitor, batch, Status.ERROR, refused)
        if batch in self.batches(where):
            return result_of(monitor, batch, Status.SKIPPED, "left out by exclude_where")
        return None
