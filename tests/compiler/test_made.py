"""What decides which rows a SELECT has, whatever it is written like."""

from __future__ import annotations

import pytest

from dqsql.compiler.made import Definitions, rows_of, upstream_of
from dqsql.model.project import CheckModel, ModelConfig

SAME = (
    ("select a from t", "SELECT b, c FROM T as x -- all"),
    ("select a from t where x.d = 1", "select a from t as x where D = 1"),
    ("select a from t where d = '2026-11-27'", "select a from t where d = '2026-11-28'"),
    ("select a from t where dt = 20261127", "select a from t where dt = 20261201"),
    ("select a from ev_20261127", "select a from ev_20261128"),
    ("select a from t where ts >= 1700000000", "select a from t where ts >= 1700086400"),
    (
        "with c as (select a from t) select a from c",
        "with c as (select a, b from t) select b from c",
    ),
    (
        "with c as (select a from t) select a from c",
        "with Base as (select a from t) select a from base",
    ),
    ("select a from t union all select a from u", "select b from t union all select b from u"),
    ("select a, count(*) from t group by a", "select a, sum(b) from t group by a"),
)
OTHER = (
    ("select a from t", "select a from u"),
    ("select a from t", "select a from t where b > 1"),
    ("select a from t where c = 'DE'", "select a from t where c = 'de'"),
    ("select a from t where n > 2000", "select a from t where n > 2001"),
    ("select distinct a from t", "select distinct a, b from t"),
    ("select a from t group by 1", "select b from t group by 1"),
    ("select a from t union select a from u", "select b from t union select b from u"),
    ("select explode(a) from t", "select explode(b) from t"),
    (
        "select a from t where k in (select k from u)",
        "select a from t where k in (select j from u)",
    ),
    ("select a from t join u on t.k = u.k", "select a from t left join u on t.k = u.k"),
    ("with c as (select a from t) select a from c", "with c as (select a from u) select a from c"),
    (
        "with c as (select a from t), d as (select a from u) select a from c",
        "with c as (select a from t), d as (select a from u) select a from d",
    ),
    ("select a from t limit 10", "select a from t"),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_rows(one: str, other: str) -> None:
    assert rows_of(one) == rows_of(other) != ""


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_rows(one: str, other: str) -> None:
    assert rows_of(one) != rows_of(other)


def test_what_is_not_read_has_no_text() -> None:
    assert rows_of("select from where") == ""
    assert Definitions.of("select from where").behind("a") == []


def test_another_spelling_is_the_same_expression() -> None:
    one = Definitions.of("select amount * 2 as x from t")
    other = Definitions.of("select O.AMOUNT * 2 AS X from t as o")
    assert one.behind("x") == other.behind("x") != []
    joined = "select {}.a + 1 as x from t join u on t.k = u.k"
    sides = [Definitions.of(joined.format(side)).behind("x") for side in "tu"]
    assert sides[0] != sides[1]


def model(name: str, sql: str, *upstream: str) -> CheckModel:
    depends_on = tuple(f"model.{other}" for other in upstream)
    return CheckModel(name, f"{name}.sql", sql, sql, ModelConfig(), (), (), (), depends_on)


def test_models_upstream_are_followed_along_all_ways() -> None:
    top = model("top", "select a.x, b.y from left a join right b on a.k = b.k", "left", "right")
    left = model("left", "select x, k from base", "base")
    right = model("right", "select k, z + 1 as y from base where flag", "base")
    ways = {}
    for made in (
        "1 as x, v as z, f as flag",
        "1 as x, w as z, f as flag",
        "1 as x, v as z, g as flag",
    ):
        models = [top, left, right, model("base", f"select k, {made} from raw")]
        ways[made] = upstream_of(top, models, ["y"])
        assert set(ways[made]) == {"left", "right", "base"}
    one, *others = ways.values()
    assert [{n for n in one if one[n] != other[n]} for other in others] == [{"base"}, {"base"}]
