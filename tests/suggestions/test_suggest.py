"""From a table to a check file that passes on it, with batches, keys and dependencies."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import dqsql
from dqsql.errors import UsageError
from dqsql.model.results import Status
from dqsql.runner.compilation import Where
from dqsql.runner.suggest import suggest
from dqsql.suggestions.files import draft, edited, write
from dqsql.suggestions.suggestion import SuggestionVerdict
from tests.conftest import MakeProject
from tests.suggestions.generators import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
sources:
  - name: shop
    tables:
      - {name: customers, path: data/customers.parquet, format: parquet}
      - {name: orders, path: data/orders.parquet, format: parquet}
      - {name: odd, path: data/odd.parquet, format: parquet}
      - {name: gone, path: data/gone.parquet, format: parquet}
"""
ORDERS = """\
{{ config(batch_by = 'ordered_on', segment_by = ['warehouse']) }}
select
    ordered_on,
    shipped_on
    , order_id -- @not_null {severity: warn}
    , customer_id, warehouse
    , parcel
    , city
    {% for name in ['country', 'amount'] %}
    , {{ name }}
    {% endfor %}
from {{ source('shop', 'orders') }}
"""
COUNTRIES = {"Berlin": "DE", "Hamburg": "DE", "Lyon": "FR", "Paris": "FR", "Rome": "IT"}


