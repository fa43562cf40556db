"""Expressions mean the same after dqsql has read and written them, or are refused.

Regenerating SQL with sqlglot was seen to change results silently. The lists in `expressions/` are
run in Spark both ways, as written by the user and as written by dqsql.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dqsql.dialect import _parse_whole, parse_expression, to_spark, to_sql, write_for
from dqsql.errors import ConfigError, SqlSyntaxError, UnsupportedExpressionError
from dqsql.spark_grammar import OpaqueSpark, usable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTS = Path(__file__).parent / "expressions"
ROWS = """values
    (1, 2.5D, 'a'), (2, 1.0D, 'b'), (3, cast(null as double), null), (null, 7.0D, 'a')
as t(v, w, s)"""
IN_ONE_QUERY = 80
DISTINCT_IN_ONE_QUERY = 6


def expressions(name: str) -> list[str]:
    lines = (LISTS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def parts(items: Sequence[str], size: int) -> list[Sequence[str]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def groups() -> list[Sequence[str]]:
    """Expressions that go into one query: few with DISTINCT, which make Spark expand the rows."""
    everything = expressions("survive.txt")
    # Spark 4.2 fails on these beside other aggregates with DISTINCT.
    alone = [e for e in everything if e.startswith("listagg(distinct")]
    distinct = [e for e in everything if "(distinct" in e.lower() and e not in alone]
    others = [e for e in everything if e not in distinct and e not in alone]
    return [*parts(others, IN_ONE_QUERY), *parts(distinct, DISTINCT_IN_ONE_QUERY), *parts(alone, 1)]


def assert_same_in_spark(spark: SparkSession, texts: Sequence[str]) -> None:
    columns = [f"{t} as a{i}, {to_sql(parse_expression(t))} as b{i}" for i, t in enumerate(texts)]
    # The count makes one row of it where no expression is an aggregate.
    frame = spark.sql(f"select count(*) as n, {', '.join(columns)} from {ROWS}")
    types = dict(frame.dtypes)
    (row,) = frame.collect()
    changed = [
        (text, to_sql(parse_expression(text)), row[f"a{i}"], row[f"b{i}"])
        for i, text in enumerate(texts)
        if types[f"a{i}"] != types[f"b{i}"] or repr(row[f"a{i}"]) != repr(row[f"b{i}"])
    ]
    assert changed == []


@pytest.mark.parametrize("texts", groups(), ids=range(len(groups())))
def test_expressions_survive(spark: SparkSession, texts: Sequence[str]) -> None:
    assert_same_in_spark(spark, texts)


@pytest.mark.parametrize("text", expressions("refused.txt"))
def test_expressions_are_refused(text: str) -> None:
    with pytest.raises((SqlSyntaxError, UnsupportedExpressionError)):
        parse_expression(text)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_any_string_survives_as_a_literal(texts: list[str]) -> None:
    expression = f"concat({', '.join(quoted(t) for t in texts)})"
    written = to_sql(parse_expression(expression))
    # What is written reads as what was read: the dialect's own round trip is a fixed point.
    assert to_sql(parse_expression(written)) == written
    assert [a.this for a in parse_expression(written).expressions] == texts


def quoted(text: str) -> str:
    """A Spark string literal, written by Spark's rules and not by sqlglot's."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.fixture
def older() -> Iterator[None]:
    """Statements are written for Spark 4.1."""
    write_for("4.1.2")
    yield
    write_for(pyspark.__version__)


def test_what_an_older_spark_lacks_is_written_in_other_words(
    spark: SparkSession, older: None
) -> None:
    text = "transform(max_by(struct(v, n), struct(n, v), 3), e -> e.v)"
    # The text is compared with what it means, not with what is written for one version.
    words = to_spark(parse_expression(text))
    assert "max_by" not in words and "max_by(v, n)" in to_spark(parse_expression("max_by(v, n)"))
    # Names and hashes of metrics do not hang on the version.
    assert "max_by" in to_sql(parse_expression(text))
    rows = "values ('a', 1), ('b', 7), (null, 7), ('d', 3), ('e', 5) as t(v, n)"
    some = to_spark(parse_expression(text.replace(", 3)", ", 3) filter (where n < 7)")))
    found = spark.sql(f"select {some} from {rows}").first()
    assert found is not None and list(found) == [["e", "d", "a"]]
    texts = [words] if spark.version.startswith("4.1.") else [words, text]
    found = spark.sql(f"select {', '.join(texts)} from {rows}").first()
    assert found is not None and list(found) == [["b", None, "e"]] * len(texts)


