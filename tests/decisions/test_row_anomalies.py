"""Odd rows: which are found, why, and how many a good batch has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dqsql.decisions.row_anomalies import RowDetector, RowFeature, learn_feature, learn_rows
from dqsql.errors import DecisionError

BATCHES, ROWS = 10, 300
_PLACES = np.repeat(np.arange(BATCHES), ROWS)


def orders(seed: int, rows: int) -> dict[str, Any]:
    """Orders whose total is about their price times their quantity."""
    random = np.random.default_rng(seed)
    price = random.lognormal(3, 0.5, rows)
    quantity = random.poisson(3, rows) + 1.0
    country = random.choice(["DE", "FR", "IT"], rows, p=[0.6, 0.3, 0.1])
    discount = np.where(random.random(rows) < 0.3, np.nan, random.random(rows) * 0.1)
    return {
        "price": price,
        "quantity": quantity,
        "total": price * quantity * random.normal(1, 0.01, rows),
        "country": country.tolist(),
        "discount": discount,
        "id": np.arange(rows) + 1e6 * seed,
        "note": [f"note {number}" for number in random.integers(10**6, 10**9, rows)],
        "currency": ["EUR"] * rows,
    }


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: np.concatenate([p[name] for p in parts])
        if isinstance(parts[0][name], np.ndarray)
        else [value for p in parts for value in p[name]]
        for name in parts[0]
    }


@pytest.fixture(scope="module")
def detector() -> RowDetector:
    history = together([orders(seed, ROWS) for seed in range(BATCHES)])
    return learn_rows(history, _PLACES, contamination=0.005, rate=0.01)


def test_a_column_with_infinite_numbers_hides_no_odd_row() -> None:
    def rows(seed: int) -> dict[str, Any]:
        ratio = np.random.default_rng(seed).normal(1, 0.1, ROWS)
        ratio[:6] = np.inf
        return {**orders(seed, ROWS), "ratio": ratio}

    history = together([rows(seed) for seed in range(BATCHES)])
    detector = learn_rows(history, _PLACES, contamination=0.005, rate=0.01)
    assert detector.threshold < 1e3
    odd = rows(100)
    odd["price"] = odd["price"] * 100
    assert (detector.model.scores(odd) > detector.threshold).mean() > 0.9
    # Where there were none, they are as far off as a number can be.
    found = learn_feature("ratio", rows(1)["ratio"][6:], _PLACES[: ROWS - 6])
    assert isinstance(found, RowFeature)
    assert abs(found.numbers(np.array([-np.inf]))[0]) > 1e100


def test_good_batches_have_few_odd_rows_and_are_rarely_called_bad(detector: RowDetector) -> None:
    shares = []
    for seed in range(100, 140):
        scores = detector.model.scores(orders(seed, ROWS))
        shares.append(float((scores > detector.threshold).mean()))
    assert np.mean(shares) == pytest.approx(0.005, abs=0.003)
    limit = detector.limit(ROWS)
    assert limit is not None and 0.005 < limit < 0.05
    assert sum(share > limit for share in shares) <= 1


def test_what_moves_on_from_batch_to_batch_takes_no_part(detector: RowDetector) -> None:
    assert detector.left_out == {"id": "its values keep moving from batch to batch"}
    kinds = {f.column: f.kind for f in detector.model.features}
    assert kinds["country"] == kinds["currency"] == "rarity"
    assert (kinds["note"], kinds["price"]) == ("length", "number")


def changed(name: str, value: Any) -> dict[str, Any]:
    rows = orders(7, 50)
    column = rows[name].copy()
    column[0] = value
    return {**rows, name: column}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price", -500.0),
        ("quantity", 90.0),
        ("currency", "USD"),
        ("country", "Atlantis"),
        ("note", "x" * 400),
        ("price", np.nan),
        ("currency", None),
        ("price", np.inf),
    ],
)
def test_an_odd_value_is_found_and_named(detector: RowDetector, name: str, value: Any) -> None:
    rows = changed(name, value)
    scores = detector.model.scores(rows)
    assert scores[0] > detector.threshold
    assert scores[0] == scores.max()
    first = detector.reasons(rows)[0][0]
    assert first["column"] == name and first["share"] > 0.4
    usual = {"price": "20", "currency": "EUR", "country": "DE", "quantity": "4", "note": "14"}
    told = str(first["usual"]).partition(" ")[0]
    assert told == usual[name] or float(told) == pytest.approx(float(usual[name]), rel=0.1)


def test_an_odd_combination_of_usual_values_is_found(detector: RowDetector) -> None:
    rows = orders(7, 400)
    odd = {name: column[:] for name, column in rows.items()}
    # Each value is usual; together they are not.
    for name, value in (("price", 12.0), ("quantity", 1.0), ("total", 320.0)):
        odd[name] = np.concatenate([[value], rows[name][1:]])
    scores = detector.model.scores(odd)
    assert (scores > scores[0]).mean() < 0.01
    assert detector.reasons(odd)[0][0]["column"] == "total"


def test_the_score_is_the_sum_of_its_parts(detector: RowDetector) -> None:
    rows = changed("price", np.nan)
    parts = detector.model.parts(rows)
    assert parts.sum(axis=1) == pytest.approx(detector.model.scores(rows))


def test_what_cannot_be_compared_is_told() -> None:
    places = np.repeat([0, 1], 50)
    moving = {"id": np.arange(100.0), "none": np.full(100, np.nan)}
    with pytest.raises(DecisionError, match="no column can be compared") as raised:
        learn_rows(moving, places, 0.01, 0.01)
    assert "id: its values keep moving" in str(raised.value) and "none: it has no values" in str(
        raised.value
    )
    words = [f"day {i // 50}" for i in range(100)]
    assert learn_feature("day", words, places) == "its values change from batch to batch"
    same = learn_feature("same", np.full(100, 3.0), places)
    assert isinstance(same, RowFeature) and same.scale == 0
    assert same.numbers(np.array([3.0, 4.0, np.nan]))[:2].tolist() == [0.0, 10.0]
