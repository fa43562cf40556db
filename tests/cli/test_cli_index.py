"""`dqsql index`: built by Spark, stored in the warehouse, shown, and asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import Result

from dqsql.engine.storage import open_tables
from dqsql.loading import load_project
from dqsql.model.tables import PATTERN_INDEX
from dqsql.monitors.lake import Lake
from dqsql.monitors.lake_index import lake_index
from dqsql.runner import index
from tests.conftest import MakeProject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

Dqsql = Callable[..., Result]

DAYS = [f"2025-03-{day:02d}" for day in range(1, 13)]
CHECKS = {
    "checks/events.sql": """\
        {{ config(batch_by = 'day', segment_by = ['kind']) }}
        select day, code, kind from {{ source('web', 'events') }}
        """,
    "checks/sources.yml": """\
        version: 2
        sources:
          - name: web
            tables:
              - {name: events, path: data/events.csv, format: csv, options: {inferSchema: false}}
              - {name: gone, path: data/gone.csv, format: csv}
        """,
}

WHERE = "dq_pattern_index in {}/warehouse/dq"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def lake(make_project: MakeProject, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with events, codes that change their form in time, and other files."""
    root = make_project(CHECKS)
    (root / "data").mkdir()
    # Neither the file nor Spark has the days in order.
    events = [f"{day},{'A' if day < DAYS[6] else 'B-'}{n},web" for n in (1, 2) for day in DAYS]
    text = "day,code,kind\n" + "\n".join(events[::-1]) + "\n"
    (root / "data" / "events.csv").write_text(text)
    for name in ("first", "second"):
        rows = [f"{day},word {name}" for day in DAYS]
        text = "until,said\n" + "\n".join(rows) + "\n"
        (root / "data" / f"{name}.csv").write_text(text)
    monkeypatch.chdir(root)
    # Workers must find the same packages as this process.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    for command in ("build", "update", "tag"):
        monkeypatch.setattr(index, command, partial(getattr(index, command), spark=spark))
    return root


def tables(root: Path) -> Store:
    return open_tables(load_project(root).target)


@pytest.mark.slow
def test_build_update_show_and_tag(dqsql: Dqsql, lake: Path) -> None:
    built = dqsql("index", "build", "data/f*.csv", "--output", "json")
    assert built.exit_code == 0, built.stderr
    report = json.loads(built.stdout)
    assert report["relations"] == ["data/first.csv"]
    assert (report["tables"], report["columns"], report["location"]) == (1, 2, WHERE.format(lake))

    updated = dqsql("index", "update", "data/second.csv", "web.events")
    assert updated.exit_code == 0, updated.stderr
    assert "from 7 columns of 3 relations" in updated.stdout

    shown = dqsql("index", "show", "--limit", "5")
    assert shown.exit_code == 0
    assert "7 columns of 3 relations" in shown.stdout
    assert "      3      0.0%  2025-03-<digit>{2}" in shown.stdout
    head = json.loads(dqsql("index", "show", "--output", "json").stdout)["head"]
    assert {"pattern": "2025-03-<digit>{2}", "coverage": 3, "fpr": 0.0} in head

    tagged = dqsql("index", "tag", "data/first.csv", "UNTIL", "--output", "json")
    found = json.loads(tagged.stdout)
    assert [(c["table"], c["column"], c["share"]) for c in found["columns"]] == [
        ("data/second.csv", "until", 1.0),
        ("web.events", "day", 1.0),
    ]


@pytest.mark.slow
def test_without_a_name_the_project_is_indexed(dqsql: Dqsql, lake: Path) -> None:
    built = dqsql("index", "build")
    assert built.exit_code == 0, built.stderr
    assert "indexed events\nindexed web.events\n" in built.stdout
    assert "note: left out: the source web.gone has no files" in built.stderr
    # The model was read in the order of its batches: what its first tenth shows does not last.
    found = lake_index(tables(lake)).lookup(["2025-<digit>{2}-<digit>{2}", "A<digit>{1}"])
    lasting, passing = found.counts
    assert (lasting[0], passing[0]) == (2, 2)
    assert passing[2:].tolist() != lasting[2:].tolist()
    assert sum(passing[3::2]) >= 1
    assert sum(lasting[3::2]) == 0


