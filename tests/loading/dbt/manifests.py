"""The dbt project of the tests with another manifest, and what dqsql made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dqsql.model.project import DBT_TEST_NAME, Annotation, CheckModel, Project

Change = Callable[[dict[str, Any]], None]


def change(root: Path, edit: Change) -> None:
    file = root / "target" / "manifest.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    edit(data)
    file.write_text(json.dumps(data), encoding="utf-8")


def models(project: Project) -> dict[str, CheckModel]:
    return {m.name: m for m in project.models}


def adopted(project: Project) -> dict[str, Annotation]:
    return {
        str(a.settings.name): a
        for m in project.models
        for a in m.annotations
        if DBT_TEST_NAME in a.settings.options
    }


def the_test(name: str, manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(n for n in manifest["nodes"].values() if n.get("name") == name)
    return found
