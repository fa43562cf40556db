"""What a run needs of patterns: samples of values, learning, counts in the scan, verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dqsql
from dqsql.dialect import column, formula, to_sql
from dqsql.engine.value_samples import MAX_LENGTH, ValueSample, sample_values
from dqsql.errors import PatternError, QueryError
from dqsql.monitors.pattern_rules import (
    from_record,
    judge,
    matching_count,
    pattern_regex,
    to_record,
)
from dqsql.patterns.general import general_index
from dqsql.patterns.infer import LearnedPattern, NoPattern, infer_pattern
from dqsql.patterns.language import Token, pattern_of
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches, spark_regex
from tests.conftest import MakeProject
from tests.patterns.strategies import EXOTIC, HOSTILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = 'the `code`; it\'s "odd"'


# --- samples -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def values_view(spark: SparkSession) -> str:
    """Two days: a mark in nine of ten rows, else an id; few codes; nothing; a long text."""
    frame = spark.range(50_000).selectExpr(
        "if(id < 25000, 'Mon', 'Tue') as day",
        f"if(id % 10 > 0, '-', concat('id', id)) as `{ODD.replace('`', '``')}`",
        "concat('c', id % 3) as code",
        "cast(null as string) as nothing",
        "if(id = 7, repeat('x', 5000), '') as long",
        "id as number",
    )
    frame.createOrReplaceTempView("values_view")
    return "values_view"


def test_samples_of_several_columns_come_from_one_batch(
    spark: SparkSession, values_view: str
) -> None:
    monday = formula("day = 'Mon'")
    names = [ODD, "code", "nothing", "long", "number"]
    found = sample_values(spark, "m", values_view, names, monday, limit=100)
    assert list(found) == names
    assert found["code"].complete
    assert sorted(zip(found["code"].values, found["code"].weights, strict=True)) == [
        ("c0", 8334.0),
        ("c1", 8333.0),
        ("c2", 8333.0),
    ]
    assert found["nothing"] == ValueSample((), (), True)
    assert set(found["long"].values) == {"", "x" * MAX_LENGTH}
    assert found["number"].values[0].isdigit()
    assert not found[ODD].complete
    assert len(found[ODD].values) == len(set(found[ODD].values)) == 100


def test_a_sample_has_the_shares_of_the_rows(spark: SparkSession, values_view: str) -> None:
    found = sample_values(spark, "m", values_view, [ODD], limit=500)[ODD]
    assert found.rows == pytest.approx(50_000, rel=0.05)
    spread = found.spread()
    assert len(spread) == 1_000
    assert spread.count("-") == pytest.approx(900, abs=15)
    assert len(set(spread)) > 80


def test_a_sample_depends_on_the_values_alone(spark: SparkSession, values_view: str) -> None:
    whole = sample_values(spark, "m", values_view, [ODD], limit=50)
    spark.table(values_view).repartition(7).createOrReplaceTempView("other_order")
    assert sample_values(spark, "m", "other_order", [ODD], limit=50) == whole


def test_values_that_do_not_match_are_sampled(spark: SparkSession, values_view: str) -> None:
    pattern = spark_regex(parse_pattern("id<digit>+"))
    found = sample_values(
        spark, "m", values_view, [ODD, "code"], limit=3, not_matching={ODD: pattern}
    )
    assert found[ODD] == ValueSample(("-",), (45_000.0,), True)
    assert len(found["code"].values) == 3


def test_a_sample_of_no_column_there_is_an_error(spark: SparkSession, values_view: str) -> None:
    with pytest.raises(QueryError, match="cannot sample values of m"):
        sample_values(spark, "m", values_view, ["nosuch"])


samples = st.lists(st.floats(1, 1e6), min_size=1, max_size=60).map(
    lambda weights: ValueSample(tuple(map(str, range(len(weights)))), tuple(weights), False)
)


@given(samples, st.integers(1, 200))
def test_copies_are_proportional_to_weights(sample: ValueSample, limit: int) -> None:
    spread = sample.spread(limit)
    assert len(spread) == limit
    for value, weight in zip(sample.values, sample.weights, strict=True):
        assert abs(spread.count(value) - weight * limit / sample.rows) <= 1.001


def test_small_samples_are_spread_as_they_are() -> None:
    assert ValueSample(("a", "b"), (2.0, 1.0), True).spread() == ["a", "a", "b"]
    assert ValueSample((), (), True).spread() == []


# --- learning ------------------------------------------------------------------------------------


def test_what_was_learned_is_read_back() -> None:
    days = [f"Mar {day:02d} 2019" for day in range(1, 31)]
    columns = {"day": days, "odd": [""] * 9, "none": [None]}
    learned = {name: infer_pattern(values, general_index()) for name, values in columns.items()}
    assert {k: type(v) for k, v in learned.items()} == {
        "day": LearnedPattern,
        "odd": NoPattern,
        "none": NoPattern,
    }
    for found in learned.values():
        assert from_record(to_record(found)) == found
    with pytest.raises(PatternError, match="damaged"):
        from_record({"pattern": "<digit>+", "fpr": "much"})


# --- counts in the scan --------------------------------------------------------------------------


def test_counts_in_sql_are_those_of_the_pattern(spark: SparkSession) -> None:
    r"""Each value is looked for by the pattern of its own text, and by classes."""
    values = [
        *("\\", "\\\\", "'", "''", '"', "\\'", "a\nb", "a\r\n", "\t", "%", "_", "{{ x }}", "$1"),
        *("`", "``", ";--", "/*", "\\n", "\\u0041", "\\Q.\\E", "${a}", "שלום", "é", "e\u0301", ""),
        *("\U0001f600", "\u202eabc", "\0", "\x7f", "A" * 10_000, *HOSTILE, *EXOTIC),
    ]
    schema = f"`{ODD.replace('`', '``')}` string"
    rows = [(value,) for value in [*values, None]]
    spark.createDataFrame(rows, schema).createOrReplaceTempView("hostile_values")
    patterns = [pattern_of(Token("const", value)).text for value in values if value]
    classes = [r"\\<all>", "<letter>+", "<digit>+|x<|><letter>{1}", r"'<(>'<)?>"]
    counts = [to_sql(matching_count(ODD, text)) for text in [*patterns, *classes]]
    counts.append(to_sql(formula("count({0})", column(ODD))))
    selected = ", ".join(f"{count} as n{i}" for i, count in enumerate(counts))
    found = list(spark.sql(f"select {selected} from hostile_values").first() or ())
    expected = [
        sum(matches(parse_pattern(text), value) for value in values)
        for text in [*patterns, *classes]
    ]
    assert found == [*expected, len(values)]
    assert min(expected[: len(patterns)]) >= 1


# --- verdicts ------------------------------------------------------------------------------------


def test_a_verdict_names_the_pattern_the_shares_and_values() -> None:
    learned = LearnedPattern("<digit>+", 0.01, 90, rows=1_000, nonconforming=10, method="FMDV-VH")
    failed = judge(learned, 200, 100, 0.01, "fisher", ["n/a", "it's"])
    assert failed.status == "fail"
    assert failed.message == (
        "50.00% of values do not match <digit>+ (training: 1.00%), for example 'n/a', \"it's\""
    )
    assert judge(learned, 200, 197, 0.01, "fisher").status == "pass"
    assert judge(learned, 200, 193, 0.05, "fisher").status == "fail"
    assert judge(learned, 200, 193, 1e-6, "fisher").status == "pass"
    assert judge(learned, 200, 100, 0.01, "chi_squared").status == "fail"
    assert judge(learned, 0, 0, 0.01, "fisher").status == "empty"


# --- a pattern that the user gives ---------------------------------------------------------------


def test_regexes_for_macros_are_sql_literals() -> None:
    assert pattern_regex("'a<digit>{2}'") == r"'\\A(?:a\\p{Nd}{2})\\z'"
    with pytest.raises(PatternError, match="text in quotes"):
        pattern_regex("`column`")
    with pytest.raises(PatternError, match="cannot read pattern"):
        pattern_regex("'<digt>'")


def test_a_given_pattern_is_a_check(make_project: MakeProject, spark: SparkSession) -> None:
    root = make_project(
        {
            "checks/codes.sql": r"""
                select
                    code,  -- @pattern('<letter>{3}-<digit>+')
                    path   -- @pattern('\\\\<letter>+<|>it\'s') {where: "code <> 'x'"}
                from values
                    ('abc-1', '\\srv'), ('é日ß-22', 'it\'s'), (null, null), ('x', '?')
                    as t(code, path)
                -- @expect(pattern(path, '<all>'))
                """
        }
    )
    (model,) = dqsql.run(root, spark=spark).models
    assert model.error is None
    verdicts = {r.check_id: (r.status.value, r.observed) for r in model.results}
    assert verdicts == {
        "codes.code.pattern_lt_letter_gt_3_lt_digit_gt": ("fail", 0.75),
        "codes.path.pattern_lt_letter_gt_lt_gt_it_s_where_code_ne_x": ("pass", 1.0),
        "codes.expect_pattern_path_lt_all_gt": ("pass", 1.0),
    }


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("@pattern('<digt>+')", "cannot read pattern at character 1"),
        ("@pattern('')", "empty pattern"),
        ("@pattern('<letter>+<alphanum>+')", "compete for the same characters"),
    ],
)
def test_a_wrong_pattern_is_an_error_at_its_place(
    make_project: MakeProject, annotation: str, message: str
) -> None:
    root = make_project({"checks/c.sql": f"select\n    a -- {annotation}\nfrom t\n"})
    with pytest.raises(PatternError, match=message) as caught:
        dqsql.run(root)
    assert str(caught.value.span).startswith("checks/c.sql:2:10")
