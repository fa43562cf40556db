"""Inference on the paper's examples, with the index and the model that ship with the package."""

from __future__ import annotations

import json
from dataclasses import asdict
from random import Random

import pytest

from dqsql.errors import PatternError
from dqsql.patterns.contributions import IndexSettings
from dqsql.patterns.general import general_index, with_general
from dqsql.patterns.generation import column_sample
from dqsql.patterns.infer import InferenceSettings, LearnedPattern, NoPattern, infer_pattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches
from dqsql.patterns.vertical import align, align_sequences
from tests.patterns.indexes import Contribution, index_of
from tests.patterns.strategies import is_trivial

VARIANTS = [
    InferenceSettings(),
    *(
        InferenceSettings(vertical=v, horizontal=h, evidence="impurity")
        for v in (False, True)
        for h in (False, True)
    ),
]
PAPER = InferenceSettings(evidence="impurity")
MARCH = [f"Mar {day:02d} 2019" for day in range(1, 31)]
FIGURE_2B = [
    f"{month}/{day:02d}/2019 {hour}:{day:02d}:{hour:02d} {half}"
    for month in (1, 2, 11)
    for day in (3, 14, 25)
    for hour in (1, 7, 12)
    for half in ("AM", "PM")
]
FIGURE_8 = [
    f"0.{n % 9}|02/{n % 28 + 1:02d}/2015 00:{n:02d}:00|02/{n % 28 + 1:02d}/2015 01:00:00|{word}"
    for n, word in enumerate(["OnBooking", "OnDelivery", "Closed"] * 20)
]
FIGURE_9 = [f"{n % 7},{n},{n * 3},{n % 11},{n % 5}" for n in range(99)] + ["-"]


def learn(values: list[str], settings: InferenceSettings | None = None) -> LearnedPattern:
    learned = infer_pattern(values, general_index(), settings)
    assert isinstance(learned, LearnedPattern), learned
    return learned


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_figure_2a_march_is_not_all_there_is(settings: InferenceSettings) -> None:
    pattern = learn(MARCH, settings).parsed
    assert matches(pattern, "Apr 01 2019")
    assert not matches(pattern, "2019-04-01")


def test_figure_2b_times_of_other_widths() -> None:
    pattern = learn(FIGURE_2B).parsed
    assert matches(pattern, "12/31/2020 11:59:59 PM")
    assert not matches(pattern, "2020-12-31 11:59:59")


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_times_such_as_nine_oh_seven(settings: InferenceSettings) -> None:
    values = [f"{hour}:{minute:02d}" for hour in range(1, 13) for minute in range(0, 60, 7)]
    pattern = learn(values, settings).parsed
    assert matches(pattern, "9:07")
    assert not matches(pattern, "9:07 PM")


def test_figure_8_composite_logs() -> None:
    learned = learn(FIGURE_8)
    assert matches(learned.parsed, "1.5|03/01/2016 23:59:59|12/31/2015 01:00:00|OnHold")
    assert not matches(learned.parsed, "1.5|2016-03-01 23:59:59|12/31/2015 01:00:00|OnHold")


def test_figure_9_one_percent_of_dashes_is_an_alternative_or_cut_off() -> None:
    learned = learn(FIGURE_9)
    assert learned.nonconforming == 0
    assert matches(learned.parsed, "-")
    assert matches(learned.parsed, "1,2,3,4,5")
    assert not matches(learned.parsed, "one,two,three,four,five")


def test_more_nonconforming_values_than_theta_leave_no_pattern() -> None:
    values = MARCH + ["-"] * 10
    assert isinstance(infer_pattern(values, general_index(), PAPER), NoPattern)
    lax = InferenceSettings(evidence="impurity", theta=0.3)
    assert learn(values, lax).nonconforming == 10
    empty = MARCH + [""] * 10
    assert isinstance(infer_pattern(empty, general_index()), NoPattern)
    assert learn(empty, InferenceSettings(theta=0.3)).nonconforming == 10


