"""Decisions of one day for a fleet: 1,000 models of 100 columns with a year of stored metrics.

    python -m tests.benchmarks.fleet_decisions [--models 20] [--columns 100] [--batches 365]

One model is run by Spark over 30 days. Its metrics are drawn again for a year, for so many models;
then the monitors of each (`@avh` for every column, `@novelty`, `@anomaly(row_count)`) decide on the
newest day, as in a daily run, without Spark. Prints seconds and CPU seconds of a model, what 1,000
models take, and the largest memory of the process. The goal is 5 minutes on 2 cores below 4 GiB.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import dqsql
from dqsql.compiler.monitors import for_types
from dqsql.engine.history import stored_metrics
from dqsql.engine.storage import open_tables
from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import BatchRecord, BatchStatus, MetricValue
from dqsql.model.tables import METRICS, PROGRAMS
from dqsql.monitors.context import Workplace
from dqsql.monitors.judging import MonitorRun, stored_book
from dqsql.monitors.kind import BeforeScan
from dqsql.monitors.kinds.avh.settings import AvhSettings
from dqsql.monitors.kinds.avh.unit import period_start
from dqsql.monitors.rates import project_rates
from tests.benchmarks.fleet_bench import PROJECT

PROFILE = """\
fleet:
  target: local
  outputs:
    local: {type: spark, method: session, schema: dq, warehouse: warehouse}
"""
SOURCES = """\
sources:
  - name: fleet
    tables:
      - {name: t, path: data/t.parquet, format: parquet}
