"""A check that fails in one segment alone: the finding says which, and leads to its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dqsql import explain, open_findings
from dqsql.errors import UsageError

from .conftest import NewProject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """\
{{ config(batch_by = 'day', segment_by = ['country']) }}
select
    day, country,
    a -- @completeness >= 0.6 {warn: ">= 0.9"}
from {{ source('raw', 't') }}
-- @row_count >= 2
"""
DATA = """\
select '2025-01-05' as day, country, int(a) as a from values
    ('DE', 5), ('DE', 5), ('DE', 5), ('DE', null), ('FR', null) as t(country, a)
"""


def test_a_failing_segment_is_named_and_explained(
    new_project: NewProject, spark: SparkSession
) -> None:
    project = new_project(MODEL, DATA)
    project.run()
    found = {r["check_name"]: r for r in open_findings(project.root)}
    few = found["row_count >= 2"]
    assert few["message"] == "row_count is 1, expected row_count >= 2 (in country=FR)"
    # The whole batch only warns.
    share = found["completeness >= 0.6"]
    assert (share["status"], "FR" in share["message"]) == ("fail", True)
    check, batch = few["check_id"], few["last_batch"]
    told = explain(check, batch=batch, project_dir=project.root, spark=spark)
    assert (told.row["segment"], told.row["status"]) == ("country=FR", "fail")
    # An id with nothing behind the batch is that of the whole batch.
    whole = explain(f"{check}@{batch}", project_dir=project.root, spark=spark)
    assert (whole.row["segment"], whole.row["status"]) == (None, "pass")
    with pytest.raises(UsageError, match="no verdict"):
        explain(check, batch="2025-01-06", project_dir=project.root, spark=spark)
