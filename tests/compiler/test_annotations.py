"""What an annotation compiles to."""

from __future__ import annotations

import re

import pytest

from dqsql.compiler.rowchecks import failing_rows
from dqsql.dialect import to_sql
from dqsql.report.manifest import columns_used

from .conftest import CompileModel
from .models import of_column, of_model

MOMENTS = ("x__count", "x__pivot", "x__mean", "x__m2")


@pytest.mark.parametrize(
    ("annotation", "predicate", "metrics", "states"),
    [
        ("@not_null", "(m0 = 1)", ("completeness(x)",), ("x__count",)),
        ("@NOT_NULL", "(m0 = 1)", ("completeness(x)",), ("x__count",)),
        ("@not_null(y)", "(m0 = 1)", ("completeness(y)",), ("y__count",)),
        ("@completeness >= 0.95", "m0 >= 0.95", ("completeness(x)",), ("x__count",)),
        ("@not completeness < 0.5", "NOT m0 < 0.5", ("completeness(x)",), ("x__count",)),
        (
            "@completeness = 1 or row_count < 10",
            "m0 = 1 OR m1 < 10",
            ("completeness(x)", "row_count"),
            ("x__count",),
        ),
        (
            "@mean > min and mean < max",
            "m0 > m1 AND m0 < m2",
            ("mean(x)", "min(x)", "max(x)"),
            ("x__total", "x__count", "x__min", "x__max"),
        ),
        ("@max - min <= 100", "m0 <= 100", ("max(x) - min(x)",), ("x__max", "x__min")),
        ("@mean between -5 and 60", "m0 BETWEEN -5 AND 60", ("mean(x)",), ("x__total", "x__count")),
        ("@sum in (1, 2)", "m0 IN (1, 2)", ("sum(x)",), ("x__sum", "x__count")),
        ("@max is not null", "NOT m0 IS NULL", ("max(x)",), ("x__max",)),
        ("@min = 'it''s'", "m0 = 'it\\'s'", ("min(x)",), ("x__min",)),
        ("@max <= date '2020-01-01'", "m0 <= CAST('2020-01-01' AS DATE)", ("max(x)",), ("x__max",)),
        ("@quantile(0.99) < 7", "m0 < 7", ("quantile(x, 0.99)",), ("x__quantile",)),
        ("@quantile(y, 0.99) < 7", "m0 < 7", ("quantile(y, 0.99)",), ("y__quantile",)),
        ("@median < 3", "m0 < 3", ("median(x)",), ("x__quantile",)),
        ("@stddev < 3", "m0 < 3", ("stddev(x)",), MOMENTS),
        ("@skewness < 2", "m0 < 2", ("skewness(x)",), (*MOMENTS, "x__m3")),
        ("@approx_count_distinct = 3", "m0 = 3", ("approx_count_distinct(x)",), ("x__hll12",)),
        ("@count > 3", "m0 > 3", ("count(x)",), ("x__count",)),
        ("@row_count > 3", "m0 > 3", ("row_count",), ()),
        ("@expect(count(*) > 0)", "(m0 > 0)", ("count(*)",), ()),
        ("@expect(count(x, y) > 0)", "(m0 > 0)", ("count(x, y)",), ("x_y__count",)),
        ("@expect(sum(1) > 0)", "(m0 > 0)", ("sum(1)",), ("1__sum", "1__count")),
        ("@expect(SUM(X) > 1)", "(m0 > 1)", ("sum(X)",), ("x__sum", "x__count")),
        ("@expect(sum(x) = sum(x))", "(m0 = m0)", ("sum(x)",), ("x__sum", "x__count")),
        (
            "@expect(sum(x) / sum(y) between 5 and 9)",
            "(m0 BETWEEN 5 AND 9)",
            ("sum(x) / sum(y)",),
            ("x__sum", "x__count", "y__sum", "y__count"),
        ),
        ("@mean > 3 {enabled: false}", None, (), ()),
    ],
)
def test_column_annotation(
    compile_model: CompileModel,
    annotation: str,
    predicate: str | None,
    metrics: tuple[str, ...],
    states: tuple[str, ...],
) -> None:
    compiled = compile_model(of_column(annotation))
    assert compiled.errors == ()
    plan = compiled.plan
    assert [to_sql(c.predicate).replace("`", "") for c in plan.checks] == (
        [predicate] if predicate else []
    )
    assert all(c.column == "x" for c in plan.checks)
    assert tuple(m.text for m in plan.metrics) == metrics
    # The number of rows is always there.
    named = tuple(re.sub(r"_[0-9a-f]{8}$", "", s.name) for s in plan.states)
    assert named == ("rows", *states)