def test_locales_as_in_figure_3() -> None:
    pattern = learn(["en-US", "fr-FR", "de-DE", "pt-BR", "ja-JP"] * 8).parsed
    assert matches(pattern, "nl-NL")
    assert not matches(pattern, "en")


def test_figure_3_a_domain_of_the_house_is_learned_from_the_lake() -> None:
    def deliveries(seed: int) -> list[str]:
        random = Random(seed)
        return [f"~{random.randrange(10**7):07d}!{random.choice('APX')}" for _ in range(60)]

    strict = InferenceSettings(m=20, vertical=False, evidence="impurity")
    assert isinstance(infer_pattern(deliveries(0), general_index(), strict), NoPattern)
    lake = Contribution.empty()
    for seed in range(1, 41):
        lake.add_column(deliveries(seed), IndexSettings())
    index = with_general(index_of(lake))
    learned = infer_pattern(deliveries(0), index, strict)
    assert isinstance(learned, LearnedPattern)
    assert learned.coverage == 40
    assert matches(learned.parsed, "~7654321!P")
    assert not matches(learned.parsed, "~765432!P")


def test_figure_6_impure_columns_of_the_corpus_rule_out_narrow_patterns() -> None:
    minutes = [f"{n % 60:02d}:{n * 7 % 60:02d}" for n in range(12)]
    query = [f"9/{n + 10}/2019 {n % 9 + 1}:{rest}" for n, rest in enumerate(minutes)]
    later = [f"9/{n + 10}/2019 {n + 1}:{rest}" for n, rest in enumerate(minutes)]
    settings = IndexSettings(tau=13)
    corpus = Contribution.empty()
    for _ in range(20):
        corpus.add_column(later, settings)
    index = index_of(corpus, settings)
    paper = InferenceSettings(evidence="impurity", vertical=False)
    learned = infer_pattern(query, index, paper)
    assert isinstance(learned, LearnedPattern)
    assert matches(learned.parsed, "9/30/2019 12:59:59")
    narrow = "<digit>{1}/<digit>{2}/<digit>{4} <digit>{1}:<digit>{2}:<digit>{2}"
    assert index.lookup([narrow]).fpr[0] == pytest.approx(3 / 12, abs=1e-6)


def test_iso_timestamps() -> None:
    learned = learn([f"2012-04-{n % 28 + 1:02d}T08:{n % 60:02d}:37Z" for n in range(60)])
    assert matches(learned.parsed, "2013-12-31T23:59:59Z")
    assert not matches(learned.parsed, "2013-12-31 23:59:59")


def test_parts_that_some_values_lack_are_alternatives() -> None:
    values = [f"item-{n}" if n % 3 else f"item-{n}-b" for n in range(90)]
    learned = learn(values)
    assert learned.nonconforming == 0
    assert matches(learned.parsed, "item-100")
    assert not matches(learned.parsed, "ITEM/100")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([], "no_values"),
        ([None, None], "no_values"),
        (["x" * 1_000_000] * 3, "too_wide"),
        ([""] * 20, "too_wide"),
        (["§¶", "¤", "†‡"] * 5, "no_common_pattern"),
        (["zz#1!", "yy#2!"] * 5, "unknown_domain"),
    ],
)
def test_reasons_for_no_pattern(values: list[str | None], code: str) -> None:
    settings = InferenceSettings(evidence="impurity", vertical=False)
    found = infer_pattern(values, general_index(), settings)
    assert isinstance(found, NoPattern)
    assert found.reason
    if code != "no_common_pattern":
        assert found.code == code
    if code in ("no_values", "too_wide"):
        found = infer_pattern(values, general_index())
        assert isinstance(found, NoPattern)
        assert found.code == code


def test_a_rate_above_r_is_the_reason() -> None:
    found = infer_pattern(MARCH, general_index(), InferenceSettings(r=0.0, vertical=False))
    assert isinstance(found, NoPattern)
    assert found.code == "high_fpr"


