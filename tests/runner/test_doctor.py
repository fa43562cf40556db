"""`dqsql doctor`, `clean --older-than` and `export`: on tables that a run could have left."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from dqsql.cli.main import cli
from dqsql.engine.doctor import moment_before
from dqsql.engine.ledger import gone_models, ledger_rows, read_ledgers
from dqsql.errors import ConfigError, StorageError, UsageError
from dqsql.model.results import BatchStatus
from dqsql.model.tables import BATCHES, METRICS, REVIEWS, RUNS
from dqsql.runner.upkeep import clean_tables, doctor, export
from tests.tables import DAYS, StoredRuns, table_rows

OLD = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def tables(make_project: Callable[..., Path]) -> StoredRuns:
    made = StoredRuns(make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}))
    made.run(*DAYS[:2])
    made.run(DAYS[2])
    return made


def test_sound_tables(tables: StoredRuns) -> None:
    assert tables.refused() is None
    found = tables.doctor()
    assert (found.exit_code, found.ailments, found.tables) == (0, (), 6)


def test_what_a_run_that_died_left_is_no_loss(tables: StoredRuns) -> None:
    tables.write(("2024-01-04",))
    assert tables.refused() is None
    found = tables.doctor()
    assert found.exit_code == 0
    assert {(a.table, a.harmless) for a in found.ailments} == {
        ("dq_metrics", True),
        ("dq_results", True),
    }
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.doctor().ailments == ()
    assert {r["batch"] for r in table_rows(tables.folder, "dq_metrics")} == set(DAYS)


def test_a_table_whose_first_commit_was_not_finished_is_no_loss(tables: StoredRuns) -> None:
    log = tables.folder / "dq_result_history" / "_delta_log"
    log.mkdir(parents=True)
    # As delta-rs prepares an entry, before it links it to its name.
    (log / f"{0:020}.json#1").write_text("{}")
    assert tables.doctor().exit_code == 0
    (log / f"{1:020}.json").write_text("{}")
    assert tables.doctor().exit_code == 1


def test_verdicts_that_a_killed_clean_left_are_no_loss(tables: StoredRuns) -> None:
    ledger = read_ledgers(tables.store)["m"]
    # What `clean` does first: the ledger vouches for less.
    less = {
        day: replace(record, stored=replace(record.stored, results=0))
        for day, record in ledger.items()
        if record.stored is not None
    }
    tables.store.replace_partition(BATCHES, ledger_rows(less))
    assert tables.refused() is None
    assert tables.doctor().exit_code == 0


@pytest.mark.parametrize("table", ["dq_metrics", "dq_results", "dq_state__m"])
def test_a_table_that_was_deleted(tables: StoredRuns, table: str) -> None:
    shutil.rmtree(tables.folder / table)
    said = tables.refused()
    assert said is not None and table in said
    found = tables.doctor()
    assert found.exit_code == 1
    assert table in {a.table for a in found.ailments}
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.again() == list(DAYS)
    tables.run(*DAYS)
    assert tables.refused() is None
    assert tables.doctor().ailments == ()


def test_a_ledger_that_was_deleted_is_not_taken_for_a_beginning(tables: StoredRuns) -> None:
    shutil.rmtree(tables.folder / "dq_batches")
    said = tables.refused()
    assert said == f"the table dq_batches is gone from {tables.store.location}"
    found = tables.doctor(repair=True)
    assert found.exit_code == 0
    assert table_rows(tables.folder, "dq_metrics") == []
    assert tables.refused() is None


def test_a_file_that_is_gone_or_cut(tables: StoredRuns) -> None:
    files = sorted((tables.folder / "dq_metrics").rglob("*.parquet"))
    files[0].write_bytes(files[0].read_bytes()[:50])
    files[1].unlink()
    with pytest.raises(StorageError, match="cannot read dq_metrics"):
        tables.store.rows(METRICS)
    found = tables.doctor()
    assert found.exit_code == 1
    (ailment, *_) = found.ailments
    assert ailment.what.startswith("2 files with 6 rows cannot be read: ")
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.store.rows(METRICS) == []
    assert tables.again() == list(DAYS)


def test_a_file_of_the_right_length_with_other_bytes(tables: StoredRuns) -> None:
    (file, *_) = sorted((tables.folder / "dq_results").rglob("*.parquet"))
    content = bytearray(file.read_bytes())
    # Behind the four bytes of the magic number: the header of the first page.
    content[4:40] = bytes(36)
    file.write_bytes(content)
    found = tables.doctor()
    assert found.exit_code == 1
    assert " cannot be read: " in found.ailments[0].what
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.again() != []


@pytest.mark.parametrize("table", ["dq_results", "dq_batches", "dq_state__m"])
def test_a_file_in_the_place_of_a_table(tables: StoredRuns, table: str) -> None:
    shutil.rmtree(tables.folder / table)
    (tables.folder / table).write_text("x")
    found = tables.doctor()
    assert found.exit_code == 1
    assert found.ailments[0].what == "its log cannot be read: it is a file"
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.doctor().exit_code == 0


def test_runs_that_were_deleted(tables: StoredRuns) -> None:
    shutil.rmtree(tables.folder / "dq_runs")
    found = tables.doctor()
    assert found.exit_code == 1
    assert [(a.table, a.what) for a in found.ailments] == [("dq_runs", "is gone")]
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.doctor().ailments == ()


def test_a_table_put_back_from_a_copy(tables: StoredRuns, tmp_path: Path) -> None:
    shutil.copytree(tables.folder / "dq_results", tmp_path / "copy")
    shutil.copytree(tables.folder / "dq_batches", tmp_path / "ledger")
    tables.run("2024-01-04")
    shutil.rmtree(tables.folder / "dq_results")
    shutil.copytree(tmp_path / "copy", tables.folder / "dq_results")
    said = tables.refused()
    assert said is not None and "dq_results in" in said and "is older than before" in said
    assert tables.doctor(repair=True).exit_code == 0
    assert tables.again() == ["2024-01-04"]
    # And the ledger itself: what it does not know any more is no one's.
    shutil.rmtree(tables.folder / "dq_batches")
    shutil.copytree(tmp_path / "ledger", tables.folder / "dq_batches")
    said = tables.refused()
    assert said is not None and "dq_batches in" in said and "is older than before" in said
    assert tables.doctor(repair=True).exit_code == 0
    assert {r["batch"] for r in table_rows(tables.folder, "dq_metrics")} == set(DAYS)


def test_a_log_that_cannot_be_read(tables: StoredRuns) -> None:
    logs = sorted((tables.folder / "dq_results" / "_delta_log").glob("*.json"))
    logs[-1].write_text("{bad")
    assert tables.doctor().exit_code == 1
    found = tables.doctor(repair=True)
    assert found.exit_code == 0
    assert any(a.remedy.startswith("is set aside as damaged_dq_results_") for a in found.ailments)
    assert tables.again() == list(DAYS)


def test_the_tables_of_a_catalog_are_left_to_it(make_project: Callable[..., Path]) -> None:
    output = "{type: spark, catalog: c, table_format: delta}"
    root = make_project({"profiles.yml": f"test: {{target: t, outputs: {{t: {output}}}}}"})
    with pytest.raises(UsageError, match="are those of a catalog"):
        doctor(root)


# --- retention -----------------------------------------------------------------------------------


def test_old_verdicts_go_and_metrics_stay(make_project: Callable[..., Path]) -> None:
    tables = StoredRuns(make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}))
    tables.run(*DAYS[:2], at=OLD)
    tables.run(DAYS[2])
    done = {c.table: c.rows for c in clean_tables(tables.root, older_than="400d")}
    assert done["dq_results"] == 2
    assert done["dq_runs"] == 1
    assert done["dq_metrics"] == 0
    assert {r["batch"] for r in table_rows(tables.folder, "dq_results")} == {DAYS[2]}
    assert len(table_rows(tables.folder, "dq_metrics")) == 6
    assert tables.refused() is None
    assert tables.doctor().ailments == ()
    assert all(c.rows == 0 for c in clean_tables(tables.root, older_than="400d"))


def test_the_newest_run_stays_which_says_what_the_tables_held(
    make_project: Callable[..., Path],
) -> None:
    tables = StoredRuns(make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}))
    tables.run(DAYS[0], at=OLD)
    tables.run(DAYS[1], at=OLD + dt.timedelta(days=1))
    done = {c.table: c.rows for c in clean_tables(tables.root, older_than="400d")}
    assert (done["dq_runs"], len(table_rows(tables.folder, "dq_runs"))) == (1, 1)
    shutil.rmtree(tables.folder / "dq_metrics")
    said = tables.refused()
    assert said is not None and "dq_metrics" in said


def test_the_verdicts_on_batches_with_a_review_or_that_wait_for_one_stay(
    make_project: Callable[..., Path],
) -> None:
    """A batch that somebody accepted would be flagged again: its failures would be others."""
    tables = StoredRuns(make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}))
    tables.run(*DAYS[:3], at=OLD)
    review = {"model": "m", "batch": DAYS[2], "verdict": "accept", "at": OLD}
    tables.store.append(REVIEWS, [review])
    # Of what is gone nothing is kept.
    tables.store.append(REVIEWS, [{**review, "model": "gone"}, {**review, "batch": "gone"}])
    ledger = read_ledgers(tables.store)["m"]
    ledger[DAYS[1]] = replace(ledger[DAYS[1]], status=BatchStatus.FLAGGED)
    tables.store.replace_partition(BATCHES, ledger_rows(ledger))
    done = {c.table: c.rows for c in clean_tables(tables.root, older_than="400d")}
    assert done["dq_results"] == 1
    assert {r["batch"] for r in table_rows(tables.folder, "dq_results")} == set(DAYS[1:3])
    assert tables.refused() is None
    assert tables.doctor().ailments == ()


@pytest.mark.parametrize(("text", "days"), [("400d", 400), ("8 w", 56), ("3", 3), ("1 day", 1)])
def test_ages(text: str, days: int) -> None:
    assert moment_before(NOW, text) == NOW - dt.timedelta(days=days)


@pytest.mark.parametrize(
    "text", ["", "d", "-1d", "4 months", "1e3", "9" * 30, "9" * 5000, "800000d"]
)
def test_texts_that_are_no_ages(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not an age|is too long"):
        moment_before(NOW, text)


def test_files_stay_few_over_many_runs(make_project: Callable[..., Path]) -> None:
    tables = StoredRuns(make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}))
    for number in range(30):
        tables.run(f"2024-01-{number:02d}")
        tables.store.tidy()
    for name in ("dq_metrics", "dq_results", "dq_batches", "dq_runs", "dq_state__m"):
        assert len(DeltaTable(tables.folder / name).file_uris()) <= 25, name
    assert tables.doctor().ailments == ()


def test_a_warehouse_that_is_a_file(tables: StoredRuns) -> None:
    shutil.rmtree(tables.folder)
    tables.folder.write_text("x")
    with pytest.raises(ConfigError, match="is a file"):
        tables.doctor()
    shutil.rmtree(tables.folder.parent, ignore_errors=True)
    tables.folder.parent.write_text("x")
    with pytest.raises(ConfigError, match="warehouse is a file"):
        tables.doctor()


def test_what_was_not_cleaned_is_not_listed(tables: StoredRuns) -> None:
    command = ["clean", "--older-than", "9000d", "--project-dir", str(tables.root)]
    printed = CliRunner().invoke(cli, command, standalone_mode=False).output
    assert "0 rows" not in printed
    again = CliRunner().invoke(cli, command, standalone_mode=False).output
    assert again == "Nothing to delete in 6 tables.\n"


# --- export --------------------------------------------------------------------------------------


def test_export(tables: StoredRuns, tmp_path: Path) -> None:
    file, folder = tmp_path / "new" / "dq.duckdb", tmp_path / "files"
    for _ in range(2):
        assert export(file, tables.root) == export(folder, tables.root)
    assert pq.read_table(folder / "dq_metrics.parquet").num_rows == 6
    with duckdb.connect(str(file), read_only=True) as database:
        rows = database.execute("select batch, status from dq_batches order by batch").fetchall()
    assert rows == [(day, "accepted") for day in DAYS]
    assert [p.name for p in file.parent.iterdir()] == ["dq.duckdb"]
    # What somebody else has written there is not lost.
    with duckdb.connect(str(file)) as database:
        database.execute("create table sales as select 1 as x")
    with pytest.raises(ConfigError, match="has what dqsql did not write: sales"):
        export(file, tables.root)
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(ConfigError, match="is no DuckDB file"):
        export(other.rename(tmp_path / "notes.duckdb"), tables.root)
    assert (tmp_path / "notes.duckdb").read_text() == "mine"


def test_there_is_nothing_to_export_before_the_first_run(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    root = make_project({"checks/m.sql": "select 1 as x -- @not_null\n"})
    with pytest.raises(UsageError, match="no run has stored anything"):
        export(tmp_path / "dq.duckdb", root)
    assert not (root / "warehouse").exists()


def test_readers_of_other_tools(tables: StoredRuns) -> None:
    """As docs/storage.md shows."""
    folder = str(tables.folder / "dq_metrics")
    relation = DeltaTable(folder).to_pyarrow_dataset()
    found: Any = duckdb.sql("select count(*) from relation").fetchall()
    assert found == [(6,)] and relation is not None
    frame = DeltaTable(folder).to_pandas()
    assert len(frame) == 6


@pytest.mark.parametrize(
    ("table", "remedy"),
    [
        ("dq_models", "files are taken out; runs fill it again"),
        ("dq_runs", "files are taken out; what it held of earlier runs is lost"),
        ("dq_reviews", "files are taken out; reviews that are lost must be given again"),
        ("dq_metrics", "files are taken out; batches that lack rows are checked again"),
    ],
)
def test_what_becomes_of_a_lost_file_is_told(tables: StoredRuns, table: str, remedy: str) -> None:
    tables.review(DAYS[0])
    for file in (tables.folder / table).rglob("*.parquet"):
        file.unlink()
    told = {a.table: a.remedy for a in tables.doctor().ailments}
    assert told[table] == remedy


def test_a_warehouse_that_is_not_there_is_not_called_sound(tables: StoredRuns) -> None:
    shutil.rmtree(tables.root / "warehouse")
    assert tables.doctor().exit_code == 1
    told = CliRunner().invoke(cli, ["doctor", "--project-dir", str(tables.root)])
    assert told.exit_code == 1
    assert "There are no tables in " in told.output


def test_a_killed_run_does_not_hide_whose_a_model_is(tables: StoredRuns) -> None:
    tables.store.append(RUNS, [{"run_id": "r", "started_at": NOW, "project": "p"}])
    ledgers = read_ledgers(tables.store)
    assert gone_models(tables.store, ledgers, (), "p") == ["m"]
    newest = replace(ledgers["m"][DAYS[2]], run_id="killed", checked_at=NOW + dt.timedelta(days=1))
    ledgers = {"m": {**ledgers["m"], newest.batch: newest}}
    assert gone_models(tables.store, ledgers, (), "p") == ["m"]
    assert gone_models(tables.store, ledgers, (), "other") == []
    assert gone_models(tables.store, {"m": {newest.batch: newest}}, (), "p") == []
