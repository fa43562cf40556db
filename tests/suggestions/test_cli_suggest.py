"""The commands `profile` and `suggest`: what they print, ask and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dqsql.cli.main import cli
from dqsql.errors import ConfigError
from dqsql.loading import load_project
from dqsql.monitors.subjects import Subject
from dqsql.report.profile import saved_profiles
from dqsql.runner import profile as profiling
from dqsql.runner import suggest as suggesting
from dqsql.suggestions.profiles import ColumnProfile, Distribution, Profile, Summary
from dqsql.suggestions.proposal import Proposal
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict
from tests.conftest import MakeProject

COLUMNS = (
    ColumnProfile(
        "city", "string", 1_000, 999, 3.0, distribution=Distribution(("A\x1b[2J", "B"), (900, 99))
    ),
    ColumnProfile(
        "amount", "double", 1_000, 1_000, 900.0, summary=Summary(0, 10, 5, 2, (2.5, 5.0, 7.5))
    ),
)
PROFILE = Profile("shop.orders", 1_000, COLUMNS, passes=3)
FOUND = (
    Suggestion(
        "CompleteIfComplete", "completeness", "amount", "not_null", "complete", measured=1.0
    ),
    Suggestion("HasMax", "upper", "amount", "max", "largest", comparison="<= 10", measured=0.99999),
    Suggestion("RetainType", "schema", None, "schema", "types", takes_column=False),
    Suggestion(
        "CategoricalRange",
        "values",
        "city",
        "unique",
        "no",
        verdict=SuggestionVerdict.REFUSED,
        measured=0.5,
    ),
)


def proposal(*found: Suggestion) -> Proposal:
    subject = Subject("shop.orders", "v", {"city": "string", "amount": "double"}, "t")
    return Proposal(subject, PROFILE, 1_000, 100, 900, 0, found or FOUND)


@pytest.fixture
def call(make_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    root = make_project({"checks/a.sql": "select 1 as a"})
    monkeypatch.chdir(root)
    monkeypatch.setattr(profiling, "profile", lambda *_, **__: (PROFILE,))
    monkeypatch.setattr(suggesting, "suggest", lambda *_, **__: proposal())

    def run(*args: str, **more: Any) -> Result:
        return CliRunner().invoke(cli, list(args), prog_name="dqsql", **more)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the input of the test stand for a person's."""
    from click.testing import _NamedTextIOWrapper

    monkeypatch.setattr(_NamedTextIOWrapper, "isatty", lambda self: True, raising=False)


def test_profile_prints_a_table_without_escapes(call: Callable[..., Result]) -> None:
    result = call("profile", "shop.orders")
    assert result.exit_code == 0
    assert "read 3 times" in result.output and "\x1b" not in result.output
    assert "99.9%" in result.output and "A?[2J 90%" in result.output
    assert "█" in result.output


def test_profiles_are_kept_for_the_report(call: Callable[..., Result]) -> None:
    for _ in range(2):
        result = call("profile", "shop.orders", "--save")
        assert result.exit_code == 0 and "profiles.json" in result.output
    kept = Path("target/profiles.json")
    (record,) = json.loads(kept.read_text())["profiles"]
    assert record["relation"] == "shop.orders" and record["made_at"]
    table = saved_profiles(load_project("."))["shop.orders"]
    assert [c.frequent for c in table.columns] == ["A?[2J 90%, B 10%", ""]
    assert [c.filled for c in table.columns] == ["99.9%", "100%"]
    kept.write_text('{"profiles": [{"relation": "a"}]}')
    with pytest.raises(ConfigError, match="holds no profiles"):
        saved_profiles(load_project("."))
    kept.write_text("[")
    assert call("profile", "shop.orders", "--save").exit_code == 2
    assert kept.read_text() == "["


def test_profile_as_json(call: Callable[..., Result]) -> None:
    record = json.loads(call("profile", "shop.orders", "--output", "json").stdout)
    (found,) = record["profiles"]
    assert found["columns"][1]["histogram"] and found["columns"][0]["completeness"] == 0.999


def test_suggest_prints_a_file_and_writes_nothing(call: Callable[..., Result]) -> None:
    result = call("suggest", "shop.orders")
    assert result.exit_code == 0
    assert "    -- complete: @not_null\n" in result.output
    assert "100.00%" not in result.output and "99.99%" in result.output
    assert "Not suggested" in result.output
    assert not Path("checks/orders.sql").exists()


@pytest.mark.parametrize(
    ("count", "said"),
    [(1, "1 more suggested check already exists."), (2, "2 more suggested checks already exist.")],
)
def test_suggest_says_how_many_checks_are_there(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, count: int, said: str
) -> None:
    there = tuple(replace(s, verdict=SuggestionVerdict.EXISTS) for s in FOUND[:count])
    monkeypatch.setattr(suggesting, "suggest", lambda *_, **__: proposal(*there, *FOUND[count:]))
    assert said in call("suggest", "shop.orders").output.splitlines()


def test_suggest_as_json(call: Callable[..., Result]) -> None:
    record = json.loads(call("suggest", "shop.orders", "--output", "json").stdout)
    assert [s["verdict"] for s in record["suggestions"]] == ["suggested"] * 3 + ["refused"]
    assert record["path"] == "checks/orders.sql" and record["written"] is False


