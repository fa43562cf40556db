"""What stored verdicts say of checks and monitors that wait for several failing batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from dqsql.decisions.streaks import Streaks
from dqsql.engine.history import stored_rows
from dqsql.model.plan import Check, Monitor
from dqsql.model.tables import RESULTS

if TYPE_CHECKING:
    from dqsql.engine.storage import Store


def streaks_of(
    checks: Iterable[Check | Monitor],
    store: Store,
    model: str,
    ledger: Collection[str],
    tested: Collection[str],
) -> Streaks:
    """The rows of failing batches before those under test. Raises EngineError."""
    after = {c.id: n for c in checks if (n := c.settings.options.get("after")) is not None}
    streaks = Streaks(after, {*ledger, *tested})
    needed = streaks.needed(tested)
    if needed:
        streaks.add_rows(stored_rows(store, RESULTS, model, sorted(needed)))
    return streaks
