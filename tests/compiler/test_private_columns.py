"""Columns marked as private: what is computed of them, and what is not shown."""

from __future__ import annotations

import pytest

from dqsql.compiler.privacy import withheld
from dqsql.dialect import to_sql

from .conftest import CompileModel
from .models import of_column


def test_private_columns_of_a_folder_of_models(compile_model: CompileModel) -> None:
    """Not all models of a folder have all of them."""
    project = "name: p\nprofile: test\nmodels:\n  +pii: [day, email]\n"
    compiled = compile_model("select 1 as day", {"dqsql_project.yml": project})
    assert compiled.errors == ()
    assert set(compiled.plan.model.config.pii) == {"day", "email"}


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


@pytest.mark.parametrize(
    ("spark_type", "hidden"),
    [
        ("string", True),
        ("date", True),
        ("interval day to second", True),
        ("int", False),
        ("decimal(10,2)", False),
        ("boolean", False),
    ],
)
def test_extremes_of_private_columns_are_withheld(
    compile_model: CompileModel, spark_type: str, hidden: bool
) -> None:
    """But for numbers: also of an interval, whose type begins like that of an int."""
    plan = compile_model(of_column("@max > 3")).plan
    (metric,) = (m for m in plan.metrics if m.name == "max")
    types = dict.fromkeys(metric.states, spark_type)
    found = withheld(plan.metrics, plan.states, types, {"x"})
    assert found == (frozenset({metric.alias}) if hidden else frozenset())
