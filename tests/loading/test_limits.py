"""What is too deep, too large or too long is one error with a place, whatever Python would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dqsql.errors import DqsqlError
from dqsql.runner.compilation import compile_project

MODEL = "select a, -- @mean > 0\n b from t\n"
BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8)
)
# PyYAML merges a key that is there already since 6.0.4, so that only other keys make a bomb.
MERGES = "a0: &a0 {" + ", ".join(f"k{i}: 1" for i in range(6000)) + "}\n"
MERGES += "a1: &a1 {" + ", ".join(f"l{i}: 1" for i in range(6000)) + "}\na2: {<<: [*a0, *a1]}\n"


def nested(opening: str, closing: str, depth: int, inner: str) -> str:
    return opening * depth + inner + closing * depth


def expect(expression: str) -> dict[str, str]:
    return {"checks/m.sql": f"select a from t\n-- @expect({expression})\n"}


CASES: Mapping[str, tuple[Mapping[str, str], str]] = {
    "a control character in the project file": (
        {"dqsql_project.yml": "name: t\x01x\n"},
        "dqsql_project.yml:1:8: YAML allows no character 0x0001",
    ),
    "a control character in a sources file": (
        {"checks/m.sql": MODEL, "checks/sources.yml": "sources:\n - name: x\x07\n"},
        "checks/sources.yml:2:11: YAML allows no character 0x0007",
    ),
    "a control character in settings": (
        {"checks/m.sql": "select a -- @mean > 0 {description: 'a\x01b'}\n from t"},
        "checks/m.sql:1:23: the settings are not a YAML mapping",
    ),
    "50 parentheses": (
        expect(nested("(", ")", 50, "sum(a)") + " > 0"),
        "checks/m.sql:2:5: cannot parse the expression",
    ),
    "200 not": (expect("not " * 200 + " sum(a) > 0"), "nested deeper than 25 parentheses"),
    "120 terms": (
        expect(" + ".join(["sum(a)"] * 120) + " > 0"),
        "hint: compute it as a column of the SELECT",
    ),
    "5,000 and": (expect(" and ".join(["sum(a) > 0"] * 5000)), "or 100 operators"),
    "5,000 and in a where": (
        {
            "checks/m.sql": 'select a from t\n-- @row_count > 0 {where: "'
            + " and ".join(["a > 0"] * 5000)
            + '"}\n'
        },
        "checks/m.sql:2:4: the expression is nested deeper",
    ),
    "100,000 values": (
        {"checks/m.sql": f"select a -- @accepted_values({','.join(['9'] * 60_000)})\nfrom t\n"},
        "checks/m.sql:1:13: the annotation is longer than 100,000 characters",
    ),
    "macros that call each other twice": (
        {
            "checks/m.sql": "select a -- @m0 > 0\nfrom t\n",
            "macros/m.sql": "".join(
                f"{{% macro metric_m{i}(c) %}}m{i + 1}({{{{ c }}}}) + m{i + 1}({{{{ c }}}})"
                "{% endmacro %}\n"
                for i in range(30)
            )
            + "{% macro metric_m30(c) %}sum({{ c }}){% endmacro %}",
        },
        "checks/m.sql:1:13: the macros of one check expand to too much SQL",
    ),
    "an infinite number": (
        {"checks/m.sql": "select {{ 1e999 | int }} as a -- @mean > 0\n"},
        "checks/m.sql:1:1: Jinja: name 'inf' is not defined",
    ),
    "half of a character": (
        {"checks/m.sql": "select '{{ '\\ud800' }}' as a -- @min_length > 0\n"},
        "checks/m.sql:1:1: Jinja: '\\ud800' is half of a character and cannot be written to a file",
    ),
    "tags to be stripped": (
        {"checks/m.sql": "select '{{ ('<a' * 2000000) | striptags }}' as a -- @mean > 0\n"},
        "checks/m.sql:1:1: Jinja: striptags got a text of more than 100,000 characters",
    ),
    "a YAML file of 10 MB": (
        {"checks/m.sql": MODEL, "checks/sources.yml": f"x: {'a' * 10_000_000}\n"},
        "checks/sources.yml:1:1: the file is longer than 10,000,000 characters",
    ),
    "300 case": (
        expect("sum(" + "case when a then " * 300 + "1" + " end" * 300 + ") > 0"),
        "checks/m.sql:2:5",
    ),
    "2,000 minus": (expect("- " * 2000 + "sum(a) > 0"), "checks/m.sql:2:5"),
    "2,000 fields": (expect("sum(a" + ".b" * 2000 + ") > 0"), "checks/m.sql:2:5"),
    "300 if": (
        {"checks/m.sql": "{% if true %}" * 300 + MODEL + "{% endif %}" * 300},
        "checks/m.sql:1:1: Jinja syntax: nested deeper than 50 levels",
    ),
    "300 if in a macro": (
        {
            "checks/m.sql": MODEL,
            "macros/x.sql": "{% macro check_x(a) %}\n"
            + "{% if true %}" * 300
            + "{% endif %}" * 300
            + "{% endmacro %}",
        },
        "macros/x.sql:2:1: Jinja syntax: nested deeper than 50 levels",
    ),
    "500 parentheses of Jinja": (
        {"checks/m.sql": "{{ " + nested("(", ")", 500, "1") + " }}" + MODEL},
        "checks/m.sql:1:1: Jinja syntax: nested deeper than 50 levels",
    ),
    "ten thousand million letters": (
        {"checks/m.sql": "{{ 'a' * 10**10 }}\n" + MODEL},
        "checks/m.sql:1:1: Jinja: the template produces a text of more than 5,000,000 characters",
    ),
    "a long list": (
        {"checks/m.sql": "{{ [1] * 10**9 }}\n" + MODEL},
        "produces a text of more than",
    ),
    "a long number": (
        {"checks/m.sql": "{{ 10 ** (10 ** 6) }}\n" + MODEL},
        "produces a number of more than 1,000 digits",
    ),
    "5,000 digits": (
        {"checks/m.sql": "\n{{ " + "9" * 5000 + " }}\n" + MODEL},
        "checks/m.sql:2:1: Jinja syntax: a number has too many digits",
    ),
    "5,000 digits in a macro": (
        {
            "checks/m.sql": MODEL,
            "macros/x.sql": "{% macro check_x(a) %}{{ " + "9" * 5000 + " }}{% endmacro %}",
        },
        "macros/x.sql:1:1: Jinja syntax: a number has too many digits",
    ),
    "5,000 digits of differing rows": (
        {
            "checks/m.sql": "select a from t\n-- @matches_relation('u', keys => 'a')"
            f" {{warn_if: '> {'9' * 5000}'}}"
        },
        "checks/m.sql:2:",
    ),
    "wide texts": (
        {"checks/m.sql": "{{ 'a'.ljust(10**10) }}\n" + MODEL},
        "checks/m.sql:1:1: Jinja: the template produces a text",
    ),
    "a wide filter": ({"checks/m.sql": "{{ 'a'|center(10**10) }}\n" + MODEL}, "produces a text"),
    "a wide format": ({"checks/m.sql": "{{ '%9999999999d' % 1 }}\n" + MODEL}, "to a width"),
    "a wide format call": (
        {"checks/m.sql": "{{ '{:9999999999}'.format(1) }}\n" + MODEL},
        "to a width",
    ),
    "doubling": (
        {
            "checks/m.sql": "{% set ns = namespace(x='a') %}{% for i in range(60) %}"
            "{% set ns.x = ns.x ~ ns.x %}{% endfor %}\n" + MODEL
        },
        "produces a text of more than 5,000,000 characters",
    ),
    "replacing": (
        {"checks/m.sql": "{{ ('a' * 10**6)|replace('a', 'b' * 10**6) }}\n" + MODEL},
        "produces a text of more than",
    ),
    "loops in loops": (
        {
            "checks/m.sql": "{% for i in range(99999) %}{% for j in range(99999) %}"
            "{% set x = 1 %}{% endfor %}{% endfor %}\n" + MODEL
        },
        "checks/m.sql:1:1: Jinja: the template takes more than 1,000,000 steps",
    ),
    "macros that call themselves twice": (
        {
            "checks/m.sql": "{{ grow(40) }}\n" + MODEL,
            "macros/x.sql": "{% macro grow(n) %}{% if n > 0 %}"
            "{{ grow(n - 1) }}{{ grow(n - 1) }}{% endif %}{% endmacro %}",
        },
        "takes more than 1,000,000 steps",
    ),
    "braces in a comment": (
        {"checks/m.sql": "select a from t -- @mean(a) > 0 " + "{ " * 5000 + "}" * 5000 + "\n"},
        "checks/m.sql:1:33: the settings are not a YAML mapping: nested deeper than 50 levels",
    ),
    "many annotations": (
        {"checks/m.sql": "select a from t\n" + "-- @todo\n" * 20_000},
        "checks/m.sql:10002:4: the file holds more than 10,000 annotations",
    ),
    "170,000 annotations": (
        {"checks/m.sql": "select a from t\n" + "-- @todo\n" * 170_000},
        "checks/m.sql:1:1: the file is longer than 1,000,000 characters",
    ),
    "an alias bomb": (
        {"checks/m.sql": MODEL, "checks/sources.yml": BOMB + "sources: []\n"},
        "checks/sources.yml:1:",
    ),
    "a bomb of merged keys": (
        {"checks/m.sql": MODEL, "checks/sources.yml": MERGES + "sources: []\n"},
        "checks/sources.yml:3:5: YAML: a mapping with more than 10000 merged keys",
    ),
    "deep YAML": (
        {"checks/m.sql": MODEL, "checks/sources.yml": "sources: " + "[" * 3000 + "]" * 3000 + "\n"},
        "checks/sources.yml:1:59: YAML: nested deeper than 50 levels",
    ),
    "deep settings": (
        {"checks/m.sql": "select a -- @not_null {tags: " + "[" * 400 + "]" * 400 + "}\n from t"},
        "checks/m.sql:1:23: the settings are not a YAML mapping: nested deeper than 50 levels",
    ),
    "a number of 5,000 digits": (
        {"dqsql_project.yml": "name: t\nvars: {a: " + "9" * 5000 + "}\n"},
        "dqsql_project.yml:2:11: YAML: Exceeds the limit",
    ),
    "a hexadecimal number of 5,000 digits": (
        {"dqsql_project.yml": "name: 0x" + "f" * 5000 + "\n"},
        "dqsql_project.yml:1:1: 'name' must be text, not so long a number",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_error_with_its_place(name: str, make_project: Callable[..., Path]) -> None:
    files, expected = CASES[name]
    try:
        errors = compile_project(make_project(files)).errors
    except DqsqlError as error:
        errors = (error,)
    assert len(errors) == 1
    assert expected in str(errors[0])
    # Whoever reads it sees what is wrong, and not the text once more.
    assert len(str(errors[0])) < 1000


def test_what_people_write_is_far_below_the_limits(make_project: Callable[..., Path]) -> None:
    columns = ", ".join(f"c{i}" for i in range(300))
    conditions = " and ".join(f"max(c{i}) > 0" for i in range(90))
    model = (
        "{% for c in range(300) %}{% if loop.first %}select {% endif %}"
        "c{{ c ~ '' }}{{ ', ' if not loop.last else '' }}{% if loop.length == 0 %}{% endif %}"
        "{% endfor %} from t\n"
        f"-- @expect({conditions})\n-- @expect({nested('(', ')', 20, 'sum(c1)')} > 0)\n"
    )
    result = compile_project(make_project({"checks/m.sql": model}))
    assert result.errors == ()
    assert result.project.models[0].sql.startswith(f"select {columns} from t")
