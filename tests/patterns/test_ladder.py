"""The ladder of generality, and the choice among its levels."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dqsql.errors import PatternError
from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.general import general_index, with_general
from dqsql.patterns.infer import LearnedPattern, infer_pattern
from dqsql.patterns.ladder import LEVELS, Ladder
from dqsql.patterns.regex import matches
from dqsql.patterns.risk import features, load_model, preferred_levels, shipped_model
from tests.patterns.indexes import Contribution, index_of

EXAMPLES = {
    "exact": "Ab-1<|>Cde-23",
    "shape": "<upper>{1}<lower>{1}-<digit>{1}<|><upper>{1}<lower>{2}-<digit>{2}",
    "letter_lengths": "<letter>{2}-<digit>+<|><letter>{3}-<digit>+",
    "case_runs": "<upper>+<lower>+-<digit>+",
    "class_runs": "<letter>+-<digit>+",
    "widths": "<letter>{1,6}-<digit>{1,4}",
    "words": "<alphanum>+<(>-<alphanum>+<)+>",
    "case_set_and_length": "<[><digit><lower><upper>-<]>{4,6}",
    "case_set": "<[><digit><lower><upper>-<]>{1,12}",
    "class_set": "<[><digit><letter>-<]>{1,12}",
    "word_set": "<[><alphanum>-<]>{1,12}",
    "word_set_any_length": "<[><alphanum>-<]>+",
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_rule_is_the_union_of_the_forms_of_its_level(level: str) -> None:
    pattern = Ladder(["Ab-1", "Cde-23", "Ab-1"]).pattern(level)
    assert pattern is not None
    assert pattern.text == EXAMPLES[level]


def columns(seed: int) -> list[str]:
    random = Random(seed)
    letters = random.choice(["aB", "xyz", "AÄß", "語話", "a-", "1a"])
    marks = random.choice([" ", "-/", "<]>", "{+\\", "\n.", "&|~["])
    return [
        "".join(random.choice(letters + marks + "07") for _ in range(random.randint(0, 7)))
        for _ in range(60)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_pattern_accepts_what_the_rehearsal_counts(seed: int) -> None:
    values = columns(seed)
    since = Ladder(values).accepted_from()
    for train in (7, 30):
        first = Ladder(values[:train])
        for number, level in enumerate(LEVELS):
            pattern = first.pattern(level)
            if pattern is None:
                continue
            for row, value in enumerate(values):
                if value:
                    assert matches(pattern, value) == (since[number, row] < train), (level, value)


def test_every_rule_accepts_the_values_that_it_was_learned_from() -> None:
    values = columns(3)
    since = Ladder(values).accepted_from()
    assert (since <= np.arange(len(values))).all()
    assert np.isfinite(features(Ladder(values))).all()
    assert np.isfinite(features(Ladder(["one"]))).all()


def test_too_many_values_are_no_rule() -> None:
    assert Ladder([f"v{n}" for n in range(101)]).pattern("exact") is None
    assert Ladder([f"v{n}" for n in range(100)]).pattern("exact") is not None


def test_the_shipped_model_knows_codes_from_prose() -> None:
    model = shipped_model()
    random = Random(5)
    codes = [f"{random.choice('AB')}{random.randrange(10):d}" for _ in range(500)]
    risks = model.risk(features(Ladder(codes)))
    assert risks[LEVELS.index("shape")] < 0.05
    fresh = [f"{random.getrandbits(48):x}" for _ in range(500)]
    risks = model.risk(features(Ladder(fresh)))
    assert risks[LEVELS.index("exact")] > 0.9
    assert (model.power[:-1] > 0).all()


def test_a_smaller_r_never_takes_more_risk() -> None:
    model = shipped_model()
    for seed in range(6):
        risk = model.risk(features(Ladder(columns(seed))))
        taken = [
            max((risk[level] for level in preferred_levels(risk, model.power, r)), default=0.0)
            for r in (0.01, 0.02, 0.05, 0.1, 0.3)
        ]
        assert taken == sorted(taken)


def test_rules_of_constant_columns_change_one_by_one_with_r() -> None:
    # All columns of one distinct value had the same rate: a smaller r took all their rules away.
    model = shipped_model()
    texts = ("Alabama", "AB-12", "2024-01-03", "x", "10:30", "de_DE", "New York", "4f3a-99c1")
    risks = [
        model.risk(features(Ladder([text] * rows))) for text in texts for rows in (10, 30, 100, 300)
    ]
    rates = np.arange(1, 61) / 200
    chosen = np.array(
        [[next(iter(preferred_levels(risk, model.power, r)), -1) for r in rates] for risk in risks]
    )
    changes = (np.diff(chosen, axis=1) != 0).mean(axis=0)
    assert changes.max() <= 0.25
    assert (changes > 0).sum() >= 10


def test_a_corpus_of_ones_own_never_takes_a_narrower_rule_away() -> None:
    # Columns that begin with one format and go on with another: they rehearse badly.
    lake = Contribution.empty()
    for seed in range(40):
        random = Random(seed)
        begin = [f"{random.choice('ABC')}{random.randrange(100):02d}" for _ in range(20)]
        lake.add_column(begin + ["other words entirely"] * 80, IndexSettings())
    index = with_general(index_of(lake))
    model = shipped_model()
    for seed in range(100, 110):
        random = Random(seed)
        values = [f"{random.choice('ABC')}{random.randrange(100):02d}" for _ in range(20)]
        alone = infer_pattern(values, general_index())
        enlarged = infer_pattern(values, index)
        assert isinstance(alone, LearnedPattern)
        assert isinstance(enlarged, LearnedPattern)
        levels = [LEVELS.index(found.method) for found in (alone, enlarged)]
        assert model.power[levels[1]] >= model.power[levels[0]]


def test_rehearsals_of_the_lake_allow_a_narrower_rule() -> None:
    def codes(seed: int) -> list[str]:
        random = Random(seed)
        return [f"{random.choice('ABC')}{random.randrange(100):02d}" for _ in range(120)]

    values = codes(0)[:12]
    before = infer_pattern(values, general_index())
    lake = Contribution.empty()
    for seed in range(1, 500):
        lake.add_column(codes(seed), IndexSettings())
    after = infer_pattern(values, with_general(index_of(lake)))
    assert isinstance(before, LearnedPattern)
    assert isinstance(after, LearnedPattern)
    assert after.pattern == "<upper>{1}<digit>{2}"
    assert after.pattern != before.pattern or after.fpr < before.fpr


def test_a_damaged_model_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "risk.json"
    with pytest.raises(PatternError, match="cannot be read"):
        load_model(file)
    file.write_text(json.dumps({"levels": ["a"], "trees": [[[0, 0, 0, 0, 0]]]}))
    with pytest.raises(PatternError, match="other levels"):
        load_model(file)
