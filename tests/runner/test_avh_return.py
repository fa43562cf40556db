"""`@avh` compares with the batch before: what is odd about that one is no news of the next."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dqsql.model.results import Status

from .conftest import NewProject

DAYS, ROWS, ODD = 36, 800, 33
MODEL = """\
{{ config(batch_by = 'day', severity = 'warn') }}
select
    day,
    kind -- @avh {fpr: 0.0017}
from {{ source('raw', 't') }}
"""


def test_a_category_that_comes_back_is_no_news(new_project: NewProject) -> None:
    rng = np.random.default_rng(3)
    columns: dict[str, list[object]] = {"day": [], "kind": []}
    for number in range(DAYS):
        size = int(rng.normal(ROWS, 40))
        shares = np.array([0.7, 0.2, 0.06 * (number != ODD), 0.02, 0.02])
        kinds = ["reading", "login", "alarm", "error", "boot"]
        columns["day"] += [dt.date(2024, 1, 1) + dt.timedelta(number)] * size
        columns["kind"] += rng.choice(kinds, size, p=shares / shares.sum()).tolist()
    project = new_project(MODEL)
    folder = project.root / "data" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    found = sorted(project.run().results, key=lambda r: r.batch or "")
    assert [r.status for r in found[ODD + 1 :]] == [Status.PASS] * (DAYS - ODD - 1)
    # The distance that is stored is the one that it was judged by.
    key = (found[ODD + 1].batch, None, "kind", "kl_div()")
    assert project.metrics()[key] < 0.2
