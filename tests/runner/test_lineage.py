"""OpenLineage events of runs by the Python API: datasets are the tables that were checked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import NewProject

MODEL = """\
with days as (select * from {{ source('raw', 't') }}), names as (select * from lineage_names)
select d.x, -- @not_null @references(lineage_keys, k)
    n.name
from (select * from days) as d left join names as n on n.x = d.x
"""
ABOVE = "select x from {{ ref('m') }} where x in (select k from lineage_keys) -- @row_count > 0"


def test_datasets_are_tables_and_files(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(MODEL, "select id as x from range(4)")
    project.spark.range(4).selectExpr("id as x", "'a' as name").createTempView("lineage_names")
    project.spark.range(9).selectExpr("id as k").createTempView("lineage_keys")
    (project.root / "checks" / "above.sql").write_text(ABOVE, encoding="utf-8")
    file = project.root / "dqsql_project.yml"
    settings = "\nopenlineage: {file: true, namespace: lake}\n"
    file.write_text(file.read_text("utf-8") + settings, encoding="utf-8")
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    try:
        result = project.run()
    finally:
        for name in ("lineage_names", "lineage_keys"):
            project.spark.catalog.dropTempView(name)
    (warning,) = [w for w in result.warnings if "OpenLineage" in w]
    assert warning.startswith("the OpenLineage events were not sent to http://127.0.0.1:9")
    text = (project.root / "target" / "openlineage.ndjson").read_text("utf-8")
    by_job: dict[str, Any] = {}
    for line in text.splitlines():
        event = json.loads(line)
        by_job[event["job"]["name"].rpartition(".")[2]] = event["inputs"]
    path = {"namespace": "file", "name": str(project.root / "data" / "t")}
    others = [{"namespace": "lake", "name": f"lineage_{n}"} for n in ("names", "keys")]
    for job in ("m", "above"):
        checked, *rest = by_job[job]
        facets = checked.pop("inputFacets")
        assert (checked, sorted(map(str, rest))) == (path, sorted(map(str, others)))
        assert all(a["success"] for a in facets["dataQualityAssertions"]["assertions"])
        assert facets["dataQualityMetrics"]["rowCount"] == 4


def test_assertions_say_which_rows_they_are_about(new_project: NewProject) -> None:
    """One that passes of all rows is told from its like of some; quoted columns have metrics."""
    model = """\
    select x, `y z` from {{ source('raw', 't') }}
    -- @max(x) < 9 @max(x) < 2 {where: "x > 0"}
    -- @max(x) < 3 {scope: cumulative} @max(`y z`) < 9
    """
    project = new_project(model, "select id as x, id + 4 as `y z` from range(4)")
    file = project.root / "dqsql_project.yml"
    file.write_text(file.read_text("utf-8") + "\nopenlineage: {file: true}\n", encoding="utf-8")
    project.run()
    text = (project.root / "target" / "openlineage.ndjson").read_text("utf-8")
    facets = json.loads(text.splitlines()[-1])["inputs"][0]["inputFacets"]
    found = {a["assertion"]: a["success"] for a in facets["dataQualityAssertions"]["assertions"]}
    assert found == {
        "max(x) < 9": True,
        "max(x) < 2 where x > 0": False,
        "max(x) < 3, of all batches so far": False,
        "max(`y z`) < 9": True,
    }
    assert facets["dataQualityMetrics"]["columnMetrics"] == {"x": {"max": 3}, "y z": {"max": 7}}
