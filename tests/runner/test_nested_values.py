"""Arrays, structs and maps are counted by their exact content; a histogram compares its number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import dqsql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = """
select
    a, -- @count_distinct = 5 @unique @histogram > 4 @histogram is not null
    s, -- @count_distinct = 5 @unique @entropy > 1.6
    m, -- @count_distinct = 4 @duplicate_count = 1 @approx_count_distinct = 4
    t, -- @count_distinct = 5
    k  -- @unique(a, s) @histogram between 1 and 3
from values
    (array('a, b'), named_struct('x', 'a', 'y', 'b, c'), map('k', 1, 'l', 2),
     array(timestamp'2024-01-01 00:00:00.000001'), 'p'),
    (array('a', 'b'), named_struct('x', 'a, b', 'y', 'c'), map('l', 2, 'k', 1),
     array(timestamp'2024-01-01 00:00:00.000002'), 'p'),
    (array('null'), named_struct('x', null, 'y', 'z'), map('k', 1),
     array(timestamp'2024-01-01 00:00:00'), 'q'),
    (array(cast(null as string)), named_struct('x', 'null', 'y', 'z'), map('k', null),
     array(), 'q'),
    (array(), named_struct('x', 'z', 'y', null), map('k', 0),
     array(null), 'q')
    as v(a, s, m, t, k)
"""


def test_counts_of_nested_values(make_project: Callable[..., Path], spark: SparkSession) -> None:
    result = dqsql.run(make_project({"checks/m.sql": MODEL}), spark=spark)
    told = {r.check_id: (r.status.value, r.observed, r.message) for r in result.results}
    assert {k: v for k, v in told.items() if v[0] != "pass"} == {}
    assert len(told) == 13
    assert told["m.a.histogram_gt_4"][1] == 5
    assert told["m.k.histogram_between_1_and_3"][1] == 2
