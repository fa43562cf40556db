"""Annotations find their columns: cases as files, and properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqsql.errors import DqsqlError
from dqsql.loading.binding import bind_model
from dqsql.loading.layout import LayoutProblem, read_layout
from dqsql.loading.rendering import render_model
from dqsql.model.project import Target
from dqsql.templating import MacroLibrary, base_context

FIXTURES = Path(__file__).parent / "fixtures"
KNOWN = frozenset({"not_null"})


def render(text: str) -> str:
    context = base_context({}, Target("t", "p"))
    functions = {"config": lambda **_: "", "source": lambda a, b: f"`{a}`.`{b}`"}
    return MacroLibrary((), {**context, **functions}).render(text, "m.sql")


def bindings(raw: str) -> list[str]:
    """One line for each annotation or error, in the order of their places."""
    errors: list[DqsqlError] = []
    bound = bind_model(render_model(raw, render), "m.sql", KNOWN, errors)
    found: list[tuple[int, int, str]] = []
    for a in bound.annotations if bound else ():
        target = a.column or "|".join(a.candidates) or ("UNBOUND" if a.unbound else "MODEL")
        found.append((a.span.line, a.span.column, f"{target}: {a.expression}"))
    for error in errors:
        assert error.span is not None
        found.append((error.span.line, error.span.column, f"ERROR {error.message}"))
    return [f"{line}:{column} {text}" for line, column, text in sorted(found)]


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.sql")), ids=lambda f: f.stem)
def test_bindings_of_a_file(file: Path) -> None:
    expected = file.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    assert bindings(file.read_text(encoding="utf-8")) == expected


def test_a_generator_has_several_columns() -> None:
    lines = ["a, -- @w", "inline(s) as (b, `c d`), -- @x(b)", "stack(1, 2, 3) as (e, f) -- @y"]
    raw = "\n  ".join(["select", *lines]) + "\nfrom t"
    assert bindings(raw) == ["2:9 a: w", "3:31 b|c d: x(b)", "4:31 e|f: y"]
    layout = read_layout("select a, (b, c), f(x as (y)), cast(z as struct<q: int>) from t")
    assert [i.listed for i in layout.items] == [()] * 4


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("-- a, -- @x", []),
        ("-- , a -- @x", []),
        ("-- -- @x", []),
        ("/* a, -- @x */", []),
        ("/*\n * a, -- @x\n * @y */", ["5:4 b: y"]),
        ("/*\n * @x\n * @y > 1\n */", ["4:4 b: x", "5:4 b: y > 1"]),
        ("-- the key @x -- @y", ["3:12 b: x", "3:18 b: y"]),
        ("c, -- the key -- @x", ["3:18 c: x"]),
    ],
)
def test_a_column_that_is_commented_out_takes_its_checks_along(
    lines: str, found: list[str]
) -> None:
    assert bindings(f"select\n  d,\n{lines}\n  b\nfrom t") == found


@pytest.mark.parametrize(
    "column", ["a -- @x\n", "t.a -- @x\n\n", "f(a) -- @x\n", "a + 1 -- @x\n", "a -- @x\n -- more\n"]
)
def test_a_comma_that_is_missing(column: str) -> None:
    (found,) = bindings(f"select {column} amount, c -- fine\nfrom t")
    assert "ERROR without a comma before this comment, amount on the next line" in found


@pytest.mark.parametrize(
    "column",
    [
        "a -- @x\n as b",
        "a /* @x */ b",
        "case when a -- @x\n then 1 end b",
        "a -- @x\n and c b",
        "sum(a) -- @x\n over (partition by c) b",
        "sum(a) -- @x\n filter (where c) b",
        "(a -- @x\n b) b",
        "a b -- @x\n",
        "interval 1 -- @x\n day b",
        "a -- @x\n + 1 b",
    ],
)
def test_an_expression_may_go_on_behind_an_annotation(column: str) -> None:
    assert bindings(f"select {column},\nc from t")[0].endswith("b: x")


def test_a_column_called_user() -> None:
    assert bindings("select user, -- @x\n t.user -- @y\nfrom t") == ["1:17 user: x", "2:12 user: y"]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select a, b.c.d, sum(x) y from t", ["a", "d", "y"]),
        ("select f(a) as `z z`, `a``b`, t.`p.q`", ["z z", "a`b", "p.q"]),
        ("select *, t.*, t.* except (q) from t", [None, None, None]),
        ("select 10L, 10L x, a::int, a::int k", [None, "x", "a", "k"]),
        ("select (a), ((t.b)), cast(c as decimal(3, 2)), try_cast((d) as int)", [*"abcd"]),
        ("select `a b`::array<int>, (c)::decimal(3, 2), (cast(d as int))", ["a b", "c", "d"]),
        # Of a field, of a result and of two casts Spark makes a text.
        ("select s.f::int, cast(a + 1 as int), a::int::string, cast(f(a) as int)", [None] * 4),
        ("select (select a), (a + b), (a, b), (a)[0], cast(cast(a as int) as int)", [None] * 5),
        ("select a::int > s, a::array<int> > s, a::decimal(3, 2) d", [None, None, "d"]),
        ("select a[0], a[0] i, a.b[0].c", [None, "i", None]),
        ("select a::struct<x:int,y:array<array<int>>> s, b", ["s", "b"]),
        ("select case when a then b end, case when a then b end c", [None, "c"]),
        ("select a is distinct from b, a is not distinct from b as d from t", [None, "d"]),
        (
            "select interval 1 day, interval 1 day i, interval '1-2' year to month",
            [None, "i", None],
        ),
        (
            "select first(x) ignore nulls, count(*) over w, count(*) over (order by a) n",
            [None, None, "n"],
        ),
        ("select not a, a and b, - a, a * b c", [None, None, None, "c"]),
        ("select current_date, current_date d, true, null", [None, "d", None, None]),
        ("select 'x', 'x' s, date '2020-01-01', timestamp'2020' t", [None, "s", None, "t"]),
        ("select x -> x + 1, stack(2, a, b) as (k, v), 1a, ä", [None, None, "1a", "ä"]),
        ("select a window, b from t window w as (order by a)", ["window", "b"]),
        ("select group, order from t order by 1", ["group", "order"]),
        ("from t select a, b where c", ["a", "b"]),
        ("((select a, b from t))", ["a", "b"]),
        ("with a as (select 1 x) (select p from a) union all select q", ["p"]),
        ("with recursive r (n) max recursion level 5 as (select 1 m) select n from r", ["n"]),
        ("select all a from t minus select b from t", ["a"]),
        ("select a |> where a > 1", ["a"]),
        ("select a;;", ["a"]),
        ("select Mixed_Case from t", ["Mixed_Case"]),
        ("select max_offset - offset as lag, offset > 1 x, offset from t", ["lag", "x", "offset"]),
        ("select a, b limit 5", ["a", "b"]),
        ("select a, b offset (3)", ["a", "b"]),
    ],
)
def test_names_of_projections(sql: str, names: list[str | None]) -> None:
    assert [item.name for item in read_layout(sql).items] == names


@pytest.mark.parametrize(
    ("sql", "message", "offset"),
    [
        ("select a,, b from t", "a column is missing", 9),
        ("select a, from t", "a column is missing", 10),
        ("select from t", "a column is missing", 7),
        ("select", "a column is missing", 5),
        ("values (1)", "no SELECT whose", 0),
        ("insert into x select 1", "no SELECT whose", 0),
        ("-- nothing", "no SELECT in", 0),
        ("select a; select b", "more than one statement", 10),
        ("select (a from t", "'(' is never closed", 7),
        ("select a) from t", "')' has no opening counterpart", 8),
        ("select (a] from t", "']' has no opening counterpart", 9),
        ("select 'a from t", "quote ' is never closed", 7),
        ("select `a from t", "quote ` is never closed", 7),
        ("select a /* b /* c */ from t", "comment is never closed", 9),
    ],
)
def test_gross_errors(sql: str, message: str, offset: int) -> None:
    with pytest.raises(LayoutProblem, match=r".") as caught:
        read_layout(sql)
    assert message in caught.value.message
    assert caught.value.offset == offset


def test_a_trailing_semicolon_is_stripped_and_nothing_else() -> None:
    bound = bind_model(render_model("select a ; -- x;\n", render), "m.sql", KNOWN, [])
    assert bound is not None
    assert bound.sql == "select a  -- x;\n"


@pytest.mark.parametrize(
    "raw",
    [
        "select a -- {{ 1 + 1 }} @x\nfrom t",
        "select '--{{ 'x' }}', --{%- if true %}\n a {%- endif %}\n\n  /*{{ 'q' -}} */ -- \\\n b",
        "{% raw %} select '{{' -- {{ @x {% endraw %}\n, b",
        "{% for i in [1, 2] -%}  /* {{ i }} */ {%- endfor %} select 1",
        "-- é ☃ @x\nselect '\U0001f600' --@y",
    ],
)
def test_the_markers_leave_no_trace(raw: str) -> None:
    assert render_model(raw, render).sql == render(raw)


def test_lines_map_back_through_jinja() -> None:
    raw = (
        "{% set n = 2 %}\n{{ config(\n  x = 1\n) }}\nselect\n"
        "{% for i in range(n) %}\n  a{{ i }},\n{% endfor %}\n  b\nfrom t\n"
    )
    rendering = render_model(raw, render)
    lines = rendering.sql.split("\n")
    at = {line.strip(): rendering.line_map[i] for i, line in enumerate(lines) if line.strip()}
    assert at == {"select": 5, "a0,": 7, "a1,": 7, "b": 9, "from t": 10}
    assert len(rendering.line_map) == len(lines)


def test_lines_map_back_when_markers_disturb_the_render() -> None:
    raw = "{% set s %}s{% endset %}\nselect a\nfrom {{ {'s': 't'}[s] }}\nwhere b\n"
    rendering = render_model(raw, render)
    lines = rendering.sql.split("\n")
    assert [rendering.line_map[lines.index(x)] for x in ("select a", "from t", "where b")] == [
        2,
        3,
        4,
    ]


def test_places_in_the_raw_text() -> None:
    raw = "{{ config(x = 1,\n y = 2) }}\nselect {{ 'long_name' }}, wrong, b\nfrom t"
    rendering = render_model(raw, render)
    places = {"select": (3, 1), "wrong": (3, 27), "long": (3, 12), "from": (4, 1)}
    for word, place in places.items():
        assert rendering.raw_place(rendering.sql.index(word)) == place
    assert rendering.raw_place(len(rendering.sql))[0] == 4


COLUMN = st.sampled_from(
    ["a", "t.a", "`a b`", "sum(x, y) as s", "case when x then 'from' end c", "x[1] i", "'--' q"]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(COLUMN, min_size=1, max_size=6), st.booleans(), st.sampled_from(["--", "/*"]))
def test_both_comma_layouts_bind_each_column(columns: list[str], first: bool, opener: str) -> None:
    closer = " */" if opener == "/*" else ""
    lines = []
    for i, column in enumerate(columns):
        before = ", " if first and i else "  "
        after = "," if not first and i < len(columns) - 1 else ""
        lines.append(f"{before}{column}{after} {opener} @check_{i}{closer}")
    names = [item.name for item in read_layout("select " + ", ".join(columns)).items]
    found = bindings("select\n" + "\n".join(lines) + "\nfrom t")
    assert [f.split(" ", 1)[1] for f in found] == [f"{n}: check_{i}" for i, n in enumerate(names)]


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="select ab,'`\"-/*\n()@{}%#;.\\r1", max_size=60))
def test_any_text_is_bound_or_refused(text: str) -> None:
    errors: list[DqsqlError] = []
    bound = bind_model(render_model(text, lambda t: t), "m.sql", KNOWN, errors)
    assert bound is not None or errors
