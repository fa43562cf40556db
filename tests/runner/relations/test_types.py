"""Types that texts read as, and histograms."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from dqsql.model.results import Status

from .conftest import Project, Table

PATTERNS = {
    "integral": r"[+-]? ?\d+",
    "fractional": r"[+-]? ?(\d+[eE][+-]?\d+|(\d+\.\d*|\.\d+)([eE][+-]?\d+)?)",
    "boolean": r"true|false",
    "timestamp": r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|[+-]\d\d:?\d\d))?)?",
}
TEXTS = {
    "1": ["1", "-2", "+3", "- 4", "5.0", "", None],
    "2": ["1.5", "2e3", "1.", ".5", "2.5E-3", "1", "NaN", ".", "-.5e1"],
    "3": ["true", "false", "True", "false"],
    "4": ["2020-01-01", "2020-01-01 10:00", "2020-01-01T10:00:00.5Z", "2020-1-1", None],
    "5": [None, None],
    "6": ["x", "y", "1"],
}


def inferred(text: str) -> str:
    kinds = [k for k, p in PATTERNS.items() if re.fullmatch(p, text, re.ASCII)]
    return kinds[0] if kinds else "string"


def test_types_of_texts(project: Project, table: Table) -> None:
    rows = [(b, t) for b, texts in TEXTS.items() for t in texts]
    values = ", ".join(f"('{b}', {'null' if t is None else repr(t)})" for b, t in rows)
    table("a_t", f"select * from values {values} t(b, t)")
    project.write(
        "a",
        "{{ config(batch_by='b') }}\nselect b,\n t -- @type_consistency >= 0.99"
        " @data_type = 'string'\nfrom a_t",
    )
    project.run()
    shares, kinds = project.metrics("type_consistency"), project.metrics("data_type")
    for batch, texts in TEXTS.items():
        counts = Counter(inferred(t) for t in texts if t is not None)
        if not counts:
            assert shares[batch, None] is None and kinds[batch, None] is None
            continue
        (kind, most), *_ = counts.most_common(1)
        assert shares[batch, None] == pytest.approx(most / counts.total())
        assert kinds[batch, None] == (None, kind)


def test_histograms(project: Project, table: Table) -> None:
    table(
        "a_t",
        "select if(id < 300, cast(id % 3 as string), concat('v', id)) as v, id as n,"
        " id % 2 as value, cast(id % 3 as double) as x, cast(id % 3 as decimal(5, 2)) as y"
        " from range(420)",
    )
    project.write(
        "a",
        "{{ config(segment_by=['value']) }}\nselect value,\n"
        "  -- @histogram_values('0', '1', '2') @expect(histogram(v) is not null)\n"
        '  -- @histogram_values(0, 1, 2) {where: "n < 300", name: listed}\n  v,\n'
        "  x, -- @histogram_values(0, 1.0, 2)\n"
        "  y, -- @histogram_values(0, -1, 2) {name: other}\n"
        "  n -- @expect(frequency(max(n), width_bucket(n, 0, 420, 4)) = 105)\nfrom a_t",
    )
    result = project.run()
    whole = {r.check_name: r for r in result.results if r.segment is None}
    assert whole["listed"].status is Status.PASS
    assert whole["histogram_values('0', '1', '2')"].observed == 120
    assert whole["histogram_values(0, 1.0, 2)"].status is Status.PASS
    assert whole["other"].observed == 1
    assert (
        whole["expect(frequency(max(n), width_bucket(n, 0, 420, 4)) = 105)"].status is Status.PASS
    )
    ((distinct, text),) = [v for k, v in project.metrics("histogram").items() if k[1] is None]
    found = json.loads(text)
    assert distinct == 123
    assert len(found["values"]) == 100
    assert {k: n for k, n in found["values"].items() if n > 1} == {"0": 100, "1": 100, "2": 100}
    assert sum(found["values"].values()) + found["other"] == 420