@pytest.mark.parametrize(
    ("annotation", "scan"),
    [
        ("@accepted_values('a', 'b''c')", "(`x` IS NULL OR `x` IN ('a', 'b\\'c'))"),
        ("@in_range(-1, 1)", "(`x` IS NULL OR coalesce(`x` BETWEEN -1 AND 1, TRUE))"),
        ("@in_range(0, null)", "(`x` IS NULL OR coalesce(`x` BETWEEN 0 AND NULL, TRUE))"),
        ("@in_range(high => 2, low => 1)", "(`x` IS NULL OR coalesce(`x` BETWEEN 1 AND 2, TRUE))"),
        ("@non_negative", "(`x` IS NULL OR `x` >= 0)"),
        ("@positive", "(`x` IS NULL OR `x` > 0)"),
        ("@less_than(y)", "(`x` IS NULL OR `y` IS NULL OR `x` < `y`)"),
        ("@greater_than(y + 1)", "(`x` IS NULL OR (`y` + 1) IS NULL OR `x` > (`y` + 1))"),
        ("@equal_to(5)", "(`x` IS NULL OR 5 IS NULL OR `x` = 5)"),
        ("@matches('^\\\\d+$')", "(`x` IS NULL OR `x` RLIKE '^\\\\d+$')"),
        ("@satisfies(x > y or x is null)", "(`x` > `y` OR `x` IS NULL)"),
        ("@satisfies_if(y > 0, x > 0)", "(CASE WHEN (`y` > 0) THEN (`x` > 0) ELSE TRUE END)"),
    ],
)
def test_condition_on_every_row(compile_model: CompileModel, annotation: str, scan: str) -> None:
    plan = compile_model(of_column(annotation)).plan
    (check,) = plan.checks
    assert to_sql(check.predicate) == "(`m0` = 1)"
    assert [to_sql(s.scan) for s in plan.states] == ["count(*)", f"count_if({scan})"]
    assert to_sql(plan.metrics[0].finish).endswith("/ nullif(((`rows`)), 0))")


@pytest.mark.parametrize(
    ("annotation", "scans"),
    [
        ("@max < 9 {where: y > 1}", ["max(`x`) FILTER(WHERE `y` > 1)"]),
        (
            "@completeness = 1 {where: y > 1 or y < 0}",
            [
                "count(`x`) FILTER(WHERE `y` > 1 OR `y` < 0)",
                "count(*) FILTER(WHERE `y` > 1 OR `y` < 0)",
            ],
        ),
        (
            "@expect(sum(x) filter (where y > 1 or y < 0) > 1) {where: s = 'a' or s = 'b'}",
            [
                f"{name}(`x`) FILTER(WHERE (`y` > 1 OR `y` < 0) AND (`s` = 'a' OR `s` = 'b'))"
                for name in ("try_sum", "count")
            ],
        ),
    ],
)
def test_where_restricts_every_aggregate(
    compile_model: CompileModel, annotation: str, scans: list[str]
) -> None:
    compiled = compile_model(of_column(annotation))
    assert compiled.errors == ()
    assert [to_sql(s.scan) for s in compiled.plan.states if s.name != "rows"] == scans


def test_metrics_with_and_without_where_are_told_apart(compile_model: CompileModel) -> None:
    plan = compile_model(of_column("@max < 9 @max < 8 {where: y > 1}")).plan
    assert len({(m.name, m.column, m.parameters) for m in plan.metrics}) == len(plan.metrics) == 2


