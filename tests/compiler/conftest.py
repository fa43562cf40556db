"""Compiles single check models without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import dqsql
from dqsql.errors import DqsqlError
from dqsql.model.plan import Plan, Query

SOURCES = """\
sources:
  - name: shop
    tables:
      - name: orders
"""
OWN_MACROS = {
    "macros/metric_gross_margin.sql": """\
{% macro metric_gross_margin(revenue, cost) %}
    sum({{ revenue }} - {{ cost }}) / sum({{ revenue }})
{% endmacro %}
""",
    "macros/check_healthy.sql": """\
{% macro check_healthy(revenue, cost, low=0.1) %}
    gross_margin({{ revenue }}, {{ cost }}) > {{ low }} and completeness({{ revenue }}) = 1
{% endmacro %}
""",
}


class Compiled:
    """The compiled form of one model: its plan, statements and errors."""

    def __init__(
        self, plan: Plan, queries: tuple[Query, ...], errors: tuple[DqsqlError, ...]
    ) -> None:
        self.plan = plan
        self.queries = queries
        self.errors = errors


CompileModel = Callable[..., Compiled]


@pytest.fixture
def compile_model(make_project: Callable[..., Path]) -> CompileModel:
    """`compile_model("select ..")`; more files may be given."""

    def run(sql: str, files: Mapping[str, str] | None = None, name: str = "orders") -> Compiled:
        given = {"checks/sources.yml": SOURCES, f"checks/{name}.sql": sql, **(files or {})}
        root = make_project({**OWN_MACROS, **given})
        compiled = dqsql.compile_project(root, vars={"low": 3})
        (plan,) = compiled.plans
        return Compiled(plan, compiled.queries.get(name, ()), compiled.errors)

    return run
