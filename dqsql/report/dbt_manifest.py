"""The part of `manifest.json` that has the shape of dbt's manifest, version 12.

Tools made for dbt read models and tests from `nodes`; dqsql's own `models` and `checks` say more.
https://schemas.getdbt.com/dbt/manifest/v12.json has the shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from dqsql.model.project import Project, Source

SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v12.json"
# What dqsql has none of.
_EMPTY = (
    *("docs", "exposures", "metrics", "groups", "selectors", "disabled", "group_map"),
    *("saved_queries", "semantic_models", "unit_tests"),
)


def dbt_part(
    project: Project, models: Mapping[str, Mapping[str, Any]], checks: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of dbt's manifest that dqsql's has not, from its records of models and checks."""
    nodes = {uid: _model(project, record) for uid, record in models.items()}
    nodes |= {uid: _test(project, record) for uid, record in checks.items()}
    return {"nodes": nodes, **{name: {} for name in _EMPTY}}


def dbt_source(project: Project, source: Source) -> dict[str, Any]:
    """What dbt's manifest must say of a source beside what dqsql's record has."""
    return {
        **_place(project, source.span.file, (source.name, source.table)),
        "path": source.path or source.span.file,
        "identifier": source.table,
        "loader": "",
        "source_description": "",
        "description": source.description or "",
    }


def dbt_macro(project: Project, record: Mapping[str, Any], text: str) -> dict[str, Any]:
    """What dbt's manifest says of a macro in its own way; `text` ends with the word `endmacro`."""
    arguments = [a.partition("=")[0].strip() for a in record["arguments"].split(",")]
    return {
        "package_name": project.name,
        "path": record["original_file_path"],
        "macro_sql": f"{text} %}}",
        "arguments": [{"name": name} for name in arguments if name],
        "signature": record["arguments"],
        "description": record["description"] or "",
    }


def _place(project: Project, file: str, below: tuple[str, ...]) -> dict[str, Any]:
    return {
        "database": None,
        "schema": project.target.schema,
        "package_name": project.name,
        "path": file,
        "fqn": [project.name, *below],
    }


def _model(project: Project, record: Mapping[str, Any]) -> dict[str, Any]:
    path = record["original_file_path"]
    folders = PurePosixPath(path).with_suffix("").parts[1:-1]
    same = ("unique_id", "resource_type", "name", "original_file_path", "relation_name")
    return {
        **{key: record[key] for key in (*same, "tags", "depends_on")},
        **_place(project, path, (*folders, record["name"])),
        "alias": record["name"],
        "checksum": {"name": "sha256", "checksum": record["checksum"]},
        "config": {"enabled": record["config"]["enabled"], "tags": record["tags"]},
        "description": record["description"] or "",
        "columns": {name: {"name": name} for name in record["columns"] or ()},
        "meta": {} if record["owner"] is None else {"owner": record["owner"]},
    }


def _test(project: Project, record: Mapping[str, Any]) -> dict[str, Any]:
    same = ("unique_id", "name", "original_file_path", "column_name", "tags", "depends_on")
    severity = record["severity"]
    return {
        **{key: record[key] for key in same},
        **_place(project, record["original_file_path"], (record["name"],)),
        "resource_type": "test",
        "alias": record["name"],
        "checksum": {"name": "none", "checksum": ""},
        "config": {"severity": str(severity).upper(), "tags": record["tags"]},
        "description": record["description"] or "",
        "attached_node": f"model.{record['model']}",
        "test_metadata": {"name": record["name"], "kwargs": {}},
    }
