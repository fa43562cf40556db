"""Macros: one flat namespace, overrides, errors with places."""

from __future__ import annotations

import pytest

from dqsql.errors import DqsqlError, JinjaError, MacroError, Span
from dqsql.model.project import MacroFile
from dqsql.templating import MacroLibrary, base_context


def library(*files: tuple[str, str]) -> MacroLibrary:
    return MacroLibrary([MacroFile(*f) for f in files], base_context({"known": 1}, None))


def test_a_project_overrides_a_shipped_macro_also_for_shipped_callers() -> None:
    shipped = (
        "{% macro check_a(x) %}{{ helper(x) }} > 0{% endmacro %}"
        "{% macro helper(x) %}s{% endmacro %}"
    )
    macros = library(
        ("/s/a.sql", shipped), ("macros/h.sql", "{% macro helper(x) %}p({{ x }}){% endmacro %}")
    )
    assert macros.call("check_a", ["c"]) == "p(c) > 0"
    assert macros.macros["helper"].path == "macros/h.sql"


def test_macros_have_the_functions_of_jinja() -> None:
    text = "{% macro m(n) %}{% for i in range(n) %}{{ dict(a=i).a }}{% endfor %}{% endmacro %}"
    assert library(("m.sql", text)).call("m", [3]) == "012"


def test_definition() -> None:
    text = (
        "{# licence #}\n\n{# Rows\n   there. #}\n"
        "{%- macro m(a, b, c=1) %}{{ varargs }}{{ kwargs }}{% endmacro %}\n"
        "{% macro n() %}{% endmacro %}"
    )
    macros = library(("m.sql", text)).macros
    found = macros["m"]
    assert (found.parameters, found.required) == (("a", "b", "c"), 2)
    assert found.catches_varargs and found.catches_kwargs
    assert found.line == 5
    assert found.signature == "m(a, b, c?, *varargs, **kwargs)"


def test_call_blocks_and_recursion_that_ends() -> None:
    macros = library(
        (
            "m.sql",
            "{% macro w() %}<{{ caller() }}>{% endmacro %}"
            "{% macro u() %}{% call w() %}x{% endcall %}{% endmacro %}"
            "{% macro s(n) %}{% if n %}{{ s(n - 1) }}.{% endif %}{% endmacro %}",
        )
    )
    assert macros.call("u") == "<x>"
    assert macros.call("s", [5]) == "....."


MACROS = """{% macro a(x) %}{{ b(x) }}{% endmacro %}
{% macro b(x) %}{{ a(x) }}{% endmacro %}
{% macro again() %}{{ again() }}{% endmacro %}
{% macro two(x, y, z=1) %}{% endmacro %}
{% macro fails() %}

  {{ 1 / 0 }}{% endmacro %}
{% macro undefined() %}
  {{ nope }}{% endmacro %}
{% macro variable() %}
  {{ var('knwon') }}{% endmacro %}
"""


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "error", "place", "message"),
    [
        ("a", [1], {}, MacroError, "m.sql:1:1", "circular macro a -> b -> a"),
        ("again", [], {}, MacroError, "m.sql:3:1", "circular macro again -> again"),
        ("two", [1], {}, MacroError, "call.sql:9:9", "needs 'y'; its parameters are two(x, y, z?)"),
        ("two", [1, 2, 3, 4], {}, MacroError, "call.sql:9:9", "got 4 arguments"),
        ("two", [1, 2], {"w": 1}, MacroError, "call.sql:9:9", "has no parameter 'w'"),
        ("two", [1, 2], {"x": 1}, MacroError, "call.sql:9:9", "got 'x' twice"),
        ("fails", [], {}, MacroError, "m.sql:7:1", "division by zero"),
        ("undefined", [], {}, MacroError, "m.sql:9:6", "'nope' is undefined"),
        ("variable", [], {}, JinjaError, "m.sql:11:6", "'knwon' is not defined"),
        ("tow", [], {}, MacroError, "call.sql:9:9", "there is no macro 'tow'"),
    ],
)
def test_errors_of_calls(
    name: str,
    args: list[object],
    kwargs: dict[str, object],
    error: type[DqsqlError],
    place: str,
    message: str,
) -> None:
    with pytest.raises(error) as caught:
        library(("m.sql", MACROS)).call(name, args, kwargs, Span("call.sql", 9, 9))
    assert str(caught.value.span) == place
    assert message in caught.value.message


def test_two_macros_of_one_name() -> None:
    macro = "{% macro a() %}{% endmacro %}"
    with pytest.raises(MacroError, match="defined twice"):
        library(("macros/1.sql", macro), ("macros/2.sql", macro))
    with pytest.raises(MacroError, match="defined twice in this file"):
        library(("/s/1.sql", macro + macro))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a\n  {% if %}", "m.sql:2:3", "Jinja syntax"),
        ("a\n {{ helpr(1) }}", "m.sql:2:5", "'helpr' is undefined"),
        ("\n{{ 1 / 0 }}", "m.sql:2:1", "division by zero"),
        ("\n\n{{ var('knwon') }}", "m.sql:3:4", "'knwon' is not defined"),
        ("{{ env_var('DQSQL_NO_SUCH') }}", "m.sql:1:4", "'DQSQL_NO_SUCH' is not set"),
        ("{{ ''.__class__.__mro__ }}", "m.sql:1:1", "unsafe"),
        ("{% set x = [] %}{% do x.append(1) %}", "m.sql:1:1", "unsafe"),
        ("{% include 'x' %}", "m.sql:1:1", "no loader"),
    ],
)
def test_errors_of_rendering(text: str, place: str, message: str) -> None:
    with pytest.raises(JinjaError) as caught:
        library(("m.sql", "{% macro helper(x) %}{% endmacro %}")).render(text, "m.sql")
    assert str(caught.value.span) == place
    assert message in caught.value.message


def test_a_macro_file_that_does_not_parse() -> None:
    with pytest.raises(JinjaError) as caught:
        library(("m.sql", "\n{% macro a( %}"))
    assert caught.value.span is not None
    assert caught.value.span.line == 2


def test_hints() -> None:
    with pytest.raises(JinjaError, match=r"'unheard_of' is undefined") as caught:
        library().render("select {{ unheard_of }}", "m.sql")
    assert (
        caught.value.hint == "write var('unheard_of') to read a variable, or put a text into quotes"
    )
    with pytest.raises(JinjaError, match="did you mean 'known'"):
        library().render("{{ var('knwon') }}", "m.sql")
    assert library().render("{{ var('x', 3) }}{{ env_var('DQSQL_NO', 'd') }}\n", "m.sql") == "3d\n"


@pytest.mark.parametrize("name", ["modules", "run_started_at", "dbt_utils", "flags"])
def test_names_of_dbt_alone_are_told_as_such(name: str) -> None:
    with pytest.raises(JinjaError) as caught:
        library().render(f"select {{{{ {name} }}}}", "m.sql")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"{name} is of dbt alone: here are var, env_var")
