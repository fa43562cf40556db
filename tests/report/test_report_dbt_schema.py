"""`run_results.json` has the shape of dbt's published schema, version 6.

Written down from https://schemas.getdbt.com/dbt/run-results/v6.json: the keys that each object may
have (no others are allowed), those that it must have, and their types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dqsql.json_text import to_json
from dqsql.model.results import ModelResult, Result, RunResult, Status
from dqsql.report.run_results import run_results

NULL = type(None)
TOP = {"metadata": dict, "results": list, "elapsed_time": (int, float), "args": dict}
METADATA = {
    "dbt_schema_version": str,
    "dbt_version": str,
    "generated_at": str,
    "invocation_id": (str, NULL),
    "invocation_started_at": (str, NULL),
    "env": dict,
}
RESULT = {
    "status": str,
    "timing": list,
    "thread_id": str,
    "execution_time": (int, float),
    "adapter_response": dict,
    "message": (str, NULL),
    "failures": (int, NULL),
    "unique_id": str,
    "compiled": (bool, NULL),
    "compiled_code": (str, NULL),
    "relation_name": (str, NULL),
    "batch_results": (dict, NULL),
}
STATUSES = {"success", "partial success", "pass", "error", "fail", "warn", "skipped"}
STATUSES |= {"runtime error"}


def conforms(value: Mapping[str, Any], known: Mapping[str, Any], required: set[str]) -> None:
    assert set(value) <= set(known)
    assert required <= set(value)
    for key, item in value.items():
        assert isinstance(item, known[key]), f"{key} is {item!r}"


def test_the_shape_is_that_of_dbts_schema(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    results = [
        make_result(status=status, check_id=f"flights.{status.value}", observed=float("nan"))
        for status in Status
    ]
    run = make_run(make_model(*results), arguments={"select": ["a"], "target": None})
    content = json.loads(to_json(run_results(run)))
    conforms(content, TOP, {"metadata", "results", "elapsed_time"})
    conforms(content["metadata"], METADATA, {"dbt_schema_version"})
    assert content["metadata"]["dbt_schema_version"].endswith("/run-results/v6.json")
    assert all(isinstance(v, str) for v in content["metadata"]["env"].values())
    assert len(content["results"]) == len(Status)
    for result in content["results"]:
        conforms(result, RESULT, set(RESULT) - {"batch_results"})
        assert result["status"] in STATUSES
