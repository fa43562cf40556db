"""Profiles against pandas, and the edges: nothing, nulls, NaN, odd names and types."""

from __future__ import annotations

import datetime as dt
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from dqsql.errors import DqsqlError, UsageError
from dqsql.loading.sources import declaration
from dqsql.monitors.subjects import Subjects, files_named
from dqsql.report.profile import profile_table
from dqsql.runner.compilation import Where
from dqsql.runner.profile import profile
from dqsql.runner.warehouse import open_warehouse, silent
from dqsql.suggestions.profiles import Profile, profile_record
from tests.conftest import PROFILES_YML, PROJECT_YML
from tests.suggestions.generators import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """\
version: 2
sources:
  - name: lake
    tables:
      - {name: many, path: data/many.parquet, format: parquet}
      - {name: none, path: data/none.parquet, format: parquet}
      - {name: people, path: data/people.parquet, format: parquet}
"""
PRIVATE = """\
{{ config(pii = ['TEXT', 'first']) }}
select *, number as n  -- @not_null {pii: true}
from {{ source('lake', 'people') }}
"""


FILES = {
    "dqsql_project.yml": PROJECT_YML,
    "profiles.yml": PROFILES_YML,
    "sources.yml": SOURCES,
    "checks/private.sql": PRIVATE,
}


