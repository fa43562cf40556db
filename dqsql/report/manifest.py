"""`manifest.json`: what the project consists of and what depends on what.

A part of it has the shape of dbt's manifest, version 12:
https://schemas.getdbt.com/dbt/manifest/v12.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from dqsql.json_text import Shape, timestamp
from dqsql.model.macro_text import MACRO
from dqsql.model.monitors import COLUMN_TYPES
from dqsql.model.plan import Check, Monitor, Plan, StateColumn
from dqsql.model.project import DBT_TEST, CheckModel, LeftTest, MacroFile, Project, Source
from dqsql.report.fingerprints import Fingerprints, macro_texts, own_macros

_SCHEMA_VERSION = 1


def manifest(
    project: Project,
    plans: Sequence[Plan],
    *,
    generated_at: datetime,
    dqsql_version: str,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the content of `manifest.json`.

    Of models without a plan, since a selection left them out, it says what the manifest `before`
    did, if they are as they were.
    """
    by_model = {plan.model.name: plan for plan in plans}
    fingerprints = Fingerprints(project)
    models = {
        m.unique_id: model_record(m, by_model.get(m.name))
        | {"fingerprints": fingerprints.of_model(m)}
        for m in project.models
    }
    checks = {c["unique_id"]: c for plan in plans for c in check_records(plan)}
    if before is not None:
        left_out = [m.unique_id for m in project.models if m.name not in by_model]
        _keep(models, checks, before, left_out)
    sources = {s.unique_id: source_record(s) | dbt_source(project, s) for s in project.sources}
    texts = macro_texts(own_macros(project))
    macros = {
        m["unique_id"]: m | dbt_macro(project, m, texts.get(m["name"], ""))
        for m in macro_records(own_macros(project))
    }
    parents = {name: m["depends_on"]["nodes"] for name, m in models.items()}
    parents |= {name: c["depends_on"]["nodes"] for name, c in checks.items()}
    return {
        "metadata": {
            "dbt_schema_version": _SCHEMA,
            "dqsql_schema_version": _SCHEMA_VERSION,
            "dqsql_version": dqsql_version,
            "generated_at": timestamp(generated_at),
            "project_name": project.name,
            "target": project.target.name,
        },
        "models": models,
        "checks": checks,
        "sources": sources,
        "macros": macros,
        "left_tests": {t.unique_id: left_record(t) for t in project.left_tests},
        "parent_map": parents,
        "child_map": _children(parents, (*models, *sources)),
        **dbt_part(project, models, checks),
    }


# What is read of an earlier manifest.
KEPT_SHAPE: Shape = {"models": {...: dict}, "checks": {...: {"depends_on": {"nodes": [str]}}}}
_OF_PLAN = ("states", "metrics", "notes")


def _keep(
    models: dict[str, dict[str, Any]],
    checks: dict[str, Any],
    before: Mapping[str, Any],
    left_out: Iterable[str],
) -> None:
    """Take what an earlier manifest said of models, and of their checks, if they are as they were.

    Null stands in it for what is not there.
    """
    known, kept = before.get("models") or {}, set()
    for name in left_out:
        record = known.get(name)
        if record is not None and _same(record, models[name]):
            models[name] = {**models[name], **{part: record[part] for part in _OF_PLAN}}
            kept.add(name)
    for check_id, check in (before.get("checks") or {}).items():
        nodes = ((check or {}).get("depends_on") or {}).get("nodes") or ()
        if kept.intersection(nodes):
            checks.setdefault(check_id, check)


