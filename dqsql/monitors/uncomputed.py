"""Checks that could not be computed on batches of earlier runs: tried again, and told until then.

Whether a check works now is only known by computing it: on the oldest of the batches that lack it,
and on the newest. Where it does, the others follow in parts, each four times as large as the one
before it, so that a batch on whose values it fails is not in the way of others. What was tried from
the newest one on is then checked once more, in order. They come before the batches that are new,
which are compared with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING

from dqsql.engine.history import stored_rows
from dqsql.engine.rows import RESULT_COLUMNS, result_of_row
from dqsql.model.batches import batch_order
from dqsql.model.plan import Plan
from dqsql.model.results import BatchRecord, ModelResult, Result, Status
from dqsql.model.tables import RESULTS
from dqsql.model.wording import plural
from dqsql.monitors.grouping import grouped, joined_results

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


@dataclass
class UncomputedChecks:
    """The verdicts of status error on batches of earlier runs, by batch, the newest first.

    `refused` are the ids of checks that do not compile, so that there is nothing to try.
    """

    verdicts: dict[str, list[Result]]
    declared: frozenset[str]
    refused: frozenset[str]
    _failing: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, store: Store, batches: Sequence[str]) -> UncomputedChecks:
        """Read those of some batches, the newest first. Raises StorageError."""
        rows = stored_rows(store, RESULTS, plan.model.name, batches, columns=RESULT_COLUMNS)
        errors: dict[str, list[Result]] = {batch: [] for batch in batches}
        for result in map(result_of_row, rows):
            if result.status is Status.ERROR:
                error = replace(result, details=dict(result.details))
                errors[result.batch or ""].append(error)
        declared = frozenset(c.id for c in plan.declared)
        return cls(errors, declared, frozenset(c.id for c, _ in plan.refused))

    def checked_again(
        self, failing: Iterable[str], check: Callable[[tuple[str, ...]], ModelResult]
    ) -> ModelResult | None:
        """Check batches again, as far as that helps, the oldest first; None if none was.

        `failing` are the ids of checks that Spark still refuses.
        """
        oldest: list[ModelResult] = []
        failed: list[ModelResult] = []
        newest: list[ModelResult] = []
        again = 0
        for newest_first in (False, True):
            hopeless, size = self.refused.union(failing), 1
            while part := self._take(size, hopeless, newest_first=newest_first):
                more = check(part)
                errors = self.note(more.results) - hopeless
                hopeless |= errors
                again, size = again + len(part), 4 * size
                if newest_first:
                    (failed if errors else newest).insert(0, more)
                else:
                    oldest.append(more)
        if len(newest) > 1:
            # The later ones were compared with batches that lacked those between them.
            together = {batch for result in newest for batch in result.batches}
            newest = [check(tuple(sorted(together, key=batch_order)))]
        results = [*oldest, *failed, *newest]
        if not results:
            return None
        done = reduce(joined_results, results)
        were = plural(again, "batch was", "batches were")
        note = f"{were} checked again, since a check could not be computed before"
        return replace(done, notes=(*done.notes, note))

    def note(self, results: Iterable[Result]) -> set[str]:
        """Take in what this run says of other batches; returns the checks that are errors there."""
        check_ids = {r.check_id: r for r in results if r.status is Status.ERROR}
        self._failing.update(check_ids)
        return set(check_ids)

    def _take(self, size: int, hopeless: Collection[str], *, newest_first: bool) -> tuple[str, ...]:
        """The batches to check again now; they are no longer among those that lack a check."""
        lacking = self.verdicts if newest_first else reversed(self.verdicts)
        able = (b for b in lacking if any(r.check_id not in hopeless for r in self.verdicts[b]))
        part = tuple(islice(able, size))
        for batch in part:
            del self.verdicts[batch]
        return part

    def with_unchecked(self, done: ModelResult) -> ModelResult:
        """A result, with the verdicts on batches that were not checked again as it tells them.

        The errors of checks that do not compile are the model's, and told with it.
        """
        left = [
            replace(r, message=self._failing.get(r.check_id, r).message)
            for results in self.verdicts.values()
            for r in results
            if r.check_id in self.declared
        ]
        if not left:
            return done
        results = (*done.results, *left)
        return replace(done, results=results, groups=grouped(results))


def errors_by_batch(results: Iterable[Result]) -> Counter[str | None]:
    """How many verdicts on each batch are errors."""
    return Counter(r.batch for r in results if r.status is Status.ERROR)


def lacks_checks(ledger: Mapping[str, BatchRecord], reviews: Mapping[str, str]) -> bool:
    """Whether checks are to be tried again; not where a person accepted the batch without them."""
    return any(r.uncomputed and reviews.get(b) != "accept" for b, r in ledger.items())
