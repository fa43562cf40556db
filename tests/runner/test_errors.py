"""What is wrong with a project is one clear error with a place; exit code 2, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from click.testing import Result as CliResult
from pyspark.errors import PySparkException

import dqsql
from dqsql.cli.main import cli
from dqsql.engine.failures import known_failure, translate
from dqsql.errors import UsageError
from dqsql.runner import api

from .conftest import SOURCES, NewProject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOOD = "select a -- @not_null\nfrom values (1) as t(a)\n"
DATA = "select * from values (date '2024-01-01', 1), (date '2024-01-02', 2) as t(day, a)"


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CliResult]:
    """Calls the program in this process and lets it use the session of the tests."""
    run = api.run
    monkeypatch.setattr(api, "run", lambda *a, **k: run(*a, **{**k, "spark": spark}))

    def call(*args: str) -> CliResult:
        return CliRunner().invoke(cli, list(args), prog_name="dqsql")

    return call


@dataclass(frozen=True)
class Wrong:
    """A project with one fault: its files, where the error points, and what it says."""

    files: Mapping[str, str | None]
    place: str
    says: tuple[str, ...]
    args: tuple[str, ...] = field(default=())
    open: str | None = None


def model(sql: str) -> dict[str, str | None]:
    return {"checks/m.sql": sql}


WRONG = {
    "unknown annotation": Wrong(
        model("select\n    day,\n    a   -- @not_nul\nfrom {{ source('raw', 't') }}\n"),
        "checks/m.sql:3:13",
        ("unknown check, metric or function 'not_nul'", "did you mean 'not_null'"),
    ),
    "unknown metric below Jinja": Wrong(
        model(
            "{{ config(\n    batch_by = 'day'\n) }}\n{% set x = 3 %}\nselect\n    day,\n"
            "    a   -- @mean > 1 and completness > {{ x }}\nfrom {{ source('raw', 't') }}\n"
        ),
        "checks/m.sql:7:26",
        ("'completness'", "did you mean 'completeness'"),
    ),
    "unknown column in a check": Wrong(
        model("select day, a from {{ source('raw', 't') }}\n-- @expect(sum(aa) > 1)\n"),
        "checks/m.sql:2:16",
        ("no column 'aa'", "did you mean 'a'"),
    ),
    "a segment with a name of dqsql's own": Wrong(
        model(
            "{{ config(segment_by = ['Batch', 'a']) }}\n"
            "select\n    a, 1 as batch -- @not_null(a)\nfrom {{ source('raw', 't') }}\n"
        ),
        "checks/m.sql",
        ("segment_by names 'Batch'", "as Batch_of_row"),
    ),
    "a segment twice": Wrong(
        model(
            "{{ config(segment_by = ['a', 'A']) }}\n"
            "select\n    a, day -- @not_null(a)\nfrom {{ source('raw', 't') }}\n"
        ),
        "checks/m.sql",
        ("segment_by names 'A' twice",),
    ),
    "unknown column in the SELECT": Wrong(
        model("select\n    day,\n    b + 1 as a   -- @not_null\nfrom {{ source('raw', 't') }}\n"),
        "checks/m.sql:3:5",
        ("`b`",),
    ),
    "SQL syntax": Wrong(
        model(
            "select\n    day,\n    a   -- @not_null\nfrom {{ source('raw', 't') }}\nwere a > 1 1\n"
        ),
        "checks/m.sql:5:",
        ("yntax",),
    ),
    "SQL that only Spark refuses": Wrong(
        model("select\n    a + as b   -- @not_null\nfrom {{ source('raw', 't') }}\n"),
        "checks/m.sql:",
        (),
    ),
    "no SELECT": Wrong(model("drop table x\n"), "checks/m.sql:1:1", ("SELECT",)),
    "Jinja syntax": Wrong(
        model("select a from {{ source('raw', 't' }}\n"), "checks/m.sql:1:", ("Jinja",)
    ),
    "Jinja failure": Wrong(
        model("select a\nfrom {{ 1 / 0 }}\n"), "checks/m.sql:2:", ("division by zero",)
    ),
    "undefined variable": Wrong(
        model("select a -- @max < {{ maximum }}\nfrom {{ source('raw', 't') }}\n"),
        "checks/m.sql:1:23",
        ("'maximum' is undefined",),
    ),
    "undefined name near to a function": Wrong(
        model("select a -- @not_null\nfrom {{ sorce('raw', 't') }}\n"),
        "checks/m.sql:2:9",
        ("'sorce' is undefined", "did you mean 'source'?"),
    ),
    "variable without var": Wrong(
        {
            **model(
                "select a -- @max < {{ maximum }} @min > {{ minimun }}\nfrom values (1) t(a)\n"
            ),
            "dqsql_project.yml": "name: p\nprofile: test\nvars: {maximum: 3}\n",
        },
        "checks/m.sql:1:23",
        ("'maximum' is undefined", "write var('maximum')"),
    ),
    "variable with a slip": Wrong(
        {
            **model("select a -- @max < {{ maximun }}\nfrom values (1) t(a)\n"),
            "dqsql_project.yml": "name: p\nprofile: test\nvars: {maximum: 3}\n",
        },
        "checks/m.sql:1:23",
        ("'maximun' is undefined", "did you mean the variable 'maximum'?"),
    ),
    "undefined project variable": Wrong(
        model("select a\nfrom {{ source('raw', 't') }}\nwhere a > {{ var('lowest') }}\n"),
        "checks/m.sql:3:",
        ("lowest",),
    ),
    "circular macro": Wrong(
        {
            **model("select a -- @one\nfrom {{ source('raw', 't') }}\n"),
            "macros/check_one.sql": "{% macro check_one(c) %} two({{ c }}) {% endmacro %}",
            "macros/check_two.sql": "{% macro check_two(c) %} one({{ c }}) {% endmacro %}",
        },
        "checks/m.sql:1:13",
        ("circular macro", "one -> two -> one"),
    ),
    "unknown source": Wrong(
        model("select a\nfrom {{ source('raw', 'tt') }}\n"), "checks/m.sql:2:", ("tt",)
    ),
    "unknown ref": Wrong(model("select a\nfrom {{ ref('mm') }}\n"), "checks/m.sql:2:", ("mm",)),
    "missing source table": Wrong(
        {
            **model("select\n    a -- @not_null\nfrom {{ source('raw', 'gone') }}\n"),
            "checks/sources.yml": "sources:\n  - name: raw\n    tables:\n      - name: gone\n",
        },
        "",
        ("gone", "`gone` cannot be found."),
    ),
    "relation that is a source": Wrong(
        model("select a -- @not_null\nfrom raw.t\n"),
        "checks/m.sql:2:",
        ("`raw`.`t` cannot be found", "did you mean {{ source('raw', 't') }}?"),
    ),
    "relation near to a check model": Wrong(
        {**model("select a -- @not_null\nfrom orderz\n"), "checks/orders.sql": "select 1 as a"},
        "checks/m.sql:2:",
        ("`orderz` cannot be found", "did you mean {{ ref('orders') }}?"),
        ("--select", "m"),
    ),
    "missing source file": Wrong(
        model("select a -- @not_null\nfrom {{ source('raw', 'u') }}\n"),
        "checks/sources.yml:7:",
        ("raw.u", "data/u"),
    ),
    "wrong sources file": Wrong(
        {**model(GOOD), "checks/sources.yml": "sources:\n  - name: raw\n    tabels: []\n"},
        "checks/sources.yml:3:",
        ("tabels", "tables"),
    ),
    "profile of unknown name": Wrong(
        {**model(GOOD), "profiles.yml": "tset:\n  target: l\n  outputs:\n    l: {type: spark}\n"},
        "profiles.yml:1:1",
        ("'test'", "did you mean 'tset'"),
    ),
    "profile of another database": Wrong(
        {
            **model(GOOD),
            "profiles.yml": "test:\n  target: l\n  outputs:\n    l:\n      type: postgres\n",
        },
        "profiles.yml:5:",
        ("postgres", "spark"),
    ),
    "profile that is no YAML": Wrong(
        {**model(GOOD), "profiles.yml": "test: [\n"}, "profiles.yml:", ()
    ),
    "unknown target": Wrong(model(GOOD), "profiles.yml:", ("'prd'",), ("--target", "prd")),
    "unknown setting of the project": Wrong(
        {**model(GOOD), "dqsql_project.yml": "name: p\nprofile: test\nmodel-path: [checks]\n"},
        "dqsql_project.yml:3:",
        ("model-path",),
    ),
    "two models of one name": Wrong(
        {"checks/a/m.sql": GOOD, "checks/b/m.sql": GOOD}, "checks/b/m.sql:1:1", ("checks/a/m.sql",)
    ),
    "ambiguous line": Wrong(
        model("select\n    day, a -- @not_null\nfrom {{ source('raw', 't') }}\n"),
        "checks/m.sql:2:15",
        ("several columns (day, a)", "name it: @not_null(day)"),
    ),
    "unknown setting of an annotation": Wrong(
        model("select\n    a -- @not_null {severty: warn}\nfrom {{ source('raw', 't') }}\n"),
        "checks/m.sql:2:",
        ("severty", "did you mean 'severity'"),
    ),
    "batch_by that is no column": Wrong(
        model(
            "{{ config(batch_by = 'dya') }}\nselect day, a from {{ source('raw', 't') }}\n"
            "-- @row_count > 0\n"
        ),
        "checks/m.sql:1:",
        ("'dya'", "did you mean 'day'"),
    ),
    "circle of models": Wrong(
        {
            "checks/a.sql": "select * from {{ ref('b') }}\n-- @row_count > 0\n",
            "checks/b.sql": "select * from {{ ref('a') }}\n-- @row_count > 0\n",
        },
        "checks/",
        ("circle", "a -> b -> a"),
    ),
    "unknown selection method": Wrong(
        model(GOOD), "", ("tagg", "did you mean 'tag'"), ("--select", "tagg:x")
    ),
}


def written(root: Path) -> list[str]:
    """Files of the warehouse. Artefacts in `target/`, which tell of the error, do not count."""
    files = [p for p in (root / "warehouse").rglob("*") if p.is_file()]
    # The file of locks has nothing in it.
    return sorted(str(p.relative_to(root)) for p in files if p.name != ".dq.lock")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(
            wrong,
            id=name,
            marks=[pytest.mark.xfail(strict=True, reason=wrong.open)] if wrong.open else [],
        )
        for name, wrong in WRONG.items()
    ],
)
def test_one_error_with_its_place(
    new_project: NewProject, command: Callable[..., CliResult], wrong: Wrong
) -> None:
    project = new_project(data=DATA, files=wrong.files)
    result = command("run", "--project-dir", str(project.root), *wrong.args)
    assert_one_error(result, wrong)
    assert written(project.root) == []


def assert_one_error(result: CliResult, wrong: Wrong) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    shown = result.output.replace("\n", " ")
    assert wrong.place in shown
    for text in wrong.says:
        assert text in shown
    assert wrong.place == "" or result.output.count(wrong.place) == 1, result.output


def test_an_error_writes_nothing_to_a_warehouse_that_is_there(
    new_project: NewProject, command: Callable[..., CliResult]
) -> None:
    project = new_project("select a -- @not_null\nfrom {{ source('raw', 't') }}\n", data=DATA)
    project.run()
    before = project.tables(), len(project.rows("dq_runs"))
    for name in ("unknown annotation", "missing source file", "SQL syntax", "ambiguous line"):
        files = {k: v for k, v in WRONG[name].files.items() if v is not None}
        project.write({"checks/sources.yml": SOURCES, **files})
        assert command("run", "--project-dir", str(project.root)).exit_code == 2
    assert (project.tables(), len(project.rows("dq_runs"))) == before


UNREADABLE_PROJECT = "name: p\nmonitors: auto\nmodels: {+tags: [t]}\n"
UNREADABLE = {
    "@not_null": "select (a -- @not_null",
    "{{ nope": "select {{ nope }} as a -- @not_null",
    "empty": "",
    "config": "{{ config(sev = 1) }}\nselect 1 as a -- @not_null",
}


READABLE = "select a -- @not_null\nfrom {{ source('raw', 't') }}\n"


def test_models_that_cannot_be_read_do_not_stop_the_others(
    new_project: NewProject, command: Callable[..., CliResult]
) -> None:
    """Nor do commands need them that only read what is stored; what reads them is not checked."""
    files: dict[str, str | None] = {"dqsql_project.yml": UNREADABLE_PROJECT}
    files["checks/good.sql"] = READABLE
    names = {bad: f"bad{number}" for number, bad in enumerate(UNREADABLE)}
    for bad, name in names.items():
        files[f"checks/{name}.sql"] = UNREADABLE[bad]
        files[f"checks/reader_of_{name}.sql"] = (
            f"select a -- @not_null\nfrom {{{{ ref('{name}') }}}}\n"
        )
    project = new_project(data=DATA, files=files)
    where = ("--project-dir", str(project.root))
    result = command("run", *where)
    assert result.exit_code == 2
    for name in names.values():
        assert f"ERROR {name}: could not be checked" in result.output
    assert {r["model"] for r in project.rows("dq_batches")} == {"good"}
    assert {r["model"] for r in project.rows("dq_results") if r["status"] == "pass"} == {"good"}
    assert command("run", "--select", "good", *where).exit_code == 0
    assert command("finding", "list", *where).exit_code == 0
    tagged = command("run", "--select", "tag:t", *where)
    assert tagged.exit_code == 2
    for bad in ("@not_null", "empty"):
        assert f"ERROR {names[bad]}: could not be checked" in tagged.output


@pytest.mark.parametrize("bad", UNREADABLE)
def test_what_needs_a_model_that_cannot_be_read_is_refused(
    new_project: NewProject, command: Callable[..., CliResult], bad: str
) -> None:
    reader = "select a -- @not_null\nfrom {{ ref('a') }}\n"
    files = {"checks/a.sql": UNREADABLE[bad], "checks/b.sql": READABLE, "checks/c.sql": reader}
    project = new_project(files={**files, "dqsql_project.yml": UNREADABLE_PROJECT})
    where = ("--project-dir", str(project.root))
    for words in (("compile",), ("contract", "export", "a"), ("run", "--fail-fast")):
        refused = command(*words, *where)
        assert refused.exit_code == 2, words
        assert "checks/a.sql:" in refused.output, words


@pytest.mark.parametrize("bad", ["@not_nul", "@(a)", "@avh(fbr => 1)"])
def test_a_model_that_is_wrong_does_not_stop_the_others(
    new_project: NewProject, command: Callable[..., CliResult], bad: str
) -> None:
    good = "select a -- @not_null\nfrom {{ source('raw', 't') }}\n"
    project = new_project(
        data=DATA, files={"checks/a.sql": good.replace("@not_null", bad), "checks/b.sql": good}
    )
    where = ("--project-dir", str(project.root))
    result = command("run", *where)
    assert result.exit_code == 2
    assert result.output.count("checks/a.sql:1:") == 1, result.output
    assert {r["model"]: r["status"] for r in project.rows("dq_results")} == {"b": "pass"}
    assert {r["model"] for r in project.rows("dq_batches")} == {"b"}
    (entry,) = [r for r in project.results() if r["status"] == "error"]
    assert "checks/a.sql:1:" in entry["message"]
    # Nobody asked for the wrong one; and with --fail-fast it stops everything.
    assert command("run", "--select", "b", *where).exit_code == 0
    assert command("run", "--fail-fast", *where).exit_code == 2


@pytest.mark.parametrize("folder", ["warehouse", "target"])
def test_unwritable_target(
    new_project: NewProject, command: Callable[..., CliResult], folder: str
) -> None:
    project = new_project("select a -- @not_null\nfrom {{ source('raw', 't') }}\n", data=DATA)
    # A file stands where the folder should be: unwritable for every user, root among them.
    (project.root / folder).write_text("in the way", encoding="utf-8")
    result = command("run", "--project-dir", str(project.root))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert folder in result.output
    assert (project.root / folder).read_text(encoding="utf-8") == "in the way"
    assert written(project.root) == []


def test_all_errors_of_annotations_are_told_at_once(
    new_project: NewProject, command: Callable[..., Any]
) -> None:
    project = new_project(
        "select\n    day, -- @not_nul\n    a    -- @men > 3\nfrom {{ source('raw', 't') }}\n",
        data=DATA,
    )
    result = command("run", "--project-dir", str(project.root))
    assert result.exit_code == 2
    assert "checks/m.sql:2:14" in result.output
    assert "checks/m.sql:3:14" in result.output
    assert written(project.root) == []


class _SeveralFailures(PySparkException):
    """As a query fails of which several statements failed."""

    def getCondition(self) -> str:
        return "STAGE_MATERIALIZATION_MULTIPLE_FAILURES"


def test_of_several_failures_of_a_query_the_first_is_told() -> None:
    failed = _SeveralFailures(
        "[STAGE_MATERIALIZATION_MULTIPLE_FAILURES] Multiple failures (2) in stage materialization: "
        "\n  1. SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' cannot be cast."
        " SQLSTATE: 22018\n  2. SparkRuntimeException: [OTHER] Also this. SQLSTATE: XX000"
    )
    error = translate(failed, "the scan failed")
    assert error.message == "the scan failed: The value 'x' cannot be cast."
    assert error.hint == "Spark's condition is CAST_INVALID_INPUT"


def test_a_file_whose_column_has_another_type_is_named() -> None:
    said = (
        "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file"
        " file:///data/t/2025-01-02.parquet. Data type mismatches when reading Parquet column [a]."
        " Expected Spark type bigint, actual Parquet type BINARY. SQLSTATE: KD001"
    )
    known = known_failure(f"org.apache.spark.SparkException: {said}\n\tat org")
    assert known is not None
    assert known.told(said).endswith(
        "in different types: a is bigint, and BINARY in /data/t/2025-01-02.parquet"
    )
    assert known.told("PARQUET_COLUMN_DATA_TYPE_MISMATCH").endswith("in different types")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"full_refresh": "False"}, "full_refresh is 'False', and must be True or False"),
        ({"quarantine": "yes"}, "quarantine is 'yes'"),
        ({"threads": "4"}, "threads is '4', and must be a number"),
        ({"select": 5}, "select is 5, and must be a list of texts"),
        ({"batches": 5}, "batches is 5"),
        ({"batches_of": ["x"]}, "batches_of is"),
        ({"batches_of": {"nope": ["1"]}}, "'nope', which is no check model"),
        ({"spark": "local"}, "spark takes a SparkSession, not a str"),
    ],
)
def test_arguments_of_other_kinds_are_refused(
    make_project: Callable[..., Path], arguments: dict[str, Any], words: str
) -> None:
    root = make_project({"checks/m.sql": "select 1 as x -- @not_null\n"})
    with pytest.raises(UsageError, match=words):
        dqsql.run(root, **arguments)


def test_a_file_that_may_not_be_read_was_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("a\n1\n", encoding="utf-8")
    said = (
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file"
        f" file://{file}. File does not exist. It is possible the underlying files have been"
    )
    failed = PySparkException(said)
    assert "was replaced or removed" in translate(failed, "cannot read").message
    monkeypatch.setattr("os.access", lambda path, mode: False)
    found = translate(failed, "cannot read the source")
    assert found.message == f"cannot read the source: {file} cannot be read: permission denied"
