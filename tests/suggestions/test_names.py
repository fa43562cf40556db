"""The classifier of unique columns' names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from dqsql.errors import LoadError
from dqsql.suggestions.names import (
    BUCKETS,
    WEIGHTS_FILE,
    ColumnName,
    features,
    from_record,
    hashed,
    type_kind,
    unique_names,
    words,
)
from tests.benchmarks import train_unique_names

USERS = ("id", "screen_name", "lang", "followers_count", "statuses_count", "verified")


@pytest.mark.parametrize(
    ("table", "column", "kind", "unique"),
    [
        ("twitter_users", "id", "bigint", True),
        ("twitter_users", "statuses_count", "bigint", False),
        ("twitter_users", "screen_name", "string", False),
        ("twitter_users", "verified", "boolean", False),
    ],
)
def test_names_of_the_paper(table: str, column: str, kind: str, unique: bool) -> None:
    probability = unique_names().probability(ColumnName(table, column, kind, USERS))
    assert (probability > 0.5) is unique


def test_own_id_and_foreign_id() -> None:
    columns = ("customer_id", "order_id", "amount")
    foreign = unique_names().probability(ColumnName("orders", "customer_id", "int", columns))
    own = unique_names().probability(
        ColumnName("customers", "customer_id", "int", ("customer_id", "name", "amount"))
    )
    assert own > 0.5 > foreign


def test_a_select_need_not_keep_the_tables_order() -> None:
    columns = ("ordered_on", "shipped_on", "order_id", "customer_id", "city", "amount")
    own, foreign = (
        unique_names().probability(ColumnName("orders", c, "bigint", columns, ordered=False))
        for c in ("order_id", "customer_id")
    )
    assert own > 0.5 > foreign


def test_names_of_any_kind() -> None:
    for name in ("", "ä€ 漢字", "a" * 500, "__", "UserID"):
        assert 0 < unique_names().probability(ColumnName(name, name, "", (name,))) < 1
    assert words("UserIDOfHTTPServer") == ["user", "id", "of", "http", "server"]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("bigint", "integer"),
        ("mediumint", "integer"),
        ("longtext", "text"),
        ("decimal(10,2)", "fractional"),
        ("timestamp_ntz", "time"),
        ("tinyblob", "binary"),
        ("boolean", "boolean"),
        ("string", "text"),
        ("geometry", "other"),
    ],
)
def test_kinds_of_sql_and_spark_types(sql: str, kind: str) -> None:
    assert type_kind(sql) == kind


def test_inference_is_that_of_scikit_learn() -> None:
    names = [
        ColumnName("t", c, "int", ("id", "code", "n"))
        for c in ("id", "code", "n", "t_id", "name", "uid", "total", "key")
    ]
    x = train_unique_names.matrix(names)
    fitted = LogisticRegression(C=10.0).fit(x, [1, 1, 0, 1, 0, 1, 0, 1])
    record = {
        "buckets": BUCKETS,
        "intercept": float(fitted.intercept_[0]),
        "index": list(range(BUCKETS)),
        "weight": fitted.coef_[0].tolist(),
    }
    ours = [from_record(record).probability(name) for name in names]
    np.testing.assert_allclose(ours, fitted.predict_proba(x)[:, 1], rtol=1e-9)


def test_weights_of_another_version_are_refused() -> None:
    with pytest.raises(LoadError, match="does not fit"):
        from_record({"buckets": 8, "index": [], "weight": [], "intercept": 0})


def test_the_shipped_file_is_small_and_features_are_stable() -> None:
    assert WEIGHTS_FILE.stat().st_size < 50_000
    found = features(ColumnName("users", "id", "int", ("id", "name")))
    assert len(found) == len(set(found))
    # Another hash would make the shipped weights meaningless.
    assert hashed(["c:id", "t:user"]).tolist() == [1798, 4632]


@pytest.mark.eval
@pytest.mark.slow
def test_area_under_the_curve_across_projects(eval_data: Path) -> None:
    examples = train_unique_names.read_examples(eval_data / "schemas" / "schemas.csv")
    y = examples.labels
    folds = GroupKFold(5).split(y, y, examples.projects)
    known, unknown = train_unique_names.cross_validated(examples, folds)
    assert known > 0.92 and unknown > 0.9
