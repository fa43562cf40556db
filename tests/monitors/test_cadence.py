"""`@cadence`: what one verdict tells of."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from dqsql.model.batches import batch_times, wall_time_of
from dqsql.model.project import CheckModel, ModelConfig
from dqsql.monitors.kinds.cadence import _decided, _Rules, _zones_of

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


def test_batches_named_by_a_local_clock_are_late_by_it() -> None:
    hour = dt.timedelta(hours=1)
    local = "date_trunc('hour', from_utc_timestamp(ts, 'America/New_York'))"
    model = CheckModel(
        "m", "m.sql", "", f"select {local} as h from t", ModelConfig(batch_by="h"), (), (), (), ()
    )
    assert _zones_of(model) == (("America/New_York",), "America/New_York")
    rules = _Rules("hourly", 0.003, 7, None, *_zones_of(model))
    past = [dt.datetime(2024, 1, 5) + i * hour for i in range(24)]
    newest = past[-1] + hour

    def told(hours: float) -> str:
        now = dt.datetime(2024, 1, 6, 5, tzinfo=dt.UTC) + dt.timedelta(hours=hours)
        return _decided(rules, past, newest, [hour / 4] * 5, rules.shown(now)).words

    assert told(1.5) == ""
    assert "due by 2024-01-06 03:00 America/New_York" in told(4)
    # A zone that only another column has says nothing of the clock of the batches.
    other = replace(model, sql=f"select ts as h, {local} as l from t")
    assert _zones_of(other)[1] is None
    utc = replace(model, sql="select to_utc_timestamp(ts, 'America/New_York') as h from t")
    assert _zones_of(utc)[1] is None
    target = replace(model, sql="select convert_timezone('UTC', 'Asia/Tokyo', ts) as h from t")
    assert _zones_of(target)[1] == "Asia/Tokyo"
    source = replace(model, sql="select convert_timezone('Asia/Tokyo', 'UTC', ts) as h from t")
    assert _zones_of(source)[1] in (None, "UTC")
    plain = replace(model, sql="select ts from t", config=ModelConfig(batch_by=local))
    assert _zones_of(plain)[1] == "America/New_York"


def test_quarters_have_a_time() -> None:
    assert wall_time_of("2024-Q4") == dt.datetime(2024, 10, 1)
    assert wall_time_of("0000-Q1") is None
    offset = batch_times("2024-04-01T00:00:00+02:00", "date_trunc('month', ts)")
    assert [str(t) for t in offset] == ["2024-03-31 22:00:00+00:00", "2024-04-30 22:00:00+00:00"]
    assert batch_times("2024-Q4", "q")[1] == dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
