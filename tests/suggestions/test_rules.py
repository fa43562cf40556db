"""Rules, bounds and verdicts, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqsql.errors import Span
from dqsql.model.project import Annotation, CheckSettings
from dqsql.patterns.general import general_index
from dqsql.patterns.infer import LearnedPattern, infer_pattern
from dqsql.suggestions.across import (
    KeyColumn,
    column_sets,
    date_orders,
    dependencies,
    dependency_candidates,
    foreign_key,
    foreign_key_pairs,
    foreign_keys,
)
from dqsql.suggestions.existing import Existing
from dqsql.suggestions.intervals import (
    floor_to,
    round_down,
    round_up,
    wald_lower,
    wilson_lower,
    written,
)
from dqsql.suggestions.names import unique_names
from dqsql.suggestions.outcomes import Outcome, _margins, coverage_of, decide
from dqsql.suggestions.profiles import (
    ColumnProfile,
    Distribution,
    Profile,
    Summary,
    TimeOrder,
    histogram,
    profile_record,
)
from dqsql.suggestions.rules import (
    ColumnEvidence,
    column_suggestions,
    pattern_suggestion,
    volume_suggestion,
    wants_pattern,
)
from dqsql.suggestions.suggestion import Envelope, Suggestion, SuggestionVerdict, without_bounds


def column(name: str, kind: str, count: int = 1_000, **more: object) -> ColumnProfile:
    return ColumnProfile(name, kind, 1_000, count, **more)  # type: ignore[arg-type]


def suggestions(*columns: ColumnProfile) -> dict[str, Suggestion]:
    profile = Profile("shop.orders", 1_000, columns)
    found = column_suggestions(ColumnEvidence(profile, "orders", unique_names()))
    return {s.rule: s for s in found}


def test_a_record_has_no_more_distinct_values_than_values() -> None:
    """A sketch may say so."""
    columns = (column("a", "int", distinct=1_012.4), column("b", "int", 0, distinct=0.0))
    found = profile_record(Profile("shop.orders", 1_000, (*columns, column("c", "map<int,int>"))))
    assert [c["distinct"] for c in found["columns"]] == [1_000, 0, None]


# --- intervals ---------------------------------------------------------------------------------


@given(st.floats(0, 1), st.integers(1, 10**9))
def test_lower_ends_lie_below_the_share(share: float, n: int) -> None:
    assert 0 <= wald_lower(share, n) <= share
    assert 0 <= wilson_lower(share, n) <= share + 1e-12


def test_intervals_against_known_values() -> None:
    # R: prop.test(90, 100, correct = FALSE)$conf.int[1] is 0.8256343; Wald: 0.9 - 1.96 * 0.03.
    assert wilson_lower(0.9, 100) == pytest.approx(0.8256, abs=1e-4)
    assert wald_lower(0.9, 100) == pytest.approx(0.8412)
    assert wilson_lower(1.0, 1_000) < 1 == wald_lower(1.0, 1_000)


def test_a_bound_holds_where_it_was_found() -> None:
    assert round_up(1.1 * 1.1) == 1.22 and round_down(0.7 + 0.1) == 0.799


@given(st.floats(-1e12, 1e12, allow_subnormal=False))
def test_rounded_bounds_hold_and_read_back(value: float) -> None:
    low, high = round_down(value), round_up(value)
    assert low <= value <= high
    assert low == pytest.approx(value, rel=0.02, abs=1e-300)
    assert float(written(low)) == pytest.approx(low, rel=1e-12, abs=1e-20)
    assert "e" not in written(low) or abs(low) >= 1


def test_floor_to_keeps_what_is_written() -> None:
    assert floor_to(0.29) == 0.29
    assert floor_to(0.28076) == 0.28


# --- columns -----------------------------------------------------------------------------------


def test_incomplete_column_gets_the_lower_end() -> None:
    found = suggestions(column("city", "string", 280))
    assert found["RetainCompleteness"].annotation(inside=True) == "@completeness >= 0.25"


def test_nothing_is_said_of_empty_columns_and_relations() -> None:
    assert suggestions(column("city", "string", 0, types={})) == {}
    assert suggestions(ColumnProfile("city", "string", 0, 0)) == {}


def test_a_key_that_is_named_after_its_table_is_suggested() -> None:
    def verdicts(table: str, name: str) -> list[SuggestionVerdict]:
        profile = Profile(table, 1_000, (column(name, "string", distinct=996.0),))
        found = column_suggestions(ColumnEvidence(profile, table, unique_names()))
        return [s.verdict for s in found if s.call == "unique"]

    for table, name in (("payments", "payment_id"), ("raw_payments", "payment_key")):
        assert verdicts(table, name) == [SuggestionVerdict.SUGGESTED]
    assert verdicts("payments", "invoice_amount_key") == [SuggestionVerdict.REFUSED]

    def is_own(table: str, name: str) -> bool:
        evidence = ColumnEvidence(Profile(table, 1_000, ()), table, unique_names())
        return evidence.is_own_key(column(name, "bigint"))

    own = (("addresses", "address_id"), ("statuses", "status_id"), ("categories", "category_id"))
    assert all(is_own(*pair) for pair in (*own, ("stg_order_items", "order_item_id")))
    others = (("order_items", "item_id"), ("orders", "id"), ("orders", "__"), ("raw", "raw_id"))
    assert not any(is_own(*pair) for pair in others)


def test_bounds_of_lengths_are_whole_numbers_above_zero() -> None:
    def fitted(call: str, comparison: str, bounds: Mapping[str, float], *seen: float) -> str:
        envelope = Envelope(f"{call}(name)", **bounds, widen=True)
        found = Suggestion("L", call, "name", call, "", comparison=comparison, envelope=envelope)
        outcome = Outcome((True,) * len(seen), None, seen, len(seen), 0)
        (decided,) = decide(found, {"s": outcome}, "s")
        return decided.comparison

    assert fitted("min_length", ">= 2", {"lower": 2}, 2, 5, 9) == ">= 1"
    assert fitted("max_length", "<= 2", {"upper": 2}, 1, 1, 2) == "<= 4"
    assert fitted("max_length", "<= 2", {"upper": 2}, 2, 2, 2) == "<= 2"


def test_unique_needs_values_and_name() -> None:
    unique = suggestions(column("order_id", "bigint", distinct=996.0))
    assert unique["UniqueIfApproximatelyUnique"].verdict is SuggestionVerdict.SUGGESTED
    # A sketch may see more values than there are rows.
    many = suggestions(column("order_id", "bigint", distinct=1_004.0))
    told = many["UniqueIfApproximatelyUnique"].reason
    assert told.startswith("about 1,000 distinct values in 1,000 rows, ")
    count = suggestions(column("clicks_count", "bigint", distinct=996.0))
    assert count["UniqueIfApproximatelyUnique"].verdict is SuggestionVerdict.REFUSED
    assert "UniqueIfApproximatelyUnique" not in suggestions(
        column("order_id", "bigint", distinct=700.0)
    )


def test_numbers_that_are_not_finite_have_no_bounds() -> None:
    wild = Summary(float("-inf"), float("nan"), float("nan"), float("nan"))
    assert {*suggestions(column("x", "double", summary=wild))} == {"CompleteIfComplete"}


@pytest.mark.parametrize(
    ("numbers", "mean"),
    [
        (Summary(0.0, 810.4, 83.0, 83.6), "<= 167"),
        (Summary(2.0, 800.0, 83.0, 83.6), "between 2 and 167"),
        (Summary(-5.0, 800.0, 83.0, 83.6), "between -0.6 and 167"),
        (Summary(1.0, 5.0, 3.0, 9.0), "between 1 and 5"),
    ],
)
def test_means_are_not_beyond_the_values(numbers: Summary, mean: str) -> None:
    found = suggestions(column("seconds", "double", summary=numbers, distinct=300.0))
    assert found["HasMean"].comparison == mean


def test_bounds_and_keys() -> None:
    numbers = Summary(-12.0, 512.0, 10.0, 4.0)
    found = suggestions(column("delay", "int", summary=numbers, distinct=300.0))
    assert found["HasMin"].annotation(inside=True) == "@min >= -12 {severity: warn}"
    assert found["HasMax"].comparison == "<= 512"
    assert found["HasMean"].comparison == "between 6 and 14"
    assert found["HasStandardDeviation"].comparison == "between 3.6 and 4.4"
    assert "HasMax" not in suggestions(column("customer_id", "int", summary=numbers, distinct=9.0))


def test_texts_that_read_as_numbers_are_compared_as_numbers() -> None:
    found = suggestions(
        column("n", "string", types={"integral": 1_000}, summary=Summary(0.0, 9e9, 5.0, 1.0))
    )
    assert "try_cast(n as double) >= 0" in found["NonNegativeNumbers"].expression(inside=True)
    assert "type_count(n, 'integral') = count(n)" in found["RetainType"].expression(inside=True)


def test_values_that_cannot_stand_in_a_comment_are_not_listed() -> None:
    for value in ("{{ x }}", "a\nb", "back\\", "tick`"):
        few = Distribution((value, "b"), (600, 400))
        found = suggestions(column("kind", "string", distinct=2.0, distribution=few))
        assert "CategoricalRange" not in found
    few = Distribution(("it's", "-- @x"), (600, 400))
    found = suggestions(column("kind", "string", distinct=2.0, distribution=few))
    assert found["CategoricalRange"].arguments == ("'-- @x'", r"'it\'s'")


def test_dates_in_texts_are_no_categories() -> None:
    """A list of the days so far would fail tomorrow."""
    days = Distribution(("2024-03-01", "2024-03-02"), (600, 400))
    found = suggestions(
        column("day", "string", types={"timestamp": 1_000}, distinct=2.0, distribution=days)
    )
    assert "RetainType" in found
    assert not {"CategoricalRange", "FractionalCategoricalRange"} & found.keys()


@pytest.mark.parametrize(
    ("values", "listed"),
    [
        (("31.01.2024", "01.02.2024"), False),
        (("1/31/24", "12/1/2024"), True),
        (("20240131", "20240201"), False),
        (("2024-01", "2024-02"), False),
        (("190112", "200001"), True),
        (("1.2.3", "20.1.5"), True),
    ],
)
def test_days_and_months_as_people_write_them(values: tuple[str, str], listed: bool) -> None:
    days = Distribution(values, (600, 400))
    found = suggestions(column("day", "string", distinct=2.0, distribution=days))
    assert ("CategoricalRange" in found) is listed


def test_frequent_values_where_the_list_is_open() -> None:
    many = Distribution(tuple(f"v{i}" for i in range(50)), (800, 100, *[1] * 48), other=52)
    found = suggestions(column("lang", "string", distinct=100.0, distribution=many))
    fraction = found["FractionalCategoricalRange"]
    assert fraction.arguments == ("lang is null or lang in ('v0', 'v1')",)
    assert fraction.comparison == ">= 0.87"


# --- several columns ---------------------------------------------------------------------------


def test_foreign_keys_need_inclusion_and_for_numbers_a_name() -> None:
    key = KeyColumn("shop.customers", "customers", "id", "bigint", 500.0, b"")
    named = column("customer_id", "bigint", distinct=300.0)
    other = column("quantity", "bigint", distinct=9.0)
    profile = Profile("orders", 1_000, (named, other))
    assert [c.name for c, _ in foreign_key_pairs(profile, "orders", [key])] == ["customer_id"]
    found = foreign_key(named, key, 500.0, 502.0)
    assert found is not None
    assert found.annotation(inside=True) == "@references(shop.customers, id)"
    assert foreign_key(named, key, 512.0, 502.0) is None


def test_another_key_is_tried_where_the_exact_count_refutes_one() -> None:
    code = column("customer_code", "string", distinct=300.0)
    keys = [
        KeyColumn(f"shop.{name}", name, "code", "string", 500.0, b"")
        for name in ("parcels", "stores", "customers", "people", "small")
    ]
    pairs = foreign_key_pairs(Profile("orders", 1_000, (code,)), "orders", keys)
    assert [k.table for _, k in pairs] == [k.table for k in keys]
    # The last one does not hold the column.
    (first,) = foreign_keys("orders", pairs, [500.0, 500.0, 500.0, 500.0, 620.0], [500.0] * 5)
    holds, fails = Outcome((True,), 1.0, (), 1, 0), Outcome((False,), 0.99, (), 1, 1)
    refused, kept = decide(first, {"s": fails, "sw": fails, "sww": holds}, "s")
    assert (refused.promise, refused.verdict) == (
        "references shop.customers",
        SuggestionVerdict.REFUSED,
    )
    assert (kept.promise, kept.measured) == ("references shop.stores", 1.0)
    assert decide(first, {"s": holds, "sw": holds, "sww": holds}, "s") == [
        replace(first, measured=1.0, batches=1, held=1)
    ]
    assert len(decide(first, {"s": fails, "sw": fails, "sww": fails}, "s")) == 1
    # What only values speak for is not told of where it does not hold.
    guess = replace(first, is_guess=True, weaker=None)
    assert decide(guess, {"s": fails}, "s") == [] and len(decide(guess, {"s": holds}, "s")) == 1
    # What the user has is not suggested in its stead.
    (marked,) = existing(("customer_code", "references(shop.parcels, code)")).marked([first])
    assert marked.weaker is not None
    assert marked.weaker.promise == "references shop.stores"
    assert marked.weaker.weaker is None


def test_dependencies_that_hold_and_are_no_chance() -> None:
    few = Distribution(("DE", "FR"), (600, 400))
    columns = (
        column(
            "city", "string", distinct=5.0, distribution=Distribution(tuple("abcde"), (200,) * 5)
        ),
        column("country", "string", distinct=2.0, distribution=few),
    )
    profile = Profile("orders", 1_000, columns)
    candidates = dependency_candidates(profile)
    assert column_sets(candidates) == [("city", "country")]
    found = dependencies(profile, candidates, {("city", "country"): 5.0})
    assert [s.reason for s in found] == ["city determines country in 1,000 rows"]
    assert dependencies(profile, candidates, {("city", "country"): 9.0}) == []
    # A column that is nearly constant follows from anything.
    flat = Distribution(("DE", "FR"), (999, 1))
    columns = (columns[0], column("country", "string", distinct=2.0, distribution=flat))
    profile = Profile("orders", 1_000, columns)
    assert dependencies(profile, candidates, {("city", "country"): 5.0}) == []


def test_order_of_dates_in_either_direction() -> None:
    orders = (TimeOrder("a", "b", 900, 900, 10), TimeOrder("a", "c", 900, 20, 20))
    profile = Profile("t", 1_000, (), (*orders, TimeOrder("a", "d", 900, 500, 0)))
    conditions = [s.arguments[1] for s in date_orders(profile)]
    assert conditions == ["a <= b", "c <= a"]


# --- verdicts ----------------------------------------------------------------------------------


def bounded() -> Suggestion:
    return suggestions(column("delay", "int", summary=Summary(-1.0, 9.0, 3.0, 1.0)))["HasMean"]


def test_bounds_that_failed_follow_the_batches() -> None:
    outcome = Outcome((True, False, True, None), None, (3.0, 7.0, 5.0, None), 4, 1)
    (found,) = decide(bounded(), {"s": outcome}, "s")
    assert found.annotation(inside=True) == ("@mean <= 14.3 {severity: warn, no_data: ignore}")
    assert found.verdict is SuggestionVerdict.SUGGESTED and found.held == 4


@pytest.mark.parametrize(
    ("values", "bound"), [((9.0, 7.0, 5.0), 16.3), ((9.0, 9.0, 9.0), 9), ((9.0, 5.0), 9)]
)
def test_an_extreme_that_held_has_a_margin_where_batches_differ(
    values: tuple[float, ...], bound: float
) -> None:
    """The largest of the rows looked at is exceeded some day; a limit that batches reach is not."""
    most = suggestions(column("delay", "int", summary=Summary(-1.0, 9.0, 3.0, 1.0)))["HasMax"]
    outcome = Outcome((True,) * len(values), None, values, len(values), 0)
    (found,) = decide(most, {"s": outcome}, "s")
    assert found.annotation(inside=True) == f"@max <= {bound} {{severity: warn}}"


def test_bounds_of_batches_hold_for_the_next_ones() -> None:
    """Of normal values, and of skewed ones, few of the next year are outside of the bounds."""
    random = np.random.default_rng(5)
    for batches, most in ((5, 0.05), (10, 0.02), (30, 0.005)):
        for make in (
            lambda n: random.normal(100, 5, n),
            lambda n: random.binomial(400, 0.68, n) / 400,
            lambda n: np.exp(random.normal(0, 0.4, n)),
        ):
            outside = []
            for _ in range(200):
                seen, following = make(batches), make(365)
                below, above = _margins(seen.min(), seen.max(), batches)
                low, high = seen.min() - below, seen.max() + above
                outside.append(np.mean((following < low) | (following > high)))
            assert np.mean(outside) < most


def test_a_share_that_held_has_a_margin() -> None:
    complete = suggestions(column("city", "string", count=700))["RetainCompleteness"]
    values = (0.66, 0.66, 0.7, 0.72, 0.7)
    outcome = Outcome((True,) * 5, None, values, 5, 0)
    (found,) = decide(replace(complete, comparison=">= 0.6"), {"s": outcome}, "s")
    assert found.annotation(inside=True) == "@completeness >= 0.58"


def test_zero_filled_codes_are_texts() -> None:
    lengths, numbers = Summary(5, 5, 5.0), Summary(1067.0, 99998.0, 5e4, 2e4)
    code = column("zip", "string", types={"integral": 1_000}, lengths=lengths, summary=numbers)
    assert code.is_zero_filled and wants_pattern(code)
    assert {"HasMinLength", "HasMaxLength"} <= suggestions(code).keys()
    number = replace(code, summary=Summary(10067.0, 99998.0, 5e4, 2e4))
    assert not number.is_zero_filled and not wants_pattern(number)


def test_bounds_wait_for_what_a_batch_is() -> None:
    complete = suggestions(column("city", "string"))["CompleteIfComplete"]
    assert complete.weaker is not None
    (kept,) = [without_bounds(complete)]
    assert kept is not None and kept.weaker is None
    assert without_bounds(bounded()) is None


def test_a_weaker_form_takes_the_place_of_what_failed() -> None:
    complete = suggestions(column("city", "string"))["CompleteIfComplete"]
    outcomes = {
        "s": Outcome((True, False), 0.999, (), 2, 1),
        "sw": Outcome((True, True), None, (1.0, 0.998), 2, 0),
    }
    refused, weaker = decide(complete, outcomes, "s")
    assert refused.verdict is SuggestionVerdict.REFUSED and "99.9%" in refused.reason
    assert weaker.annotation(inside=True) == "@completeness >= 0.996"


def test_what_was_not_measured_is_not_suggested() -> None:
    (found,) = decide(bounded(), {}, "s")
    assert found.verdict is SuggestionVerdict.REFUSED
    (found,) = decide(bounded(), {"s": Outcome((None, None), None, (None, None))}, "s")
    assert found.verdict is SuggestionVerdict.REFUSED


def test_coverage_counts_violations_among_held_out_rows() -> None:
    assert coverage_of([0.99, 1.0], [500, 500], 900) == pytest.approx(1 - 5 / 900)
    assert coverage_of([1.0], [10], 0) is None


def test_histogram_of_quantiles() -> None:
    even = Summary(0.0, 100.0, 50.0, 29.0, tuple(i + 0.5 for i in range(100)))
    assert histogram(even, 4) == pytest.approx((0.25,) * 4, abs=0.01)
    assert histogram(Summary(1.0, 1.0, 1.0, 0.0, (1.0,))) == ()
    skewed = Summary(0.0, 1000.0, 1.0, 9.0, (1.0,) * 99 + (999.0,))
    shares = histogram(skewed, 8)
    assert sum(shares) == pytest.approx(1) and shares[0] > 0.97


# --- what is there already ---------------------------------------------------------------------


def existing(*annotations: tuple[str | None, str]) -> Existing:
    place = Span("a.sql")
    return Existing.from_annotations(
        Annotation(text, CheckSettings(), place, home) for home, text in annotations
    )


@pytest.mark.parametrize(
    "given",
    [
        ("delay", "mean > 3"),
        (None, "mean(delay) between 1 and 2"),
        (None, "expect(avg(`Delay`) < 5)"),
    ],
)
def test_a_users_own_check_of_the_kind_stands(given: tuple[str | None, str]) -> None:
    assert existing(given).has(bounded())
    assert not existing(("other", "mean > 3"), (None, "row_count > 3")).has(bounded())


@pytest.mark.parametrize("text", ["references('x')", "references(source('raw', 't'))"])
def test_a_reference_of_no_column_is_no_other_check(text: str) -> None:
    assert not existing((None, text)).has(bounded())


def test_suggestions_find_themselves_again() -> None:
    few = Distribution(("a", "b"), (600, 400))
    found = [
        *suggestions(
            column("kind", "string", distinct=2.0, distribution=few),
            column("delay", "int", summary=Summary(-1.0, 9.0, 3.0, 1.0)),
            column("n", "string", types={"integral": 1_000}, summary=Summary(0.0, 9.0, 5.0, 1.0)),
        ).values(),
        *date_orders(Profile("t", 99, (), (TimeOrder("a", "b", 90, 90, 1),))),
    ]
    for each in found:
        assert existing((each.column, each.expression(inside=True))).has(each), each
        assert existing((None, each.expression(inside=False))).has(each), each


# --- patterns ----------------------------------------------------------------------------------


def test_a_learned_pattern_of_codes_is_suggested() -> None:
    codes = [f"{kind}-{n:04d}" for n in range(0, 4_000, 11) for kind in ("AB", "CX")]
    profiled = column("parcel", "string", distinct=float(len(codes)))
    assert wants_pattern(profiled)
    learned = infer_pattern(codes, general_index())
    assert isinstance(learned, LearnedPattern)
    found = pattern_suggestion(profiled, learned.pattern, learned.spark_regex, 0.0, "why")
    assert found is not None
    assert found.annotation(inside=True) == f"@pattern('{learned.pattern}')"
    assert "<digit>" in learned.pattern
    assert found.coverage is not None
    assert learned.spark_regex in found.coverage.replace("\\\\", "\\")
    # One that training values break, or whose braces Jinja would take, is none.
    assert pattern_suggestion(profiled, learned.pattern, learned.spark_regex, 0.01, "") is None
    assert pattern_suggestion(profiled, "{{<digit>+", "x", 0.0, "") is None
    # A list of values is no format.
    assert pattern_suggestion(profiled, "a<|>b<|>c<|>d", "x", 0.0, "") is None
    assert not wants_pattern(column("parcel", "bigint", distinct=900.0))


def test_what_learns_needs_a_history() -> None:
    found = volume_suggestion(14)
    assert found is not None
    assert found.annotation(inside=False) == "@anomaly(row_count) {severity: warn}"
    assert volume_suggestion(13) is None and volume_suggestion(0) is None
    for text in ("anomaly(row_count, day_of_week)", "row_count between 5 and 9"):
        written = Annotation(text, CheckSettings(), Span("m.sql"))
        (marked,) = Existing.from_annotations([written]).marked([found])
        assert marked.verdict is SuggestionVerdict.EXISTS


def test_fractional_codes_have_a_largest_value() -> None:
    """Codes are listed if they are whole numbers; a discount of 20 is no 0.2."""
    shares = Distribution(("0.0", "0.05", "0.1", "0.2"), (700, 150, 100, 50))
    summary = Summary(0.0, 0.2, 0.03, 0.05)
    found = suggestions(column("discount", "double", summary=summary, distribution=shares))
    (limit,) = (s for name, s in found.items() if name in ("HasMax", "HasMin"))
    assert limit.envelope is not None and limit.envelope.upper is not None
    assert 0.2 <= limit.envelope.upper < 1
    assert not {"HasMean", "HasStandardDeviation"} & found.keys()
    whole = replace(shares, values=("0", "1", "2", "3"))
    summary = Summary(0.0, 3.0, 0.4, 0.5)
    codes = suggestions(column("level", "int", summary=summary, distribution=whole))
    assert not {"HasMax", "HasMean"} & codes.keys()


@pytest.mark.parametrize(
    "more",
    [
        # To Spark NaN is the largest number: a batch with it has no largest that is one.
        {"nan": 12, "summary": Summary(-3.0, 90.0, 30.0, 9.0)},
        # A double says of these that all are one.
        {"summary": Summary(2.0**53 + 2, 2.0**53 + 900, 2.0**53 + 500, 120.0)},
    ],
)
def test_no_bounds_that_a_number_could_not_keep(more: dict[str, object]) -> None:
    found = suggestions(column("amount", "double", **more))
    assert not {"HasMin", "HasMax", "HasMean", "HasStandardDeviation"} & found.keys()
    reasons = " ".join(s.reason for s in found.values())
    assert "900719925474" not in reasons
