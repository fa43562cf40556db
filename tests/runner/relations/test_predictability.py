"""Predictability against scikit-learn on the same hashed tokens, and its edges."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.naive_bayes import MultinomialNB

from dqsql.model.results import Status

from .conftest import Project, Table, statuses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 512
SCORES = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
WORDS = ["rot", "grün", "GRÜN", "Straße", "東京", "東京\u3000駅", "a b", "  ", "", "it's", "x|y"]
Row = dict[str, Any]


def rows_of(count: int) -> list[Row]:
    draw = random.Random(3)
    rows = []
    for _ in range(count):
        kind = draw.choice(["b", "é", "C", "c", ""])
        near = WORDS[(len(kind) * 3 + ord(kind[:1] or "z")) % len(WORDS)]
        words = [near if draw.random() < 0.5 else draw.choice(WORDS) for _ in range(2)]
        rows.append(
            {
                "day": draw.choice(["d1", "d2", "d3"]),
                "shop": draw.choice(["x", "y", None]),
                "kind": None if draw.random() < 0.1 else kind,
                "a`b.c": None if draw.random() < 0.1 else " ".join(words),
                "n": draw.choice([None, 1, 2, 3]),
            }
        )
    return rows


class Expected:
    """The measures by scikit-learn: hashes are Spark's, all else is not."""

    def __init__(self, spark: SparkSession, rows: Iterable[Row], buckets: int) -> None:
        self.spark, self.buckets = spark, buckets
        self.rows = [
            {**r, "texts": (r["a`b.c"], None if r["n"] is None else str(r["n"]))}
            for r in rows
            if r["kind"] is not None
        ]
        self.phase = self._hash(
            {(r["kind"], *r["texts"]) for r in self.rows},
            "kind string, a string, b string",
            "pmod(xxhash64(kind, array(a, b)), 5)",
        )
        words = {
            (i, w) for r in self.rows for i, t in enumerate(r["texts"]) for w in (t or "").split()
        }
        lower = {(i, w.lower()) for i, w in words}
        self.bucket = self._hash(lower, "i int, w string", f"pmod(hash(i, w), {buckets})")

    def _hash(self, keys: set[Any], schema: str, sql: str) -> dict[Any, int]:
        frame = self.spark.createDataFrame(sorted(keys, key=repr), schema)
        return {tuple(r)[:-1]: r["h"] for r in frame.selectExpr("*", f"{sql} as h").collect()}

    def bag(self, texts: tuple[str | None, ...]) -> list[int]:
        return [
            self.bucket[i, w.lower()] for i, text in enumerate(texts) for w in (text or "").split()
        ]

    def split(self, rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
        """Rows to learn from, and those held out: every fifth of equal ones."""
        seen: Counter[Any] = Counter()
        learn, test = [], []
        for row in rows:
            key = (row["kind"], *row["texts"])
            seen[key] += 1
            (test if (seen[key] + self.phase[key]) % 5 == 0 else learn).append(row)
        return learn, test

    def measures(self, parts: Iterable[Iterable[Row]]) -> dict[str, float]:
        """Of the rows of some batches, each of which is split by itself."""
        splits = [self.split(part) for part in parts]
        learn, test = ([r for s in splits for r in s[i]] for i in (0, 1))
        model = MultinomialNB(alpha=1.0).fit(self._matrix(learn), [r["kind"] for r in learn])
        scores = np.round(model.predict_joint_log_proba(self._matrix(test)), 9)
        guesses, truth = model.classes_[scores.argmax(axis=1)], [r["kind"] for r in test]
        options = {"average": "weighted", "zero_division": 0}
        return {m: score(truth, guesses, **options) for m, score in SCORES.items()}

    def _matrix(self, rows: list[Row]) -> csr_matrix:
        cells = [(i, b) for i, r in enumerate(rows) for b in self.bag(r["texts"])]
        where = tuple(zip(*cells, strict=True))
        return csr_matrix((np.ones(len(cells)), where), shape=(len(rows), self.buckets))


@pytest.mark.slow
def test_measures_are_those_of_scikit_learn(
    project: Project, table: Table, spark: SparkSession
) -> None:
    rows = rows_of(900)
    spark.createDataFrame(
        [tuple(r.values()) for r in rows], "day string, shop string, kind string, t string, n int"
    ).createOrReplaceTempView("rows")
    table("a_t", "select day, shop, kind, t as `a``b.c`, n from rows")
    spark.catalog.dropTempView("rows")
    scopes = {"delta": "", "cumulative": " {scope: cumulative}"}
    checks = [
        f"-- @predictability(from => (`a``b.c`, n), measure => '{m}', buckets => {BUCKETS}) > 0{s}"
        for m in SCORES
        for s in scopes.values()
    ]
    project.write(
        "a",
        "{{ config(batch_by='day', segment_by=['shop']) }}\nselect day, shop, `a``b.c`, n,\n"
        + "\n".join(checks)
        # Another number of buckets, a condition, and one column, in the same pass.
        + "\n-- @predictability(from => lower(`a``b.c`), buckets => 64) > 0"
        ' {where: "n is not null"}\n  kind\nfrom a_t',
    )
    project.run()
    found = project.rows("dq_metrics")
    got = {
        (r["scope"], r["batch"], r["segment"], r["parameters"].split("'")[1]): r["value"]
        for r in found
        if r["metric"] == "predictability" and f"buckets => {BUCKETS}" in r["parameters"]
    }
    expected = Expected(spark, rows, BUCKETS)
    segments = {None: None, "shop=x": "x", "shop=y": "y", "shop is null": None}
    days = ["d1", "d2", "d3"]
    for name, shop in segments.items():
        mine = [r for r in expected.rows if name is None or r["shop"] == shop]
        parts = [[r for r in mine if r["day"] == d] for d in days]
        for i, day in enumerate(days):
            for scope, used in (("delta", parts[i : i + 1]), ("cumulative", parts[: i + 1])):
                for measure, value in expected.measures(used).items():
                    assert got[scope, day, name, measure] == pytest.approx(value, abs=1e-12), (
                        scope,
                        day,
                        name,
                        measure,
                    )
    assert len(got) == 2 * 3 * 4 * 3
    assert 0.3 < got["cumulative", "d3", None, "f1"] < 0.9


def test_edges(project: Project, table: Table) -> None:
    table(
        "a_t",
        "select id % 3 as k, concat('word ', id % 3) as words, cast(null as string) as nothing,"
        " 'one' as same, id as `key` from range(300)",
    )
    project.write(
        "a",
        "select k, words, nothing, same, `key` from a_t\n"
        "-- @predictability(k, from => words) = 1 {name: told}\n"
        "-- @predictability(k, from => (`key`)) < 0.6 {name: guessed}\n"
        "-- @predictability(k, from => (nothing), measure => 'recall') < 0.5 {name: blind}\n"
        "-- @predictability(same, from => (k, nothing)) = 1 {name: single}\n"
        "-- @predictability(nothing, from => k) > 0 {name: untold}\n"
        '-- @predictability(k, from => words) > 0 {name: few, where: "`key` < 2"}\n',
    )
    assert statuses(project.run()) == {
        "told": Status.PASS,
        "guessed": Status.PASS,
        "blind": Status.PASS,
        "single": Status.PASS,
        "untold": Status.NO_DATA,
        "few": Status.NO_DATA,
    }
    table("a_t", "select 1 as k, '' as words, '' as nothing, '' as same, 1L as `key` where false")
    assert set(statuses(project.run()).values()) <= {Status.NO_DATA}


def test_one_alone_and_cumulative(project: Project, table: Table) -> None:
    for batches in (1, 2):
        table("a_t", f"select id % {batches} as b, id % 3 as k, id % 6 as six from range(300)")
        project.write(
            "a",
            "{{ config(batch_by='b') }}\nselect b, k, six from a_t\n"
            "-- @predictability(k, from => six) = 1 {scope: cumulative, name: told}",
        )
        assert statuses(project.run(full_refresh=True)) == {"told": Status.PASS}


@pytest.mark.slow
def test_state_is_bounded_and_its_merge_too(project: Project, table: Table) -> None:
    sizes = {"1": 27_000, "2": 3_000}
    parts = [f"select '{b}' as b, id from range({n})" for b, n in sizes.items()]
    rows = f"select b, cast(id as string) as word, id % 3 as k from ({' union all '.join(parts)})"
    table("a_t", rows)
    project.write(
        "a",
        "{{ config(batch_by='b') }}\nselect b, word, k from a_t\n"
        "-- @predictability(k, from => word) is not null {scope: cumulative}",
    )
    project.run()
    buckets = "array(pmod(hash(0, word), 262144))"
    held = project.spark.sql(
        f"select b, xxhash64(cast(k as string), {buckets}) as h from ({rows})"
        " where pmod(xxhash64(cast(k as string), array(word)), 5) = 4"
    ).collect()
    states = {r["batch"]: r for r in project.rows("dq_state__a")}
    (total,) = project.rows("dq_total__a")
    for row, batches in ((states["1"], "1"), (states["2"], "2"), (total, "12")):
        (entries,) = [v for k, v in row.items() if "__nb_" in k]
        least = sorted({r["h"] for r in held if r["b"] in batches})[:5_000]
        assert [e["k"] for e in entries if e["g"] == 2] == pytest.approx(least, abs=0)
        assert sum(e["n"] for e in entries if e["g"] == 1) == sum(
            e["n"] for e in entries if e["g"] == 0
        )