@pytest.mark.slow
def test_nothing_is_changed_by_a_failure(dqsql: Dqsql, lake: Path) -> None:
    assert dqsql("index", "build", "data/first.csv").exit_code == 0
    before = tables(lake).rows(PATTERN_INDEX)
    failed = dqsql("index", "build", "data/second.csv", "nosuch")
    assert failed.exit_code == 2
    assert failed.stderr.startswith("usage error: there is no table, schema or file nosuch\n")
    assert tables(lake).rows(PATTERN_INDEX) == before != []
    # A table without texts has no patterns, and is none.
    (lake / "data" / "numbers.csv").write_text("a,b\n1,2.5\n")
    added = dqsql("index", "update", "data/numbers.csv")
    assert added.exit_code == 0, added.stderr
    assert {r["pattern"] for r in before} <= {
        r["pattern"] for r in tables(lake).rows(PATTERN_INDEX)
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("build", "nosuch.*"), "there is no table, schema or file nosuch.*"),
        (("build", "event"), "did you mean 'events' or 'web.events'?"),
        (("build", "data/none*.parquet"), "no file matches data/none*.parquet"),
        (("build", "--tau", "0"), "Invalid value for '--tau'"),
        (("update", "web.gone"), "the source web.gone has no files"),
        (("show",), "there is no pattern index yet"),
        (("tag", "data/first.csv", "said"), "there is no pattern index yet"),
        (("tag", "data/first.csv"), "Missing argument 'COLUMN'"),
    ],
)
def test_wrong_use_is_one_clear_error(
    dqsql: Dqsql, lake: Path, args: tuple[str, ...], message: str
) -> None:
    result = dqsql("index", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_column_without_a_domain_is_said_so(dqsql: Dqsql, lake: Path) -> None:
    (lake / "data" / "odd.csv").write_text("said,n\n" + "¤ ¶§,1\n" * 20, encoding="utf-8")
    assert dqsql("index", "build", "data/odd.csv").exit_code == 0
    result = dqsql("index", "tag", "data/odd.csv", "said")
    assert result.exit_code == 2
    assert "data/odd.csv.said has no pattern" in result.stderr
    missing = dqsql("index", "tag", "data/odd.csv", "sad")
    assert "did you mean 'said'?" in missing.stderr


def test_help_needs_neither_spark_nor_scipy() -> None:
    code = (
        "import sys; from dqsql.cli.main import cli\n"
        "for args in (['--help'], ['index', '--help'], ['index', 'build', '--help']):\n"
        "    try: cli(args, standalone_mode=False)\n"
        "    except SystemExit: pass\n"
        "print([m for m in ('pyspark', 'scipy', 'pyarrow', 'sqlglot') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_an_index_of_the_starter_project_in_a_process_of_its_own(project: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dqsql", "index", *args],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    built = run("build")
    assert built.returncode == 0, built.stderr
    assert "indexed orders\nindexed shop.orders\n" in built.stdout
    assert "<lower>+" in run("show").stdout
    assert run("tag", "orders", "nosuch").returncode == 2


def test_values_of_csv_files_are_what_a_run_reads(lake: Path, spark: SparkSession) -> None:
    text = 'until,said\n2025-03-01,"two\nlines"\n2025-03-02,"a ""word"", and more"\n'
    (lake / "data" / "breaks.csv").write_text(text, encoding="utf-8")
    read = Lake(load_project(lake), spark, 100).frames(["data/breaks.csv"])["data/breaks.csv"]
    assert [tuple(row) for row in read.collect()] == [
        ("2025-03-01", "two\nlines"),
        ("2025-03-02", 'a "word", and more'),
    ]