def test_without_a_terminal_writing_needs_yes(call: Callable[..., Result]) -> None:
    result = call("suggest", "shop.orders", "--write")
    assert result.exit_code == 2 and "--yes" in result.output
    result = call("suggest", "shop.orders", "--write", "--yes")
    assert result.exit_code == 0 and "Wrote 3 checks" in result.output
    assert "@max <= 10" in Path("checks/orders.sql").read_text()
    # What is called as the table is something else's: the new check model has the whole name.
    result = call("suggest", "shop.orders", "--write", "--yes")
    assert result.exit_code == 0 and "Wrote 3 checks to checks/shop_orders.sql" in result.output
    result = call("suggest", "shop.orders", "--write", "--yes")
    assert result.exit_code == 2 and "exists and is not about shop.orders" in result.output


def test_what_cannot_be_written_is_refused_before_any_work(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def worked(*_: Any, **__: Any) -> None:
        raise AssertionError("it looked at rows")

    monkeypatch.setattr(suggesting, "suggest", worked)
    Path("visits 2025.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    result = call("suggest", "visits 2025.csv", "--write", "--yes")
    assert result.exit_code == 2
    assert "visits 2025.csv is a file that no source names" in result.stderr
    assert "in checks/sources.yml, and then: dqsql suggest files.visits_2025" in result.stderr
    assert yaml.safe_load(result.stdout) == {
        "sources": [
            {"name": "files", "tables": [{"name": "visits_2025", "path": "visits 2025.csv"}]}
        ]
    }
    Path("checks/sources.yml").write_text(result.stdout, encoding="utf-8")
    for taken in ("visits_2025", "files_visits_2025"):
        Path(f"checks/{taken}.sql").write_text("select 1 as b", encoding="utf-8")
    for relation in ("files.visits_2025", "visits 2025.csv", "visits_2025.csv"):
        result = call("suggest", relation, "--write", "--yes")
        assert result.exit_code == 2 and result.stdout == ""
        assert ("exists and is not about files" in result.stderr) is (relation != "visits_2025.csv")
    assert "there is no file visits_2025.csv" in result.stderr
    Path("other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    result = call("suggest", "other.csv", "--write", "--yes")
    assert "`sources:` of checks/sources.yml, and then: dqsql suggest files_other." in result.stderr
    assert yaml.safe_load(result.stdout)[0]["name"] == "files_other"
    for file, name in (("null.csv", "null"), ("2025.csv", "file_2025"), ("a: #b.csv", "a_b")):
        Path(file).write_text("a,b\n1,2\n", encoding="utf-8")
        (source,) = yaml.safe_load(call("suggest", file, "--write", "--yes").stdout)
        assert source["tables"] == [{"name": name, "path": file}]
    result = call("suggest", "data/2025/*.csv", "--write", "--yes")
    assert "is a pattern of files that no source names" in result.stderr
    (source,) = yaml.safe_load(result.stdout)
    assert source["tables"] == [{"name": "file_2025", "path": "data/2025/*.csv"}]


def test_the_declaration_of_a_file_has_its_separator(call: Callable[..., Result]) -> None:
    Path("data").mkdir()
    for file, separator in (("a.csv", ";"), ("b.csv", "\t"), ("c.csv", "|")):
        Path(f"data/{file}").write_text(f"a{separator}b\n1{separator}2\n", encoding="utf-8")
        result = call("suggest", f"data/{file}", "--write", "--yes")
        (table,) = yaml.safe_load(result.stdout)["sources"][0]["tables"]
        assert table == {"name": file[0], "path": f"data/{file}", "options": {"sep": separator}}
    Path("data/t.tsv").write_text("a\tb\nü\t2\n", encoding="latin-1")
    result = call("suggest", "data/t.tsv", "--write", "--yes")
    (table,) = yaml.safe_load(result.stdout)["sources"][0]["tables"]
    assert table["options"] == {"encoding": "ISO-8859-1"} and "format" not in table
    Path("data/t.tsv").write_text("a\tb\n1\t2\n", encoding="utf-8")
    result = call("suggest", "data/t.tsv", "--write", "--yes")
    assert "options" not in result.stdout and "format" not in result.stdout
    result = call("suggest", "data/[ab]*", "--write", "--yes")
    (table,) = yaml.safe_load(result.stdout)["sources"][0]["tables"]
    assert table == {"name": "data", "path": "data/[ab]*", "format": "csv", "options": {"sep": ";"}}


def test_a_column_that_looks_like_several_is_noted(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Profile("shop.orders", 1, (ColumnProfile("a;b", "string", 1, 1, 1.0),), passes=3)
    monkeypatch.setattr(profiling, "profile", lambda *_, **__: (one,))
    note = "the only column has ';' in its name"
    assert note in call("profile", "shop.orders").output
    monkeypatch.setattr(profiling, "profile", lambda *_, **__: (PROFILE,))
    assert "note:" not in call("profile", "shop.orders").output


@pytest.mark.usefixtures("terminal")
def test_review_accepts_edits_and_rejects(call: Callable[..., Result]) -> None:
    result = call("suggest", "shop.orders", "--write", input="a\ne\nmax <\nmax < 12\nr\n")
    assert result.exit_code == 0, result.output
    text = Path("checks/orders.sql").read_text()
    assert "@not_null" in text and "@max < 12" in text and "@schema" not in text


@pytest.mark.usefixtures("terminal")
def test_review_that_ends_early_rejects_the_rest(call: Callable[..., Result]) -> None:
    result = call("suggest", "shop.orders", "--write", input="a\nq\n")
    assert "Wrote 1 check" in result.output
