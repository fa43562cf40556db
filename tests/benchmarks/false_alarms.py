"""How often monitors alarm where nothing is wrong, against the rate that they promise.

    python -m tests.benchmarks.false_alarms [--series N] [--rates R,..] [WHAT ..]

Made-up series without an anomaly, of `LENGTHS` daily batches, of every family below. From the end
of the first `START` of them on, batches are decided with all those before them (every third of the
series, to save time). The batches in which a step to a new level has yet to be learned are counted
apart: there an alarm is right. `tails` is of independent errors, by how many there were before.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dqsql.decisions.anomaly import AnomalyInput, evaluate_many, strategy
from dqsql.decisions.anomaly_bands import resolutions_of
from dqsql.decisions.novelty import decide_novelty
from dqsql.decisions.novelty_config import Feature, novelty_config
from dqsql.decisions.tails import PRIOR_OF_RATES, fit_tails

LENGTHS = (60, 120, 200, 365)
START = 30
EVERY = 3
STEP_AT = 0.5
# Batches after a step in which alarms are right.
LEARNING = 5
FEATURES = 12
Maker = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """Independent normal values."""
    return 100 + 5 * rng.normal(size=(series, length))


def autoregressive(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """AR(1) with 0.6, from its stationary distribution on."""
    noise = rng.normal(size=(series, length))
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0] / np.sqrt(1 - 0.36)
    for t in range(1, length):
        values[:, t] = 0.6 * values[:, t - 1] + noise[:, t]
    return 100 + 5 * values


def weekly(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """A season of seven batches, another one in each series."""
    season = rng.normal(size=(series, 7)) * 10
    return normal(rng, series, length) + season[:, np.arange(length) % 7]


def trending(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """A straight line: ten deviations up over a hundred batches."""
    return normal(rng, series, length) + 0.5 * np.arange(length)


def heavy(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """Student's t with three degrees of freedom."""
    return 100 + 5 * rng.standard_t(3, size=(series, length))


