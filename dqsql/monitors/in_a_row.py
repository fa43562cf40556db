"""Failing batches, or runs, in a row (`after`): what earlier runs have counted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from dqsql.compiler.aggregates.facts import checks_about_now
from dqsql.decisions.streaks import Streaks, count_of, miscounted
from dqsql.engine.batches import onward_flags
from dqsql.engine.history import stored_rows
from dqsql.model.batches import batch_order
from dqsql.model.plan import Check, Monitor, Plan
from dqsql.model.results import Result
from dqsql.model.tables import RESULTS
from dqsql.model.wording import plural

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


def counted_by_run(plan: Plan) -> frozenset[str]:
    """The checks of the age of batches: what they find changes from run to run."""
    return frozenset() if plan.model.config.batch_by is None else checks_about_now(plan)


def streaks_of(
    plan: Plan,
    checks: Iterable[Check | Monitor],
    store: Store,
    ledger: Collection[str],
    tested: Collection[str],
    before: Streaks | None = None,
) -> Streaks:
    """The rows of failing batches before those under test. Raises EngineError.

    `before` are those of another part of the run: what it has stored counts for no run before.
    """
    after = {c.id: n for c in checks if (n := c.settings.options.get("after")) is not None}
    by_run = counted_by_run(plan).intersection(after)
    runs = before.run_counts if before is not None else {}
    if by_run and (before is None or not before.by_run):
        where = {"model": [plan.model.name], "check_id": sorted(by_run)}
        rows = sorted(store.select(RESULTS, (), where), key=lambda r: r["evaluated_at"])
        runs = {(r["check_id"], r["segment"]): count_of(r) for r in rows}
    streaks = Streaks(after, {*ledger, *tested}, by_run, runs)
    needed = streaks.needed(tested)
    if needed:
        streaks.add_rows(stored_rows(store, RESULTS, plan.model.name, sorted(needed)))
    return streaks


def miscounted_note(
    plan: Plan, store: Store, ledger: Collection[str], results: Iterable[Result]
) -> tuple[str, ...]:
    """A note when failing batches in a row (`after`) were counted without those of this run.

    Raises StorageError.
    """
    model, decided = plan.model.name, list(results)
    stored = partial(stored_rows, store, RESULTS, model)
    behind = miscounted(decided, ledger, stored, counted_by_run(plan))
    if not behind:
        return ()
    order, ours = batch_order(behind[0]), {r.batch for r in decided}
    later = [b for b in ledger if batch_order(b) >= order and b not in ours]
    which = plural(len(later), "later batch", "later batches")
    return (
        f"`after` counted the failing batches before {which} without this run; count again with"
        f" {onward_flags(behind[0], later)}",
    )
