"""What an annotation compiles to, and what is wrong with one that does not compile."""

from __future__ import annotations

import pytest

from dqsql.compiler.rowchecks import failing_rows
from dqsql.dialect import to_sql
from dqsql.errors import (
    AnnotationError,
    CompileError,
    DqsqlError,
    MacroError,
    SqlSyntaxError,
    UnknownNameError,
    UnsupportedExpressionError,
)
from dqsql.report.manifest import columns_used

from .conftest import CompileModel

# The column's annotation starts at line 6, column 10; the model's at line 9, column 4.
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    s,
    y,
    x -- {column}
from {{{{ source('shop', 'orders') }}}}

-- {model}
"""
MOMENTS = ("x__count", "x__pivot", "x__mean", "x__m2")


def of_column(annotation: str) -> str:
    return MODEL.format(column=annotation, model="")


def of_model(annotation: str) -> str:
    return MODEL.format(column="", model=annotation)


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
        (
            "@mean between -5 and 60",
            "m0 BETWEEN -5 AND 60",
            ("mean(x)",),
            ("x__total", "x__count"),
        ),
        ("@sum in (1, 2)", "m0 IN (1, 2)", ("sum(x)",), ("x__sum",)),
        ("@max is not null", "NOT m0 IS NULL", ("max(x)",), ("x__max",)),
        ("@min = 'it''s'", "m0 = 'it\\'s'", ("min(x)",), ("x__min",)),
        (
            "@max <= date '2020-01-01'",
            "m0 <= CAST('2020-01-01' AS DATE)",
            ("max(x)",),
            ("x__max",),
        ),
        ("@quantile(0.99) < 7", "m0 < 7", ("quantile(x, 0.99)",), ("x__kll400",)),
        ("@quantile(y, 0.99) < 7", "m0 < 7", ("quantile(y, 0.99)",), ("y__kll400",)),
        ("@median < 3", "m0 < 3", ("median(x)",), ("x__kll400",)),
        ("@stddev < 3", "m0 < 3", ("stddev(x)",), MOMENTS),
        ("@skewness < 2", "m0 < 2", ("skewness(x)",), (*MOMENTS, "x__m3")),
        ("@approx_count_distinct = 3", "m0 = 3", ("approx_count_distinct(x)",), ("x__hll12",)),
        ("@count > 3", "m0 > 3", ("count(x)",), ("x__count",)),
        ("@row_count > 3", "m0 > 3", ("row_count",), ()),
        ("@expect(count(*) > 0)", "(m0 > 0)", ("count(*)",), ()),
        ("@expect(SUM(X) > 1)", "(m0 > 1)", ("sum(X)",), ("x__sum",)),
        ("@expect(sum(x) = sum(x))", "(m0 = m0)", ("sum(x)",), ("x__sum",)),
        (
            "@expect(sum(x) / sum(y) between 5 and 9)",
            "(m0 BETWEEN 5 AND 9)",
            ("sum(x) / sum(y)",),
            ("x__sum", "y__sum"),
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
    assert tuple(s.name for s in plan.states) == ("rows", *states)


@pytest.mark.parametrize(
    ("annotation", "scan"),
    [
        ("@accepted_values('a', 'b''c')", "`x` IS NULL OR `x` IN ('a', 'b\\'c')"),
        ("@in_range(-1, 1)", "`x` IS NULL OR `x` BETWEEN -1 AND 1"),
        ("@in_range(high => 2, low => 1)", "`x` IS NULL OR `x` BETWEEN 1 AND 2"),
        ("@non_negative", "`x` IS NULL OR `x` >= 0"),
        ("@positive", "`x` IS NULL OR `x` > 0"),
        ("@less_than(y)", "`x` IS NULL OR `y` IS NULL OR `x` < `y`"),
        ("@greater_than(y + 1)", "`x` IS NULL OR (`y` + 1) IS NULL OR `x` > (`y` + 1)"),
        ("@equal_to(5)", "`x` IS NULL OR 5 IS NULL OR `x` = 5"),
        ("@matches('^\\\\d+$')", "`x` IS NULL OR `x` RLIKE '^\\\\d+$'"),
        ("@satisfies(x > y or x is null)", "`x` > `y` OR `x` IS NULL"),
        (
            "@satisfies_if(y > 0, x > 0)",
            "NOT coalesce((`y` > 0), FALSE) OR coalesce((`x` > 0), FALSE)",
        ),
    ],
)
def test_condition_on_every_row(compile_model: CompileModel, annotation: str, scan: str) -> None:
    plan = compile_model(of_column(annotation)).plan
    (check,) = plan.checks
    assert to_sql(check.predicate) == "(`m0` = 1)"
    assert [to_sql(s.scan) for s in plan.states] == ["count(*)", f"count_if(({scan}))"]
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
            ["sum(`x`) FILTER(WHERE (`y` > 1 OR `y` < 0) AND (`s` = 'a' OR `s` = 'b'))"],
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
    assert len({m.key for m in plan.metrics}) == len(plan.metrics) == 2


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


@pytest.mark.parametrize(
    ("annotation", "kind", "position", "message", "hint"),
    [
        ("@not_nul", UnknownNameError, 11, "unknown check", "'not_null'"),
        ("@completnes > 0.5", UnknownNameError, 11, "'completnes'", "'completeness'"),
        ("@mean > 0 and  meen < 3", UnknownNameError, 25, "'meen'", "'mean'"),
        ("@mean", CompileError, 10, "demands nothing", "@mean > 0"),
        ("@max(x)", CompileError, 10, "demands nothing", "@max(x) > 0"),
        ("@expect()", CompileError, 10, "one condition, not 0", None),
        ("@expect(1, 2)", CompileError, 10, "one condition, not 2", None),
        ("@expect(x > 1)", UnknownNameError, 18, "outside an aggregate", "@satisfies"),
        ("@x > 3", UnknownNameError, 11, "outside an aggregate", "@satisfies"),
        ("@expect(1 > 0)", CompileError, 10, "compares no metric", "@satisfies"),
        ("@expect(sum(x) > a)", UnknownNameError, 27, "'a'", None),
        ("@mean(yy) > 1", UnknownNameError, 16, "no column 'yy'", "'y'"),
        ("@expect(sum(other) > 1)", UnknownNameError, 22, "no column 'other'", "day, s, y, x"),
        (
            "@accepted_values(paid, open)",
            UnknownNameError,
            27,
            "no column 'paid'",
            "quotes: 'paid'",
        ),
        ("@mean > 3 {where: dayy > 1}", UnknownNameError, 28, "no column 'dayy'", "'day'"),
        ("@quantile < 3", MacroError, 10, "needs 'rank'", None),
        ("@quantile(rnk => 1) < 3", MacroError, 10, "no parameter 'rnk'", None),
        ("@in_range(1)", MacroError, 10, "needs 'high'", None),
        ("@not_null(x, y)", MacroError, 10, "got 2 arguments", None),
        ('@mean > 3 {where: "x >"}', SqlSyntaxError, 10, "cannot parse", None),
        ("@expect(sum(x) over () > 1)", UnsupportedExpressionError, 10, "a window", "SELECT"),
        ("@expect(sum(x) > (select 1))", UnsupportedExpressionError, 10, "a subquery", "SELECT"),
        (
            "@expect(min(x) > 8 >> 1)",
            UnsupportedExpressionError,
            10,
            "change its meaning",
            "SELECT",
        ),
        ("@expect(max(s) = 'a' 'b')", UnsupportedExpressionError, 10, "'concat'", "SELECT"),
        ("@avh > 1", AnnotationError, 11, "must stand alone", None),
        ("@not_null >= 0.9", CompileError, 11, "no number", "@completeness"),
        ("@unique between 0.5 and 1", CompileError, 11, "no number", "@uniqueness"),
        ("@in_range(1, 2) > 0.9", CompileError, 11, "no number", "@compliance(condition)"),
        ("@mean between 5 and -1.5", CompileError, 16, "no value is", "first: -1.5 and 5"),
        ("@in_range(10, 2)", CompileError, 10, "no value is between 10 and 2", "2 and 10"),
        ("@in_range(low=1, high=5)", CompileError, 20, "is a comparison", "low => 1"),
        (
            "@relationships(x, y)",
            UnknownNameError,
            11,
            "unknown check",
            "@references(relation, key)",
        ),
        (
            "@expect_column_values_to_be_between(1, 2)",
            UnknownNameError,
            11,
            "unknown check",
            "@in_range(low, high)",
        ),
        ("@expect(foo(x) > 1)", UnknownNameError, 18, "'foo'", None),
        ("@expect(uper(max(s)) = 'A')", UnknownNameError, 18, "'uper'", None),
        ("@approx_percentile(0.5, 0) > 1", UnsupportedExpressionError, 10, "not positive", None),
        ("@approx_count_distinct(2) > 1", UnsupportedExpressionError, 10, "between 0 and 1", None),
        ("@not_null {period: 7}", CompileError, 21, "a setting of monitors", "@avh"),
        ("@mean > 3 {fpr: 0.1}", CompileError, 21, "a setting of monitors", "@anomaly"),
        ('@mean > 1 {where: "y >"}', SqlSyntaxError, 10, "'y >': something is missing", None),
        ("@predictability > 0", MacroError, 10, "needs 'from'", None),
        ("@predictability(from => z) > 0", UnknownNameError, 34, "no column 'z'", None),
        (
            "@predictability(from => y, measure => 'f2') > 0",
            UnsupportedExpressionError,
            10,
            "no measure 'f2'",
            "f1, precision, recall",
        ),
        (
            "@predictability(from => (s, x)) > 0",
            UnsupportedExpressionError,
            10,
            "from itself",
            "leave it out",
        ),
        ("@predictability(from => ()) > 0", UnsupportedExpressionError, 10, "no columns", "zip"),
        (
            "@predictability(from => y, buckets => 0) > 0",
            UnsupportedExpressionError,
            10,
            "no whole number from 1",
            None,
        ),
        (
            "@predictability(from => max(y)) > 0",
            UnsupportedExpressionError,
            10,
            "not the value of a row",
            "expressions of them",
        ),
    ],
)
def test_error_of_a_column_annotation(
    compile_model: CompileModel,
    annotation: str,
    kind: type[DqsqlError],
    position: int,
    message: str,
    hint: str | None,
) -> None:
    compiled = compile_model(of_column(annotation))
    (error,) = compiled.errors
    assert type(error) is kind
    assert message in error.message and "Line 1" not in error.message
    assert error.span is not None
    assert (error.span.file, error.span.line) == ("checks/orders.sql", 6)
    assert error.span.column == position
    assert hint is None or (error.hint is not None and hint in error.hint)
    assert compiled.plan.checks == ()


@pytest.mark.parametrize(
    ("annotation", "position", "message"),
    [
        ("@not_null", 5, "needs a column"),
        ("@freshness < 24", 5, "needs a column"),
        ("@skewness < 2", 4, "has no argument"),
        ("@row_count(x) > 1", 4, "got 1 arguments"),
        ("@row_cuont > 1", 5, "'row_cuont'"),
        ("@accepted_values(1, 2)", 5, "needs a column, and 1 is none"),
        ("@accepted_values(-1)", 5, "needs a column, and -1 is none"),
        ("@mean('x') > 1", 5, "needs a column, and 'x' is none"),
        ("@accepted_values(x)", 4, "needs 'value'"),
    ],
)
def test_error_of_a_model_annotation(
    compile_model: CompileModel, annotation: str, position: int, message: str
) -> None:
    (error,) = compile_model(of_model(annotation)).errors
    assert message in error.message and "Line 1" not in error.message
    assert error.span is not None
    assert (error.span.line, error.span.column) == (9, position)


def test_unknown_column_whose_name_is_part_of_another_word(compile_model: CompileModel) -> None:
    (error,) = compile_model(of_column("@mean(a) > 1")).errors
    assert error.span is not None
    assert error.span.column == 16


def test_a_bad_annotation_leaves_the_others(compile_model: CompileModel) -> None:
    compiled = compile_model(of_column("@not_null @meen > 3 @max < 5 @foo"))
    assert [e.span.column for e in compiled.errors if e.span] == [21, 40]
    assert [c.expression for c in compiled.plan.checks] == ["not_null", "max < 5"]


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        ("@rate > 1", "name the macro metric_rate or check_rate"),
        ("@check_not_null", "did you mean @not_null?"),
        ("@metric_mean > 1", "did you mean @mean?"),
    ],
)
def test_a_macro_by_another_name(compile_model: CompileModel, annotation: str, hint: str) -> None:
    macros = {"macros/rate.sql": "{% macro rate(c) %} sum({{ c }}) {% endmacro %}"}
    (error,) = compile_model(of_column(annotation), macros).errors
    assert isinstance(error, UnknownNameError) and error.hint is not None
    assert hint in error.hint


def test_a_list_in_brackets_is_taken_as_its_values(compile_model: CompileModel) -> None:
    listed = compile_model(of_column("@accepted_values(['a', 'b'])")).plan.metrics
    plain = compile_model(of_column("@accepted_values('a', 'b')")).plan.metrics
    assert [m.text for m in listed] == [m.text for m in plain] != []


def test_an_error_in_a_macro_names_the_macro(compile_model: CompileModel) -> None:
    broken = {"macros/check_odd.sql": "{% macro check_odd(c) %} sum({{ c }} > {% endmacro %}"}
    (error,) = compile_model(of_column("@odd"), broken).errors
    assert isinstance(error, MacroError)
    assert "check_odd gave SQL that does not parse" in error.message
    assert error.hint == "the macro stands in macros/check_odd.sql:1"


@pytest.mark.parametrize(
    "circle",
    [
        {
            "macros/check_a.sql": "{% macro check_a(c) %} b({{ c }}) {% endmacro %}",
            "macros/check_b.sql": "{% macro check_b(c) %} a({{ c }}) {% endmacro %}",
        },
        {
            "macros/check_a.sql": "{% macro check_a(c) %} {{ check_b(c) }} {% endmacro %}",
            "macros/check_b.sql": "{% macro check_b(c) %} {{ check_a(c) }} {% endmacro %}",
        },
    ],
    ids=["in SQL", "in Jinja"],
)
def test_circular_macros(compile_model: CompileModel, circle: dict[str, str]) -> None:
    (error,) = compile_model(of_column("@a"), circle).errors
    assert isinstance(error, MacroError)
    assert "circular macro" in error.message
    assert error.span is not None


@pytest.mark.parametrize(
    ("config", "name", "hint"),
    [
        ("batch_by = 'dya'", "dya", "'day'"),
        ("batch_by = \"date_trunc('day', att)\"", "att", "day, s"),
        ("segment_by = ['s', 'origin']", "origin", "day, s"),
        ("pii = ['S', 'adress']", "adress", "day, s"),
    ],
)
def test_config_with_unknown_columns(
    compile_model: CompileModel, config: str, name: str, hint: str
) -> None:
    sql = f"{{{{ config({config}) }}}}\nselect day, s from {{{{ source('shop', 'orders') }}}}"
    (error,) = compile_model(sql).errors
    assert isinstance(error, UnknownNameError)
    assert repr(name) in error.message
    assert error.hint is not None and hint in error.hint
    assert error.span is not None and error.span.file == "checks/orders.sql"


def test_private_columns_of_a_folder_of_models(compile_model: CompileModel) -> None:
    """Not all models of a folder have all of them."""
    project = "name: p\nprofile: test\nmodels:\n  +pii: [day, email]\n"
    compiled = compile_model("select 1 as day", {"dqsql_project.yml": project})
    assert compiled.errors == ()
    assert set(compiled.plan.model.config.pii) == {"day", "email"}


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


@pytest.mark.parametrize(
    ("config", "annotations"),
    [
        ("pii = ['NAME']", "@avh"),
        ("pii = ['name']", "@avh"),
        ("tags = ['x']", "@not_null {pii: true} @avh"),
        ("tags = ['x']", "@avh {pii: true}"),
        ("avh = true", "@not_null {pii: true}"),
    ],
)
def test_profiles_of_private_columns_hold_hashes(
    compile_model: CompileModel, config: str, annotations: str
) -> None:
    """However the column is marked: each value is a hash in what is stored of it."""
    sql = f"{{{{ config({config}) }}}}\nselect\n  Name -- {annotations}\nfrom t"
    plan = compile_model(sql).plan
    (profile,) = (m for m in plan.metrics if m.name == "value_profile")
    text = to_sql(profile.finish)
    assert "e -> hex(xxhash64(e.value))" in text
    assert "left(e.value" not in text


def test_names_of_state_columns_do_not_collide(compile_model: CompileModel) -> None:
    columns = ["x", "X Y", "x_y", "x-y", "rows", "batch", "x__sum", "größe", "y" * 80, "y" * 81]
    projections = ",\n".join(f"  `{c}` -- @sum > 0 @row_count > 0\n" for c in columns)
    plan = compile_model(f"select\n{projections} from t").plan
    names = [s.name.lower() for s in plan.states]
    assert len(names) == len(set(names)) == len(columns) + 1
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
        "orphan_count(s.k, orders, s.k)": "have a s.k that is not in orders.s.k",
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
