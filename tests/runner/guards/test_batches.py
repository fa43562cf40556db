"""Which batches a run is about: event time, begin, lookback, and the limit of segments."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dqsql
from dqsql.engine.batches import BatchChoice, BatchRequest, choose_batches, period_of
from dqsql.errors import ConfigError, UsageError
from dqsql.model.batches import batch_times
from dqsql.model.limits import RunLimits
from dqsql.model.project import CheckModel, ModelConfig, Severity
from dqsql.model.results import BatchRecord, BatchStatus, ModelResult, Result, Status
from dqsql.model.wording import NO_TIME
from dqsql.monitors.notes import untimed_note
from dqsql.runner.warnings import unbatched_warnings

from .conftest import MakeShop, Values


def model(batch_by: str) -> CheckModel:
    return CheckModel("m", "checks/m.sql", "", "", ModelConfig(batch_by=batch_by), (), (), ())


DAYS = ["2024-01-09", "2024-01-10", "2024-02-01"]
HOURS = ["2024-01-09 23:00:00", "2024-01-10 00:00:00", "2024-01-10 01:00:00"]


@pytest.mark.parametrize(
    ("batch_by", "kind", "found", "start", "end", "chosen"),
    [
        ("d", "date", DAYS, "2024-01-10", None, DAYS[1:]),
        ("d", "date", DAYS, "2024-01-09T12:00", "2024-02-01T00:00:01", DAYS[1:]),
        ("d", "date", DAYS, "2024-01", "2024-02", DAYS[:2]),
        ("ts", "timestamp", HOURS, "2024-01-10", "2024-01-10 01:00", HOURS[1:2]),
        ("ts", "timestamp", HOURS, "2024-01-10T01:00+02:00", "2024-01-10T00:00Z", HOURS[:1]),
        ("ts", "timestamp_ntz", HOURS, None, "2024-01-10", HOURS[:1]),
        ("n", "bigint", ["-3", "9", "10", "100"], "9", "100", ["9", "10"]),
        ("n", "decimal(4,1)", ["9.5", "10.0"], "9.6", None, ["10.0"]),
        (
            "date_format(ts, 'yyyyMM')",
            "string",
            ["202312", "202401"],
            "2024-01-01",
            None,
            ["202401"],
        ),
        ("s", "string", ["2024-01", "2024-02", "late"], "2024-01-15", None, ["2024-02"]),
        ("s", "string", ["2024-01-31 10", "2024-02-01 11"], "2024-02", None, ["2024-02-01 11"]),
        ("s", "string", ["2024-W05", "2024-W06"], None, "2024-02-01", ["2024-W05"]),
        ("s", "string", ["2024-Q1", "2024-Q2"], "2024-04-01", None, ["2024-Q2"]),
    ],
)
def test_event_time(
    batch_by: str,
    kind: str,
    found: list[str],
    start: str | None,
    end: str | None,
    chosen: list[str],
) -> None:
    request = BatchRequest((), start, end)
    request.check()
    period = period_of(request, "2030-01-01" if start else None, model(batch_by), kind)
    choice = choose_batches(request, dict.fromkeys(found, 1), {}, period)
    assert list(choice.batches) == chosen
    assert bool(choice.notes) == ("late" in found)


@pytest.mark.parametrize(
    ("start", "end"),
    [("yesterday", None), (None, "2024-13-01"), ("2024-01-02", "2024-01-02"), ("10", "9")],
)
def test_bounds_that_make_no_sense_are_refused(start: str | None, end: str | None) -> None:
    with pytest.raises(UsageError, match="--event-time"):
        BatchRequest((), start, end).check()


def test_bounds_must_fit_the_batches() -> None:
    with pytest.raises(UsageError, match="whose batches are of type bigint"):
        period_of(BatchRequest((), "2024-01-10"), None, model("n"), "bigint")
    with pytest.raises(UsageError, match="binary"):
        period_of(BatchRequest((), "2024-01-10"), None, model("n"), "binary")
    with pytest.raises(ConfigError, match="begin"):
        period_of(BatchRequest(), "soon", model("d"), "date")


def test_bounds_that_no_batch_can_be_compared_with() -> None:
    begin = period_of(BatchRequest(), "2024-01-01", model("s"), "string")
    with pytest.raises(ConfigError, match="begin does not fit m, whose batches are called 'one'"):
        choose_batches(BatchRequest(), {"one": 1}, {}, begin)
    asked = BatchRequest((), "2024-01-01")
    period = period_of(asked, None, model("s"), "string")
    with pytest.raises(UsageError, match="--event-time-start does not fit m"):
        choose_batches(asked, {"one": 1, None: 2}, {}, period)


def test_lookback_takes_up_late_rows_of_the_newest_batches() -> None:
    found: dict[str | None, int] = dict.fromkeys(["2024-01-01", *DAYS, "2024-02-02"], 5)
    ledger = {
        b: BatchRecord("m", b, BatchStatus.ACCEPTED, 5, "r", "") for b in found if b is not None
    }
    found |= {"2024-01-01": 6, "2024-02-01": 4}
    choice = choose_batches(BatchRequest(), found, ledger, None, RunLimits(lookback=2))
    # The newest has as many rows as before, and may have other ones.
    assert choice.batches == ("2024-02-01", "2024-02-02")
    assert len(choice.notes) == 2 and "--batch 2024-01-01" in choice.notes[1]
    assert choose_batches(BatchRequest(), found, ledger).batches == ()
    del ledger["2024-02-02"]
    later = choose_batches(BatchRequest(), found, ledger, None, RunLimits(lookback=3))
    assert set(later.batches) == {"2024-01-10", "2024-02-01", "2024-02-02"}


@pytest.mark.parametrize("to_come", ["2099-01-01", "9999-12-31"])
def test_what_is_to_come_takes_no_place_in_lookback(to_come: str) -> None:
    found: dict[str | None, int] = dict.fromkeys([*DAYS, to_come], 5)
    ledger = {
        b: BatchRecord("m", b, BatchStatus.ACCEPTED, 5, "r", "") for b in found if b is not None
    }
    found[DAYS[-1]] = 6
    choice = choose_batches(BatchRequest(), found, ledger, None, RunLimits(lookback=1))
    assert choice.batches == (DAYS[-1],)


def test_lookback_takes_up_what_was_restated_in_as_many_rows() -> None:
    found: dict[str | None, int] = dict.fromkeys(DAYS, 5)
    ledger = {b: BatchRecord("m", b, BatchStatus.ACCEPTED, 5, "r", "") for b in DAYS}

    def choice(lookback: int = 2, **known: Any) -> BatchChoice:
        limits = RunLimits(lookback=lookback, **known)
        return choose_batches(BatchRequest(), found, ledger, None, limits)

    def chosen(lookback: int = 2, **known: Any) -> tuple[str, ...]:
        return choice(lookback, **known).batches

    assert (chosen(), chosen(restated=True)) == ((), tuple(DAYS[1:]))
    assert chosen(restated=True, lookback=0) == ()
    # What a person has reviewed is looked at first: see `test_restated_reviews`.
    kept = choice(lookback=3, restated=True, reviewed=frozenset(DAYS[:1]))
    assert (kept.batches, kept.reviewed) == (tuple(DAYS), tuple(DAYS[:1]))
    found[DAYS[0]] = 6
    assert choice(lookback=3, restated=True, reviewed=frozenset(DAYS[:1])).reviewed == ()
    found[DAYS[0]] = 5
    found["2024-02-02"] = 5
    assert (chosen(), chosen(lookback=0)) == (("2024-02-01", "2024-02-02"), ("2024-02-02",))


@pytest.mark.parametrize(
    ("request_", "empty", "told"),
    [
        (BatchRequest(), (), "--batch 2024-01-10 --batch 2024-02-02"),
        (BatchRequest(start="2024-01-11"), ("2024-02-02",), "1 checked batch has no rows any more"),
        (BatchRequest(full_refresh=True), ("2024-01-10", "2024-02-02"), "checked again as empty"),
    ],
)
def test_batches_without_rows_any_more(
    request_: BatchRequest, empty: tuple[str, ...], told: str
) -> None:
    """Those before all others may have been deleted for their age."""
    names = [*DAYS, "2024-02-02"]
    ledger = {b: BatchRecord("m", b, BatchStatus.ACCEPTED, 5, "r", "") for b in names}
    found: dict[str | None, int] = {"2024-01-10": 5, "2024-02-01": 5}
    period = period_of(request_, None, model("s"), "string")
    if not request_.start:
        found = {"2024-01-09": 5, "2024-02-01": 5}
    choice = choose_batches(request_, found, ledger, period)
    assert choice.empty == empty
    assert set(empty) <= set(choice.batches)
    assert any(told in note for note in choice.notes)
    near = choose_batches(BatchRequest(), found, ledger, None, RunLimits(lookback=1))
    assert near.empty == ("2024-02-02",)


def test_the_usual_length_of_batches_says_when_one_is_over_whose_name_does_not() -> None:
    months = [dt.datetime(2024, month, 1, tzinfo=dt.UTC) for month in range(1, 7)]
    day = dt.timedelta(days=1)
    ledger = {
        str(m): BatchRecord(
            "m", str(m), BatchStatus.ACCEPTED, 5, "r", "", checked_at=m + 10 * day, start=m
        )
        for m in months
    }
    found: dict[str | None, int] = {name: 7 for name in ledger}
    assert set(choose_batches(BatchRequest(), found, ledger).batches) == ledger.keys()
    late = {
        name: replace(r, checked_at=r.start and r.start + 40 * day) for name, r in ledger.items()
    }
    assert choose_batches(BatchRequest(), found, late).batches == ()
    last = BatchRecord("m", "9999-12-31", BatchStatus.ACCEPTED, 5, "r", "")
    start, end = batch_times("9999-12-31 23:00:00+02:00", "date_trunc('hour', t)")
    last = replace(last, checked_at=dt.datetime.max.replace(tzinfo=dt.UTC), start=start, end=end)
    assert choose_batches(BatchRequest(), {"9999-12-31": 7}, {"9999-12-31": last}).batches


@pytest.mark.parametrize(
    ("name", "checked", "again"),
    [
        ("2024-01-09", "2024-01-09 10:00", True),
        # In Hawaii the day goes on.
        ("2024-01-09", "2024-01-10 08:00", True),
        ("2024-01-09", "2024-01-10 13:00", False),
        ("20240109", "2024-01-09 10:00", True),
        ("2024-01", "2024-01-09 10:00", True),
        ("2024-01", "2024-02-09 10:00", False),
        ("b-1", "2024-01-09 10:00", False),
        ("17", "2024-01-09 10:00", False),
    ],
)
def test_a_batch_that_was_not_over_is_checked_again(name: str, checked: str, again: bool) -> None:
    start, end = batch_times(name, None)
    at = dt.datetime.fromisoformat(checked).replace(tzinfo=dt.UTC)
    record = BatchRecord("m", name, BatchStatus.ACCEPTED, 5, "r", "", checked_at=at)
    ledger = {name: replace(record, start=start, end=end)}
    assert choose_batches(BatchRequest(), {name: 5}, ledger).batches == ()
    choice = choose_batches(BatchRequest(), {name: 7}, ledger)
    assert choice.batches == ((name,) if again else ())
    (note,) = choice.notes
    assert note.startswith(f"{name} was not over" if again else "1 checked batch has other rows")


ROWS: Values = [
    (1, "2024-01-01 10:00:00", 1.0, "x", "a"),
    (2, "2024-01-02 10:00:00", 1.0, "x", "b"),
    (3, "2024-01-02 11:00:00", 1.0, "y", "c"),
    (4, "2024-01-03 11:00:00", 1.0, "y", "c"),
]
SEGMENTS = """\
{{ config(batch_by = "date_trunc('day', at)", segment_by = ['shop', 'email']) }}
select at, shop, email from {{ source('shop', 'orders') }}
-- @row_count >= 1
"""


def test_too_many_segments_stop_the_model_before_anything_is_written(make_shop: MakeShop) -> None:
    shop = make_shop(SEGMENTS, ROWS, "max_segments: 2\nbegin: 2024-01-01")
    result = shop.run()
    assert result.error is not None
    assert result.error.message == (
        "segment_by shop, email gives 3 segments, more than max_segments = 2"
    )
    assert not (shop.root / "warehouse" / "dq" / "dq_metrics").exists()

    # The segments of the batches to check count, not those of all.
    part = shop.run(event_time_start="2024-01-02", event_time_end="2024-01-03")
    assert part.error is None
    assert part.batches == ("2024-01-02 00:00:00",)
    assert shop.run(batches=["2024-01-03 00:00:00", "1999-01-01 00:00:00"]).error is None
    assert shop.run(batches=["1999-01-01 00:00:00"]).error is None


def test_without_batches_segments_are_counted_by_themselves(make_shop: MakeShop) -> None:
    sql = "{{ config(segment_by = 'id', max_segments = 3) }} select id from"
    shop = make_shop(sql + " {{ source('shop', 'orders') }}\n-- @row_count > 0", ROWS)
    error = shop.run().error
    assert error is not None and "gives 4 segments" in error.message


def test_lookback_and_begin_end_to_end(make_shop: MakeShop) -> None:
    sql = """\
    {{ config(batch_by = 'to_date(at)', begin = '2024-01-02', lookback = 1) }}
    select at from {{ source('shop', 'orders') }}
    -- @row_count >= 1
    """
    shop = make_shop(sql, ROWS)
    assert shop.run().batches == ("2024-01-02", "2024-01-03")
    shop.add([(9, f"2024-01-0{day} 23:59:59.999999", 1.0, "x", "a") for day in (1, 2, 3)])
    again = shop.run()
    assert again.batches == ("2024-01-03",)
    assert any("--batch 2024-01-02" in note for note in again.notes)


def test_folders_that_cannot_be_written_are_refused_before_anything_starts(
    make_shop: MakeShop, tmp_path: Path
) -> None:
    shop = make_shop(SEGMENTS, ROWS)
    (shop.root / "warehouse").write_text("in the way")
    with pytest.raises(ConfigError, match=r"the warehouse .* cannot be written"):
        dqsql.run(shop.root)
    (shop.root / "target" / "CACHEDIR.TAG").unlink()
    (shop.root / "target").rmdir()
    (shop.root / "target").write_text("in the way")
    with pytest.raises(ConfigError, match=r"the target folder .* cannot be written"):
        dqsql.run(shop.root)
    with pytest.raises(UsageError, match="--event-time-start"):
        dqsql.run(shop.root, event_time_start="soon")


@pytest.mark.parametrize(
    ("rewritten", "lookback", "days", "rows", "noted"),
    [
        (True, 0, 2, 5, True),
        (False, 0, 2, 5, False),
        (True, 1, 2, 5, False),  # the newest is checked again
        (True, 0, 3, 5, False),  # a day is new
        (True, 0, 2, 6, False),  # told by their rows
    ],
)
def test_what_was_written_again_in_as_many_rows_is_told(
    rewritten: bool, lookback: int, days: int, rows: int, noted: bool
) -> None:
    names = [f"2024-01-0{day}" for day in range(1, days + 1)]
    ledger = {b: BatchRecord("m", b, BatchStatus.ACCEPTED, 5, "r", "") for b in names[:2]}
    found: dict[str | None, int] = dict.fromkeys(names, rows)
    limits = RunLimits(lookback=lookback, restated=rewritten, rewritten=rewritten)
    notes = choose_batches(BatchRequest(), found, ledger, None, limits).notes
    assert any("written again" in n and "--batch 2024-01-02" in n for n in notes) is noted


def test_notes_say_one_and_many() -> None:
    one, two = ("2024-01-01",), ("2024-01-01", "2024-01-02")

    def notes(names: tuple[str, ...], lookback: int = 0) -> tuple[str, ...]:
        ledger = {b: BatchRecord("m", b, BatchStatus.ACCEPTED, 5, "r", "") for b in names}
        found: dict[str | None, int] = {None: 3, **dict.fromkeys(names, 6)}
        limits = RunLimits(lookback=lookback)
        return choose_batches(BatchRequest(), found, ledger, None, limits).notes

    assert notes(one) == (
        "1 checked batch has other rows now; check it again with --batch 2024-01-01",
    )
    assert notes(two) == (
        "2 checked batches have other rows now; check them again with --batch 2024-01-01"
        " --batch 2024-01-02",
    )
    ledger = {
        day: BatchRecord("m", day, BatchStatus.ACCEPTED, rows, "r", "")
        for day, rows in {
            "2023-12-31": 5,
            "2024-01-02": 5,
            "2024-01-03": 0,
            "2024-01-05": 5,
        }.items()
    }
    # The first one may have been deleted for its age, the third was checked without rows.
    assert choose_batches(BatchRequest(), {"2024-01-01": 5}, ledger).notes == (
        "2 checked batches have no rows any more; check them again with --batch 2024-01-02"
        " --batch 2024-01-05",
    )
    assert notes(one, 9) == ("1 late batch is checked again (lookback)",)
    assert notes(two, 9) == ("2 late batches are checked again (lookback)",)
    unbatched = [ModelResult("m", "m.sql", unbatched=rows) for rows in (0, 1, 2000)]
    assert list(unbatched_warnings(unbatched)) == [
        "m: 1 row belongs to no batch, because batch_by is null there",
        "m: 2,000 rows belong to no batch, because batch_by is null there",
    ]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2024-01-20", "2024-01-10"),
        ("2024-01-20-06", "2024-01-19-06"),
        ("2024/01/20", "2024-01-10"),
        ("2024-Q2", "2024-Q1"),
        ("20240120", "20240110"),
    ],
)
def test_a_range_that_ends_before_it_begins_is_refused(start: str, end: str) -> None:
    BatchRequest(start=end, end=start).check()
    with pytest.raises(UsageError, match="is not before"):
        BatchRequest(start=start, end=end).check()


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ("orders_20260103_ab12cd.csv", True),
        ("dt=2026-01-03", True),
        ("2026-01-03_12", False),
        ("load_00012", False),
        ("v120260103", False),
    ],
)
def test_names_with_a_date_that_is_not_read(batch: str, told: bool) -> None:
    skipped = Result(
        check_id="m.cadence",
        model="m",
        batch=batch,
        segment=None,
        column=None,
        check_name="cadence",
        detector="cadence",
        status=Status.SKIPPED,
        severity=Severity.WARN,
        message=f"{NO_TIME}: {batch!r}",
    )
    notes = untimed_note([skipped])
    assert bool(notes) == told
    assert all(batch in note for note in notes)
