"""What a session is started with where there is little to read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dqsql.engine import relations
from dqsql.engine.inputs import FileInputs, scale_of
from dqsql.engine.relations import read_source
from dqsql.engine.session import runtime_conf
from dqsql.engine.small import FEW_KNOWN_ROWS, FEW_ROWS, SMALL_BYTES, Scale, small_java_options
from dqsql.errors import Span
from dqsql.model.project import Source, Target

SERIAL = "-XX:+UseSerialGC"


def test_the_users_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    key = "spark.driver.extraJavaOptions"
    assert SERIAL in small_java_options({})
    assert SERIAL in small_java_options({key: "-Dx=y -Xmx3g"})
    assert SERIAL not in small_java_options({key: "-Dx=y -XX:+UseG1GC"})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseZGC")
    assert SERIAL not in small_java_options({})
    own = Target("t", "p", spark_conf={"spark.sql.shuffle.partitions": "5"})
    conf = runtime_conf(own, Scale.FEW)
    assert conf["spark.sql.adaptive.enabled"] == "false"
    assert "spark.sql.shuffle.partitions" not in conf
    assert conf["spark.sql.codegen.factoryMode"] == "NO_CODEGEN"
    assert Scale.SMALL.conf.items() < Scale.FEW.conf.items()
    assert not Scale.FEW.conf.keys() & runtime_conf(own).keys()


def test_excluded_rules_of_the_user_stay_excluded() -> None:
    key = "spark.sql.optimizer.excludedRules"
    ours = runtime_conf(Target("t", "p"))[key]
    assert runtime_conf(Target("t", "p", spark_conf={key: "a.Rule"}))[key] == f"a.Rule,{ours}"


@pytest.mark.parametrize(
    ("models", "scale"),
    [
        ([], Scale.FEW),
        # Of 100 days another one.
        ([(101_000, 100_000, 500_000)], Scale.FEW),
        ([(101_000, 100_000, 500_000), (101_000, 100_000, 1_000)], Scale.SMALL),
        ([(102_000, 100_000, 500_000)], Scale.FEW),
        ([(103_000, 100_000, 500_000)], Scale.SMALL),
        # Files became smaller: nothing of it need be new.
        ([(90_000, 100_000, 400_000)], Scale.FEW),
        ([(SMALL_BYTES, SMALL_BYTES, 1_000)], Scale.FEW),
        ([(1_000, None, 0)], Scale.SMALL),
        ([(1_000, 0, 10)], Scale.SMALL),
        ([(1_000, 1_000, 0)], Scale.SMALL),
        ([(1_000, 1_000, 10), (1_000, None, 0)], Scale.SMALL),
        ([(SMALL_BYTES, None, 0), (1, None, 0)], Scale.ANY),
        ([(None, None, 0), (1, 1, 1)], Scale.ANY),
    ],
)
def test_the_scale_is_that_of_all_models(
    models: list[tuple[int | None, int | None, int]], scale: Scale
) -> None:
    assert (FEW_ROWS, FEW_KNOWN_ROWS) == (10_000, 500_000)
    found = [
        (None if size is None else FileInputs("f", 1, size), before, rows, 0)
        for size, before, rows in models
    ]
    assert scale_of(found) is scale


def test_batches_that_are_checked_again_are_read_again() -> None:
    now = FileInputs("f", 1, 100_000)
    assert scale_of([(now, 100_000, 500_000, 5_000)]) is Scale.FEW
    assert scale_of([(now, 100_000, 500_000, 10_001)]) is Scale.SMALL
    assert scale_of([(now, 99_000, 500_000, 5_000)]) is Scale.SMALL


def test_a_small_file_is_grouped_without_a_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kinds.parquet"
    pq.write_table(pa.table({"kind": ["a", "b", "a"], "n": [1, 2, 3]}), path)
    source = Source("small", "kinds", "`small_kinds`", Span("sources.yml"), str(path))

    def grouped() -> tuple[str, list[tuple[str, int]]]:
        frame = read_source(spark, source).where("n > 1").groupBy("kind").count()
        plan = frame._jdf.queryExecution().executedPlan().toString()
        return plan, sorted((r["kind"], r["count"]) for r in frame.collect())

    plan, rows = grouped()
    assert "Exchange" not in plan
    assert "PushedFilters: [IsNotNull(n), GreaterThan(n,1)]" in plan
    monkeypatch.setattr(relations, "_ONE_TASK", 0)
    shuffled, same = grouped()
    assert "Exchange" in shuffled
    assert rows == same == [("a", 1), ("b", 1)]
