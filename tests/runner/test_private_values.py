"""Canaries in private columns of every type: nothing that a run leaves behind holds one."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dqsql.engine.project_key import project_key
from dqsql.errors import ConfigError

from .conftest import NewProject, Project

# Values of no other kind than these are in the data; each is its column's most frequent, and its
# smallest or its largest.
TEXT = "canary-zebra"
DAY = "1977-07-17"
INSTANT = "1978-08-18 08:18:28"
WHOLE = "918273645"
PRECISE = "8675309.42"
DOUBLE = "271828.1828"
BYTES = "63616e6172792d62696e617279"  # canary-binary
CANARIES = (
    *(TEXT, DAY, INSTANT, WHOLE, PRECISE, DOUBLE, BYTES, "canary-binary"),
    *("canary-field", "canary-element", "canary-key", "canary-entry", "canary-alone"),
    # As Python writes what it reads of Parquet.
    *("datetime.date(1977, 7, 17)", "datetime.datetime(1978, 8, 18"),
    # Microseconds since 1970. The days, 2754, are found by chance in sizes of files.
    "272276308000000",
)
DATA = f"""
select date'2025-01-01' + cast(id div 40 as int) as day, cast(id as int) as id,
  if(id % 4 < 3, '{TEXT}', concat('other-', id)) as name,
  if(id % 4 < 3, date'{DAY}', date'2001-01-01' + cast(id as int)) as born,
  if(id % 4 < 3, timestamp'{INSTANT}', timestamp'2001-01-01 01:00:00') as seen,
  cast(if(id % 4 < 3, {WHOLE}, id) as bigint) as tax_number,
  cast(if(id % 4 < 3, {PRECISE}, id) as decimal(12, 2)) as salary,
  cast(if(id % 4 < 3, {DOUBLE}, id) as double) as weight,
  unhex(if(id % 4 < 3, '{BYTES}', '00')) as scan,
  named_struct('street', if(id % 4 < 3, 'canary-field', 'x'), 'n', id) as address,
  array(if(id % 4 < 3, 'canary-element', 'x')) as phones,
  map(if(id % 4 < 3, 'canary-key', 'x'), if(id % 4 < 3, 'canary-entry', 'y')) as contacts,
  'canary-alone' as same