"""
TYPES = {"n": "double", "s": "string", "d": "date"}
START, DAYS, ROWS = dt.date(2025, 1, 1), 30, 30


def names_of(columns: int) -> list[str]:
    """So many columns: of ten, seven are numbers, two texts, one dates."""
    return [f"{'nnnnnnnssd'[i % 10]}{i}" for i in range(columns)]


def write_project(root: Path, columns: int) -> None:
    """A model with a monitor for each column, and 30 days of data."""
    rng = np.random.default_rng(1)
    days = np.repeat([START + dt.timedelta(days=i) for i in range(DAYS)], ROWS)
    data: dict[str, Any] = {"day": days}
    for name in names_of(columns):
        draw = rng.normal(100, 10, len(days))
        if name.startswith("n"):
            data[name] = draw
        elif name.startswith("s"):
            data[name] = [f"K-{int(x) % 7:03d}" for x in draw]
        else:
            data[name] = [
                day - dt.timedelta(days=int(x) % 5) for day, x in zip(days, draw, strict=True)
            ]
    write_watched(root, pa.table(data), "-- @novelty @anomaly(row_count)\n")


def write_watched(root: Path, data: pa.Table, more: str = "") -> None:
    """A project of one model, of which `@avh` watches each column but `day`."""
    (root / "data").mkdir()
    (root / "checks").mkdir()
    pq.write_table(data, root / "data" / "t.parquet")
    (root / "dqsql_project.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(PROFILE)
    (root / "checks" / "sources.yml").write_text(SOURCES)
    listed = "".join(f"    {name}, -- @avh\n" for name in data.column_names if name != "day")
    text = f"{{{{ config(batch_by = 'day') }}}}\n{more}select\n{listed}"
    (root / "checks" / "m.sql").write_text(text + "    day\nfrom {{ source('fleet', 't') }}\n")


def a_year(metrics: pa.Table, model: str, batches: int, seed: int) -> pa.Table:
    """Metrics of so many days, drawn from those of the days of which there are any."""
    rng = np.random.default_rng(seed)
    rows = metrics.filter(pc.equal(metrics["scope"], "delta")).sort_by("batch")
    days = rows["batch"].unique().to_pylist()
    pieces = []
    for number in range(batches):
        piece = rows.filter(pc.equal(rows["batch"], days[int(rng.integers(len(days)))]))
        # Counts are whole, and most columns are complete every day.
        values = piece["value"].to_numpy()
        noise = np.where(values == np.rint(values), 1, rng.normal(1, 1e-3, piece.num_rows))
        fresh = {
            "model": pa.array([model] * piece.num_rows, pa.string()),
            "batch": pa.array([str(START + dt.timedelta(days=number))] * piece.num_rows),
            "value": pc.multiply(piece["value"], pa.array(noise)),
        }
        for name, values in fresh.items():
            piece = piece.set_column(piece.schema.get_field_index(name), name, values)
        pieces.append(piece)
    return pa.concat_tables(pieces)


def make_models(root: Path, models: int, batches: int) -> None:
    """A year of metrics, and what was learned, of so many models."""
    folder = root / "warehouse" / "dq"
    learned = DeltaTable(str(folder / PROGRAMS.name)).to_pyarrow_table()
    metrics = DeltaTable(str(folder / METRICS.name)).to_pyarrow_table()
    for number in range(models):
        model = f"m{number}"
        year = a_year(metrics, model, batches, number)
        write_deltalake(str(folder / METRICS.name), year, mode="append")
        fresh = {
            "model": [model] * learned.num_rows,
            "evidence": [_of_batch(text, batches) for text in learned["evidence"].to_pylist()],
        }
        again = learned
        for name, values in fresh.items():
            place = learned.schema.get_field_index(name)
            again = again.set_column(place, name, pa.array(values, pa.string()))
        write_deltalake(str(folder / PROGRAMS.name), again, mode="append")


def _of_batch(evidence: str | None, batches: int) -> str | None:
    """Evidence as if it had been measured when the period of the newest batch began."""
    if evidence is None:
        return None
    days = tuple(str(START + dt.timedelta(days=n)) for n in (batches - 2, batches - 1))
    start = period_start(days, AvhSettings.refit_every)
    assert start is not None
    return json.dumps({**json.loads(evidence), "batch": str((start - dt.timedelta(days=1)).date())})


def decide(project: Project, plan: Plan, model: str, batches: int) -> int:
    """Let the monitors of a model decide on its newest day; the number of their verdicts."""
    store = open_tables(project.target)
    days = [str(START + dt.timedelta(days=i)) for i in range(batches)]
    ledger = {
        day: BatchRecord(model, day, BatchStatus.ACCEPTED, ROWS, "r", "") for day in days[:-1]
    }
    named = replace(plan, model=replace(plan.model, name=model))
    types = {name: TYPES[name[0]] for name in names_of(len(plan.monitors) - 2)} | {"day": "date"}
    typed = for_types(named, types)
    newest = stored_metrics(store, model, days[-1:], {m.name for m in typed.metrics})
    values = [
        MetricValue(
            model=model,
            batch=row["batch"],
            segment=row["segment"],
            column=row["column_name"],
            metric=row["metric"],
            parameters=row["parameters"] or "",
            scope=row["scope"],
            value=row["value"],
            value_text=None,
            sample_size=ROWS,
        )
        for row in newest.to_pylist()
    ]
    place = Workplace(None, store, project, typed, ledger, types, "date")  # type: ignore[arg-type]
    run = MonitorRun(
        place=place,
        run_id="r",
        now=dt.datetime.now(dt.UTC),
        rates=project_rates(project, [typed], {model: ledger}).rates(model),
        before=BeforeScan(stored_book(store, model), accepted=days[:-1], batches=days[-1:]),
    )
    return len(run.judge(days[-1:], values, {days[-1]: ROWS}, []).results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--batches", type=int, default=365)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write_project(root, options.columns)
        dqsql.run(root)
        make_models(root, options.models, options.batches)
        compiled = dqsql.compile_project(root)
        # As commands do, which compile once.
        gc.collect()
        gc.freeze()
        started, used = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(2) as threads:
            each = [
                threads.submit(
                    decide, compiled.project, compiled.plans[0], f"m{i}", options.batches
                )
                for i in range(options.models)
            ]
            verdicts = sum(found.result() for found in each)
        seconds = (time.perf_counter() - started) / options.models
        cpu = (time.process_time() - used) / options.models
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{verdicts / options.models:.0f} verdicts a model, {options.batches} stored days")
        print(f"a model: {seconds:.2f} s, {cpu:.2f} CPU s; 1,000: {1000 * seconds / 60:.1f} min")
        print(f"largest memory {memory:.2f} GiB")


if __name__ == "__main__":
    main()
