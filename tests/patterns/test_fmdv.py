"""FMDV and its cuts against the paper's definitions, computed by brute force on small corpora."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from dqsql.patterns.characters import shape
from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.generation import column_sample, pattern_masks
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.infer import InferenceSettings, LearnedPattern, NoPattern, infer_pattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches
from dqsql.patterns.vertical import token_sequence
from tests.patterns.indexes import Contribution, index_of

SETTINGS = IndexSettings(min_share=0.0, min_coverage=1)
Corpus = list[list[str]]


@cache
def patterns_of(value: str) -> frozenset[str]:
    """P(v), of one value alone."""
    return frozenset(pattern_masks(column_sample([value]), tau=SETTINGS.tau, min_rows=1))


def fpr_and_coverage(pattern: str, corpus: Corpus) -> tuple[float, int]:
    """Definitions 3 and 7: the mean impurity over the columns with a match."""
    impurities = []
    for column in corpus:
        hits = sum(pattern in patterns_of(value) for value in column)
        if hits:
            impurities.append(1 - hits / len(column))
    return sum(impurities) / len(impurities) if impurities else 1.0, len(impurities)


def least(values: list[str], corpus: Corpus, m: int, share: float = 1.0) -> float:
    """Equations (5)-(7) and (12)-(16): the least FPR of a pattern that matches a share of rows."""
    candidates = frozenset[str]().union(*map(patterns_of, values))
    rates = []
    for pattern in candidates:
        matching = sum(pattern in patterns_of(value) for value in values)
        rate, coverage = fpr_and_coverage(pattern, corpus)
        if matching >= share * len(values) - 1e-9 and coverage >= m:
            rates.append(rate)
    return min(rates, default=float("inf"))


def least_of_cuts(values: list[str], corpus: Corpus, m: int) -> float:
    """Equations (8)-(11): the least sum over all ways to cut values of one token sequence."""
    cut = [token_sequence(shape(value)) for value in values]
    tokens = [
        [value[a:b] for a, b in itertools.pairwise(bounds)]
        for value, (_, bounds) in zip(values, cut, strict=True)
    ]
    return min(
        sum(
            least(["".join(row[a:b]) for row in tokens], corpus, m)
            for a, b in itertools.pairwise(places)
        )
        for places in _cuts(len(tokens[0]))
    )


def _cuts(tokens: int) -> Iterator[list[int]]:
    for inner in itertools.product((False, True), repeat=tokens - 1):
        places = [0, *(i for i, here in enumerate(inner, start=1) if here), tokens]
        if all(b - a <= SETTINGS.tau for a, b in itertools.pairwise(places)):
            yield places


def corpus_of(random: Random) -> Corpus:
    """Columns of words, numbers, symbols and short composites, some of them impure."""
    words = ["ab", "cde", "X", "Yz", "12", "7", "305", "a1"]
    forms = ["{}", "{}", "{}", "-", ":", "/", "{}/{}", "{}:{}", "-{}", "{}/"]
    corpus: Corpus = []
    for _ in range(random.randint(6, 14)):
        form, few = random.choice(forms), random.sample(words, random.randint(1, 4))
        fill = [form.format(random.choice(few), random.choice(few)) for _ in range(8)]
        if random.random() < 0.3:
            fill[0] = random.choice(["?", "ab", "12"])
        corpus.append(fill)
    return corpus


def index_of_corpus(corpus: Corpus) -> PatternIndex:
    total = Contribution.empty()
    for column in corpus:
        total.add_column(column, SETTINGS)
    return index_of(total, SETTINGS)


def learned_rate(values: list[str], index: PatternIndex, settings: InferenceSettings) -> float:
    found = infer_pattern(values, index, settings)
    return found.fpr if isinstance(found, LearnedPattern) else float("inf")


def query_of(random: Random) -> list[str]:
    # No signs: a cut between a word and `-7` may be a chain that no linear pattern can say.
    form = random.choice(["{}/{}", "{}:{}/{}", "{}", "{}/{}:{}"])
    words = random.sample(["ab", "cde", "12", "7", "305", "Yz"], 2)
    return [form.format(*random.choices(words, k=3)) for _ in range(10)]


@pytest.mark.parametrize("seed", range(8))
def test_the_index_says_what_the_definitions_say(seed: int) -> None:
    corpus = corpus_of(Random(seed))
    index = index_of_corpus(corpus)
    for pattern in sorted(set().union(*(patterns_of(v) for column in corpus for v in column))):
        rate, coverage = fpr_and_coverage(pattern, corpus)
        found = index.lookup([pattern])
        assert found.coverage[0] == coverage, pattern
        assert found.fpr[0] == pytest.approx(rate, abs=1e-6), pattern


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("theta", [0.0, 0.2])
def test_the_objective_without_vertical_cuts(seed: int, theta: float) -> None:
    random = Random(1_000 + seed)
    corpus, values = corpus_of(random), query_of(random)
    if theta:
        values[0] = "?!"
    settings = InferenceSettings(
        evidence="impurity", r=1.0, m=1, vertical=False, horizontal=theta > 0, theta=theta
    )
    expected = least(values, corpus, 1, 1 - theta)
    assert learned_rate(values, index_of_corpus(corpus), settings) == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize("seed", range(16))
def test_the_objective_with_vertical_cuts(seed: int) -> None:
    random = Random(2_000 + seed)
    corpus, values = corpus_of(random), query_of(random)
    settings = InferenceSettings(evidence="impurity", r=1.0, m=1, horizontal=False)
    expected = least_of_cuts(values, corpus, 1)
    rate = learned_rate(values, index_of_corpus(corpus), settings)
    assert rate == pytest.approx(expected if expected <= 1.0 else float("inf"), abs=1e-6)


def test_symbols_are_not_free() -> None:
    # Lone colons are known, but impure; the old cut took them for nothing.
    corpus = [["ab"] * 8, ["12"] * 8, [":"] * 7 + ["?"]]
    settings = InferenceSettings(evidence="impurity", r=0.5, m=1)
    assert learned_rate(["ab:12"] * 10, index_of_corpus(corpus), settings) == pytest.approx(1 / 8)
    without = InferenceSettings(evidence="impurity", r=0.1, m=1)
    assert learned_rate(["ab:12"] * 10, index_of_corpus(corpus), without) == float("inf")
    assert learned_rate(["ab:12"] * 10, index_of_corpus(corpus[:2]), settings) == float("inf")


def test_the_lowest_rate_wins_over_fewest_segments() -> None:
    # In one piece the pattern is known with a rate of 1/4, in three with a rate of 0.
    corpus = [["ab:12"] * 6 + ["?", "?"], ["ab"] * 8, [":"] * 8, ["12"] * 8]
    settings = InferenceSettings(evidence="impurity", r=0.5, m=1)
    assert learned_rate(["ab:12"] * 10, index_of_corpus(corpus), settings) == 0.0


def test_rows_that_do_not_follow_the_majority_are_dropped_before_the_cut() -> None:
    corpus = [["ab"] * 8, [":"] * 8, ["12"] * 8]
    values = ["ab:12"] * 19 + ["?"]
    found = infer_pattern(
        values, index_of_corpus(corpus), InferenceSettings(evidence="impurity", m=1)
    )
    assert isinstance(found, LearnedPattern)
    assert (found.fpr, found.nonconforming, found.method) == (0.0, 1, "FMDV-VH")


def test_what_stands_between_word_and_number_is_no_sign() -> None:
    """As a sign it would be optional: values that lost it would follow the pattern."""
    corpus = [["ab"] * 8, ["-"] * 7 + ["?"], ["12", "-7", "305"] * 3]
    settings = InferenceSettings(evidence="impurity", r=0.5, m=1)
    found = infer_pattern(["ab-12", "ab-7"] * 5, index_of_corpus(corpus), settings)
    assert isinstance(found, LearnedPattern)
    assert [matches(parse_pattern(found.pattern), v) for v in ("ab-12", "ab12")] == [True, False]


def test_values_with_the_tokens_of_the_majority_may_be_dropped_as_well() -> None:
    # Patterns that `null` follows as well are impure.
    free_text = ["abc1", "abcd", "a1", "?!", "a b", "1;2"]
    index = index_of_corpus([["ab"] * 8, ["-"] * 8, ["12", "3"] * 4, *[free_text] * 9])
    for odd in ("ab-null", "?"):
        values = ["ab-12", "ab-3"] * 10 + [odd]
        found = infer_pattern(values, index, InferenceSettings(evidence="impurity", m=1))
        assert isinstance(found, LearnedPattern)
        assert (found.rows, found.nonconforming) == (21, 1)
        strict = InferenceSettings(evidence="impurity", m=1, theta=0.04)
        assert isinstance(infer_pattern(values, index, strict), NoPattern)