@pytest.mark.parametrize(
    ("annotation", "bounds"),
    [
        ("@mean > 3", (3, None)),
        ("@mean <= -3", (None, -3)),
        ("@mean = 3", (3, 3)),
        ("@mean between 1 and 2.5", (1, 2.5)),
        ("@expect(3 < avg(x) and avg(x) < 5)", (3, 5)),
        ("@not_null", (1, 1)),
        ("@mean > 3 or mean < 1", None),
        ("@mean <> 3", None),
        ("@not mean > 3", None),
        ("@mean > min", None),
        ("@mean not between 1 and 2", None),
        ("@max < date '2020-01-01'", None),
        ("@sum in (1, 2)", None),
    ],
)
def test_bounds_are_those_of_simple_predicates(
    compile_model: CompileModel, annotation: str, bounds: tuple[float | None, float | None] | None
) -> None:
    (check,) = compile_model(of_column(annotation)).plan.checks
    found = None if check.bounds is None else (check.bounds.lower, check.bounds.upper)
    assert found == bounds


def test_a_list_in_brackets_is_taken_as_its_values(compile_model: CompileModel) -> None:
    listed = compile_model(of_column("@accepted_values(['a', 'b'])")).plan.metrics
    plain = compile_model(of_column("@accepted_values('a', 'b')")).plan.metrics
    assert [m.text for m in listed] == [m.text for m in plain] != []


@pytest.mark.parametrize(
    ("annotation", "failing"),
    [
        ("@completeness >= 0.9", "not (coalesce(not (`x`) is null, false))"),
        ("@compliance(x > 3) between 0.5 and 1", "not (coalesce(((`x` > 3)), false))"),
        ("@null_count = 0", "((`x`) is null)"),
        # Rows that do not meet the condition are what these checks want.
        ("@compliance(x > 3) = 0", None),
        ("@compliance(x > 3) between 0 and 0.1", None),
        ("@completeness <= 0.1", None),
    ],
)
def test_rows_that_fail_a_share(
    compile_model: CompileModel, annotation: str, failing: str | None
) -> None:
    plan = compile_model(of_column(annotation)).plan
    found = failing_rows(plan, plan.checks[0])
    condition = None if found is None or found.condition is None else to_sql(found.condition)
    assert (condition and condition.lower()) == failing


def test_a_comparison_of_a_column_that_is_called_like_a_parameter(
    compile_model: CompileModel,
) -> None:
    macros = {
        "macros/check_holds.sql": "{% macro check_holds(Low) %} every({{ Low }}) {% endmacro %}"
    }
    compiled = compile_model("select Low from t -- @holds(Low = 1)", macros)
    assert compiled.errors == ()
    assert [m.text for m in compiled.plan.metrics] == ["every((Low = 1))"]


def test_names_of_state_columns_do_not_collide(compile_model: CompileModel) -> None:
    columns = ["x", "X Y", "x_y", "x-y", "rows", "batch", "x__sum", "größe", "y" * 80, "y" * 81]
    projections = ",\n".join(f"  `{c}` -- @sum > 0 @row_count > 0\n" for c in columns)
    plan = compile_model(f"select\n{projections} from t").plan
    names = [s.name.lower() for s in plan.states]
    assert len(names) == len(set(names)) == 2 * len(columns) + 1
    assert all(n.isascii() for n in names)


def test_relations_have_their_own_names_in_texts(compile_model: CompileModel) -> None:
    """Names of metrics are stored and shown: no view of dqsql's is among them."""
    compiled = compile_model(
        of_model(
            "@expect(count_if(is_orphan((x, s.k), orders, (y, s.k))) = 0)"
            " @expect(frequency(max(n), if(is_orphan(x, orders, s.k), x, y)) < 9)"
            " @expect(sum(x) < relation_rows(orders)) @orphan_count(s.k, orders, s.k) < 3"
        )
    )
    assert compiled.errors == ()
    texts = {m.text: m.counts for m in compiled.plan.metrics if m.name != "row_count"}
    assert texts == {
        "count_if(is_orphan((x, s.k), orders, (y, s.k)))": None,
        "frequency(max(n), IF(is_orphan(x, orders, s.k), x, y))": None,
        "sum(x)": None,
        "relation_rows(orders)": None,
        "orphan_count(s.k, orders, s.k)": "no match for s.k in orders.s.k",
    }


