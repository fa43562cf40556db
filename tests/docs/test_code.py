"""Every block of code in the documentation is right: it compiles, parses or names what there is."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import sqlglot
import yaml

import dqsql
from dqsql.cli.main import cli
from dqsql.dialect import parse_statement
from dqsql.loading.project import load_project
from tests.conftest import MakeProject

from .blocks import PAGES, ROOT, Block, blocks, commands

_SOURCE = re.compile(r"source\(\s*'(\w+)'\s*,\s*'(\w+)'\s*\)")
_REF = re.compile(r"ref\(\s*'(\w+)'\s*\)")
# What stands for something that is left out.
_LEFT_OUT = re.compile(r"\.\.(?!\.)|…")


def shown(item: object) -> str:
    return str(item)


@pytest.mark.parametrize("block", blocks("yaml", "yml"), ids=shown)
def test_yaml(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text))


def is_setting(block: Block) -> bool:
    """Whether dqsql reads it, and not dbt or a CI server; contracts have tests of their own."""
    of_others = r"(#.*\n)?( |jobs:|quality:|resources:|apiVersion:|selectors:|models:\n  - )"
    dbts = block.text.startswith("# dbt_project.yml") or "type: databricks" in block.text
    return not dbts and re.match(of_others, block.text) is None


SETTINGS = [b for b in blocks("yaml", "yml") if is_setting(b)]


@pytest.mark.parametrize("block", SETTINGS, ids=shown)
def test_settings_are_taken(block: Block, make_project: MakeProject) -> None:
    for number, text in enumerate(block.text.split("# or:\n")):
        content = yaml.safe_load(text)
        first = next(iter(content))
        files = {"checks/m.sql": "select 1 as id -- @not_null"}
        if isinstance(content[first], dict) and "outputs" in content[first]:
            files["profiles.yml"] = text
            files["dqsql_project.yml"] = f"name: docs\nprofile: {first}\n"
        elif first == "sources":
            files["checks/sources.yml"] = text
        else:
            files["dqsql_project.yml"] = ("" if "name" in content else "name: docs\n") + text
            if "profile" in content:
                files["profiles.yml"] = f"{content['profile']}: {{outputs: {{default: {{}}}}}}\n"
        project = load_project(make_project(files, f"p{number}"))
        # That no model is in a folder of the example, or that one has no name there, is no matter.
        assert [w for w in project.warnings if "match no check model" not in w] == []


@pytest.mark.parametrize("block", blocks("json", "toml"), ids=shown)
def test_json_and_toml(block: Block) -> None:
    assert json.loads(block.text) if block.language == "json" else tomllib.loads(block.text)


@pytest.mark.parametrize("block", blocks("python"), ids=shown)
def test_python(block: Block) -> None:
    tree = ast.parse(block.text)
    used = {
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "dqsql"
    }
    assert all(hasattr(dqsql, name) for name in used)


@pytest.mark.parametrize(("place", "words"), commands(), ids=shown)
def test_commands_have_these_options(place: str, words: str) -> None:
    if _LEFT_OUT.search(words):
        words = _LEFT_OUT.split(words)[0]
    command: click.Command = cli
    context = click.Context(cli, info_name="dqsql")
    rest = shlex.split(words)[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        # `dqsql review accept|reject` names two commands.
        names, rest = rest[0].split("|"), rest[1:]
        for name in names:
            found = command.get_command(context, name)
            assert found is not None or name.isupper(), f"{place}: there is no command {name}"
        if found is None:
            return
        command = found
    flags = {opt for p in command.get_params(context) for opt in (*p.opts, *p.secondary_opts)}
    given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
    assert given <= flags | {"--version"}, f"{place}: {sorted(given - flags)}"


def is_model(block: Block) -> bool:
    return ("@" in block.text or "{{" in block.text) and "{% macro" not in block.text


def as_model(block: Block) -> str:
    """The block as a whole SELECT; what only dbt knows is left out."""
    text = re.sub(r"materialized = '\w+', ", "", block.text)
    some = "select 1 as amount, '' as email from raw.t"
    text = text.replace("select ...", some)
    # A file of its own that the text names is not there.
    text = re.sub(r"contract = '[^']+'", "contract = {'columns': {'order_id': 'bigint'}}", text)
    if re.search(r"(?i)\bselect\b", text):
        return text
    if text.lstrip().startswith("{{ config"):
        return f"{text}\nselect 1 as order_id, 2 as amount -- @not_null(amount)"
    if all(line.lstrip().startswith("--") for line in text.splitlines() if line.strip()):
        return f"{text}\n{some}"
    return f"select\n{text.rstrip().rstrip(',')}\nfrom raw.t"


# Generic tests are dbt's; tests/loading/dbt has some of their kind.
SQL = [b for b in blocks("sql") if "{% test" not in b.text]
MODELS = [b for b in SQL if is_model(b)]
MACROS = [b for b in SQL if "{% macro" in b.text]
QUERIES = [b for b in SQL if b not in MODELS and b not in MACROS]


def test_check_models_compile(tmp_path: Path) -> None:
    """All models of the documentation in one project, with the sources and models they read."""
    sources: dict[str, set[str]] = {}
    refs: set[str] = set()
    folder = tmp_path / "checks"
    folder.mkdir()
    (tmp_path / "macros").mkdir()
    for number, block in enumerate(MACROS):
        (tmp_path / "macros" / f"m{number}.sql").write_text(block.text, encoding="utf-8")
    for number, block in enumerate(MODELS):
        name = re.sub(r"\W", "_", str(block))
        (folder / f"{name}_{number}.sql").write_text(as_model(block), encoding="utf-8")
        for source, table in _SOURCE.findall(block.text):
            sources.setdefault(source, set()).add(table)
        refs |= set(_REF.findall(block.text))
    for name in refs:
        (folder / f"{name}.sql").write_text("select 1 as id -- @not_null", encoding="utf-8")
    listed = [{"name": s, "tables": [{"name": t} for t in sorted(ts)]} for s, ts in sources.items()]
    (folder / "sources.yml").write_text(yaml.safe_dump({"sources": listed}), encoding="utf-8")
    settings = {"name": "docs", "vars": {"min_orders": 1}}
    (tmp_path / "dqsql_project.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    compiled = dqsql.compile_project(tmp_path)
    assert [str(e) for e in compiled.errors] == []
    assert len(compiled.plans) >= len(MODELS)


@pytest.mark.parametrize("block", QUERIES, ids=shown)
def test_queries_parse(block: Block) -> None:
    """Queries of Spark, or of DuckDB, which the cookbook and the page about storage have."""
    for statement in filter(str.strip, block.text.split(";")):
        assert parse_statement(statement) is not None or sqlglot.parse(statement, "duckdb")


def test_what_a_reader_meets_first() -> None:
    """A README of two pages, and no package that is not there."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme.count("\n") <= 150
    for page in PAGES:
        assert not re.search(r"pip install '?dqsql|package: dqsql", page.read_text("utf-8")), page


def test_the_pages_are_there() -> None:
    assert (ROOT / "docs" / "tutorial.md").is_file()
    assert len(MODELS) > 8
    assert len(commands()) > 80
