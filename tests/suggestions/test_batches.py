"""By which column a table's rows are checked day by day, if by any."""

from __future__ import annotations

import pytest

from dqsql.suggestions.batches import DayCounts, day_columns, proposed_batches, undecided_batches

GOOD = DayCounts(1_000, 40)


def proposed(table: str, types: dict[str, str], **counts: DayCounts) -> str | None:
    columns = day_columns(table, types)
    found = proposed_batches(columns, {n: counts.get(n, GOOD) for n in types}, 1_000)
    return None if found is None else found.batch_by


@pytest.mark.parametrize(
    ("table", "types", "batch_by"),
    [
        ("visits", {"day": "date"}, "day"),
        ("visits", {"date": "date"}, "date"),
        ("visits", {"ds": "date", "created_at": "timestamp"}, "ds"),
        ("visits", {"event_date": "date", "created_at": "timestamp"}, "event_date"),
        ("orders", {"order_date": "date", "ship_date": "date"}, "order_date"),
        ("orders", {"OrderDate": "date", "ShipDate": "date"}, "OrderDate"),
        ("orders", {"created_at": "timestamp", "paid_at": "timestamp"}, "to_date(created_at)"),
        ("orders", {"createdAt": "timestamp_ntz"}, "to_date(createdAt)"),
        ("orders", {"order day": "date"}, "`order day`"),
        ("flights", {"flight_date": "date", "arrived_at": "timestamp"}, "flight_date"),
        ("payments", {"paid_at": "timestamp"}, "to_date(paid_at)"),
        ("log", {"ts": "timestamp"}, "to_date(ts)"),
        # Two that are as good as each other, and dates on which nothing happened.
        ("trips", {"pickup_time": "timestamp", "dropoff_time": "timestamp"}, None),
        ("visits", {"day": "date", "date": "date"}, None),
        ("people", {"birth_date": "date"}, None),
        ("people", {"dob": "date", "date_of_birth": "date"}, None),
        ("prices", {"valid_from": "date", "valid_to": "date"}, None),
        ("cards", {"expiry_date": "date", "expires_at": "timestamp"}, None),
        ("orders", {"updated_at": "timestamp"}, None),
        ("invoices", {"due_date": "date"}, None),
        # Whether texts are days is measured.
        ("visits", {"day": "string", "created_at": "bigint"}, "day"),
        ("visits", {"day": "binary", "created_at": "bigint"}, None),
        ("visits", {"holiday": "date"}, None),
        ("visits", {"it's_date": "date"}, None),
    ],
)
def test_names(table: str, types: dict[str, str], batch_by: str | None) -> None:
    assert proposed(table, types) == batch_by
    assert proposed(table, dict(reversed(types.items()))) == batch_by


@pytest.mark.parametrize(
    ("counts", "batch_by"),
    [
        (GOOD, "day"),
        (DayCounts(999, 40), None),  # a row without a day
        (DayCounts(1_000, 2), None),  # no history
        (DayCounts(1_000, 3), "day"),
        (DayCounts(1_000, 200), "day"),
        (DayCounts(1_000, 201), None),  # a handful of rows a day
        (DayCounts(0, 0), None),
    ],
)
def test_counts(counts: DayCounts, batch_by: str | None) -> None:
    assert proposed("visits", {"day": "date"}, day=counts) == batch_by


def test_the_best_column_that_is_complete() -> None:
    types = {"event_date": "date", "created_at": "timestamp"}
    assert proposed("visits", types, event_date=DayCounts(900, 40)) == "to_date(created_at)"


def test_the_reason() -> None:
    found = proposed_batches(day_columns("visits", {"day": "date"}), {"day": GOOD}, 1_000)
    assert found is not None
    assert found.reason == (
        "day has 40 days with 25 rows each on average, and no nulls: each day is a batch"
    )


def test_several_that_fit_are_named() -> None:
    types = {"pay_date": "date", "settled_on": "date", "amount": "double"}
    columns = day_columns("payments", types)
    counts = dict.fromkeys(types, GOOD)
    assert proposed_batches(columns, counts, 1_000) is None
    assert "any of pay_date, settled_on: choose one" in (
        undecided_batches(columns, counts, 1_000) or ""
    )
    assert undecided_batches(columns[:1], counts, 1_000) is None
