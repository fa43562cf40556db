"""`@cadence`: what one verdict tells of."""

from __future__ import annotations

import datetime as dt

from dqsql.monitors.kinds.cadence import _decided, _Rules

DAY = dt.timedelta(days=1)


def test_a_late_batch_does_not_hide_a_gap() -> None:
    past = [dt.datetime(2024, 1, 1) + i * DAY for i in range(20)]
    rules = _Rules("daily", 0.003, 7, None)
    delays, now = [dt.timedelta(hours=1)] * 5, dt.datetime(2024, 1, 26)
    found = _decided(rules, past, dt.datetime(2024, 1, 23), delays, now)
    assert [m.day for m in found.missing] == [21, 22, 24]
    before, since = found.words.split("; no batch has come since ")
    assert before.startswith("2 batches are missing before this one: 2024-01-21, 2024-01-22")
    assert "2024-01-24 should have come" in since
