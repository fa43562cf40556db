"""What all tests share: one Spark session, throw-away projects, the evaluation data."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

# What loads a project without the runner has to hand in the kinds of monitors; a test file that
# runs alone must not depend on another that has imported them.
import dqsql.monitors.registry  # noqa: F401

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every run draws the same examples: a change is judged by what it changed.
# HYPOTHESIS_PROFILE=explore draws others.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
# Plans of throw-away projects are not for the user's cache; who tests it switches it on.
os.environ["DQSQL_PLAN_CACHE"] = "0"
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "example_project"

PROJECT_YML = """\
name: test_project
version: "1.0"
profile: test
"""
PROFILES_YML = """\
test:
  target: local
  outputs:
    local:
      type: spark
      method: session
      schema: dq
"""

DBT = ROOT / "tests" / "loading" / "dbt"

# What Spark does by default, and does where there is much data.
COMPILED_PLANS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.shuffle.partitions": "2",
}

# Variables of a process whose JVM does little: its second compiler would cost more than it saves.
QUICK_START = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}

# What takes longest, longest first: a long file that is left for the end keeps one process busy
# while the other has nothing to do.
LONGEST_FILES = (
    "monitors/test_order_of_runs.py",
    "runner/test_batches.py",
    "runner/test_small.py",
    "runner/test_auto.py",
    "runner/test_shared_scans.py",
    "runner/test_silence.py",
    "runner/test_private_values.py",
    "decisions/test_false_alarms.py",
    "runner/cumulative/test_meaning.py",
    "suggestions/test_profile.py",
    "faults/test_states.py",
    "runner/test_names_and_types.py",
    "engine/test_batch_keys.py",
    "runner/test_bad_checks.py",
    "monitors/test_lake_index.py",
    "runner/rows/test_quarantine.py",
    "example/test_example_project.py",
    "runner/test_restated_reviews.py",
    "runner/test_edits.py",
    "runner/rows/test_stream.py",
    "runner/test_notify.py",
    "runner/test_frames.py",
    "runner/relations/test_schema.py",
    "report/test_report_browser.py",
)

MakeProject = Callable[..., Path]


def pytest_configure(config: pytest.Config) -> None:
    """Leave the order of files to the list above; xdist's own begins with the quickest ones."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files."""
    place = {str(ROOT / "tests" / name): number for number, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: place.get(str(item.path), len(place)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session for all tests, which leaves nothing behind where pytest runs.

    Tests must not stop it, and must put back what they change in its configuration.
    """
    from pyspark.sql import SparkSession

    from dqsql.engine.small import small_java_options

    home = tmp_path_factory.mktemp("spark")
    # Bound to loopback: tests must also run where the host's name does not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Room for what is young: most of what a statement leaves behind never has to be moved.
    room = ("-Xms1g", "-Xmn600m", "-XX:MetaspaceSize=256m")
    java = " ".join((f"-Dderby.system.home={home}", *room, *small_java_options({})))
    session = (
        SparkSession.builder.master("local[2]")
        .appName("dqsql tests")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.local.dir", str(home / "local"))
        .config("spark.sql.artifact.isolation.enabled", "false")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Nobody looks at thousands of statements that are over, and their plans fill the heap.
        .config("spark.sql.ui.retainedExecutions", "1")
        # Spark sets aside megabytes for each broadcast and each hash table; tests have few rows.
        .config("spark.broadcast.blockSize", "128k")
        .config("spark.buffer.pageSize", "1m")
        # Java made of a plan costs more to compile than a test's rows cost to interpret.
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def compiled_plans(spark: SparkSession) -> Iterator[None]:
    """For a test of what could depend on how Spark executes its plans."""
    from dqsql.engine.session_settings import configured

    with configured(spark, COMPILED_PLANS):
        yield


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """Makes a project in a temporary folder: `make_project({"checks/a.sql": "select .."})`.

    The project file and the profile are written unless given; a text of None leaves a file out.
    Several projects of one test need different `name`s.
    """

    def make(files: Mapping[str, str | None], name: str = "project") -> Path:
        root = tmp_path / name
        defaults = {"dqsql_project.yml": PROJECT_YML, "profiles.yml": PROFILES_YML}
        for path, text in {**defaults, **files}.items():
            if text is not None:
                file = root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(textwrap.dedent(text), encoding="utf-8")
        return root

    return make


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the dbt project of the tests as dbt left it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (
        "DBT_PROFILES_DIR",
        "DQSQL_PROFILES_DIR",
        "DBT_TARGET_PATH",
        "DBT_TARGET",
        "DBT_PROFILE",
        "GITHUB_WORKSPACE",
    ):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "shop"
    shutil.copytree(DBT / "project", root)
    (root / "target").mkdir()
    manifest = json.loads((DBT / "manifest.json").read_text(encoding="utf-8"))
    # As if the manifest had been written after the files here.
    manifest["metadata"]["generated_at"] = "2100-01-01T00:00:00Z"
    (root / "target" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return root


@pytest.fixture(scope="session")
def example_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example project that no run has touched. Shared: runs see earlier runs."""
    copy = tmp_path_factory.mktemp("example") / "example_project"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("target", "warehouse"))
    return copy


@pytest.fixture(scope="session")
def eval_data() -> Path:
    """The folder of evaluation data sets, which are not part of the repository."""
    folder = os.environ.get("DQSQL_EVAL_DATA")
    if not folder:
        pytest.skip("DQSQL_EVAL_DATA is not set: evaluation data sets are not in the repository")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"DQSQL_EVAL_DATA is {folder}, which is not a folder")
    return path
