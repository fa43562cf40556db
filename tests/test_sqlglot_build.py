"""sqlglot's compiled build beside dqsql: see `dqsql.sqlglot_build`."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

import pytest

from dqsql.sqlglot_build import SourceFinder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a module that is compiled, one that lacks its source, and a plain one."""
    for name, suffixes in {
        "both": (EXTENSION_SUFFIXES[0], SOURCE_SUFFIXES[0]),
        "binary": (EXTENSION_SUFFIXES[0],),
        "plain": (SOURCE_SUFFIXES[0],),
    }.items():
        for suffix in suffixes:
            (tmp_path / f"{name}{suffix}").write_text("")
    return tmp_path


def test_a_compiled_module_is_loaded_from_its_source(package: Path) -> None:
    found = SourceFinder().find_spec("sqlglot.both", [str(package)])
    assert found is not None
    assert found.origin == str(package / "both.py")
    assert found.has_location


@pytest.mark.parametrize(
    "name", ["sqlglot.binary", "sqlglot.plain", "sqlglot.absent", "other.both"]
)
def test_all_else_is_found_as_ever(package: Path, name: str) -> None:
    assert SourceFinder().find_spec(name, [str(package)]) is None


def test_what_was_imported_before_dqsql_stays_as_it_is() -> None:
    """A module by its source does not work with compiled ones that are loaded already."""
    told = "any(type(f).__name__ == 'SourceFinder' for f in sys.meta_path)"
    programs = {"import dqsql": "True", "import sqlglot, dqsql": "False"}
    for imports, installed in programs.items():
        program = [sys.executable, "-c", f"import sys; {imports}; print({told})"]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == installed
