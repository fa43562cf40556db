"""Which of several verdicts of a check is the one to explain."""

from __future__ import annotations

from typing import Any

from dqsql.engine.verdicts import _finding_rank


def row(segment: str | None, observed: float, status: str = "fail") -> dict[str, Any]:
    bounds = {"lower_bound": 9.0, "upper_bound": None}
    named = {"batch": "y", "status": status, "segment": segment, "severity": "error"}
    return {**named, **bounds, "observed": observed}


def test_the_segment_furthest_outside_its_bounds() -> None:
    rows = [row("a", 0.0), row("b", 100.0, "pass"), row("c", 8.9)]
    assert max(rows, key=_finding_rank)["segment"] == "a"
    # The whole batch says more, and what passed less.
    assert max([*rows, row(None, 8.5)], key=_finding_rank)["segment"] is None
    assert max([*rows, row(None, 36.0, "pass")], key=_finding_rank)["segment"] == "a"
