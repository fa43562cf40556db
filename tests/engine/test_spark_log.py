"""What Spark's JVM writes to `target/logs/spark.log`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dqsql.engine.launching import embedded_settings, java_options
from dqsql.model.project import Target
from tests.conftest import QUICK_START

# A task of its own and one that writes fail over a value.
RUN = """
import sys
from pathlib import Path
from pyspark.errors import PySparkException
from dqsql.engine.session import open_session
from dqsql.model.project import Target

with open_session(Target("local", "dq", ansi=True), Path(sys.argv[1])) as spark:
    rows = spark.sql("select cast(concat('canary', id) as int) as a from range(3)")
    spark._jvm.org.apache.log4j.Logger.getLogger("org.example").warn("this is logged")
    for attempt in (rows.collect, lambda: rows.write.parquet(sys.argv[2])):
        try:
            attempt()
        except PySparkException as error:
            assert "canary" in str(error)
        else:
            raise AssertionError("nothing failed")
"""


def test_values_of_rows_are_not_in_the_log(tmp_path: Path) -> None:
    places = [str(tmp_path / "logs"), str(tmp_path / "written")]
    environment = {
        **os.environ,
        **QUICK_START,
        "DQSQL_CLASS_ARCHIVE": "0",
        "SPARK_CONF_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, *places],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "logs" / "spark.log").read_text()
    assert "canary" not in log
    assert "this is logged" in log


def test_a_configuration_of_the_users_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = embedded_settings(Target("local", "dq"))
    key, option = "spark.driver.extraJavaOptions", "-Dlog4j2.configurationFile="
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert option in java_options(settings, ())[key]
    (tmp_path / "log4j2.properties").touch()
    assert option not in java_options(settings, ())[key]
