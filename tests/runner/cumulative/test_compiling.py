"""What can be cumulative, and what `compile` says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dqsql
from dqsql.compiler.cumulative import cumulative_states, require_mergeable
from dqsql.errors import CompileError, Span
from dqsql.model.project import Scope

from .conftest import SOURCES

MODEL = """\
{{{{ config(batch_by='day') }}}}
select day, x, y, k from {{{{ source('raw', 't') }}}}
-- {annotation}
"""
MakeProject = Callable[..., Path]


def compiled(make_project: MakeProject, annotation: str) -> dqsql.CompileResult:
    files = {"checks/sources.yml": SOURCES, "checks/m.sql": MODEL.format(annotation=annotation)}
    return dqsql.compile_project(make_project(files))


@pytest.mark.parametrize(
    ("expression", "words", "hint"),
    [
        ("expect(percentile(x, 0.5) > 1)", "percentile", "quantile merges; or"),
        ("expect(collect_set(k)[0] > 1)", "collect_set", "leave out scope: cumulative"),
        ("expect(sum(distinct k) > 1)", "sum(DISTINCT", "leave out scope: cumulative"),
    ],
)
def test_what_does_not_merge_cannot_be_cumulative(
    make_project: MakeProject, expression: str, words: str, hint: str
) -> None:
    (error,) = compiled(make_project, f"@{expression} {{scope: cumulative}}").errors
    assert isinstance(error, CompileError)
    assert "cannot be cumulative" in error.message
    assert words in error.message
    assert error.hint is not None
    assert hint in error.hint
    assert error.span is not None
    assert (error.span.file, error.span.line) == ("checks/m.sql", 3)


def test_only_the_states_of_cumulative_metrics_are_totalled(make_project: MakeProject) -> None:
    text = "@mean(x) > 1 {scope: cumulative} @stddev(y) > 1 @sum(k) > 0"
    (plan,) = compiled(make_project, text).plans
    names = [s.name.rpartition("_")[0] for s in cumulative_states(plan.states, plan.metrics)]
    assert names == ["", "x__total", "x__count"]
    assert [m.scope for m in plan.metrics] == [Scope.CUMULATIVE, Scope.DELTA, Scope.DELTA]
    assert plan.metrics[0].text == "mean(x) (cumulative)"


def test_mergeable_states_pass(make_project: MakeProject) -> None:
    (plan,) = compiled(make_project, "@mean(x) > 1 @quantile(x, 0.5) > 1").plans
    require_mergeable("mean(x)", plan.metrics[0], plan.states, Span("checks/m.sql"))
