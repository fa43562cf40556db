"""What of a plan Spark can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dqsql.errors import ConnectionLostError, EngineError
from dqsql.model.plan import Check, Metric, StateColumn
from dqsql.model.project import Scope


@dataclass
class Feasible:
    """The part of a plan that Spark can run, and the errors of the part that it cannot.

    The states named in `unscanned` are not computed of a batch: only ever of added counts.
    """

    states: list[StateColumn]
    metrics: list[Metric]
    checks: list[Check]
    types: dict[str, str] = field(default_factory=dict)
    errors: dict[str, EngineError] = field(default_factory=dict)
    metric_errors: dict[str, EngineError] = field(default_factory=dict)
    unscanned: frozenset[str] = frozenset()

    @property
    def scanned(self) -> list[StateColumn]:
        """The states that a batch has."""
        return [s for s in self.states if s.name not in self.unscanned]

    def of_scope(self, scope: Scope) -> Feasible:
        """The metrics and checks of one scope; errors met there are errors of the whole."""
        return Feasible(
            self.states,
            [m for m in self.metrics if m.scope is scope],
            [c for c in self.checks if c.settings.scope is scope],
            self.types,
            self.errors,
            self.metric_errors,
        )

    def drop_states(self, failing: Sequence[tuple[StateColumn, EngineError]]) -> None:
        """Take out states, and with them the states, metrics and checks that need them."""
        broken = {s.name: e for s, e in failing}
        # What merges together cannot be merged without one of them.
        lost_mates = [(s.name, broken[n]) for s in self.states for n in s.group if n in broken]
        broken = {**dict(lost_mates), **broken}
        self.states = [s for s in self.states if s.name not in broken]
        lost = [(m, broken[s]) for m in self.metrics for s in m.states if s in broken]
        self.drop_metrics(lost)

    def drop_metrics(self, failing: Sequence[tuple[Metric, EngineError]]) -> None:
        """Take out metrics, and with them the checks that compare them."""
        broken = {m.alias: e for m, e in failing}
        for alias, error in broken.items():
            self.metric_errors.setdefault(alias, error)
        self.metrics = [m for m in self.metrics if m.alias not in broken]
        lost = [(c, broken[a]) for c in self.checks for a in c.metrics if a in broken]
        self.drop_checks(lost)

    def drop_checks(self, failing: Sequence[tuple[Check, EngineError]]) -> None:
        """Take out checks; the first error of each is kept."""
        for check, error in failing:
            self.errors.setdefault(check.id, error)
        self.checks = [c for c in self.checks if c.id not in self.errors]


def failing_states(
    states: Sequence[StateColumn], attempt: Callable[[Sequence[StateColumn]], object]
) -> list[tuple[StateColumn, EngineError]]:
    """The states that fail by themselves: together with those that their merges read."""

    def with_groups(some: Sequence[StateColumn]) -> object:
        wanted = {name for s in some for name in (s.name, *s.group)}
        return attempt([s for s in states if s.name in wanted])

    return find_failing(states, with_groups, fails=True) or _not_together(states, with_groups)


def _not_together(
    states: Sequence[StateColumn], attempt: Callable[[Sequence[StateColumn]], object]
) -> list[tuple[StateColumn, EngineError]]:
    """The last state of the shortest beginning that fails, where each by itself does not."""
    works, fails, error = 0, len(states) + 1, None
    while fails - works > 1:
        size = (works + fails) // 2
        try:
            attempt(states[:size])
            works = size
        except ConnectionLostError:
            raise
        except EngineError as reason:
            fails, error = size, reason
    return [] if error is None else [(states[fails - 1], error)]


T = TypeVar("T")


def find_failing(
    items: Sequence[T], attempt: Callable[[Sequence[T]], object], *, fails: bool = False
) -> list[tuple[T, EngineError]]:
    """Return the items with which `attempt` raises EngineError, each with its error.

    One call when nothing fails; about 2 k log2(n) calls for k failing ones among n. With `fails`
    it is known that all of them together do. Raises ConnectionLostError: no member's fault.
    """
    if not items:
        return []
    if len(items) == 1 or not fails:
        try:
            attempt(items)
            return []
        except ConnectionLostError:
            raise
        except EngineError as error:
            if len(items) == 1:
                return [(items[0], error)]
    middle = len(items) // 2
    failing = find_failing(items[:middle], attempt)
    # Where one half works, it is the other one that fails.
    return [*failing, *find_failing(items[middle:], attempt, fails=not failing)]
