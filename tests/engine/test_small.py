"""What a session is started with where there is little to read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dqsql.engine import relations
from dqsql.engine.relations import read_source
from dqsql.engine.session import runtime_conf
from dqsql.engine.small import SMALL_BYTES, SMALL_CONF, small_java_options
from dqsql.errors import Span
from dqsql.model.project import Source, Target
from dqsql.runner.inputs import FileInputs, are_small

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
    conf = runtime_conf(own, small=True)
    assert conf["spark.sql.adaptive.enabled"] == "false"
    assert "spark.sql.shuffle.partitions" not in conf
    assert not SMALL_CONF.keys() & runtime_conf(own).keys()


@pytest.mark.parametrize(
    ("sizes", "small"),
    [
        ([], True),
        ([SMALL_BYTES], True),
        ([SMALL_BYTES, 1], False),
        ([1, None], False),
    ],
)
def test_little_is_little_of_all_that_is_known(sizes: list[int | None], small: bool) -> None:
    found = [None if size is None else FileInputs("f", 1, size) for size in sizes]
    assert are_small(found) is small


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