def test_columns_of_a_check_are_the_models(compile_model: CompileModel) -> None:
    """Not those of counts of values, over which an expression of its own is taken."""
    compiled = compile_model(
        of_model(
            "@unique(x, y) @entropy(s.k) > 0 {where: 'y > 0'} @references(x, orders, z)"
            " @predictability(x, from => (day, y)) > 0 @row_count_of(orders) > 0 @mean(x) > 0"
        )
    )
    assert compiled.errors == ()
    found = [columns_used(compiled.plan, check) for check in compiled.plan.checks]
    assert found == [("x", "y"), ("s", "y"), ("x",), ("day", "x", "y"), (), ("x",)]


def test_names_that_only_look_the_same_are_told_apart(compile_model: CompileModel) -> None:
    sql = "select `gro\u0308\u00dfe` -- @mean(gr\u00f6\u00dfe) > 0\nfrom t"
    (error,) = compile_model(sql).errors
    assert error.hint == r"'gro\u0308\xdfe' looks the same; this is 'gr\xf6\xdfe': copy that name"


def test_ids_keep_vowel_signs_and_accents(compile_model: CompileModel) -> None:
    names = ("हिन्दी", "gro\u0308\u00dfe", "1\ufe0f\u20e3 a\u0301-b")
    columns = ",\n".join(f"`{name}` -- @not_null" for name in names)
    sql = f"select {columns.replace(' -- @not_null,', ', -- @not_null')}\nfrom t"
    ids = [check.id for check in compile_model(sql, name="m").plan.checks]
    assert ids == ["m.हिन्दी.not_null", "m.gro\u0308\u00dfe.not_null", "m.1_a\u0301_b.not_null"]


@pytest.mark.parametrize(
    ("annotation", "same"),
    [
        ("@primary_key((x, y))", "@primary_key(x, y)"),
        ("@unique((x, y))", "@unique(x, y)"),
        ("@functional_dependency(s, (x, y))", "@functional_dependency(s, determinant => [x, y])"),
        ("@functional_dependency(s, [x, y])", "@functional_dependency(s, determinant => [x, y])"),
        ("@avg(y) > 1", "@expect(avg(y) > 1)"),
        ("@percentile(y, 0.5) > 1", "@expect(percentile(y, 0.5) > 1)"),
        ("@corr(y) > 0", "@expect(corr(x, y) > 0)"),
        ("@corr(y, s) > 0", "@expect(corr(y, s) > 0)"),
        ("@reconciles(sum(x), sum(y), 1)", "@expect(abs(sum(x) - sum(y)) <= 1)"),
    ],
)
def test_the_same_in_other_words(compile_model: CompileModel, annotation: str, same: str) -> None:
    found, wanted = (compile_model(of_column(text)) for text in (annotation, same))
    assert found.errors == wanted.errors == ()
    states = {s.name for s in found.plan.states}
    assert states == {s.name for s in wanted.plan.states}


