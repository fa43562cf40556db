"""Inference of a validation pattern for a column.

Two ways, named by `InferenceSettings.evidence`:

* "rehearsal", ours: the rule of that level of the ladder (see `ladder`) that catches most for its
  risk of a false alarm (see `risk`), among those whose risk is at most r.
* "impurity", the paper's FMDV, FMDV-V, FMDV-H and FMDV-VH: Auto-Validate, equations (5)-(7)
  (basic), (8)-(11) (vertical cuts), (12)-(16) (horizontal cuts). The pattern of least
  false-positive rate FPR_T is sought, among those whose rate is at most r and whose coverage is at
  least m columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dqsql.errors import PatternError
from dqsql.patterns.characters import python_classes
from dqsql.patterns.contributions import stratum_of
from dqsql.patterns.generation import ColumnSample, column_sample, hypotheses
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.ladder import EXACT, LEVELS, Ladder
from dqsql.patterns.language import Element, Pattern, Token, pattern_of
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches, spark_regex, token_regex
from dqsql.patterns.risk import Floats, RiskModel, features, preferred_levels, shipped_model
from dqsql.patterns.vertical import Candidate, Judge, best_segmentation

#: On corpora of this many columns and more, m defaults to the paper's 100.
_COLUMNS_OF_LARGE_CORPUS = 1_000_000
_MIN_COVERAGE_LARGE = 100
_MIN_COVERAGE_SMALL = 5

_EvidenceKind = Literal["rehearsal", "impurity"]
_DEFAULT_R: dict[_EvidenceKind, float] = {"rehearsal": 0.15, "impurity": 0.1}

#: The risk that was learned weighs as much as so many rehearsals of the very pattern in the index.
_WEIGHT_OF_MODEL = 20.0


@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """Settings of inference; the names are the paper's.

    Attributes:
        evidence: what is sought, "rehearsal" or the paper's "impurity".
        r: largest rate, in [0, 1]: of rehearsals the risk that the rule raises a false alarm, of
            impurity the paper's FPR_T, the expected share of values that do not match. None takes
            0.15 and the paper's 0.1.
        theta: largest share of training rows that may not conform, in [0, 1): with impurity by
            horizontal cuts, with rehearsals because they are empty or too long.
        m: of impurity, the least coverage in columns, at least 1; None takes 100 on corpora of a
            million columns and proportionally less on smaller ones, but at least 5.
        vertical, horizontal: of impurity, which cuts are tried; both is FMDV-VH, neither basic
            FMDV.
        max_values: rows used, the first ones; at least 1.
        constants: whether words may stay as they are in a pattern (symbols always do). Without,
            there are no rules of exact values and no vertical cuts.
    """

    r: float | None = None
    m: int | None = None
    theta: float = 0.1
    vertical: bool = True
    horizontal: bool = True
    max_values: int = 1_000
    constants: bool = True
    evidence: _EvidenceKind = "rehearsal"

    def __post_init__(self) -> None:
        if self.r is not None and not 0 <= self.r <= 1:
            raise PatternError(f"r = {self.r} is not in [0, 1]")
        if self.evidence not in _DEFAULT_R:
            raise PatternError(
                f"unknown evidence {self.evidence!r}", hint="use 'rehearsal' or 'impurity'"
            )
        if not 0 <= self.theta < 1:
            raise PatternError(f"theta = {self.theta} is not in [0, 1)")
        if self.max_values < 1 or (self.m is not None and self.m < 1):
            raise PatternError("m and max_values must be at least 1")

    @property
    def max_rate(self) -> float:
        """The r that holds."""
        return _DEFAULT_R[self.evidence] if self.r is None else self.r

    def min_coverage(self, columns: int) -> int:
        """Return m for a corpus of the given number of columns."""
        if self.m is not None:
            return self.m
        share = columns / _COLUMNS_OF_LARGE_CORPUS
        return max(_MIN_COVERAGE_SMALL, min(_MIN_COVERAGE_LARGE, int(_MIN_COVERAGE_LARGE * share)))


@dataclass(frozen=True, slots=True)
class LearnedPattern:
    """A pattern learned for a column.

    Attributes:
        pattern: the pattern in printable form.
        fpr: the rate that r bounds, in [0, 1]; with vertical cuts the sum over segments.
        coverage: columns of the corpus that the pattern (with vertical cuts: its rarest segment)
            matches; 0 for most unions.
        rows: non-null training values.
        nonconforming: training values that do not match.
        method: FMDV, FMDV-V, FMDV-H or FMDV-VH, by the settings; or the level of the ladder.
    """

    pattern: str
    fpr: float
    coverage: int
    rows: int
    nonconforming: int
    method: str

    @property
    def parsed(self) -> Pattern:
        """The pattern as tokens."""
        return parse_pattern(self.pattern)

    @property
    def spark_regex(self) -> str:
        """The anchored Java regular expression for Spark's `rlike`."""
        return spark_regex(self.parsed)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> LearnedPattern:
        """Read its fields. Raises PatternError."""
        try:
            learned = cls(
                pattern=str(content["pattern"]),
                fpr=float(content["fpr"]),
                coverage=int(content["coverage"]),
                rows=int(content["rows"]),
                nonconforming=int(content["nonconforming"]),
                method=str(content["method"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PatternError(f"stored pattern is damaged: {error}") from error
        parse_pattern(learned.pattern)
        return learned


@dataclass(frozen=True, slots=True)
class NoPattern:
    """No feasible pattern, and why.

    Attributes:
        code: no_values, too_wide, no_common_pattern, unknown_domain, or high_fpr.
        reason: one sentence for people.
    """

    code: str
    reason: str


def infer_pattern(
    values: Iterable[str | None],
    index: PatternIndex,
    settings: InferenceSettings | None = None,
    model: RiskModel | None = None,
) -> LearnedPattern | NoPattern:
    """Learn a validation pattern from a column's values, never a trivial one; or say why not.

    Nulls are left out, empty strings are values. The settings of the corpus `index` (tau) hold here
    too. `model` gives the risk of a false alarm of rehearsals; by default the one that ships.
    """
    settings = settings or InferenceSettings()
    kept = [value for value in values if value is not None][: settings.max_values]
    if not kept:
        return NoPattern("no_values", "the column has no values to learn from")
    if settings.evidence == "rehearsal":
        return _best_union(kept, index, settings, model or shipped_model())
    return _least_impure(column_sample(kept), index, settings)


def _best_union(
    values: Sequence[str], index: PatternIndex, settings: InferenceSettings, model: RiskModel
) -> LearnedPattern | NoPattern:
    """Return the rule of the ladder that catches most for its risk."""
    ladder = Ladder(values)
    formless = ladder.formless()
    if formless > settings.theta * len(values):
        return NoPattern("too_wide", "too many values are empty, or too long to have a pattern")
    patterns = [
        ladder.pattern(level) if settings.constants or level != EXACT else None for level in LEVELS
    ]
    by_shape = model.risk(features(ladder))
    risk, coverage = _with_corpus(by_shape, patterns, index, stratum_of(len(ladder.distinct)))
    best = [
        next(
            (n for n in preferred_levels(rates, model.power, settings.max_rate) if patterns[n]),
            None,
        )
        for rates in (by_shape, risk)
    ]
    # What the corpus vouches for must not move the choice to a rule that catches less.
    level = max((n for n in best if n is not None), key=lambda n: model.power[n], default=None)
    pattern = None if level is None else patterns[level]
    if level is not None and pattern is not None:
        return LearnedPattern(
            pattern=pattern.text,
            fpr=round(float(risk[level]), 6),
            coverage=int(coverage[level]),
            rows=len(values),
            nonconforming=formless,
            method=LEVELS[level],
        )
    return NoPattern(
        "high_fpr",
        f"the safest rule is expected to raise a false alarm with a probability of "
        f"{float(risk.min()):.1%}, more than r = {settings.max_rate:.1%} (free text?)",
    )


def _with_corpus(
    risk: Floats, patterns: Sequence[Pattern | None], index: PatternIndex, stratum: int
) -> tuple[Floats, Floats]:
    """Return the risks, lowered where the corpus rehearsed the very pattern, and its coverage.

    A corpus can only vouch for a narrow pattern, never take one away: columns of other formats
    that happen to match it say little of this one.
    """
    evidence = index.lookup([pattern.text if pattern is not None else "" for pattern in patterns])
    trials, alarms = evidence.rehearsals(stratum)
    posterior = (alarms + _WEIGHT_OF_MODEL * risk) / (trials + _WEIGHT_OF_MODEL)
    return np.minimum(risk, posterior), evidence.coverage.astype(np.float64)


def _least_impure(
    sample: ColumnSample, index: PatternIndex, settings: InferenceSettings
) -> LearnedPattern | NoPattern:
    """Return FMDV's pattern, with the cuts of the settings."""
    judge = Judge(index, r=settings.max_rate, m=settings.min_coverage(index.columns))
    min_share = 1 - settings.theta if settings.horizontal else 1.0
    whole = hypotheses(
        sample, tau=index.settings.tau, min_share=min_share, constants=settings.constants
    )
    best = judge.safest(whole)
    if settings.vertical and settings.constants:
        cut = best_segmentation(sample, judge, min_share=min_share)
        if cut is not None and (best is None or cut.rate < best.rate):
            best = cut
    if best is None:
        return _explain(sample, whole, judge)
    return _learned(best, sample, settings)


def _learned(
    candidate: Candidate, sample: ColumnSample, settings: InferenceSettings
) -> LearnedPattern:
    pattern = parse_pattern(candidate.text)
    conforming = sum(m.bit_count() for v, m in sample.masks.items() if matches(pattern, v))
    cuts = "V" * settings.vertical + "H" * settings.horizontal
    return LearnedPattern(
        pattern=pattern.text,
        fpr=candidate.rate,
        coverage=candidate.coverage,
        rows=sample.rows,
        nonconforming=sample.rows - conforming,
        method=f"FMDV-{cuts}" if cuts else "FMDV",
    )


def _explain(sample: ColumnSample, whole: dict[str, int], judge: Judge) -> NoPattern:
    tau = judge.index.settings.tau
    if not whole:
        if hypotheses(sample, tau=tau, min_share=0.5):
            return NoPattern(
                "no_common_pattern", "the values follow no common pattern (free text?)"
            )
        return NoPattern(
            "too_wide",
            "most values share no pattern, or have more tokens than the index covers "
            f"(tau = {tau})",
        )
    evidence = judge.index.lookup(list(whole))
    known = evidence.coverage >= judge.m
    if not known.any():
        return NoPattern(
            "unknown_domain",
            f"no pattern of the values occurs in {judge.m} columns of the corpus "
            f"({judge.index.columns} columns)",
        )
    return NoPattern(
        "high_fpr",
        f"the best known pattern is expected to raise false alarms at a rate of "
        f"{float(evidence.fpr[known].min()):.1%}, more than r = {judge.r:.1%}",
    )


_MAX_RANKED = 256


@dataclass(frozen=True, slots=True)
class TagPattern:
    """A pattern that names a domain.

    Attributes:
        pattern: in printable form.
        coverage: columns of the corpus with at least one match.
        false_negative_rate: mean share of values that it misses in those columns, in [0, 1].
    """

    pattern: str
    coverage: int
    false_negative_rate: float


@dataclass(frozen=True, slots=True)
class TaggedColumn:
    """A column that shares the domain, with the share of its values that match, in [0, 1]."""

    table: str
    column: str
    share: float


def tag_pattern(
    values: Iterable[str | None], index: PatternIndex, *, max_false_negatives: float = 0.1
) -> TagPattern | NoPattern:
    """The most restrictive pattern of the domain of an example column, of which nulls are left out.

    `max_false_negatives` is the largest share of values missed, in the column and, on the mean, in
    the columns of the corpus that match, in [0, 1). Raises PatternError.
    """
    if not 0 <= max_false_negatives < 1:
        raise PatternError(f"max_false_negatives {max_false_negatives} is not in [0, 1)")
    kept = [value for value in values if value is not None][: index.settings.max_values]
    if not kept:
        return NoPattern("no_values", "the column has no values to learn from")
    sample = column_sample(kept)
    masks = hypotheses(sample, tau=index.settings.tau, min_share=1 - max_false_negatives)
    texts = list(masks)
    evidence = index.lookup(texts)
    least = InferenceSettings().min_coverage(index.columns)
    feasible = np.flatnonzero((evidence.coverage >= least) & (evidence.fpr <= max_false_negatives))
    if not len(feasible):
        return NoPattern(
            "unknown_domain",
            f"no pattern of the values is common ({least} columns) and misses at most "
            f"{max_false_negatives:.1%} of its domain",
        )
    rarest = feasible[np.argsort(evidence.coverage[feasible], kind="stable")][:_MAX_RANKED]
    best = min(
        rarest, key=lambda i: (evidence.coverage[i], parse_pattern(texts[i]).generality, texts[i])
    )
    return TagPattern(texts[best], int(evidence.coverage[best]), float(evidence.fpr[best]))


_LETTERS = ("letter", "upper", "lower")
# Fewer values may agree by chance.
_ENOUGH = 30
# Letters that all values of a week or month begin with, and those of the next one do not.
_CALENDAR = frozenset(
    {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
    | {"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
)


def specified(pattern: Pattern, values: Sequence[str]) -> Pattern:
    """A learned pattern as narrow as people write it: `V-<digit>{5}`, not `<letter>{1}-<digit>+`.

    What is learned has to hold for values that nobody has seen, and is wide. A pattern that a
    person looks at before it is used may spell out the letters that all values begin with, and the
    length of numbers where all have as many digits and some begin with zero: others grow. It is the
    pattern itself where it has several branches, or where nothing is in common.
    """
    branch = pattern.branches[0]
    tokens = [e for e in branch if isinstance(e, Token)]
    if len(pattern.branches) > 1 or len(tokens) < len(branch) or len(values) < _ENOUGH:
        return pattern
    classes = python_classes(ascii_only=False)
    expression = re.compile("".join(f"({token_regex(t, classes)})" for t in tokens))
    parts = [m.groups() for v in values if (m := expression.fullmatch(v)) is not None]
    if len(parts) < len(values):
        return pattern
    columns = zip(tokens, zip(*parts, strict=True), strict=True)
    narrow: list[Element] = [
        _narrowed(token, texts, first=place == 0) for place, (token, texts) in enumerate(columns)
    ]
    return pattern_of(*narrow)


def _narrowed(token: Token, texts: Sequence[str], *, first: bool) -> Token:
    if token.kind in _LETTERS and first and len(set(texts)) == 1:
        return token if texts[0][:3].lower() in _CALENDAR else Token("const", texts[0])
    lengths = {len(t) for t in texts}
    padded = any(t.startswith("0") and len(t) > 1 for t in texts)
    if token.kind == "digit" and token.unbounded and padded and len(lengths) == 1:
        return Token("digit", count=lengths.pop())
    return token
