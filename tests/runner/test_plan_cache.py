"""Plans that are kept between commands: the same as those compiled anew, whatever has changed."""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from dqsql.compiler import plan_cache
from dqsql.errors import DqsqlError
from dqsql.runner.compilation import CompileResult, compile_project
from tests.compiler.conftest import OWN_MACROS, SOURCES
from tests.conftest import EXAMPLE, PROJECT_YML, MakeProject

GOLDEN = Path(__file__).parents[1] / "compiler" / "golden"
FILES = {
    "checks/sources.yml": """\
        sources:
          - name: shop
            tables: [{name: rates, external: {location: data/rates.parquet}}]
        """,
    "checks/customers.sql": """\
        select id -- @unique
        from a
        """,
    "checks/orders.sql": """\
        {{ config(batch_by = 'day') }}
        select day,
            customer, -- @references(customers, id) @twice
            rate,     -- @references(rates, rate)
            amount    -- @avh @mean > {{ var('least', 3) }} {warn: '> 5'}
        from b
        """,
    "macros/twice.sql": "{% macro check_twice(c) %}sum({{ c }}) > {{ var('low', 2) }}"
    "{% endmacro %}",
}
CHANGES = {
    "a check": ("checks/orders.sql", "@avh", "@avh @max < 7"),
    "the settings of a check": ("checks/orders.sql", "> 5", "> 6"),
    "the query": ("checks/orders.sql", "from b", "from b where day is not null"),
    "the place of a check": ("checks/orders.sql", "select day", "\nselect day"),
    "a macro": ("macros/twice.sql", "low', 2", "low', 3"),
    "a model that a check names": ("checks/customers.sql", "@unique", "@not_null"),
    "the batches of that model": (
        "checks/customers.sql",
        "select id",
        "{{ config(batch_by='id') }}\nselect id",
    ),
    "the severity": ("dqsql_project.yml", "profile: test", "profile: test\nseverity: warn"),
    "a variable": ("dqsql_project.yml", "profile: test", "profile: test\nvars: {least: 4}"),
    "a variable of a macro": (
        "dqsql_project.yml",
        "profile: test",
        "profile: test\nvars: {low: 4}",
    ),
}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the kept plans, which are in use."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DQSQL_PLAN_CACHE", "1")
    return tmp_path / "cache" / "dqsql" / "plans"


