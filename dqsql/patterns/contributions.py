"""What a column contributes to the corpus index, and how contributions add up.

Auto-Validate, section 2.4. A column D contributes to every pattern p of its values one column and
its impurity, Imp_D(p) = share of rows of D that p does not match (Definition 3); so that

    Cov_T(p) = number of columns with at least one match
    FPR_T(p) = sum of Imp_D(p) over those columns / Cov_T(p)         (Definition 7)

All are sums, so that contributions can be merged in any order. Impurity is counted in whole
millionths, so that merging is exact and not subject to the order of floating-point additions.

Beyond the paper, each column is also a rehearsal of validation, see `Backtest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dqsql.errors import PatternError
from dqsql.patterns.generation import column_sample, pattern_masks
from dqsql.patterns.validate import alarm_threshold

IMPURITY_SCALE = 1_000_000

#: The rehearsal on columns of the corpus, see `Backtest`.
_MIN_TRAINING_ROWS = 10
_TRAINING_SHARE = 0.9
_FEW_DISTINCT = 3
_JUDGED_ROWS = 100
_COLUMNS_PER_COVERAGE = 500

#: What is summed for each pattern, in this order wherever counts are kept as a list.
COUNTS = (
    "coverage",
    "impurity",
    "trials_one",
    "alarms_one",
    "trials_few",
    "alarms_few",
    "trials_many",
    "alarms_many",
)


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How columns are turned into patterns. Fixed for the life of an index.

    Attributes:
        tau: values of more tokens are left out; at least 1.
        max_values: rows sampled from a column; at least 1.
        min_share: patterns that match a smaller share of a column's rows are left out, in [0, 1).
        min_coverage: patterns of fewer columns are left out of the served part of a large corpus
            (see `least_coverage`); at least 1.
    """

    tau: int = 8
    max_values: int = 1_000
    min_share: float = 0.01
    min_coverage: int = 5

    def __post_init__(self) -> None:
        if self.tau < 1 or self.max_values < 1 or self.min_coverage < 1:
            raise PatternError("tau, max_values and min_coverage must be at least 1")
        if not 0 <= self.min_share < 1:
            raise PatternError(f"min_share {self.min_share} is not in [0, 1)")

    def least_coverage(self, columns: int) -> int:
        """Return the least coverage of the patterns that are served of so many columns.

        Rare patterns are most of an index, and of no use in a large lake. A small one is served
        whole: its patterns may be common once it is merged with the shipped index.
        """
        return max(1, min(self.min_coverage, columns // _COLUMNS_PER_COVERAGE))


def column_patterns(values: Sequence[str], settings: IndexSettings) -> dict[str, tuple[int, ...]]:
    """Return what one column contributes to each of its patterns, in the order of `COUNTS`."""
    sample = column_sample(values)
    if not sample.rows:
        return {}
    min_rows = max(1, int(settings.min_share * sample.rows))
    masks = pattern_masks(sample, tau=settings.tau, min_rows=min_rows)
    scale = IMPURITY_SCALE / sample.rows
    trial = Backtest.of(values)
    return {
        pattern: (1, round((sample.rows - mask.bit_count()) * scale), *trial.outcome(mask))
        for pattern, mask in masks.items()
    }


@dataclass(frozen=True, slots=True)
class Backtest:
    """A rehearsal on a column of the corpus: learn from its first tenth, test on the rest.

    Attributes:
        rows: rows of the column.
        train: rows of the first part, 0 where the column is too short to be cut in two.
        stratum: of the first part, see `stratum_of`.
    """

    rows: int
    train: int
    stratum: int

    @classmethod
    def of(cls, values: Sequence[str]) -> Backtest:
        """Return the rehearsal on the column's values, in their order."""
        train = max(_MIN_TRAINING_ROWS, len(values) // 10)
        if len(values) < 2 * train:
            return cls(len(values), 0, 0)
        return cls(len(values), train, stratum_of(len(set(values[:train]))))

    def outcome(self, mask: int) -> tuple[int, ...]:
        """Return trials and alarms by stratum for one pattern: `COUNTS` from the third on.

        A pattern is on trial where it matches nine tenths of the first part; an alarm is what
        `validate` would have raised on the rest. All rest is good data, so each alarm is false.
        """
        if not self.train:
            return _NO_TRIAL
        first = (mask & ((1 << self.train) - 1)).bit_count()
        if first < _TRAINING_SHARE * self.train:
            return _NO_TRIAL
        rest = self.rows - self.train
        nonconforming = rest - (mask.bit_count() - first)
        # Ten training rows give the test no power: judge as if there had been a hundred.
        scale = max(1.0, _JUDGED_ROWS / self.train)
        alarm = nonconforming > 0 and nonconforming >= alarm_threshold(
            round((self.train - first) * scale), round(self.train * scale), rest
        )
        counts = [0] * len(_NO_TRIAL)
        counts[2 * self.stratum : 2 * self.stratum + 2] = (1, int(alarm))
        return tuple(counts)


_NO_TRIAL = (0,) * (len(COUNTS) - 2)


def stratum_of(distinct: int) -> int:
    """Return 0, 1 or 2 for one, few or many distinct values in training.

    A hundred equal values say less about what will come than a hundred different ones, so
    rehearsals are counted by it.
    """
    return 0 if distinct <= 1 else 1 if distinct <= _FEW_DISTINCT else 2
