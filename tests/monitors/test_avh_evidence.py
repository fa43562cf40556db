"""The issues that bounds are chosen by, and how they are kept. No Spark."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dqsql.compiler.issues import ISSUES_VERSION, issues
from dqsql.model.plan import Family
from dqsql.monitors.evidence import Evidence

METRICS = ("row_count", "complete_ratio")
NULLS = np.array([[100.0, 0.5]])


@pytest.mark.parametrize(("family", "count"), [(Family.NUMERIC, 31), (Family.TEXT, 39)])
def test_values_go_missing_among_the_issues(family: Family, count: int) -> None:
    found = {issue.name: issue for issue in issues(family)}
    fillers = {name: i.arguments["filler"] for name, i in found.items() if "null" in name}
    assert fillers.pop("null_missing_1.0") == "null"
    assert "null" not in fillers.values()
    assert len(found) == count


def test_evidence_of_older_issues_serves_until_it_is_renewed() -> None:
    clean = np.array([100.0, 1.0])
    fresh = Evidence("2024-01-09", METRICS, ("null_missing_0.5",), clean, NULLS)
    stored = fresh.to_dict()
    assert stored["version"] == ISSUES_VERSION
    assert not Evidence.from_dict(json.loads(json.dumps(stored))).outdated
    # As versions before 2 wrote it.
    del stored["version"]
    old = Evidence.from_dict(stored)
    assert old.outdated
    assert old.onto(METRICS, np.array([200.0, 0.9])).tolist() == [[200.0, pytest.approx(0.4)]]
