"""Columns marked as private: what is computed of them, and what is not shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dqsql.compiler.privacy import exposing, private_of_relation, withheld
from dqsql.dialect import to_sql
from dqsql.model.plan import PII_KEY

from .conftest import CompileModel
from .models import of_column


def test_private_columns_of_a_folder_of_models(compile_model: CompileModel) -> None:
    """Not all models of a folder have all of them."""
    project = "name: p\nprofile: test\nmodels:\n  +pii: [day, email]\n"
    compiled = compile_model("select 1 as day", {"dqsql_project.yml": project})
    assert compiled.errors == ()
    assert set(compiled.plan.model.config.pii) == {"day", "email"}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("batch_by = 'day', pii = ['Day']", "batch_by"),
        ("batch_by = 'cast(day as date)', pii = ['day']", "batch_by"),
        ("segment_by = ['day'], pii = ['day']", "segment_by"),
    ],
)
def test_private_columns_name_no_batches_or_segments(
    compile_model: CompileModel, config: str, name: str
) -> None:
    (error,) = compile_model(f"{{{{ config({config}) }}}}\nselect 1 as day, 2 as x").errors
    assert error.message == f"{name} names 'day', a private column: its values would be stored"
    assert error.span is not None
    assert (error.span.line, error.span.text) == (1, name)


@pytest.mark.parametrize("metric", ["max", "median", "quantile(0.9)"])
def test_metrics_of_private_values_are_not_cumulative(
    compile_model: CompileModel, metric: str
) -> None:
    sql = of_column(f"@{metric} > 3 {{scope: cumulative, pii: true}}")
    (error,) = compile_model(sql).errors
    assert "cannot be" in error.message


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
    assert f"e -> left(sha2(concat('{PII_KEY}', e.value), 256), 32)" in text
    assert "left(e.value" not in text


@pytest.mark.parametrize(
    ("annotation", "hidden"),
    [
        ("@max > 3", True),
        ("@median > 3", True),
        ("@quantile(0.9) > 3", True),
        ("@histogram is not null", True),
        ("@expect(any_value(x) = 'a')", True),
        ("@expect(max(upper(x)) = 'a')", True),
        ("@expect(max(x.street) = 'a')", True),
        ("@expect(size(collect_set(x[0])) > 1)", True),
        ("@expect(max_by(y, x) = 1)", True),
        ("@expect(max(if(y > 1, x, null)) = 1)", True),
        ("@expect(max(if(x > 1, y, null)) = 1)", False),
        ("@expect(max(y) filter (where x = 'a') = 1)", False),
        ("@max_length > 3", False),
        ("@mean > 3", False),
        ("@stddev > 3", False),
        ("@sum > 3", False),
        ("@not_null", False),
        ("@approx_count_distinct > 3", False),
        ("@count_distinct > 3", False),
        ("@entropy > 3", False),
        ("@expect(count_if(x rlike 'a') > 3)", False),
        ("@accepted_values('a', 'b')", False),
    ],
)
def test_what_may_tell_values_is_withheld_and_not_stored(
    compile_model: CompileModel, annotation: str, hidden: bool
) -> None:
    compiled = compile_model(of_column(annotation))
    assert compiled.errors == ()
    plan = compiled.plan
    found = withheld(plan.metrics, plan.states, {"x"})
    read = {a for c in plan.checks for a in c.metrics}
    assert bool(found & read) == hidden
    assert bool(exposing(plan.states, {"x"})) == hidden
    assert not withheld(plan.metrics, plan.states, {"z"})


def test_a_source_is_private_by_the_models_that_read_it(compile_model: CompileModel) -> None:
    marked = compile_model("select 1 as a,\n2 as b -- @not_null {pii: true}").plan.model
    reader = replace(marked, depends_on=("source.raw.t",))
    assert private_of_relation([reader], "source.raw.t") == {"b"}
    assert private_of_relation([reader], reader.unique_id) == {"b"}
    assert private_of_relation([marked], "source.raw.t") == frozenset()
    assert private_of_relation([marked], None) == frozenset()