from range(80)
"""
PRIVATE = [
    "name",
    "born",
    "seen",
    "tax_number",
    "salary",
    "weight",
    "scan",
    "address",
    "phones",
    "contacts",
    "same",
]
ON_EVERY = (
    "@not_null @unique_ratio is not null @count_distinct > 0 @entropy is not null"
    " @most_frequent_ratio is not null"
)
ON_ORDERED = "@max is not null @min is not null @expect(max({c}) is not null) @freshness >= 0"
ON_NUMBERS = (
    "@mean > 0 @sum > 0 @stddev is not null @median > 0 @quantile(0.9) > 0 @range is not null"
    " @in_range(0, 10)"
    " @less_than(5) @positive @anomaly(mean({c})) @avh"
)
ON_TEXTS = (
    "@min_length > 0 @accepted_values('other-1') @matches('x') @pattern @avh @histogram is not null"
    " @expect(mode({c}) is not null) @expect(any_value({c}) is not null)"
    " @expect(size(collect_set({c})) > 0) @expect(first({c}) = 'x') @unique"
    " @expect(size(collect_set({c})) > 0) {{name: in_one_batch_{c}}}"
    " @expect(uniqueness({c}) + 1 > 2) {{scope: cumulative}} @entropy > 9 {{scope: cumulative}}"
)
ON_NESTED = "@expect(size(collect_list({c})) > 0) @expect(any_value({c}) is not null) @not_null"


def model(settings: str) -> str:
    kinds = {
        "name": ON_TEXTS, "same": ON_TEXTS, "born": ON_ORDERED, "seen": ON_ORDERED,
        "tax_number": ON_NUMBERS, "salary": ON_NUMBERS, "weight": ON_NUMBERS,
        "scan": ON_NESTED, "address": ON_NESTED, "phones": ON_NESTED, "contacts": ON_NESTED,
    }  # fmt: skip
    lines = [
        f"  {c}, -- {ON_EVERY if k not in (ON_NESTED,) else ''} {k.format(c=c)}"
        for c, k in kinds.items()
    ]
    columns = "\n".join(lines)
    return (
        f"{{{{ config(batch_by = 'day', {settings}) }}}}\n"
        f"select\n  day,\n{columns}\n  id from {{{{ source('raw', 't') }}}}\n"
        "-- @expect(max(address.street) = 'x') @expect(max(phones[0]) = 'x')\n"
        "-- @expect(max(map_keys(contacts)[0]) = 'x') @expect(max(upper(name)) = 'x')\n"
        "-- @unique(name, born) @mutual_information(name, born) is not null @novelty\n"
        "-- @predictability(name, born) is not null @satisfies(salary < 0)\n"
    )


def search(root: Path) -> list[str]:
    """The files below a folder that hold a canary, read as bytes and, if Parquet, as values."""
    found: list[str] = []
    needles = [*CANARIES, *(c.upper() for c in CANARIES)]
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root)
        if not file.is_file() or inside.parts[0] in ("data", "checks"):
            continue
        content = file.read_bytes().decode("latin-1")
        if file.suffix == ".parquet":
            content += str(pq.ParquetFile(file).read().to_pylist())
        found += [
            f"{inside}: {c}" for c in needles if re.search(rf"(?<!\d){re.escape(c)}", content)
        ]
    return found


def checked(new_project: NewProject, settings: str) -> Project:
    project = new_project(model(settings), DATA)
    project.run(store_failures=True)
    project.run(batches=["2025-01-02"], store_failures=True)
    return project


def test_no_canary_of_a_private_column_is_left_anywhere(new_project: NewProject) -> None:
    listed = ", ".join(f"'{c}'" for c in PRIVATE)
    project = checked(new_project, f"pii = [{listed}]")
    assert search(project.root) == []
    statuses = {r["status"] for r in project.rows("dq_results")}
    assert statuses >= {"pass", "fail"}
    values = project.metrics("m")
    # What counts rows or letters, and what adds up, is there as ever.
    assert values["2025-01-01", None, "name", "count_distinct()"] == 11
    assert values["2025-01-01", None, "name", "min_length()"] == 7
    assert values["2025-01-01", None, "born", "max()"] == "(private)"
    assert values["2025-01-01", None, "salary", "max()"] == "(private)"
    key = project.root / ".dqsql" / "pii.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert not any(key.read_text().strip() in text for text in texts(project.root / "target"))


@pytest.mark.slow
def test_the_same_search_finds_them_where_nothing_is_private(new_project: NewProject) -> None:
    found = search(checked(new_project, "tags = ['x']").root)
    for canary in (TEXT, DAY, INSTANT, WHOLE, PRECISE, DOUBLE, "canary-field", "canary-alone"):
        assert any(canary in line for line in found), canary


def texts(folder: Path) -> list[str]:
    files = (f for f in folder.rglob("*") if f.is_file())
    return [f.read_text(encoding="utf-8", errors="replace") for f in files]


def test_what_is_stored_of_private_values_depends_on_the_key(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(name: str, key: str) -> set[str]:
        monkeypatch.setenv("DQSQL_PII_KEY", key)
        sql = (
            "{{ config(batch_by = 'day', pii = ['name']) }}\n"
            "select day,\n"
            "  name, -- @avh @uniqueness is not null {scope: cumulative}\n"
            "  id from {{ source('raw', 't') }}\n"
        )
        project = new_project(sql, DATA, name=name)
        project.run()
        assert not (project.root / ".dqsql").exists()
        rows = project.rows("dq_distributions")
        counted = [r["value"] for r in project.rows("dq_frequency__m")]
        return {str(r) for r in [*(row.get("value_text") for row in rows), *counted] if r}

    one, again, other = stored("a", "k" * 32), stored("b", "k" * 32), stored("c", "l" * 32)
    assert one == again
    assert not one & other
    assert len(one) > 3


@pytest.mark.parametrize("key", ["short", "with a quote ' in the middle of it"])
def test_a_key_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("DQSQL_PII_KEY", key)
    with pytest.raises(ConfigError, match="DQSQL_PII_KEY cannot be used") as caught:
        project_key(tmp_path)
    assert key not in str(caught.value)


def test_the_key_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DQSQL_PII_KEY", raising=False)
    assert project_key(tmp_path) == project_key(tmp_path)
    assert (tmp_path / ".dqsql" / ".gitignore").read_text() == "*\n"
    (tmp_path / ".dqsql" / "pii.key").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="it is not a text"):
        project_key(tmp_path)


VARS = {"region": "secret-region", "n": 7}


def test_variables_are_kept_as_hashes(new_project: NewProject) -> None:
    sql = "select id, -- @mean > 0\n  '{{ var(\"region\") }}' as r from {{ source('raw', 't') }}"
    project = new_project(sql, DATA)
    result = project.run(vars=VARS)
    kept = result.arguments["vars"]
    assert set(kept) == {"region", "n"}
    assert all(re.fullmatch(r"hmac-sha256:[0-9a-f]{16}", v) for v in kept.values())
    artefacts = [text for text in texts(project.root / "target") if '"args"' in text]
    assert not any("secret-region" in text for text in artefacts)
    assert "secret-region" not in str(project.rows("dq_runs"))


def test_variables_are_kept_where_the_project_says_so(new_project: NewProject) -> None:
    settings = 'name: test_project\nversion: "1.0"\nprofile: test\nstore_vars: true\n'
    sql = "select id, -- @mean > 0\n  '{{ var(\"region\") }}' as r from {{ source('raw', 't') }}"
    project = new_project(sql, DATA, files={"dqsql_project.yml": settings})
    assert project.run(vars=VARS).arguments["vars"] == VARS
    assert "secret-region" in str(project.rows("dq_runs"))


NEW_KINDS = """\
{{{{ config(batch_by = 'day', pii = [{pii}], quarantine = true, monitors = 'auto') }}}}
select
  day,
  name, -- @drift(psi) < 0.001 @accepted_values('x') @functional_dependency(determinant => [id])
  born, -- @drift < 0.001 @functional_dependency(determinant => [name])
  tax_number, -- @drift < 0.001 @less_than(5)
  seen, -- @functional_dependency(determinant => [salary])
  salary, weight, scan, address, phones, contacts, same,
  id
from {{{{ source('raw', 't') }}}}
-- @row_anomalies {{severity: warn}}
-- @matches_relation(u, keys => id) @matches_relation(u, keys => (id, name), columns => (salary))
"""


def test_no_canary_is_left_by_what_compares_rows_and_distributions(new_project: NewProject) -> None:
    listed = ", ".join(f"'{c}'" for c in PRIVATE)
    project = new_project(NEW_KINDS.format(pii=listed), DATA)
    project.data(DATA.replace("% 4", "% 5"), "u")
    project.run(store_failures=True)
    project.run(full_refresh=True, store_failures=True)
    assert search(project.root) == []
    assert {r["status"] for r in project.rows("dq_results")} >= {"pass", "fail"}