def test_strings_of_odd_characters_survive_in_spark(spark: SparkSession) -> None:
    odd = [
        *("\\'\"`%_;{}$@#/*-+\t\n\r\b\x1a\x7f\u00e9\u2028\U0001f600"),
        *(f"\\{c}" for c in "ntrbZ0'\"\\%_dwu"),
        *("--", "/*", "*/", "''", '""', "\\\\", "{{ x }}", "%d", "a\\nb", "\\u0041"),
    ]
    assert_same_in_spark(spark, [quoted(t) for t in odd])
    written = ", ".join(to_sql(parse_expression(quoted(t))) for t in odd)
    (row,) = spark.sql(f"select array({written})").collect()
    assert row[0] == odd


@given(st.text(min_size=1, max_size=20).filter(lambda t: "\x00" not in t))
def test_any_name_survives(name: str) -> None:
    text = f"sum(`{name.replace('`', '``')}`)"
    ast = parse_expression(text)
    assert ast.expressions[0].name == name
    assert to_sql(ast) == text


class _Compiled(OpaqueSpark):
    """What a dialect is like where sqlglot's parser is a compiled class."""

    def parser(self, **opts: object) -> object:
        raise TypeError("interpreted classes cannot inherit from compiled")


# Names that look like places of names among those that do not.
_NAMES = st.one_of(
    st.sampled_from(
        ["a", "A", "name#0", "name#1", "operand#0", "select", "a b", "a.b", "`", "'", "é"]
    ),
    st.text(min_size=1, max_size=8).filter(lambda t: "\x00" not in t),
)
_TEXTS = (
    "{0}",
    "max({0}) - min({1})",
    "count({1}) / nullif(count({0}), 0)",
    "sum({0}) filter (where {1} > 1)",
    "transform({0}, x -> x + {1})",
    "{0}.{1}",
    "max(case when {0} rlike 'a`b' then {1} end)",
)


@given(st.sampled_from(_TEXTS), _NAMES, _NAMES)
def test_an_expression_is_the_same_for_all_names(text: str, first: str, second: str) -> None:
    """Expressions of one shape are parsed once; the names of each come to their places."""

    def with_names(*names: str) -> exp.Expr:
        return parse_expression(text.format(*(f"`{n.replace('`', '``')}`" for n in names)))

    names = {"first": first, "second": second}
    expected = with_names("first", "second")
    for part in expected.find_all(exp.Identifier):
        part.set("this", names.get(part.name, part.name))
    assert with_names(first, second) == expected
    assert to_sql(with_names(first, second)) == to_sql(expected)


def test_the_compiled_build_of_sqlglot_is_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match="sqlglotc") as raised:
        usable(_Compiled())
    assert "pip uninstall sqlglotc" in str(raised.value.hint)


ARGUMENTS = st.sampled_from(
    [
        *("`a`", "`a b`", "`a``b`", "`it's`", "`name#0`", "b", "5"),
        *("'x'", "'x`y`'", "'it\\'s `a`'", "'a''b'", "'\\\\'", "'--'", "'/*'", "'name#0'"),
        *('"d`q`"', '"it\'s"', r"r'\d`'", r"r'\'"),
    ]
)


@given(st.lists(ARGUMENTS, min_size=1, max_size=6))
def test_a_tree_with_names_in_places_is_that_of_the_text(arguments: list[str]) -> None:
    text = f"f({', '.join(arguments)})"
    assert parse_expression(text) == _parse_whole(text)
