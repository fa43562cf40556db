"""What is learned of private columns, from batches or from the lake, tells none of their values."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

from dqsql.errors import CompileError, EngineError, UnknownNameError, UsageError
from dqsql.runner import index
from dqsql.runner.compilation import Where

from .conftest import NewProject

DATA = """
select date'2025-01-01' + cast(id % 12 as int) as day, cast(id as int) as id,
  cast(507000 + id * 7 as bigint) as salary, date'1950-01-01' + cast(id * 37 as int) as born,
  if(id % 2 = 0, 'CNRYHIV', 'CNRYFLU') as diagnosis, concat('id-', id) as code
from range(360)
"""
MODEL = """\
{{ config(batch_by = 'day', pii = ['salary', 'born', 'diagnosis']) }}
select day, id,
  salary, -- @avh
  born, -- @avh
  diagnosis,
  code
from {{ source('raw', 't') }}
"""
TOLD = {"min", "max", "range", "median", "p25", "p75", "days_to_min", "days_to_max"}


def test_evidence_of_private_columns_has_no_value_that_is_not_stored(
    new_project: NewProject,
) -> None:
    project = new_project(MODEL, DATA)
    project.run()
    programs = project.rows("dq_programs")
    assert {p["column_name"] for p in programs} == {"salary", "born"}
    for program in programs:
        evidence = json.loads(program["evidence"])
        known = dict(zip(evidence["metrics"], np.array(evidence["variants"]).T, strict=True))
        assert known.keys() & TOLD
        assert not any(v is not None for name in known.keys() & TOLD for v in known[name])
        clean = dict(zip(evidence["metrics"], evidence["clean"], strict=True))
        assert not any(clean[name] is not None for name in clean.keys() & TOLD)
        # What is counted is learned from as ever.
        assert math.isfinite(clean["row_count"]) and clean["complete_ratio"] == 1


def test_an_index_has_no_patterns_of_private_columns(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(MODEL, DATA)
    monkeypatch.setattr(project.spark.sparkContext, "pythonExec", sys.executable)
    where = Where(project.root)
    index.build(where, spark=project.spark)
    rows = project.rows("dq_pattern_index")
    assert any("id-" in str(r) for r in rows)
    assert not any("CNRY" in str(r) for r in rows)
    # Under the name that it has in the source, and by its file.
    other = MODEL.replace("  diagnosis,", "  diagnosis as patient,").replace(
        "'diagnosis'", "'patient'"
    )
    (project.root / "checks" / "m.sql").write_text(other, encoding="utf-8")
    index.build(where, spark=project.spark)
    index.update(where, ["data/t/*.parquet"], spark=project.spark)
    # In SQL whose lineage cannot be told.
    view = other.replace(
        "('raw', 't') }}", "('raw', 't') }} lateral view explode(array(1)) e as one"
    )
    (project.root / "checks" / "m.sql").write_text(view, encoding="utf-8")
    index.build(where, spark=project.spark)
    assert not any("CNRY" in str(r) for r in project.rows("dq_pattern_index"))
    (project.root / "checks" / "m.sql").write_text(MODEL, encoding="utf-8")
    with pytest.raises(UsageError, match="diagnosis of m is private"):
        index.tag(where, "m", "diagnosis", spark=project.spark)


def test_an_index_quotes_no_private_values(new_project: NewProject) -> None:
    broken = "  string(raise_error(concat('bad: ', diagnosis))) as code\n"
    project = new_project(MODEL.replace("  code\n", broken), DATA)
    with pytest.raises(EngineError, match="cannot read") as caught:
        index.build(Where(project.root), ["m"], spark=project.spark)
    assert "CNRY" not in str(caught.value)


def test_a_mistyped_private_column_of_a_star_stops_the_model(new_project: NewProject) -> None:
    sql = (
        "{{ config(batch_by = 'day', pii = ['diagnosys']) }}\n"
        "select * from {{ source('raw', 't') }}\n-- @not_null(diagnosis)\n"
    )
    project = new_project(sql, DATA)
    with pytest.raises(UnknownNameError, match="'diagnosys', which the SELECT does not have") as e:
        project.run(store_failures=True)
    assert str(e.value.hint) == "did you mean 'diagnosis'?"
    assert "dq_metrics" not in {p.name for p in (project.root / "warehouse" / "dq").iterdir()}


@pytest.mark.parametrize("check", ["anomaly(max(salary))", "anomaly(median(salary))"])
def test_a_monitor_of_values_that_are_not_kept_is_refused(
    new_project: NewProject, check: str
) -> None:
    project = new_project(MODEL.replace("@avh\n  born", f"@{check}\n  born"), DATA)
    with pytest.raises(CompileError, match="values of private columns are not kept"):
        project.run()


def test_verdicts_of_before_a_column_was_private_are_kept_without_values(
    new_project: NewProject,
) -> None:
    sql = (
        "{{ config(batch_by = 'day') }}\nselect day, id,\n  salary, -- @max < 9\n"
        "  diagnosis -- @max = 'x' @count_distinct = 1\nfrom {{ source('raw', 't') }}\n"
    )
    project = new_project(sql, DATA)
    project.run()
    path = project.root / "checks" / "m.sql"
    path.write_text(sql.replace("'day') }}", "'day', pii = ['salary', 'diagnosis']) }}"))
    project.run(full_refresh=True)
    kept = project.rows("dq_result_history")
    assert len(kept) == 36
    # Numbers of values stay.
    assert {r["observed"] for r in kept} == {None, 1.0}
    assert not any("CNRY" in str(r) or "5070" in str(r) for r in kept)