def orders(rows: int = 2_400) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=i * 8 // rows) for i in range(rows)]
    city = draw.choice([*COUNTRIES], rows)
    amount = np.round(draw.gamma(2, 30, rows), 2)
    kind, number = draw.choice(["AB", "CX"], rows), draw.integers(0, 10_000, rows)
    # A bad day: the mean of the sample does not hold on it.
    amount[: rows // 8] *= 9
    return pd.DataFrame(
        {
            "ordered_on": days,
            "shipped_on": [
                None if i % 7 == 0 else d + dt.timedelta(days=int(n))
                for i, (d, n) in enumerate(zip(days, draw.integers(0, 5, rows), strict=True))
            ],
            "order_id": np.arange(1, rows + 1, dtype=np.int64) * 17,
            "customer_id": draw.integers(1, 301, rows, dtype=np.int64),
            "warehouse": draw.integers(1, 6, rows, dtype=np.int64),
            "parcel": [f"{k}-{n:04d}" for k, n in zip(kind, number, strict=True)],
            "city": city,
            "country": [COUNTRIES[c] for c in city],
            "amount": amount,
        }
    )


def odd() -> pd.DataFrame:
    """Names and values that break what is put together carelessly."""
    n = 1_200
    return pd.DataFrame(
        {
            "select": np.arange(n, dtype=np.int64) % 3,
            "a`b.c": ["it's", 'say "x"', "ünï", "-- no"] * (n // 4),
            "braces": ["{{ x }}", "*/ {% y %}", "@mean > 3"] * (n // 3),
            "nothing": pd.Series([None] * n, dtype="object").astype("string"),
            "nan": [float("nan"), 1.5, -2.5, float("inf")] * (n // 4),
            "min": np.linspace(-1e-9, 1e9, n),
        }
    )


@pytest.fixture
def shop(make_project: MakeProject) -> Path:
    root = make_project({"checks/sources.yml": SOURCES, "checks/orders.sql": ORDERS})
    (root / "data").mkdir()
    customers = pd.DataFrame({"id": np.arange(1, 501, dtype=np.int64)})
    customers["name"] = [f"customer {i}" for i in customers["id"]]
    customers.to_parquet(root / "data/customers.parquet")
    orders().to_parquet(root / "data/orders.parquet")
    write_parquet(odd(), root / "data/odd.parquet")
    return root


@pytest.mark.slow
def test_model_with_batches(shop: Path, spark: SparkSession) -> None:
    where = Where(shop)
    proposal = suggest(where, "orders", spark=spark)
    assert proposal.batches == 8
    said = {s.annotation(inside=False): s for s in proposal.new}
    key = "@references(customer_id, shop.customers, id)"
    assert said[key].measured == 1.0
    assert "@expect(count_distinct(city, country) = count_distinct(city)) {severity: warn}" in said
    assert not any("(country, city)" in text for text in said)
    assert any(s.rule == "DateOrder" and "ordered_on <= shipped_on" in t for t, s in said.items())
    mean = next(s for s in proposal.new if (s.column, s.call) == ("amount", "mean"))
    assert mean.held == mean.batches == 8 and "8 batches" in mean.reason
    # The user's own check stands.
    not_null = next(
        s for s in proposal.suggestions if (s.column, s.call) == ("order_id", "not_null")
    )
    assert not_null.verdict is SuggestionVerdict.EXISTS

    made = write(where.project, proposal, proposal.new)
    text = (shop / "checks/orders.sql").read_text()
    assert text == made.after and made.diff.count("\n-") == 0
    assert [line for line in text.splitlines() if not line.lstrip().startswith("-- ")] == (
        ORDERS.splitlines()
    )
    codes = text[: text.index("    , parcel")].splitlines()
    assert any(x.endswith(": @pattern('<upper>+-<digit>{4}')") for x in codes[-5:])
    # Next to its column where it stands alone on its line, at the end where it does not.
    above = text[: text.index("    , order_id --")].splitlines()
    assert above[-1].lstrip().startswith("-- ") and any(x.endswith(": @unique") for x in above)
    assert text.index("@not_null(warehouse)") > text.index("from {{")
    assert text.index("@not_null(country)") > text.index("from {{")

    again = suggest(where, "shop.orders", spark=spark)
    assert again.new == ()
    assert not write(where.project, again, again.new).changed
    assert (shop / "checks/orders.sql").read_text() == text

    result = dqsql.run(shop, spark=spark, select=["orders"])
    assert result.exit_code == 0
    statuses = {r.status for m in result.models for r in m.results}
    assert statuses <= {Status.PASS, Status.SKIPPED}


def test_new_file_of_a_source_with_odd_names(shop: Path, spark: SparkSession) -> None:
    where = Where(shop)
    proposal = suggest(where, "shop.odd", sample=1, spark=spark)
    assert proposal.held_out == 0
    # A source without files is no place of keys, and no reason to stop.
    assert [n for n in proposal.notes if n.startswith("shop.gone is not looked at for keys: ")]
    made = write(where.project, proposal, proposal.new)
    assert made.path == "checks/odd.sql"
    assert "accepted_values('-- no', 'it\\'s', 'say \"x\"', 'ünï')" in made.after
    result = dqsql.run(shop, spark=spark, select=["odd"])
    assert result.exit_code == 0, [f.message for f in result.findings]
    assert {r.status for m in result.models for r in m.results} == {Status.PASS}
    again = suggest(where, "shop.odd", sample=1, spark=spark)
    assert again.new == ()

    changed = edited(where.project(), proposal.subject, proposal.new[0], "completeness > 0.5")
    assert changed.annotation(inside=True) == "@completeness > 0.5"
    with pytest.raises(UsageError):
        edited(where.project(), proposal.subject, proposal.new[0], "completeness >")
    assert draft(where.project(), again, []).changed is False


def test_shares(shop: Path, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="not all rows together"):
        suggest(Where(shop), "orders", sample=0.6, holdout=0.5)
    with pytest.raises(UsageError, match="--sample 0 is not"):
        suggest(Where(shop), "orders", sample=0)
    with pytest.raises(UsageError, match=r"a share of 1e-05 of the [\d,]+ rows of orders is none"):
        suggest(Where(shop), "orders", sample=1e-5, spark=spark)
    # Of two columns: what is measured of them is of no matter here.
    held = suggest(Where(shop), "shop.customers", holdout=0.25, spark=spark)
    assert 0.65 < held.learned / held.rows < 0.85


VISITS = """\
sources:
  - name: shop
    tables:
      - {name: visits, path: data/visits.parquet}
"""


def test_a_table_with_days_gets_batches_and_what_learns(
    make_project: MakeProject, spark: SparkSession
) -> None:
    root = make_project({"checks/sources.yml": VISITS})
    (root / "data").mkdir()
    draw, rows = np.random.default_rng(3), 1_600
    born = dt.date(1980, 1, 1)
    frame = pd.DataFrame(
        {
            "visit_id": [f"V-{n:05d}" for n in range(rows)],
            "birth_date": [born + dt.timedelta(days=int(n) % 40) for n in range(rows)],
            "created_at": [
                dt.datetime(2025, 3, 1) + dt.timedelta(minutes=18 * n) for n in range(rows)
            ],
            "seconds": np.round(draw.exponential(80, rows), 1),
        }
    )
    frame["created_at"] = frame["created_at"].astype("datetime64[us]")
    write_parquet(frame, root / "data/visits.parquet")
    where = Where(root)
    proposal = suggest(where, "shop.visits", spark=spark)
    assert proposal.proposed is not None
    assert proposal.proposed.batch_by == "to_date(created_at)"
    assert proposal.batches == 20
    said = {s.annotation(inside=True): s for s in proposal.new}
    assert "@anomaly(row_count) {severity: warn}" in said
    assert "@pattern('V-<digit>{5}')" in said
    assert "@non_negative" in said and not any("between -" in text for text in said)
    made = write(where.project, proposal, proposal.new)
    config = "created_at has 20 days with 80 rows each on average, and no nulls: each day is a"
    assert config in made.after and "{{ config(batch_by = 'to_date(created_at)') }}" in made.after
    result = dqsql.run(root, spark=spark)
    assert result.exit_code == 0, [f.message for f in result.findings]
    assert len({r.batch for m in result.models for r in m.results}) == 20
    again = suggest(where, "shop.visits", spark=spark)
    assert (again.new, again.proposed) == ((), None)
