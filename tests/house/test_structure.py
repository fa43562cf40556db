"""The package as a newcomer finds it: a class has one home, no modules import in a circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.conftest import LONGEST_FILES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dqsql"
# What is longer is about more than one thing.
LONGEST = 500


@cache
def modules() -> Mapping[str, ast.Module]:
    """The trees of all modules, by name; a package goes by its own."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(file.read_text(), str(file))
    return found


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules of dqsql that a module imports, wherever; not those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found = whole & modules().keys()
            yield from found
            if found != whole and node.module in modules():
                yield node.module
        else:
            yield from imports(node)


def test_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_no_modules_import_each_other() -> None:
    graph = {name: set(imports(tree)) - {name} for name, tree in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_files_are_short() -> None:
    lines = {file: file.read_text().count("\n") for file in PACKAGE.rglob("*.py")}
    assert {str(file): count for file, count in lines.items() if count > LONGEST} == {}


def test_the_longest_files_are_files() -> None:
    """Those that have gone would be begun with in no order."""
    assert [n for n in LONGEST_FILES if not (ROOT / "tests" / n).is_file()] == []