def many() -> pd.DataFrame:
    draw = np.random.default_rng(7)
    n = 3_000
    numbers = draw.normal(10, 3, n)
    day = dt.date(2024, 1, 1)
    return pd.DataFrame(
        {
            "number": np.where(draw.random(n) < 0.1, None, numbers).astype(float),
            "whole": draw.integers(-5, 5, n),
            "text": draw.choice(["a", "bb", "", "ünï"], n, p=[0.5, 0.3, 0.1, 0.1]),
            "as number": [f"{x:.2f}" for x in numbers],
            "as `whole`.x": [str(i) for i in range(n)],
            "flag": draw.random(n) < 0.25,
            "first": [day + dt.timedelta(days=int(d)) for d in draw.integers(0, 300, n)],
            "nan": [float("nan"), 1.0, 2.0] * (n // 3),
            "list": [[1, 2]] * n,
            "empty": pd.Series([None] * n, dtype="string"),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Where:
    root = tmp_path_factory.mktemp("lake")
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "data").mkdir()
    write_parquet(many(), root / "data/many.parquet")
    write_parquet(many().head(0), root / "data/none.parquet")
    people = many()[["number", "whole", "text", "first"]].head(300)
    write_parquet(people, root / "data/people.parquet")
    return Where(root)


@pytest.fixture(scope="module")
def profiles(lake: Where, spark: SparkSession) -> dict[str, Profile]:
    return {p.relation: p for p in profile(lake, ["lake.many", "lake.none"], spark=spark)}


def test_profile_against_pandas(profiles: dict[str, Profile]) -> None:
    frame, found = many(), profiles["lake.many"]
    assert found.passes == 3 and found.rows == len(frame)
    assert [c.name for c in found.columns] == list(frame.columns)
    for each in found.columns:
        assert each.count == frame[each.name].notna().sum() + each.nan, each.name
    number = found.column("number")
    assert number.summary is not None
    assert number.summary.mean == pytest.approx(frame["number"].mean())
    assert number.summary.stddev == pytest.approx(frame["number"].std())
    assert (number.summary.minimum, number.summary.maximum) == (
        frame["number"].min(),
        frame["number"].max(),
    )
    median = float(np.median(number.summary.quantiles))
    assert frame["number"].quantile(0.46) < median < frame["number"].quantile(0.54)
    assert number.distinct == pytest.approx(frame["number"].nunique(), rel=0.06)

    text = found.column("text")
    assert text.distribution is not None and text.lengths is not None
    counted = frame["text"].value_counts()
    assert dict(zip(text.distribution.values, text.distribution.counts, strict=True)) == (
        counted.to_dict()
    )
    assert text.distribution.complete and text.lengths.maximum == 3
    assert found.column("flag").distribution is not None

    assert found.column("as number").detected == "fractional"
    assert found.column("as `whole`.x").detected == "integral"
    summary = found.column("as number").summary
    assert summary is not None and summary.mean == pytest.approx(frame["number"].mean(), abs=0.2)
    assert found.column("first").earliest == str(frame["first"].min())
    assert found.column("nan").nan == 1_000
    # The others have a largest and a mean.
    numbers = found.column("nan").summary
    assert numbers is not None
    assert (numbers.minimum, numbers.maximum, numbers.mean) == (1.0, 2.0, 1.5)
    assert set(numbers.quantiles) == {1.0, 2.0}
    line = next(line for line in profile_table(profile_record(found)).columns if line.name == "nan")
    assert line.kind == "double, 1,000 NaN"
    assert found.column("list").distinct is None
    empty = found.column("empty")
    assert (empty.count, empty.completeness, empty.distinct, empty.detected) == (0, 0.0, 0.0, None)


def test_relation_without_rows(profiles: dict[str, Profile]) -> None:
    found = profiles["lake.none"]
    assert (found.rows, found.passes) == (0, 1)
    assert found.column("number").completeness is None


def test_unknown_relations_and_none(lake: Where, spark: SparkSession) -> None:
    with pytest.raises(DqsqlError, match=r"there is no table, schema or file lake\.manny"):
        profile(lake, ["lake.manny"], spark=spark)
    with pytest.raises(UsageError, match="no relation is named"):
        profile(lake, [], spark=spark)


def test_files_are_relations(lake: Where, spark: SparkSession) -> None:
    """A file that a source names is that source; any other is read as a source would be."""
    (found,) = profile(lake, ["data/none.parquet"], spark=spark)
    assert found.rows == 0 and found.relation == "lake.none"
    folder = Path(lake.project_dir) / "data"
    (folder / "days.csv").write_text("day,n\n2024-01-01,1\n2024-01-02,2\n", encoding="utf-8")
    (folder / "days.tsv").write_text("day\tn\n2024-01-01\t1\n", encoding="utf-8")
    (folder / "empty.csv").touch()
    for name in ("days.csv", "days.tsv"):
        (found,) = profile(lake, [f"data/{name}"], spark=spark)
        assert found.relation == f"data/{name}"
        assert [(c.name, c.spark_type) for c in found.columns] == [("day", "date"), ("n", "int")]
    times = pd.DataFrame({"at": pd.to_datetime(["2024-01-01"]).astype("datetime64[ns]")})
    times.to_parquet(folder / "nanos.parquet")
    wrong = {
        "data/nanos.parquet": "cannot read data/nanos.parquet: it has times in nanoseconds",
        "data/empty.csv": "data/empty.csv has no columns",
        "data/dayz.csv": "there is no file data/dayz.csv\n  hint: did you mean 'days.csv'",
        "data/gone/x.csv": "there is no file data/gone/x.csv\n  hint: it is looked for in",
    }
    for name, message in wrong.items():
        with pytest.raises(DqsqlError) as caught:
            profile(lake, [name], spark=spark)
        assert message in str(caught.value) and caught.value.span is None


def test_separators_of_files_that_no_source_names(lake: Where, spark: SparkSession) -> None:
    cases = {
        "day;n\n2024-01-01;1,5\n2024-01-02;2,5\n": ["day", "n"],
        "day|n\n2024-01-01|1\n": ["day", "n"],
        "day\tn\n2024-01-01\t1\n": ["day", "n"],
        'day;"n; m"\n2024-01-01;"a\nb"\n': ["day", "n; m"],
        "day,n;m\n2024-01-01,1;2\n": ["day", "n;m"],
        "words\na;b\nc\n": ["words"],
    }
    wanted = {}
    for number, (text, columns) in enumerate(cases.items()):
        folder = Path(lake.project_dir) / f"separated{number}"
        folder.mkdir()
        (folder / "plain.csv").write_text(text, encoding="utf-8")
        with gzip.open(folder / "packed.csv.gz", "wt", encoding="utf-8") as file:
            file.write(text)
        # Folders and patterns are read by their files, so that two separators tell.
        ways = ["plain.csv", "packed.csv.gz", *(("", "*") if number in (1, 3) else ())]
        wanted |= {f"{folder.name}/{way}": columns for way in ways}
    # What a profile measures, without measuring it.
    project = lake.project()
    with open_warehouse(project, spark, silent, files_named(project, wanted)) as (session, _):
        subjects = Subjects(project, session)
        assert {name: [*subjects.find(name).types] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("encoding", "separator"),
    [("utf-8", ","), ("utf-8-sig", ";"), ("latin-1", ","), ("utf-16", ";")],
)
def test_values_are_those_that_pandas_wrote(
    lake: Where, spark: SparkSession, encoding: str, separator: str
) -> None:
    """Quotes and separators within quotes, line breaks, umlauts: no value is cut or shifted."""
    texts = ['say "hi", she said', "Müller; Sohn", "two\nlines", "C:\\dir\\", "it's 5\" wide"]
    written = pd.DataFrame({"größe": texts, "n": [1, 2, 3, 4, 5]})
    file = Path(lake.project_dir) / "written.csv"
    written.to_csv(file, index=False, sep=separator, encoding=encoding)
    (found,) = profile(lake, ["written.csv"], spark=spark)
    assert [(c.name, c.spark_type) for c in found.columns] == [("größe", "string"), ("n", "int")]
    assert found.rows == 5
    shown, numbers = found.column("größe").distribution, found.column("n").summary
    assert shown is not None and sorted(shown.values) == sorted(texts)
    assert numbers is not None and numbers.mean == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"day": "2024-01-01", "n": 1}\n{"day": "2024-01-02", "n": 2}\n',
        '[{"day": "2024-01-01", "n": 1}, {"day": "2024-01-02", "n": 2}]',
        '[\n  {"day": "2024-01-01", "n": 1},\n  {"day": "2024-01-02", "n": 2}\n]\n',
        '[{"day": "2024-01-01",\n  "n": 1},\n {"day": "2024-01-02", "n": 2}]',
    ],
)
def test_json_by_lines_and_as_one_array(lake: Where, spark: SparkSession, text: str) -> None:
    (Path(lake.project_dir) / "days.json").write_text(text, encoding="utf-8")
    (found,) = profile(lake, ["days.json"], spark=spark)
    assert [(c.name, c.spark_type) for c in found.columns] == [("day", "string"), ("n", "bigint")]
    assert found.rows == 2
    multi_line = not text.startswith("{") and "\n" in text
    shown = declaration("files", "days", f"{lake.project_dir}/days.json", "days.json", first=True)
    assert ("multiLine" in shown) == multi_line


