"""Every way to read the tables that docs/storage.md shows works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tables import DAYS, StoredRuns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[3] / "docs" / "storage.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def project(make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    tables = StoredRuns(make_project({"checks/m.sql": "select 1 as x -- @not_null\n"}))
    tables.run(*DAYS)
    monkeypatch.chdir(tables.root)
    return tables.root


@pytest.mark.parametrize("block", [b for b in BLOCKS if "spark" not in b])
def test_tools_without_spark(project: Path, block: str) -> None:
    names: dict[str, object] = {}
    exec(block, names)
    if "frame" in names:
        assert len(names["frame"]) == 6  # type: ignore[arg-type]


def test_spark(project: Path, spark: SparkSession) -> None:
    (block,) = [b for b in BLOCKS if "spark" in b]
    names: dict[str, object] = {"spark": spark}
    exec(block, names)
    assert names["frame"].count() == 3  # type: ignore[attr-defined]
