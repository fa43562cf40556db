"""`@stays_unique` where repeats recur, and where they are over."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from dqsql.model.results import Status

from .conftest import NewProject

MODEL = """\
{{ config(batch_by = 'day') }}
select
    day,
    id -- @stays_unique {severity: warn}
from {{ source('raw', 't') }}
"""


def data(days: int, doubled: Collection[int]) -> str:
    """Four rows a day, and the same again on some."""
    rows = (
        "select date_add(date '2024-01-01', cast(id div 4 as int)) as day, id"
        f" from range({4 * days})"
    )
    again = ", ".join(str(day) for day in doubled)
    return f"{rows} union all select * from ({rows}) where id div 4 in ({again})"


@pytest.mark.parametrize(
    ("doubled", "told"),
    [
        # Three bad loads are what is normal, until as many good ones came that it may be learned.
        ((12, 13, 14, 35), (12, 13, 14, 35)),
        # Every ninth day: after a while nobody wants to hear of it.
        ((8, 17, 26, 35, 44), (8, 17, 26)),
    ],
)
def test_repeats_that_are_over_and_that_recur(
    new_project: NewProject, doubled: tuple[int, ...], told: tuple[int, ...]
) -> None:
    project = new_project(MODEL, data(50, doubled))
    found = [r.batch for r in project.run().results if r.status is Status.WARN]
    days = [f"2024-{1 + (d >= 31):02d}-{d + 1 - 31 * (d >= 31):02d}" for d in told]
    assert found == days


@pytest.mark.parametrize(("twice", "told"), [(2, []), (40, ["10"])])
def test_a_batch_of_more_rows(new_project: NewProject, twice: int, told: list[str]) -> None:
    """What 40 rows a day did not have twice by chance, 400 rows may; one row is judged, too."""
    rows = " union all ".join(
        f"select date'2024-01-{day:02d}' as day, {1000 * day} + if(id < {different}, id, 0) as id"
        f" from range({size})"
        for day, size in enumerate([40] * 9 + [400, 1, 40], 1)
        for different in [size - twice if day == 10 else size]
    )
    found = {str(r.batch)[-2:]: r for r in new_project(MODEL, rows).run().results}
    assert [day for day, r in found.items() if r.status is Status.WARN] == told
    assert found["10"].observed == twice
    assert found["11"].status is Status.PASS
