"""What a session is started with where there is little to read."""

from __future__ import annotations

import pytest

from dqsql.engine.session import runtime_conf
from dqsql.engine.small import SMALL_BYTES, SMALL_CONF, small_java_options
from dqsql.model.project import Target
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
