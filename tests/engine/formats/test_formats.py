"""The stores of every table format go through the same states."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
import pytest

from dqsql.engine.formats import format_conf
from dqsql.engine.storage import open_store
from dqsql.errors import ConfigError
from dqsql.loading.project import load_project
from dqsql.model.project import Target

ROOT = Path(__file__).parents[3]
RESOLUTION = re.compile(r"unresolved dependenc|download failed|UNRESOLVED DEPENDENCIES")
JsonObject = dict[str, Any]


def target(table_format: str, spark_conf: Mapping[str, str] | None = None, **more: Any) -> Target:
    settings = {"table_format": table_format, **more}
    return Target("local", "p", spark_conf=spark_conf or {}, **settings)


# --- the stores, in a process of their own -------------------------------------------------------


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the scenario for some stores, once for each list of stores."""

    @cache
    def run(*stores: str) -> JsonObject:
        folder = tmp_path_factory.mktemp("formats")
        command = [sys.executable, "-m", "tests.engine.formats.scenario", str(folder), *stores]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False
        )
        if done.returncode and RESOLUTION.search(done.stdout + done.stderr):
            pytest.skip(f"the jars for {stores} are neither in ~/.m2 nor can they be downloaded")
        assert done.returncode == 0, done.stderr[-4000:]
        found: JsonObject = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


@pytest.fixture(scope="module")
def folder(outcome: Any) -> JsonObject:
    """What the store of tables in a folder did."""
    found: JsonObject = outcome("folder")["folder"]
    return found


@pytest.mark.slow
def test_tables_in_a_folder(folder: JsonObject) -> None:
    history = folder["history"]
    assert len(history[1]["dq_metrics"]) == 3 * 4 + 3 * 4 + 4
    results = [json.loads(row) for row in history[-1]["dq_results"]]
    # A batch that ends up without rows leaves none behind.
    assert {row[3] for row in results if row[2] == "flights"} == {"2024-02-02"}
    for rows in folder["runs"][-1]["dq_failures"], folder["runs"][-1]["dq_frequency__m"]:
        assert rows
    # A row that fails a check may be there twice.
    failures = folder["runs"][-1]["dq_failures"]
    assert len(set(failures)) < len(failures)
    new = [[batch, 7, "x"] for batch in ("", "1", "a/b=%")]
    assert folder["user_rows"] == sorted([*new, *(["0", id, ""] for id in (0, 2, 4))])
    assert folder["pattern_index"][-2] == "['s.one']"
    assert "tables=2, columns=2" in folder["pattern_index"][-1]
    assert folder["killed"]["places"] == 5
    assert all(folder["killed"]["same"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_tables_of_a_catalog_go_through_the_same_states(
    outcome: Any, folder: JsonObject, name: str
) -> None:
    try:
        format_conf(target(name))
    except ConfigError as error:
        pytest.skip(error.message)
    found = outcome(name)[name]
    assert found["history"] == folder["history"]
    assert found["runs"] == folder["runs"]
    assert found["user_rows"] == folder["user_rows"]
    assert found["pattern_index"] == folder["pattern_index"]
    assert all(found["killed"]["same"])
    assert "cannot write dq_state__flights: another run wrote to the same" in found["conflict"]
    assert "run again" in found["conflict"]
    assert "column price__sum is double in the table and now binary" in found["retyped"]


# --- settings ------------------------------------------------------------------------------------


def test_folders_and_connect_need_no_settings() -> None:
    assert format_conf(target("delta", warehouse="/w")) == {}
    assert format_conf(target("delta", method="connect")) == {}


def test_file_sources_in_a_table_format_need_its_settings(
    make_project: Callable[..., Path],
) -> None:
    tables = "[{name: t, path: data/t, format: delta}, {name: u, path: data/u.csv}]"
    sources = f"sources: [{{name: raw, tables: {tables}}}]"
    root = make_project({"checks/sources.yml": sources})
    chosen = load_project(root).target
    assert chosen.source_formats == ("delta",)
    folder = replace(chosen, warehouse="/w", table_format="delta")
    assert format_conf(folder, "4.2.0") == format_conf(target("delta"), "4.2.0")
    assert format_conf(replace(folder, method="connect")) == {}


def test_delta_settings_name_the_jar_for_this_spark() -> None:
    conf = format_conf(target("delta"), "4.2.0")
    assert conf["spark.jars.packages"] == "io.delta:delta-spark_4.2_2.13:4.4.0"
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert conf["spark.sql.catalog.spark_catalog"].endswith("DeltaCatalog")


def test_settings_of_the_user_are_kept() -> None:
    own = {"spark.jars.packages": "a:b:1", "spark.sql.extensions": "my.Extension"}
    conf = format_conf(target("delta", own), "4.2.0")
    assert conf["spark.jars.packages"].split(",")[0] == "a:b:1"
    assert conf["spark.sql.extensions"].split(",")[0] == "my.Extension"
    # What the user's packages need is not ours to leave out.
    assert "spark.jars.excludes" not in conf


def test_a_jar_that_the_user_names_is_taken() -> None:
    conf = format_conf(target("iceberg", {"spark.jars": "/x/iceberg-spark-runtime.jar"}), "4.2.0")
    assert "spark.jars.packages" not in conf


def test_iceberg_without_a_runtime_for_this_spark_is_an_error() -> None:
    with pytest.raises(
        ConfigError,
        match=r"no version of iceberg is known to work with Spark 4\.2 .*does not load in 4\.2",
    ):
        format_conf(target("iceberg"), "4.2.0")
    assert "runtime-4.1" in format_conf(target("iceberg"), "4.1.4")["spark.jars.packages"]


def test_an_unknown_format_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as raised:
        open_store(None, target("hudi"))  # type: ignore[arg-type]
    assert raised.value.hint == "one of delta, iceberg"


def test_the_versions_match_the_installed_pyspark() -> None:
    minor = ".".join(pyspark.__version__.split(".")[:2])
    assert f"_{minor}_" in format_conf(target("delta"))["spark.jars.packages"]
