"""Evaluation of the anomaly strategies on labelled real series (Numenta Anomaly Benchmark, NAB).

    DQSQL_EVAL_DATA=... python -m tests.benchmarks.anomaly_eval [--json FILE]

The folder holds `series/nab_real.parquet` (timestamp, value, file, anomaly). Series are taken as
hourly means. The first 15 % of each, NAB's probation, are history only; every later hour is decided
with at most the four weeks before it, each strategy with its default bounds. A labelled window is
found if an hour in it is flagged; a false alarm is a flagged hour outside of all windows. In the
history of the next hour flagged hours stay, as with severity warn.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dqsql.decisions.anomaly import AnomalyInput, evaluate_many, strategy

PROBATION = 0.15
HISTORY = 4 * 7 * 24
STRATEGIES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "auto": ("auto", {}),
    "batch_normal": ("batch_normal", {}),
    "online_normal": ("online_normal", {}),
    "hour_of_day": ("hour_of_day", {}),
    "hour_of_week": ("hour_of_week", {}),
    "day_of_week": ("day_of_week", {}),
    "stl(24)": ("stl", {"period": 24}),
    "holt_winters(24, fit => 'fast')": ("holt_winters", {"period": 24, "fit": "fast"}),
}
# The same at a rate of 0.1 % an hour.
RATE = 0.001


@dataclass(frozen=True, eq=False)
class Labelled:
    """A series by the hour, and which hours lie in a labelled window."""

    name: str
    times: np.ndarray
    values: np.ndarray
    labels: np.ndarray

    @property
    def start(self) -> int:
        """The first hour that is decided."""
        return int(PROBATION * self.values.size)


@dataclass(frozen=True)
class Score:
    """What a strategy found.

    Attributes:
        windows: labelled windows with an hour that was decided.
        found: those of them with a flagged hour.
        hours: decided hours outside of windows.
        false: flagged hours outside of windows.
        undecided: hours without a verdict.
        events: runs of flagged hours without an hour in a window.
    """

    windows: int = 0
    found: int = 0
    hours: int = 0
    false: int = 0
    undecided: int = 0
    events: int = 0

    def __add__(self, other: Score) -> Score:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Score(*(a + b for a, b in pairs))

    @property
    def event_f1(self) -> float:
        """F1 of windows found among windows, and among windows found and false events."""
        return 2 * self.found / max(self.windows + self.found + self.events, 1)

    @property
    def false_rate(self) -> float:
        """Share of the hours outside of windows that were flagged."""
        return self.false / self.hours if self.hours else float("nan")


def load(folder: Path) -> list[Labelled]:
    """The series of the evaluation data by the hour."""
    frame = pd.read_parquet(folder / "series" / "nab_real.parquet")
    found = []
    for name, part in frame.groupby("file"):
        hours = part.set_index("timestamp").resample("1h")
        values = hours["value"].mean().to_numpy(dtype=float)
        labels = hours["anomaly"].max().fillna(False).to_numpy(dtype=bool)
        times = hours["value"].mean().index.to_numpy().astype("datetime64[us]")
        found.append(Labelled(str(name), times, values, labels))
    return found


def score(series: Labelled, name: str, options: Mapping[str, object]) -> Score:
    """Decide on every hour from the probation on."""
    places = range(series.start, series.values.size)
    asked = [
        AnomalyInput(
            series.values[max(0, t - HISTORY) : t],
            series.times[max(0, t - HISTORY) : t],
            series.values[t],
            series.times[t],
        )
        for t in places
    ]
    decisions = evaluate_many(strategy(name, **options), asked)
    decided = np.array([d.status in ("ok", "anomalous") for d in decisions])
    flagged = np.array([d.anomalous for d in decisions])
    labels = series.labels[series.start :]
    # Number of the window of each hour, counted by the hours at which one begins.
    begins = labels & ~np.concatenate([[False], labels[:-1]])
    window = np.where(labels, np.cumsum(begins), 0)
    return Score(
        windows=np.unique(window[decided & labels]).size,
        found=np.unique(window[flagged & labels]).size,
        hours=int((decided & ~labels).sum()),
        false=int((flagged & ~labels).sum()),
        undecided=int((~decided).sum()),
        events=_false_events(flagged, labels),
    )


def _false_events(flagged: np.ndarray, labels: np.ndarray) -> int:
    begins = flagged & ~np.concatenate([[False], flagged[:-1]])
    run = np.where(flagged, np.cumsum(begins), 0)
    return len(set(run[flagged]) - set(run[flagged & labels]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation; 0 also if the data are absent, with a word about it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="folder with the evaluation data")
    parser.add_argument("--json", type=Path, help="write all figures to a file")
    options = parser.parse_args(arguments)
    folder = Path(options.data or os.environ.get("DQSQL_EVAL_DATA") or ".")
    if not (folder / "series" / "nab_real.parquet").is_file():
        print("skipped: no evaluation data; set DQSQL_EVAL_DATA to the folder that has series/")
        return 0
    every = load(folder)
    rows = []
    for label, (name, given) in STRATEGIES.items():
        for bounds, more in (("default", {}), (f"fpr {RATE:g}", {"fpr": RATE})):
            started = time.process_time()
            by_file = {s.name: score(s, name, {**given, **more}) for s in every}
            total = sum(by_file.values(), Score())
            seconds = time.process_time() - started
            print(
                f"{label:32} {bounds:10} windows {total.found:3} of {total.windows:3},"
                f" false alarms {total.false:4} of {total.hours} hours ({total.false_rate:.2%}),"
                f" event F1 {total.event_f1:.2f}, without a verdict {total.undecided},"
                f" {seconds:.0f} s",
                flush=True,
            )
            rows += [
                {"strategy": label, "bounds": bounds, "file": file, **vars(one)}
                for file, one in by_file.items()
            ]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
