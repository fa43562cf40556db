"""What a relation is probably called that Spark does not find."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from dqsql.engine.failures import SPARK_FAILURES
from dqsql.model.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_FOUND = re.compile(r"The (?:table or view|schema) ((?:`[^`]+`\.?)+) cannot be found")
_NEAR = 0.6


def missing_relation(message: str) -> str | None:
    """The name in Spark's message that a table, view or schema cannot be found."""
    match = _NOT_FOUND.search(message)
    return None if match is None else match.group(1).replace("`", "")


def near_relations(spark: SparkSession, project: Project, name: str) -> str | None:
    """A hint with the relations whose names are nearest: sources, check models, tables of Spark's.

    None where none is near.
    """
    shown = {s.full_name: f"{{{{ source('{s.name}', '{s.table}') }}}}" for s in project.sources}
    shown |= {s.table: shown[s.full_name] for s in project.sources}
    shown |= {m.name: f"{{{{ ref('{m.name}') }}}}" for m in project.models if m.config.enabled}
    shown |= {table: table for table in _tables(spark, name)}
    by_lower = {known.lower(): text for known, text in shown.items() if known != name}
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=_NEAR)
    if name in shown and shown[name] != name:
        # It is there, and not as a table.
        near = [name.lower()]
        by_lower[name.lower()] = shown[name]
    found = dict.fromkeys(by_lower[n] for n in near)
    return f"did you mean {' or '.join(found)}?" if found else None


def _tables(spark: SparkSession, name: str) -> list[str]:
    """The tables beside the one that is missing; the schemas near to its own where that is."""
    *above, _ = name.split(".")
    try:
        schemas = [d.name for d in spark.catalog.listDatabases()]
        schema = above[-1] if above else spark.catalog.currentDatabase()
        near = difflib.get_close_matches(schema, schemas, n=2, cutoff=_NEAR)
        found = []
        for one in near:
            prefix = f"{one}." if above else ""
            tables = [t for t in spark.catalog.listTables(one) if not t.name.startswith("dqsql__")]
            found += [t.name if t.isTemporary else f"{prefix}{t.name}" for t in tables]
    except SPARK_FAILURES:
        # A catalog may refuse to list what it has; the error itself is told all the same.
        return []
    return found