def test_hostile_columns_end_and_never_learn_everything() -> None:
    hostile = [
        ["a" * 400 + "!"] * 20,
        ["(a+)+$", "^.*", "\\d", "[[:alpha:]]"] * 10,
        ["\u202eabc\u202c", "שלום", "مرحبا"] * 10,
        ["\0\0", "\n\n", "\r"] * 10,
        ["1-" * 100] * 10,
        ["\U0001f600 ok", "\U0001f601 ok"] * 10,
    ]
    for values in hostile:
        learned = infer_pattern(values, general_index())
        if isinstance(learned, LearnedPattern):
            assert not is_trivial(learned.parsed)
            conforming = sum(matches(learned.parsed, value) for value in values)
            assert learned.nonconforming == learned.rows - conforming


def column(pattern: str, rows: int = 40) -> list[str]:
    return [pattern.format(n=n, m=n % 10) for n in range(10, 10 + rows)]


def test_least_rate_wins_then_coverage_then_specificity() -> None:
    settings = IndexSettings(min_coverage=1)
    total = Contribution.empty()
    for values in [column("{n}")] * 6 + [column("{n}") + ["123"] * 4]:
        total.add_column(values, settings)
    index = index_of(total, settings)
    paper = InferenceSettings(evidence="impurity", m=1)
    # <digit>{2} is impure in one column; <digit>+, <num> and <alphanum>+ tie at rate 0.
    learned = infer_pattern(column("{n}"), index, paper)
    assert isinstance(learned, LearnedPattern)
    assert (learned.pattern, learned.fpr, learned.coverage) == ("<digit>+", 0.0, 7)


def test_coverage_below_m_is_not_feasible() -> None:
    settings = InferenceSettings(m=10_000, evidence="impurity")
    found = infer_pattern(MARCH, general_index(), settings)
    assert isinstance(found, NoPattern)
    assert found.code == "unknown_domain"


@pytest.mark.parametrize(("columns", "m"), [(100, 5), (100_000, 10), (7_000_000, 100)])
def test_m_is_proportional_to_the_corpus(columns: int, m: int) -> None:
    assert InferenceSettings().min_coverage(columns) == m


@pytest.mark.parametrize(
    "settings",
    [
        {"r": 1.5},
        {"theta": 1.0},
        {"m": 0},
        {"max_values": 0},
        {"evidence": "intuition"},
        {"r": -0.1},
    ],
)
def test_impossible_settings_are_errors(settings: dict[str, float]) -> None:
    with pytest.raises(PatternError):
        InferenceSettings(**settings)  # type: ignore[arg-type]


def test_learned_patterns_survive_json() -> None:
    learned = learn(FIGURE_8)
    assert LearnedPattern.from_dict(json.loads(json.dumps(asdict(learned)))) == learned
    with pytest.raises(PatternError, match="damaged"):
        LearnedPattern.from_dict({"pattern": "<digit>+"})


def test_alignment_puts_gaps_where_tokens_are_missing() -> None:
    profile, places = align_sequences([("w", " ", "w"), ("w",), ("w", " ", "w", ".", "w")])
    assert len(profile) == 5
    for sequence, positions in places.items():
        assert tuple(profile[p] for p in positions) == sequence
        assert list(positions) == sorted(set(positions))


def test_alignment_of_homogeneous_values_is_their_sequence() -> None:
    alignment = align(column_sample(FIGURE_8), min_share=1.0)
    assert alignment is not None
    assert alignment.length == 29
    assert all(None not in texts for _, texts in alignment.values)


def test_all_variants_agree_on_what_they_print() -> None:
    for settings in VARIANTS:
        learned = learn(MARCH, settings)
        assert parse_pattern(learned.pattern).text == learned.pattern
        assert learned.method.startswith("FMDV") == (settings.evidence == "impurity")