LISTS = {
    "macros/lists.sql": """\
{% macro metric_share_of(c, values) %}
avg(case when {{ c }} in ({{ values | join(", ") }}) then 1 else 0 end)
{% endmacro %}
{% macro metric_chosen(c, flag=true) %}
{% if flag %}sum{% else %}avg{% endif %}({{ c }})
{% endmacro %}
{% macro check_few(c, values) %}other_value_count({{ c }}, {{ values }}) = 0{% endmacro %}
{% macro check_determined(c, keys) %}functional_dependency({{ c }}, {{ keys }}){% endmacro %}
"""
}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # A list stays one wherever it is written: also in text that is read again.
        ("@determined([s, y])", "@functional_dependency(determinant => [s, y])"),
        ("@determined((s, y))", "@functional_dependency(determinant => [s, y])"),
        ("@expect(predictability(x, from => [s, y]) > 0.5)", "@predictability((s, y)) > 0.5"),
        ("@predictability(array(s, y)) > 0.5", "@predictability((s, y)) > 0.5"),
        ("@reconciles(dependency_violations(x, determinant => [s, y]), 3)",
         "@reconciles(dependency_violations(x, determinant => (s, y)), 3)"),
        ("@share_of(['ab']) > 0", "@share_of('ab') > 0"),
        ("@mutual_information(y, [x, s]) > 0", "@mutual_information(y, (x, s)) > 0"),
        ("@few(['a', 'b'])", "@other_value_count(['a', 'b']) = 0"),
        ("@few(('a', 'b'))", "@other_value_count('a', 'b') = 0"),
        ("@chosen(false) > 0", "@chosen(null) > 0"),
        ("@chosen(true) > 0", "@chosen > 0"),
    ],
)  # fmt: skip
def test_lists_and_flags_are_what_they_say(
    compile_model: CompileModel, first: str, second: str
) -> None:
    plans = [compile_model(of_column(text), LISTS) for text in (first, second)]
    assert not any(compiled.errors for compiled in plans)
    one, other = ({to_sql(s.scan) for s in compiled.plan.states} for compiled in plans)
    assert one == other


def test_an_array_is_a_value_where_users_write_one(compile_model: CompileModel) -> None:
    given = ("@accepted_values(array('a'))", "@accepted_values(ARRAY('a'))", "@unique(ARRAY(s, y))")
    for text in given:
        (state, *_) = [to_sql(s.scan) for s in compile_model(of_column(text)).plan.states[:1]]
        assert not compile_model(of_column(text)).errors, state
    first, second = (compile_model(of_column(text)).plan.states for text in given[:2])
    assert [to_sql(s.scan).lower() for s in first] == [to_sql(s.scan).lower() for s in second]


def test_a_monitor_of_a_metric_with_a_list_measures_that_metric(
    compile_model: CompileModel,
) -> None:
    """The check beside it got the value of another metric."""
    few = compile_model(of_column("@anomaly(other_value_count(['a', 'b']))")).plan.states
    direct = compile_model(of_column("@other_value_count('a', 'b') = 0")).plan.states
    assert [to_sql(s.scan) for s in few] == [to_sql(s.scan) for s in direct]
    metric = "dependency_violations(x, determinant => [s, y])"
    compiled = compile_model(of_column(f"@anomaly({metric}) @expect({metric} = 3)"))
    alone = compile_model(of_column(f"@expect({metric} = 3)"))
    assert not compiled.errors
    assert {to_sql(s.scan) for s in alone.plan.states} <= {
        to_sql(s.scan) for s in compiled.plan.states
    }
    assert len(compiled.plan.states) == len(alone.plan.states)


def test_a_macro_may_read_variables_and_have_capitals(compile_model: CompileModel) -> None:
    macro = "{% macro metric_GrossMargin(a) %}mean({{ a }}) - {{ var('low') }}{% endmacro %}"
    compiled = compile_model(
        of_column("@GrossMargin(x) > 1 @grossmargin(y) > 1"), {"macros/metric_own.sql": macro}
    )
    assert compiled.errors == ()
    assert [m.column for m in compiled.plan.metrics if m.name == "GrossMargin"] == ["x", "y"]
    assert all("3" in to_sql(m.finish) for m in compiled.plan.metrics if m.column is not None)


@pytest.mark.parametrize(
    ("annotation", "column"),
    [
        ("@accepted_values(s, 'a', 'b')", "s"),
        ("@in_range(x, 0, 1)", "x"),
        ("@satisfies(x > 0) {where: \"s = 'a'\"}", "x"),
        ("@satisfies(x > y)", None),
        ('@satisfies(x > y) {where: "y > 0"}', None),
        ("@satisfies(X > 0)", "x"),
        ("@row_count > 0", None),
        ("@mean(x) > 0", "x"),
    ],
)
def test_the_column_that_a_check_is_about(
    compile_model: CompileModel, annotation: str, column: str | None
) -> None:
    (check,) = compile_model(of_model(annotation)).plan.checks
    assert check.column == column
