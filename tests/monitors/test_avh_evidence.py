"""The issues that bounds are chosen by, and how they are kept. No Spark."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dqsql.compiler.issues import ISSUES_VERSION, IssueSource, issues
from dqsql.model.plan import Family
from dqsql.monitors.kinds.avh.evidence import IssueEvidence

METRICS = ("row_count", "complete_ratio")
NULLS = np.array([[100.0, 0.5]])


@pytest.mark.parametrize(
    ("family", "code", "union"),
    [(Family.NUMERIC, 27, 30), (Family.TIME, 27, 30), (Family.TEXT, 33, 38)],
)
def test_each_issue_says_where_it_is_from(family: Family, code: int, union: int) -> None:
    """The authors' code has 60 variants of both kinds of columns, the paper other magnitudes."""
    sources = {issue.name: issue.source for issue in issues(family)}
    own = {name for name, source in sources.items() if source is IssueSource.DQSQL}
    missing = {f"missing_{share}" for share in ("0.01", "0.05", "0.1", "0.2", "0.5", "1.0")}
    years = {f"year_{to}_{n}" for to in ("later", "earlier") for n in ("0.01", "0.1", "0.5")}
    years |= {"stale_0.5", "stale_1.0", "late_0.5", "late_1.0"}
    below = {f"{kind}_{n}" for kind in ("shrunk_x0.1", "shrunk_x0.001", "sign") for n in (0.1, 1.0)}
    below |= {"minus_0.05", "minus_0.5"}
    more = {Family.TIME: years, Family.NUMERIC: below, Family.TEXT: {"cut_0.5", "cut_1.0"}}
    assert own == missing | more[family]
    by_code = {n for n, s in sources.items() if s in (IssueSource.CODE, IssueSource.BOTH)}
    assert len(by_code) == code
    assert len(sources) - len(own) == union
    assert sources["schema_0.01"] is sources["null_0.01"] is IssueSource.PAPER
    fillers = {i.name: i.arguments["filler"] for i in issues(family) if "filler" in i.arguments}
    assert {name for name, filler in fillers.items() if filler == "null"} == missing


def test_evidence_of_older_issues_serves_until_it_is_renewed() -> None:
    clean = np.array([100.0, 1.0])
    fresh = IssueEvidence("2024-01-09", METRICS, ("missing_0.5",), clean, NULLS)
    stored = fresh.to_dict()
    assert stored["version"] == ISSUES_VERSION
    assert not IssueEvidence.from_dict(json.loads(json.dumps(stored))).outdated
    # As versions before 2 wrote it.
    del stored["version"]
    old = IssueEvidence.from_dict(stored)
    assert old.outdated
    assert old.onto(METRICS, np.array([200.0, 0.9])).tolist() == [[200.0, pytest.approx(0.4)]]


def test_the_parts_of_evidence_share_kinds_and_no_issue() -> None:
    for family in (Family.NUMERIC, Family.TIME, Family.TEXT):
        names = tuple(sorted(i.name for i in issues(family)))
        values = np.arange(len(names) * 2.0).reshape(-1, 2)
        whole = IssueEvidence("b", METRICS, names, np.zeros(2), values)
        parts = [whole.part(number) for number in (0, 1)]
        assert sorted(parts[0].issues + parts[1].issues) == sorted(names)
        own = [i.name for i in issues(family) if i.source is IssueSource.DQSQL]
        assert {*whole.of_paper().issues} == {*names} - {*own}
        kinds = [{name.split("_")[0] for name in part.issues} for part in parts]
        assert kinds[0] == kinds[1]
        for part in parts:
            for issue, row in zip(part.issues, part.variants, strict=True):
                assert row.tolist() == values[names.index(issue)].tolist()
