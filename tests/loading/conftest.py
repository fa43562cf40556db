"""Helpers that write small projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Write = Callable[[Mapping[str, str]], Path]

PROJECT = "name: shop\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the files of a project and return its folder; no profile is found elsewhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DQSQL_PROFILES_DIR", "DBT_PROFILES_DIR"):
        monkeypatch.delenv(name, raising=False)

    def do(files: Mapping[str, str]) -> Path:
        root = tmp_path / "project"
        for path, text in {"dqsql_project.yml": PROJECT, **files}.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return root

    return do
