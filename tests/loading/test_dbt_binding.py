"""Annotations in the text of dbt models: Jinja that only dbt can render, CTEs, lineage."""

from __future__ import annotations

import pytest

from dqsql.errors import DqsqlError
from dqsql.loading.binding import bind_model
from dqsql.loading.dbt.text import DbtBinder, render_dbt_model
from dqsql.model.project import Annotation
from dqsql.templating import MacroLibrary, base_context


def bind(text: str) -> tuple[tuple[Annotation, ...], list[DqsqlError]]:
    library = MacroLibrary((), base_context({"low": 3}, None))
    rendering = render_dbt_model(text, "models/m.sql", library, lambda *names: "`r`")
    errors: list[DqsqlError] = []
    bound = bind_model(rendering, "models/m.sql", (), errors, DbtBinder)
    return (bound.annotations if bound else ()), errors


CERTAIN = {
    "final select": ("select a, -- @x\n b from t", "a"),
    "star of a cte": ("with c as (\nselect a, -- @x\n b from t\n) select * from c", "a"),
    "qualified star": ("with c as (\nselect a -- @x\n from t) select c.* from c", "a"),
    "star through two": (
        "with c as (\nselect z as a -- @x\n from t), d as (select * from c) select * from d",
        "a",
    ),
    "renamed": ("with c as (\nselect a -- @x\n from t) select c.a as b, 1 as n from c", "b"),
    "with an alias": ("with c as (\nselect a -- @x\n from t) select y.a from c as y", "a"),
    "beside a join": (
        "with c as (\nselect a, -- @x\n k from t), d as (select k, e from u)\n"
        "select c.a, d.e from c left join d on c.k = d.k where c.a > 1",
        "a",
    ),
    "unqualified beside a join": (
        "with c as (\nselect a, -- @x\n k from t) select a, other from c join u using (k)",
        "a",
    ),
    "a filter, a group, an order": (
        "with c as (\nselect a -- @x\n from t) select a, count(*) as n from c"
        " where a > 1 group by a order by n, a",
        "a",
    ),
    "jinja before and in from": (
        "{{ config(materialized='table') }}\n{% set x = dbt_utils.star(ref('a')) %}\n"
        "select a, -- @x\n{{ dbt_utils.star(ref('b')) }} from {{ ref('b') }}",
        "a",
    ),
    "a macro with an alias": ("select {{ cents_to_euros('a') }} as a, -- @x\n b from t", "a"),
    "a condition of dbt": (
        "select a -- @x\nfrom {{ dbt_utils.x() }}\n{% if is_incremental() %}\n"
        "where a > (select max(a) from {{ this }})\n{% endif %}",
        "a",
    ),
    "a loop that is rendered": (
        "select {% for m in ['card', 'gift'] %}\n {{ m }}_sum, -- @x\n{% endfor %} 1 as z from t",
        "card_sum",
    ),
}


@pytest.mark.parametrize(("text", "column"), CERTAIN.values(), ids=CERTAIN.keys())
def test_the_column_is_certain(text: str, column: str) -> None:
    annotations, errors = bind(text)
    assert not errors
    assert annotations[0].column == column
    assert annotations[0].expression == "x"
    line = text[: text.index("@x")].count("\n") + 1
    assert annotations[0].span.line == line


UNCERTAIN = {
    "an expression of it": (
        "with c as (\nselect a -- @x\n from t) select a + 1 as b from c",
        "is not a column of the model",
    ),
    "left out": ("with c as (\nselect a, -- @x\n b from t) select b from c", "is not a column"),
    "twice": (
        "with c as (\nselect a -- @x\n from t) select a, a as b from c",
        "is several columns of the model: a, b",
    ),
    "a union": (
        "with c as (\nselect a -- @x\n from t) select a from c union all select 1",
        "there is a set operation in between",
    ),
    "a union between": (
        "with c as (\nselect a -- @x\n from t), d as (select * from c union select 2)"
        " select * from d",
        "there is a set operation in between",
    ),
    "a star with except": (
        "with c as (\nselect a, -- @x\n b from t) select * except (b) from c",
        "a star leaves columns out",
    ),
    "a list of columns": (
        "with c as (\nselect a -- @x\n from t), d (b) as (select * from c) select * from d",
        "names its columns in a list",
    ),
    "about a cte": (
        "with c as (\nselect a from t\n-- @x\n) select * from c",
        "is not about one of its columns",
    ),
    "a subquery": ("select b from (select a -- @x\n from t) s", "inside a subquery or a CTE"),
    "a name from jinja": (
        "select {{ dbt_utils.f() }}_sum -- @x\n from t",
        "comes from Jinja that only dbt can render",
    ),
}


@pytest.mark.parametrize(("text", "message"), UNCERTAIN.values(), ids=UNCERTAIN.keys())
def test_what_is_not_certain_is_an_error(text: str, message: str) -> None:
    annotations, errors = bind(text)
    assert not annotations
    assert message in str(errors[0])
    assert errors[0].span is not None
    assert errors[0].span.line == text[: text.index("@x")].count("\n") + 1
    assert errors[0].hint


def test_jinja_inside_an_annotation_is_rendered() -> None:
    text = "select a, -- @min >= {{ var('low') }}\n {{ unknown_macro() }} as b from t"
    annotations, errors = bind(text)
    assert not errors
    assert [(a.column, a.expression) for a in annotations] == [("a", "min >= 3")]


def test_a_comment_of_jinja_is_no_annotation() -> None:
    assert bind("select a {# @x #} from t") == ((), [])
