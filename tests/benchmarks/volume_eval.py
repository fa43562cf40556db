"""Which changes of the number of rows `@anomaly(row_count)` finds, where events change it, too.

    python -m tests.benchmarks.volume_eval [--series N] [--rates R,..]

Made-up numbers of rows with a weekly season, growth and noise of 5%, as of `FAMILIES`: without
events; with a promotion of three days (+35%) every 29 days; with holidays (-35%); with both; with
promotions and one spike, or one season of sales and feasts, half a year ago; of an hourly feed with
10 rows at night and 280 at noon; in the second and third week of a table; and on the sales and
feasts themselves, a year after the first ones. From `START` batches on, each third batch without an
event is decided, as it is and with other numbers of rows; of hours, those from 9 to 17.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dqsql.decisions.anomaly import AnomalyInput, evaluate_many
from dqsql.decisions.strategies_auto import Auto

DAYS, START, EVERY = 90, 45, 3
HOURS, HOURS_START = 24 * 28, 24 * 20
HOLIDAYS = (20, 33, 54, 71)
# Days of the longer series, the first that is decided, and what came once: factors from a day on.
LONG, LONG_START = 230, 200
SPIKE: Mapping[int, Sequence[float]] = {60: (4.5,)}
SEASON: Mapping[int, Sequence[float]] = {
    60: (1.5, 2, 2.5, 3.5, 4, 3, 2.5, 2),
    68: (1.5,) * 22,
    90: (0.4, 0.1, 0.3),
    97: (0.3,),
}
# By the date and by the day of the week of 2022; a year later the latter are 364 days on.
FEASTS: Mapping[int, float] = {358: 0.6, 359: 0.25, 365: 0.4}
SALES: Mapping[int, float] = {328: 3.0, 329: 2.0, 331: 2.5}
FACTORS: Mapping[str, float] = {"as it is": 1.0, "half": 0.5, "a third": 1 / 3, "double": 2.0}
# Numbers of rows, their times, and which of them have no event.
Series = tuple[np.ndarray, np.ndarray, np.ndarray]


def daily(rng: np.random.Generator, *, promotions: bool, holidays: bool) -> Series:
    """A shop's orders a day."""
    day = np.arange(DAYS)
    level = rng.uniform(100, 2000) * (1 + 0.4 * (day % 7 >= 5)) * 1.002**day
    rows = level * rng.normal(1, 0.05, DAYS)
    promoted, closed = (day % 29 < 3) & promotions, np.isin(day, HOLIDAYS) & holidays
    rows *= np.where(promoted, 1.35, 1) * np.where(closed, 0.65, 1)
    beside = np.isin(day - 1, HOLIDAYS) | np.isin(day % 29, (3, 28))
    times = np.datetime64("2024-01-01", "D") + day
    return rows.round(), times, ~(promoted | closed | beside) & (day >= START)


def after(rng: np.random.Generator, once: Mapping[int, Sequence[float]]) -> Series:
    """A shop's orders a day, long after something that came once."""
    day = np.arange(LONG)
    promoted = day % 29 < 3
    rows = rng.uniform(100, 2000) * (1 + 0.4 * (day % 7 >= 5)) * 1.001**day
    rows *= rng.normal(1, 0.05, LONG) * np.where(promoted, 1.35, 1)
    for first, factors in once.items():
        rows[first : first + len(factors)] *= factors
    times = np.datetime64("2024-01-01", "D") + day
    beside = np.isin(day % 29, (3, 28))
    return rows.round(), times, ~(promoted | beside) & (day >= LONG_START)


def hourly(rng: np.random.Generator) -> Series:
    """Payments an hour."""
    hour = np.arange(HOURS)
    height = np.clip(np.sin((hour % 24 - 6) / 14 * np.pi), 0, None)
    rows = rng.poisson((10 + 270 * height) * np.exp(rng.normal(0, 0.08, HOURS)))
    times = np.datetime64("2024-01-01T00", "h") + hour
    by_day = (hour % 24 >= 9) & (hour % 24 <= 17)
    return rows.astype(float), times, by_day & (hour >= HOURS_START)


def young(rng: np.random.Generator) -> Series:
    """A shop's orders a day from its first day on, with fewer at weekends."""
    day = np.arange(21)
    times = np.datetime64("2024-01-01", "D") + rng.integers(7) + day
    weekend = (times.astype(int) + 3) % 7 >= 5
    rows = rng.uniform(100, 2000) * np.where(weekend, 0.65, 1) * rng.normal(1, 0.05, day.size)
    return rows.round(), times, day >= 8


def feasts(rng: np.random.Generator) -> Series:
    """A shop's orders a day in two years; the feasts of the second are decided."""
    day = np.arange(731)
    rows = rng.uniform(100, 2000) * (1 + 0.4 * (day % 7 >= 5)) * 1.0005**day
    rows *= rng.normal(1, 0.05, day.size)
    again = {first + 365: factor for first, factor in FEASTS.items()}
    again |= {first + 364: factor for first, factor in SALES.items()}
    for first, factor in {**FEASTS, **SALES, **again}.items():
        rows[first] *= factor * rng.normal(1, 0.1)
    return rows.round(), np.datetime64("2022-01-01", "D") + day, np.isin(day, [*again])


FAMILIES: Mapping[str, Callable[[np.random.Generator], Series]] = {
    "quiet": lambda rng: daily(rng, promotions=False, holidays=False),
    "promotions": lambda rng: daily(rng, promotions=True, holidays=False),
    "holidays": lambda rng: daily(rng, promotions=False, holidays=True),
    "both": lambda rng: daily(rng, promotions=True, holidays=True),
    "spike": lambda rng: after(rng, SPIKE),
    "season": lambda rng: after(rng, SEASON),
    "hours": hourly,
    "young": young,
    "feasts": feasts,
}


def shares(family: str, rate: float, series: int) -> tuple[int, dict[str, float]]:
    """How many batches were decided, and the share of anomalies among them, by factor."""
    inputs: dict[str, list[AnomalyInput]] = {name: [] for name in FACTORS}
    for seed in range(series):
        rows, times, decided = FAMILIES[family](np.random.default_rng(seed))
        every = 1 if family in ("young", "feasts") else EVERY
        for i in map(int, np.flatnonzero(decided)[::every]):
            for name, factor in FACTORS.items():
                value = float(round(rows[i] * factor))
                inputs[name].append(AnomalyInput(rows[:i], times[:i], value, times[i]))
    found = {
        name: float(np.mean([d.anomalous for d in evaluate_many(Auto(fpr=rate), given)]))
        for name, given in inputs.items()
    }
    return len(inputs["half"]), found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of batches that are anomalies, by family, rate and factor."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--series", type=int, default=20, help="made-up series of each family")
    parser.add_argument("--rates", default="0.002,0.0005", help="rates, comma-separated")
    options = parser.parse_args(arguments)
    print(f"{'family':12}{'rate':>8}{'batches':>9}" + "".join(f"{name:>10}" for name in FACTORS))
    for family in FAMILIES:
        for rate in map(float, options.rates.split(",")):
            count, found = shares(family, rate, options.series)
            cells = "".join(f"{share:>10.2%}" for share in found.values())
            print(f"{family:12}{rate:>8g}{count:>9}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
