"""The risk of a false alarm, learned from rehearsals, and the level of generality that it leaves.

A rehearsal cuts a column in two: a rule is learned from the first part, and it is an alarm if the
test of `validate` would fire on the rest. The columns of a corpus were rehearsed at all levels of
the ladder; boosted trees learned from them how likely an alarm is, from what the first part alone
shows: how many distinct values and forms it has, how often rows brought a form that none before
had, early and late, and whether the values are sorted.

The trees ship with dqsql (`data/risk.json`, made by `tests/benchmarks/train_pattern_risk.py`; its
card is in docs/patterns.md). They hold numbers only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dqsql.errors import PatternError
from dqsql.patterns.characters import DIGIT, LOWER, OTHER_LETTER, UPPER, shape
from dqsql.patterns.ladder import LEVELS, Ladder, Times

Floats = npt.NDArray[np.float64]

RISK_MODEL = Path(__file__).parent / "data" / "risk.json"

# The choice between two levels weighs what the narrower one would catch more against what it risks
# more. With r = 0.15 a false alarm costs as much as eight alarms that are missed.
_PRICE_TIMES_R = 1.2

#: Where the training rows are cut in two, in shares of them.
_CUTS = (0.1, 0.25, 0.5, 0.75, 0.9)
_LATE = (0.5, 0.75, 0.9)


def features(ladder: Ladder, times: Times | None = None) -> Floats:
    """What the values say of the risk at each level, shape (levels, features).

    `times` is `ladder.accepted_from()`, where it is at hand.
    """
    times = ladder.accepted_from() if times is None else times
    rows = times.shape[1]
    new = times == np.arange(rows)
    forms = np.maximum(1, new.sum(axis=1))
    last_new = np.where(new.any(axis=1), rows - 1 - new[:, ::-1].argmax(axis=1), 0) / rows
    late = [new[:, int(share * rows) :].sum(axis=1) for share in _LATE]
    unseen = [_unseen(times, round(share * rows)) for share in _CUTS]
    of_level = np.column_stack(
        [np.arange(len(LEVELS)), np.log(forms), forms / rows, last_new, *late, *unseen]
    )
    shared = np.array([*_of_values(ladder), *np.log(forms)])
    return np.hstack([of_level, np.tile(shared, (len(LEVELS), 1))])


def _unseen(times: Times, cut: int) -> Floats:
    """Return for each level the share of later rows that the first `cut` rows do not accept."""
    cut = min(max(1, cut), times.shape[1] - 1)
    if cut < 1:
        return np.zeros(len(times))
    share: Floats = (times[:, cut:] >= cut).mean(axis=1)
    return share


def _of_values(ladder: Ladder) -> list[float]:
    values = ladder.values
    rows = len(values)
    counts = np.bincount(ladder.numbers)
    lengths = np.array([len(value) for value in values])
    text = "".join(map(shape, ladder.distinct))
    size = max(1, len(text))
    letters = [text.count(code) / size for code in (UPPER, LOWER, OTHER_LETTER)]
    steps = [(a < b, a == b) for a, b in pairwise(values)] or [(True, True)]
    up, equal = (float(share) for share in np.mean(steps, axis=0))
    return [
        np.log(rows),
        np.log(len(counts)),
        len(counts) / rows,
        (counts == 1).sum() / rows,
        counts.max() / rows,
        equal,
        up + equal,
        1 - up,
        lengths.mean(),
        lengths.std(),
        lengths.max(),
        text.count(DIGIT) / size,
        sum(letters),
        letters[0],
        text.count(" ") / size,
    ]


@dataclass(frozen=True)
class RiskModel:
    """Boosted trees that give the log odds of a false alarm, and the power of each level.

    Attributes:
        base: log odds without any tree.
        feature, threshold, left, right: of each node of each tree, shape (trees, nodes): a row goes
            left where its feature is at most the threshold. Leaves lead to themselves.
        value: of each node what it adds to the log odds, 0 for inner ones.
        depth: of the deepest tree.
        power: of each level the share of other columns that its rules flag, in [0, 1].
    """

    base: float
    feature: npt.NDArray[np.int64]
    threshold: Floats
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    value: Floats
    depth: int
    power: Floats

    def risk(self, table: Floats) -> Floats:
        """Return the risk of a false alarm, in (0, 1), of rows of `features`."""
        rows = np.arange(len(table))[:, None]
        trees = np.arange(len(self.feature))[None, :]
        node = np.zeros((len(table), len(self.feature)), dtype=np.int64)
        for _ in range(self.depth):
            goes_left = table[rows, self.feature[trees, node]] <= self.threshold[trees, node]
            node = np.where(goes_left, self.left[trees, node], self.right[trees, node])
        odds = self.base + self.value[trees, node].sum(axis=1)
        risk: Floats = 1 / (1 + np.exp(-odds))
        return risk


@lru_cache(maxsize=1)
def shipped_model() -> RiskModel:
    """The model that ships with dqsql. Raises PatternError where the installation lacks it."""
    return load_model(RISK_MODEL)


def load_model(file: Path) -> RiskModel:
    """Read a model. Raises PatternError."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        trees = content["trees"]
        if content["levels"] != list(LEVELS):
            raise PatternError(f"{file} was made for other levels: {content['levels']}")
        nodes = max(map(len, trees))
        table = np.zeros((len(trees), nodes, 5))
        for number, tree in enumerate(trees):
            table[number, : len(tree)] = tree
        return RiskModel(
            float(content["base"]),
            table[:, :, 0].astype(np.int64),
            table[:, :, 1],
            table[:, :, 2].astype(np.int64),
            table[:, :, 3].astype(np.int64),
            table[:, :, 4],
            int(content["depth"]),
            np.array(content["power"], dtype=np.float64),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PatternError(f"the risk model {file} cannot be read: {error}") from error


def preferred_levels(risk: Floats, power: Floats, r: float) -> list[int]:
    """Return the levels whose risk is at most r, the best one first.

    The best level catches most for its risk: the largest (1 - risk) * power - price * risk, where
    the price of a false alarm grows as r shrinks. So r sets the rate, and there is no cliff at it.
    """
    worth = (1 - risk) * power - _PRICE_TIMES_R / max(r, 1e-6) * risk
    order = np.argsort(-worth, kind="stable")
    return [int(level) for level in order if risk[level] <= r]
