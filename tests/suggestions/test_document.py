"""Comments put into the text of a check model; nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import jinja2
from hypothesis import given
from hypothesis import strategies as st

from dqsql.loading.scanner import blank, scan
from dqsql.model.plain_names import plain_name
from dqsql.suggestions.batches import ProposedBatches
from dqsql.suggestions.document import comment_line, difference, inserted, new_document
from dqsql.suggestions.suggestion import Suggestion


def check(column: str | None, call: str = "not_null", reason: str = "complete") -> Suggestion:
    return Suggestion("rule", "promise", column, call, reason, takes_column=column is not None)


TEXT = "select\n    a,  -- first\n    b, c\n    , d\nfrom t"
PLACES = {"a": (2, 5), "b": (3, 5), "c": (3, 8), "d": (4, 7)}


def test_own_line_where_a_column_stands_alone_else_the_end() -> None:
    found = inserted(TEXT, [check("a"), check("c"), check("d"), check(None, "schema")], PLACES)
    assert found == (
        "select\n    -- complete: @not_null\n    a,  -- first\n    b, c\n"
        "    -- complete: @not_null\n    , d\nfrom t\n"
        "-- complete: @not_null(c)\n-- complete: @schema\n"
    )


def test_a_column_behind_select_gets_no_line_above_it() -> None:
    assert inserted("select a\nfrom t\n", [check("a")], {"a": (1, 8)}) == (
        "select a\nfrom t\n-- complete: @not_null(a)\n"
    )


def test_line_ends_of_windows_stay() -> None:
    found = inserted("select\r\n  a\r\nfrom t\r\n", [check("a"), check("x")], {"a": (2, 3)})
    assert found.count("\n") == found.count("\r\n") == 5


def test_reasons_cannot_become_annotations_or_jinja() -> None:
    line = comment_line(check("a", reason="@max {{ x }} \n y"), inside=True)
    assert line.count("@") == 1 and "{" not in line and "\n" not in line


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "x"]), max_size=6))
def test_only_comments_change(columns: list[str]) -> None:
    found = inserted(TEXT, [check(c) for c in columns], PLACES)
    assert blank(found, scan(found).comments).split() == blank(TEXT, scan(TEXT).comments).split()
    assert found.count("@not_null") == len(columns)
    changed = difference(f"{TEXT}\n", inserted(f"{TEXT}\n", [check("c")], PLACES), "t")
    assert [x for x in changed.splitlines() if x[0] in "+-"][2:] == ["+-- complete: @not_null(c)"]


def test_new_document_quotes_what_needs_it() -> None:
    template = "-- <<title>>\n-- <<evidence>>\n<<config>>select\n<<columns>>\nfrom <<reads>>\n"
    template += "\n<<checks>>\n"
    text = new_document(template, "t", "e", "x", ["order_id", "select"], [check("select")])
    assert text == (
        "-- t\n-- e\nselect\n    order_id,\n    -- complete: @not_null\n    `select`\nfrom x\n"
    )
    assert plain_name("order") == "`order`"


def test_names_and_values_that_look_like_jinja_are_no_jinja() -> None:
    template = "select\n<<columns>>\nfrom <<reads>>\n<<checks>>"
    values = replace(check("a {{ b }}", "accepted_values"), arguments=("'{% x'", "'{#'"))
    other = replace(check("x {%", "references"), arguments=("{{ ref('m') }}", "`{{`"))
    columns = ["a {{ b }}", "x {%"]
    text = new_document(template, "t", "e", "source", columns, [values, other])
    assert "{{ ref('m') }}" in text
    rendered = jinja2.Environment().from_string(text).render(ref=lambda name: name)
    assert rendered == (
        "select\n    -- complete: @accepted_values('{% x', '{#')\n    `a {{ b }}`,\n"
        "    -- complete: @references(m, `{{`)\n    `x {%`\nfrom source"
    )


def test_new_document_with_batches() -> None:
    template = "<<config>>select\n<<columns>>\nfrom <<reads>>\n<<checks>>"
    batches = ProposedBatches("to_date(at)", "each day is a batch")
    assert new_document(template, "t", "e", "x", ["at"], [], batches) == (
        "-- each day is a batch\n{{ config(batch_by = 'to_date(at)') }}\n\nselect\n    at\nfrom x\n"
    )
