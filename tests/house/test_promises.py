"""docs/promises.md names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "promises.md"


def test_every_promise_is_held_by_tests_that_are_there() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row != "| promise | tests |"]
    assert len(rows) > 30
    missing = []
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row.rpartition(" | ")[2])
        assert named, row
        missing += [f"{file}::{name}" for file, name in named if name not in functions(file)]
    assert missing == []


def functions(file: str) -> set[str]:
    """The names of the functions of a file below tests/."""
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