def whole(value: Any) -> Any:
    """All that a value is made of, with what equality of SQL trees leaves out."""
    if isinstance(value, exp.Expr):
        args = {k: whole(v) for k, v in value.args.items() if v is not None}
        return type(value).__name__, args, {k: whole(v) for k, v in (value._meta or {}).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {f.name: whole(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, DqsqlError):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [whole(v) for v in value]
    if isinstance(value, dict):
        return {k: whole(v) for k, v in value.items()}
    return value


def of(result: CompileResult) -> Any:
    return whole((result.plans, dict(result.queries), result.errors, result.project.warnings))


def anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as without:
        without.setenv("DQSQL_PLAN_CACHE", "0")
        return of(compile_project(root))


def refused(*_: object) -> Any:
    raise AssertionError("compiled though nothing has changed")


def test_what_is_kept_is_what_is_compiled(
    kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = {f"checks/{p.name}": p.read_text(encoding="utf-8") for p in GOLDEN.glob("*.sql")}
    low = {"dqsql_project.yml": f"{PROJECT_YML}vars: {{low: 3}}\n"}
    golden = {**golden, **OWN_MACROS, **low, "checks/sources.yml": SOURCES}
    for name, files in (("golden", golden), ("shop", FILES)):
        root = make_project(files, name)
        expected = anew(root, monkeypatch)
        assert of(compile_project(root)) == expected
        with monkeypatch.context() as patched:
            patched.setattr("dqsql.runner.compilation.compile_adopted", refused)
            assert of(compile_project(root)) == expected


def test_the_example(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out = shutil.ignore_patterns("target", "warehouse")
    root = Path(shutil.copytree(EXAMPLE, tmp_path / "example", ignore=leave_out))
    expected = anew(root, monkeypatch)
    compile_project(root)
    assert len([*kept.iterdir()]) == 3  # plans; the statements when they are asked for
    assert of(compile_project(root)) == expected


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_compiled(
    change: str, kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(FILES)
    before = of(compile_project(root))
    file, old, new = CHANGES[change]
    text = (root / file).read_text(encoding="utf-8")
    assert old in text
    (root / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    expected = anew(root, monkeypatch)
    assert of(compile_project(root)) == expected != before
    assert of(compile_project(root)) == expected


def test_a_model_that_takes_the_name_of_a_table(
    kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"checks/orders.sql": "select c -- @references(customers, id)\nfrom b"}
    root = make_project(files)
    compile_project(root)
    (root / "checks/customers.sql").write_text("select id -- @not_null\nfrom a", encoding="utf-8")
    assert of(compile_project(root)) == anew(root, monkeypatch)


def test_a_damaged_file_is_not_read(
    kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(FILES)
    expected = of(compile_project(root))
    for content in (b"", b"x" * 70, None):
        for file in kept.iterdir():
            text = file.read_bytes()
            file.write_bytes(text[:-1] + b"?" if content is None else content)
        assert of(compile_project(root)) == expected


def test_what_is_wrong_is_told_every_time(kept: Path, make_project: MakeProject) -> None:
    root = make_project({"checks/a.sql": "select x -- @nott_null @max > 1\nfrom a"})
    messages = [[e.message for e in compile_project(root).errors] for _ in range(2)]
    assert messages[0] == messages[1] != []
    assert not kept.exists()


def test_a_cache_that_cannot_be_written_is_none(
    kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(FILES)
    kept.parent.parent.mkdir()
    kept.parent.write_text("a file where the folder would be", encoding="utf-8")
    assert of(compile_project(root)) == anew(root, monkeypatch)


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_a_folder_that_others_may_write_to_is_not_read(
    kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(FILES)
    compile_project(root)
    kept.chmod(0o777)
    monkeypatch.setattr(plan_cache.pickle, "loads", refused)
    compile_project(root)
    kept.chmod(0o700)
    with pytest.raises(AssertionError, match="nothing has changed"):
        compile_project(root)


def test_old_files_go(
    kept: Path, make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "_MOST_FILES", 3)
    for number in range(6):
        compile_project(make_project(FILES, f"project{number}"))
        assert 0 < len([*kept.iterdir()]) <= 3


def test_trees_of_any_depth_are_written_and_read() -> None:
    deep: exp.Expr = exp.column("x")
    for _ in range(3_000):
        deep = exp.Not(this=deep)
    typed = exp.cast(exp.column("y"), "int")
    typed.comments, typed.meta["part"] = ["why"], True
    found, beside = pickle.loads(plan_cache._pickled((deep, typed)))
    assert sum(1 for _ in found.walk()) == 3_002
    assert found.find(exp.Column).parent.arg_key == "this"
    assert (beside, beside.comments, beside.meta) == (typed, ["why"], {"part": True})
    alone = pickle.loads(plan_cache._pickled(typed))
    assert (alone, alone.comments, alone.meta) == (typed, ["why"], {"part": True})
    assert alone.this.parent is alone


NAMES = ("orders", "n_orders", "stg__orders", "t", "bestellungen-größe", "größe", "a b")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    ["{}", "\n{}", "\t{}\n", 'x."{}"', "`dqsql__{}`", "dqsql_source__shop__{}", "\x01{}", "'\\{}"],
)
def test_a_name_is_found_wherever_a_text_has_it(name: str, text: str) -> None:
    found = plan_cache._ByName((n, n) for n in NAMES)
    assert name in found.mentioned(repr(text.format(name)))