def test_pattern_of_files(lake: Where, spark: SparkSession) -> None:
    """A pattern that no source names is read as a source with this path would be."""
    folder = Path(lake.project_dir) / "days"
    folder.mkdir()
    for day in (1, 2, 3):
        rows = f"day;n\n2024-01-0{day};{day}\n"
        (folder / f"d{day}.csv").write_text(rows, encoding="utf-8")
    (folder / "d[1].csv").write_text("day,m\n2024-01-01,1\n", encoding="utf-8")
    for pattern, rows in (("days/d?.csv", 3), ("days/d[12].csv", 2), ("days/d3*.csv", 1)):
        (found,) = profile(lake, [pattern], spark=spark)
        assert (found.relation, found.rows) == (pattern, rows)
        assert [(c.name, c.spark_type) for c in found.columns] == [("day", "date"), ("n", "int")]
    (found,) = profile(lake, ["days/d[1].csv"], spark=spark)
    assert [c.name for c in found.columns] == ["day", "m"]
    (found,) = profile(lake, ["data/peo*.parquet"], spark=spark)
    assert found.column("text").private
    with pytest.raises(UsageError, match="no file matches"):
        profile(lake, ["days/x*.csv"], spark=spark)


def test_values_of_private_columns_are_not_shown(lake: Where, spark: SparkSession) -> None:
    """Neither by the check model that marks them nor by the source that it reads."""
    model, source = profile(lake, ["private", "lake.people"], spark=spark)
    for each, hidden in ((model, ("text", "first", "n")), (source, ("text", "first"))):
        for name in hidden:
            found = each.column(name)
            assert found.private and found.count, name
            assert (found.summary, found.distribution) == (None, None), name
            assert (found.earliest, found.latest) == (None, None), name
        assert each.column("text").distinct == pytest.approx(4)
        shown = each.column("whole")
        assert shown.summary is not None and shown.distribution is not None
    line = profile_table(profile_record(model)).columns[2]
    assert (line.name, line.frequent) == ("text", "(private)")