def _same(known: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    parts = ("checksum", "fingerprints", *_OF_PLAN)
    return all(part in known for part in parts) and all(
        known[part] == now[part] for part in ("checksum", "fingerprints")
    )


def _children(parents: Mapping[str, Sequence[str]], nodes: Sequence[str]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {node: [] for node in nodes}
    for child, names in parents.items():
        for name in names:
            children.setdefault(name, []).append(child)
    return children


def model_record(model: CheckModel, plan: Plan | None) -> dict[str, Any]:
    """Return what the manifest says about a check model."""
    config = model.config
    return {
        "unique_id": model.unique_id,
        "resource_type": "model",
        "name": model.name,
        "original_file_path": model.path,
        "columns": list(model.columns) if model.columns is not None else None,
        "config": {
            "batch_by": config.batch_by,
            "segment_by": list(config.segment_by),
            "severity": config.severity,
            "no_data": config.no_data,
            "enabled": config.enabled,
            **{k: v for k, v in config.extra.items() if k not in ("dbt", COLUMN_TYPES)},
        },
        "relation_name": model.relation,
        "dbt_unique_id": model.dbt.get("unique_id"),
        "tags": list(config.tags),
        "owner": config.owner,
        "description": config.description,
        "checksum": model.checksum,
        "depends_on": {"nodes": list(model.depends_on)},
        "states": [s.name for s in plan.states] if plan else [],
        "metrics": [m.text for m in plan.metrics] if plan else [],
        "notes": list(plan.notes) if plan else [],
    }


def source_record(source: Source) -> dict[str, Any]:
    """Return what the manifest says about a source."""
    return {
        "unique_id": source.unique_id,
        "resource_type": "source",
        "source_name": source.name,
        "name": source.table,
        "relation_name": source.relation,
        "path": source.path,
        "format": source.file_format,
        "description": source.description,
        "tags": list(source.tags),
        "original_file_path": source.span.file,
    }


def left_record(test: LeftTest) -> dict[str, Any]:
    """Return what the manifest says about a test of dbt that dqsql did not adopt."""
    return {
        "unique_id": test.unique_id,
        "resource_type": "left_test",
        "name": test.name,
        "reason": test.reason,
        "original_file_path": None,
    }


def macro_records(files: Iterable[MacroFile]) -> list[dict[str, Any]]:
    """Return what the manifest says about macros; a later one replaces one of its name."""
    records = {
        match["name"]: _macro_record(file, match)
        for file in files
        for match in MACRO.finditer(file.text)
    }
    return [records[name] for name in sorted(records)]


def _macro_record(file: MacroFile, match: re.Match[str]) -> dict[str, Any]:
    name = match["name"]
    kind, _, word = name.partition("_")
    return {
        "unique_id": f"macro.{name}",
        "resource_type": "macro",
        "name": name,
        "arguments": " ".join(match["arguments"].split()),
        # What it is called in annotations; other macros are helpers.
        "annotation": f"@{word}" if kind in ("check", "metric") and word else None,
        "description": " ".join((match["comment"] or "").split()) or None,
        "original_file_path": file.path,
    }


def check_records(plan: Plan) -> list[dict[str, Any]]:
    """Return what the manifest says about the checks and monitors of a model."""
    return [_check_record(plan, check) for check in plan.declared]


def _check_record(plan: Plan, check: Check | Monitor) -> dict[str, Any]:
    return {
        "unique_id": check.id,
        "resource_type": "monitor" if isinstance(check, Monitor) else "check",
        "name": check.name,
        "model": check.model,
        "column_name": check.column,
        "columns": list(columns_used(plan, check)),
        "metrics": [plan.metric(a).text for a in check.metrics] if isinstance(check, Check) else [],
        "expression": check.expression,
        "severity": check.severity,
        "where": check.settings.where,
        "scope": check.settings.scope,
        "description": check.settings.description,
        "tags": list(check.tags),
        "original_file_path": check.span.file,
        "line": check.span.line,
        "column": check.span.column,
        "dbt_test": check.settings.options.get(DBT_TEST),
        "depends_on": {"nodes": [plan.model.unique_id, *relations_used(plan, check)]},
    }


def relations_used(plan: Plan, check: Check | Monitor) -> tuple[str, ...]:
    """Return the other check models, sources and tables that a check compares the model with."""
    from sqlglot import exp

    if not plan.relations:
        return ()
    names = {r.sql: r.unique_id or r.name for r in plan.relations}
    relations: dict[str, None] = {}
    for state in plan.states_of(check.metrics):
        if state.relation is not None:
            relations[names.get(state.relation.sql, state.relation.name)] = None
        for literal in state.scan.find_all(exp.Literal):
            # A lookup among a relation's keys has the relation's SQL text as an argument.
            if literal.is_string and literal.this in names:
                relations[names[literal.this]] = None
    return tuple(relations)


def columns_used(plan: Plan, check: Check | Monitor) -> tuple[str, ...]:
    """Return the columns of the model's SELECT that a check reads, in order of their names."""
    if isinstance(check, Monitor) and (check.column is not None or not check.positional):
        return (check.column,) if check.column is not None else ()
    return _columns_of(plan.states_of(check.metrics))


def columns_read(plan: Plan) -> tuple[str, ...]:
    """Return the columns that all states of a model read together, in order of their names."""
    return _columns_of(plan.states)


def _columns_of(states: Iterable[StateColumn]) -> tuple[str, ...]:
    from sqlglot import exp

    columns = (c for s in states for part in s.over_rows for c in part.find_all(exp.Column))
    # Of `address.city` the column is `address`: what follows are fields of the struct.
    return tuple(sorted({column.parts[0].name for column in columns}))


# --- the part of dbt's manifest ------------------------------------------------------------------


# Tools made for dbt read models and tests from `nodes`; dqsql's own `models` and `checks` say more.
_SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v12.json"
# What dqsql has none of.
_EMPTY = (
    *("docs", "exposures", "metrics", "groups", "selectors", "disabled", "group_map"),
    *("saved_queries", "semantic_models", "unit_tests"),
)


def dbt_part(
    project: Project, models: Mapping[str, Mapping[str, Any]], checks: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of dbt's manifest that dqsql's has not, from its records of models and checks."""
    nodes = {uid: _dbt_model(project, record) for uid, record in models.items()}
    nodes |= {uid: _dbt_test(project, record) for uid, record in checks.items()}
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


def _dbt_model(project: Project, record: Mapping[str, Any]) -> dict[str, Any]:
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


def _dbt_test(project: Project, record: Mapping[str, Any]) -> dict[str, Any]:
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
