"""Whether a batch of today has all of its rows is learned from the days before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from dqsql.engine.batches import BatchChoice, BatchRequest, choose_batches
from dqsql.engine.open_batches import full_later, growth, is_open, waits
from dqsql.model.batches import batch_times
from dqsql.model.limits import RunLimits
from dqsql.model.plan import Plan
from dqsql.model.project import CheckModel, ModelConfig
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.runner.stages import with_known

BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
DAYS = 18
PLAN = Plan(
    CheckModel("m", "checks/m.sql", "", "", ModelConfig(batch_by="b"), (), (), ()), (), (), ()
)
# Rows that a batch has so many hours after it began.
Filling = Callable[[float], int]


@dataclass
class Feed:
    """A model whose batches fill as time passes, and runs that look for what is new.

    `first` and `last` are for each batch the age in hours at which monitors judged it, and the
    part of its rows that it had then.
    """

    filling: Filling
    hours: int = 24
    lookback: int = 0
    ledger: dict[str, BatchRecord] = field(default_factory=dict)
    first: dict[str, tuple[float, float]] = field(default_factory=dict)

    def names(self) -> Iterator[tuple[str, dt.datetime]]:
        for number in range(DAYS * 24 // self.hours):
            start = BEGIN + number * self.hours * HOUR
            yield f"{start:%Y-%m-%d}" if self.hours == 24 else f"{start:%Y-%m-%d %H:%M:%S}", start

    def run(self, now: dt.datetime) -> None:
        ages = {name: (now - start) / HOUR for name, start in self.names()}
        found: dict[str | None, int] = {b: n for b, a in ages.items() if (n := self.filling(a))}
        limits = RunLimits(lookback=self.lookback)
        choice = choose_batches(BatchRequest(), found, self.ledger, limits=limits)
        choice = with_known(choice, PLAN, self.ledger, now, {})
        rows = {b: found[b] for b in choice.batches}
        by = "date_trunc('hour', t)" if self.hours == 1 else None
        later = full_later([*rows], self.ledger, rows, by, now)
        for batch, n in rows.items():
            start, end = batch_times(batch, by)
            grown = growth(self.ledger.get(batch), n, now)
            self.ledger[batch] = BatchRecord(
                "m", batch, BatchStatus.ACCEPTED, n, "r", "", True, now, None, start, end
            )
            self.ledger[batch] = _with(self.ledger[batch], grown, later.get(batch))
            if batch not in later and batch not in self.first:
                self.first[batch] = (ages[batch], n / self.filling(1_000.0))


def _with(
    record: BatchRecord,
    grown: tuple[dt.datetime, int, dt.datetime | None],
    judged_from: dt.datetime | None,
) -> BatchRecord:
    at, rows, lacked = grown
    return replace(record, grown_at=at, grown_rows=rows, lacked_at=lacked, judged_from=judged_from)


def all_day(begins: float = 0, lasts: float = 24, late: float = 0.0) -> Filling:
    """2,400 rows between `begins` and the end; a part of them comes `late`, a day after."""
    prompt = round(2_400 * (1 - late))

    def rows(age: float) -> int:
        done = min(max((age - begins) / lasts, 0.0), 1.0)
        return round(prompt * done) + (2_400 - prompt if age > begins + lasts + 24 else 0)

    return rows


def at_once(*parts: tuple[float, int]) -> Filling:
    """Files that are there from so many hours on, with so many rows."""
    return lambda age: sum(rows for since, rows in parts if age >= since)


def every(hours: float, first: float = 0.0) -> list[dt.datetime]:
    """Runs every so many hours, the first one so many after the beginning."""
    count = int((DAYS * 24 - first) / hours)
    return [BEGIN + (first + i * hours) * HOUR for i in range(count)]


@pytest.mark.parametrize(
    ("filling", "hours", "runs", "latest", "least"),
    [
        # Rows are added as they happen, in UTC, California, Japan and India.
        pytest.param(all_day(), 24, every(24, 2), 26, 1.0, id="at night"),
        pytest.param(all_day(), 24, every(1, 0.1), 25, 0.8, id="each hour"),
        pytest.param(all_day(), 24, every(0.25, 0.1), 25, 0.8, id="each quarter of an hour"),
        pytest.param(all_day(8), 24, every(24, 15), 39, 1.0, id="California, each morning"),
        pytest.param(all_day(8), 24, every(6, 1), 37, 0.8, id="California, each shift"),
        pytest.param(all_day(8), 24, every(1, 0.1), 33, 0.8, id="California, each hour"),
        pytest.param(all_day(-9), 24, every(24, 16), 16, 1.0, id="Japan, after midnight"),
        pytest.param(all_day(-9), 24, every(1, 0.1), 25, 0.8, id="Japan, each hour"),
        pytest.param(all_day(-5.5), 24, every(24, 19), 19, 1.0, id="India, after midnight"),
        # Single batches of an hour, with runs in it and after it.
        pytest.param(all_day(0, 1), 1, every(1, 0.3), 2, 0.9, id="hours"),
        pytest.param(all_day(8, 1), 1, every(0.5, 0.1), 9.6, 0.75, id="hours of California"),
        pytest.param(all_day(-9, 1), 1, every(1, 0.3), 1.4, 0.9, id="hours of Japan"),
        # Files, some rows of which come later.
        pytest.param(at_once((6, 100)), 24, every(24, 7), 7, 1.0, id="a file"),
        pytest.param(at_once((6, 97), (60, 3)), 24, every(24, 7), 7, 0.97, id="late rows"),
        pytest.param(at_once((6, 50), (32, 50)), 24, every(2, 1), 33, 1.0, id="two files"),
        pytest.param(
            at_once((30, 50), (32, 50)), 24, every(2, 1), 33, 1.0, id="both the day after"
        ),
        pytest.param(all_day(0, 24, 0.03), 24, every(24, 2), 26, 0.97, id="all day, some late"),
    ],
)
def test_batches_are_judged_with_their_rows_and_without_delay(
    filling: Filling, hours: int, runs: list[dt.datetime], latest: float, least: float
) -> None:
    feed = Feed(filling, hours, lookback=3)
    for now in runs:
        feed.run(now)
    over = [b for b, start in feed.names() if start < runs[-1] - 48 * HOUR]
    # All are judged; on the first ones nobody could know.
    assert set(over) <= set(feed.first)
    learned = [feed.first[b] for b in over[-len(over) // 2 :]]
    assert max(age for age, _ in learned) <= latest
    assert min(part for _, part in learned) >= least


def test_a_run_by_hand_at_noon_does_not_judge_the_morning() -> None:
    feed = Feed(all_day())
    for now in every(24, 2)[:10]:
        feed.run(now)
    today, noon = "2024-01-10", BEGIN + (9 * 24 + 12) * HOUR
    feed.run(noon)
    assert today not in feed.first
    assert feed.ledger[today].judged_from == BEGIN + (9 * 24 + 25) * HOUR
    feed.run(noon + 14 * HOUR)
    assert feed.first[today] == (26, 1.0)


def test_files_that_are_delivered_at_once_from_some_day_on_are_judged_at_once_soon() -> None:
    feed = Feed(all_day())
    for now in every(24, 7)[:8]:
        feed.run(now)
    feed.filling = at_once((0, 2_400))
    for now in every(24, 7)[8:17]:
        feed.run(now)
    assert feed.first["2024-01-17"] == (7, 1.0)


def test_months_are_judged_by_monthly_runs() -> None:
    """A month of 30 days is not as long as that before it, and no run comes for 30 days."""
    starts = [dt.datetime(2022 + m // 12, m % 12 + 1, 1, tzinfo=dt.UTC) for m in range(36)]
    by, ledger, judged = "date_trunc('month', t)", {}, {}
    for now in [s + 30 * HOUR for s in starts[1:]]:
        rows = {
            f"{s:%Y-%m-%d %H:%M:%S}": round(100 * min((now - s).days / 28, 1.0) ** 2) + 1
            for s in starts
            if s < now
        }
        known: dict[str | None, int] = {**rows}
        choice = choose_batches(BatchRequest(), known, ledger)
        choice = with_known(choice, PLAN, ledger, now, {})
        tested = {b: rows[b] for b in choice.batches}
        later = full_later([*tested], ledger, tested, by, now)
        for batch, n in tested.items():
            start, end = batch_times(batch, by)
            record = BatchRecord("m", batch, BatchStatus.ACCEPTED, n, "r", "", True, now)
            grown = growth(ledger.get(batch), n, now)
            record = replace(record, start=start, end=end)
            ledger[batch] = _with(record, grown, later.get(batch))
            if batch not in later and start is not None:
                judged.setdefault(batch, (now - start).days)
    late = {b: days for b, days in judged.items() if b > "2022-06"}
    assert len(judged) >= 34
    assert 28 <= min(late.values()) <= max(late.values()) <= 32


def test_a_repair_of_old_batches_is_one_event() -> None:
    feed = Feed(at_once((6, 100)))
    runs = every(24, 7)
    for now in runs[:12]:
        feed.run(now)
    later = runs[11] + HOUR
    for batch, record in feed.ledger.items():
        grown = growth(record, 120, later)
        feed.ledger[batch] = _with(replace(record, rows=120, checked_at=later), grown, None)
    feed.filling = at_once((6, 120))
    for now in runs[12:]:
        feed.run(now)
    ages = [age for b, (age, _) in sorted(feed.first.items()) if b > "2024-01-12"]
    # The newest of them was an hour older than usual; the day after, that is forgotten.
    assert ages == [31, 7, 7, 7, 7]


def test_runs_that_come_earlier_than_they_did_wait_for_some_days_only() -> None:
    feed = Feed(all_day())
    for now in [*every(24, 20)[:8], *every(24, 8)[9:]]:
        feed.run(now)
    assert feed.first["2024-01-10"][0] == 56
    assert feed.first["2024-01-16"] == (32, 1.0)


def test_growth_is_kept_in_steps_of_a_tenth() -> None:
    record = BatchRecord("m", "2024-01-01", BatchStatus.ACCEPTED, 5, "r", "")
    assert growth(None, 100, BEGIN) == (BEGIN, 100, None)
    assert growth(record, 100, BEGIN) == (BEGIN, 100, None)
    first = _with(record, (BEGIN, 100, None), None)
    assert growth(first, 109, BEGIN + HOUR) == (BEGIN, 100, None)
    assert growth(first, 50, BEGIN + HOUR) == (BEGIN, 100, None)
    grown = growth(first, 110, BEGIN + HOUR)
    assert grown == (BEGIN + HOUR, 110, BEGIN)
    assert growth(_with(record, grown, None), 111, BEGIN + 2 * HOUR) == grown
    assert growth(_with(record, (BEGIN, 0, None), None), 1, BEGIN + HOUR)[2] is None
    assert growth(_with(record, (BEGIN, 0, None), None), 2, BEGIN + HOUR)[2] == BEGIN


def test_names_that_are_no_times_or_the_last_there_is() -> None:
    feed = Feed(all_day())
    for now in every(24, 2)[:10]:
        feed.run(now)
    end = {"9999-12-31": BatchRecord("m", "9999-12-31", BatchStatus.ACCEPTED, 5, "r", "")}
    now = BEGIN + (10 * 24 + 2) * HOUR
    found = full_later(["b-12", "9999-12-31", "2024-01-11"], feed.ledger | end, {}, None, now)
    assert found.keys() - {"9999-12-31"} == {"2024-01-11"}


@pytest.mark.parametrize(("minutes", "again"), [(-1, ()), (1, ("2024-01-01",))])
def test_what_waits_is_judged_though_nothing_is_new(minutes: int, again: tuple[str, ...]) -> None:
    due = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    record = BatchRecord("m", "2024-01-01", BatchStatus.ACCEPTED, 5, "r", "", judged_from=due)
    now = due + dt.timedelta(minutes=minutes)
    found = choose_batches(BatchRequest(), {"2024-01-01": 5}, {"2024-01-01": record})
    choice = with_known(found, PLAN, {"2024-01-01": record}, now, {})
    assert choice.batches == again and bool(choice.notes) == bool(again)
    assert waits([record], now) == bool(again)
    # Where nobody can, as its rows are gone, no run looks for it for ever.
    assert not waits([record], now + dt.timedelta(days=8))
    named = BatchChoice((), sizes={"2024-01-01": 5})
    assert with_known(named, PLAN, {"2024-01-01": record}, now, {}).batches == ()


@pytest.mark.parametrize(
    ("batch", "batch_by", "now", "is_it"),
    [
        ("2024-01-01", "day", "2024-01-01 12:00", True),
        ("2024-01-01", "day", "2024-01-02 00:00", False),
        ("2024-01-01", "day", "2023-12-31 12:00", False),
        ("2024-02-01 00:00:00", "date_trunc('month', t)", "2024-02-29 12:00", True),
        ("2024-02-01 00:00:00", "date_trunc('month', t)", "2024-03-01 12:00", False),
        ("2024-01-01 12:00:00", None, "2024-01-01 12:00", False),
        ("b-1", "b", "2024-01-01 12:00", False),
    ],
)
def test_open_is_what_is_not_over_by_its_name(
    batch: str, batch_by: str | None, now: str, is_it: bool
) -> None:
    assert is_open(batch, batch_by, dt.datetime.fromisoformat(f"{now}+00:00")) is is_it