def counts(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """Poisson counts, means from 3 to 1,000."""
    means = 10 ** rng.uniform(0.5, 3, size=(series, 1))
    return rng.poisson(means, size=(series, length)).astype(float)


def shares(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """Shares of 400 rows, from 0.5 to 0.99."""
    levels = rng.uniform(0.5, 0.99, size=(series, 1))
    return rng.binomial(400, levels, size=(series, length)) / 400


def stepping(rng: np.random.Generator, series: int, length: int) -> np.ndarray:
    """Eight deviations up in the middle, for good."""
    return normal(rng, series, length) + np.where(np.arange(length) < STEP_AT * length, 0, 40)


FAMILIES: Mapping[str, Maker] = {
    "normal": normal,
    "AR(1) 0.6": autoregressive,
    "weekly": weekly,
    "trend": trending,
    "heavy tails": heavy,
    "counts": counts,
    "shares": shares,
    "step": stepping,
}
STRATEGIES: Mapping[str, Mapping[str, object]] = {
    "auto": {},
    "online_normal": {},
    "batch_normal": {},
    "day_of_week": {},
    "holt_winters": {"period": 7, "fit": "fast"},
    "stl": {"period": 7},
}
# Errors of a forecast that knows the mean.
ERRORS: Mapping[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, size=shape),
    "counts, mean 30": lambda rng, shape: rng.poisson(30, size=shape) - 30.0,
    "counts, mean 3": lambda rng, shape: rng.poisson(3, size=shape) - 3.0,
    "shares, 0.98": lambda rng, shape: rng.binomial(400, 0.98, size=shape) / 400 - 0.98,
    "log-normal": lambda rng, shape: rng.lognormal(0, 0.5, size=shape) - np.exp(0.125),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
}


@dataclass(frozen=True)
class Alarms:
    """Alarms on good batches; `learning` are those while a step was learned."""

    decided: int = 0
    alarms: int = 0
    learning: int = 0

    def __add__(self, other: Alarms) -> Alarms:
        return Alarms(
            self.decided + other.decided, self.alarms + other.alarms, self.learning + other.learning
        )

    @property
    def rate(self) -> float:
        """Share of the decided batches that were flagged."""
        return self.alarms / max(self.decided, 1)


def places(length: int, start: int = START) -> np.ndarray:
    """The batches that are decided, without those in which a step is learned."""
    every = np.arange(start, length, EVERY)
    return every


def is_learning(family: str, length: int, place: int) -> bool:
    """Whether a step has yet to be learned."""
    begin = np.ceil(STEP_AT * length)
    return family == "step" and bool(begin <= place < begin + LEARNING)


def days(length: int) -> np.ndarray:
    """Times of daily batches."""
    return np.datetime64("2024-01-01", "us") + np.arange(length) * np.timedelta64(1, "D")


def strategy_alarms(
    name: str, family: str, rate: float | None, series: int, lengths: Sequence[int] = LENGTHS
) -> Alarms:
    """Alarms of a strategy on `series` made-up ones, shared among the lengths."""
    more = {} if rate is None else {"fpr": rate}
    chosen = strategy(name, **STRATEGIES[name], **more)
    total = Alarms()
    for length in lengths:
        rng = np.random.default_rng([length, list(FAMILIES).index(family)])
        values, times = FAMILIES[family](rng, max(series // len(lengths), 1), length), days(length)
        for place in places(length):
            asked = [
                AnomalyInput(row[:place], times[:place], row[place], times[place]) for row in values
            ]
            flagged = np.array([d.anomalous for d in evaluate_many(chosen, asked)])
            total += _counted(flagged, is_learning(family, length, int(place)))
    return total


def novelty_alarms(
    mode: str,
    family: str,
    rates: Sequence[float | None],
    series: int,
    lengths: Sequence[int] = LENGTHS,
) -> list[Alarms]:
    """Alarms of `@novelty` on batches of `FEATURES` metrics, each a series of the family.

    One of each rate; where it keeps a rate, a batch is decided once, by its p-value.
    """
    if not novelty_config(mode=mode).keeps_rate and len(rates) > 1:
        return [novelty_alarms(mode, family, [rate], series, lengths)[0] for rate in rates]
    config = novelty_config(mode=mode, **({} if rates[0] is None else {"fpr": rates[0]}))
    features = [Feature(f"c{i}", "mean") for i in range(FEATURES)]
    total = [Alarms() for _ in rates]
    for length in lengths:
        rng = np.random.default_rng([length, list(FAMILIES).index(family), 1])
        times = days(length)
        for _ in range(max(series // len(lengths), 1)):
            values = FAMILIES[family](rng, FEATURES, length).T
            for place in np.arange(config.min_history, length, EVERY * 3):
                found = decide_novelty(
                    features, values[:place], values[place], config, times[: place + 1]
                )
                step = is_learning(family, length, int(place))
                for i, rate in enumerate(rates):
                    flagged = found.status == "anomalous"
                    if config.keeps_rate:
                        flagged = found.p_value < (novelty_config().rate if rate is None else rate)
                    total[i] += _counted(np.array([flagged]), step)
    return total


def tail_rates(series: int, rates: Sequence[float], new: int = 400) -> None:
    """Print how many times a rate is realised on new errors, by how many there were before."""
    sizes = (30, 60, 120, 365)
    print(f"\ntails: realised rate / promised rate ({series} series, {new} new errors each)")
    print(f"{'':16}" + "".join(f"{f'{n} at {r:g}':>14}" for n in sizes for r in rates))
    for number, (name, make) in enumerate(ERRORS.items()):
        cells = []
        for size in sizes:
            errors = make(np.random.default_rng([size, number]), (series, size + new))
            past, after = errors[:, :size], errors[:, size:]
            tails = fit_tails(past, resolutions_of(past)[0], prior_weights=PRIOR_OF_RATES)
            for rate in rates:
                low, high = tails.reach(rate / 2)
                outside = (after < -low[:, None]) | (after > high[:, None])
                cells.append(f"{outside.mean() / rate:>14.2f}")
        print(f"{name:16}" + "".join(cells), flush=True)


def _counted(flagged: np.ndarray, learning: bool) -> Alarms:
    found = int(flagged.sum())
    return Alarms(0, 0, found) if learning else Alarms(flagged.size, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print realised rates, and how many times what was promised they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", help="strategies by name, novelty, tails")
    parser.add_argument("--series", type=int, default=200, help="made-up series of each family")
    parser.add_argument("--rates", default="default,0.01,0.001", help="rates, comma-separated")
    parser.add_argument("--json", type=Path, help="write all figures to a file")
    options = parser.parse_args(arguments)
    rows = []
    rates = [None if r == "default" else float(r) for r in options.rates.split(",")]
    for name in options.what or ["tails", *STRATEGIES, "novelty", "novelty paper"]:
        if name == "tails":
            tail_rates(500, (0.01, 0.001))
            continue
        print(f"\n{name}: realised rate / promised rate ({options.series} series a family)")
        print(f"{'':12}" + "".join(f"{_named(rate):>24}" for rate in rates))
        for family in FAMILIES:
            started = time.process_time()
            if name.startswith("novelty"):
                mode = name.removeprefix("novelty").strip() or novelty_config().mode
                usual = novelty_config(mode=mode).rate
                every = novelty_alarms(mode, family, rates, options.series)
            else:
                usual = strategy(name, **STRATEGIES[name]).rate
                every = [strategy_alarms(name, family, rate, options.series) for rate in rates]
            promises = [rate or usual for rate in rates]
            cells = [
                f"{found.rate:.3%} = {found.rate / promised:.2f} x"
                for found, promised in zip(every, promises, strict=True)
            ]
            rows += [
                {"monitor": name, "family": family, "promised": promised, **vars(found)}
                for found, promised in zip(every, promises, strict=True)
            ]
            print(
                f"{family:12}"
                + "".join(f"{cell:>24}" for cell in cells)
                + f"   {time.process_time() - started:.0f} s",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


def _named(rate: float | None) -> str:
    return "default" if rate is None else f"fpr {rate:g}"


if __name__ == "__main__":
    sys.exit(main())
