"""Views over the warehouse tables: a script for Spark SQL, and one for DuckDB over the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dqsql.errors import UsageError
from dqsql.model.project import Target
from dqsql.model.tables import ALL_TABLES
from dqsql.resources import resource_dir


@dataclass(frozen=True, slots=True)
class View:
    """A view: its name, what a row of it is, and its SELECT, which Spark and DuckDB both read."""

    name: str
    description: str
    select: str


def views() -> tuple[View, ...]:
    """All views that dqsql ships, by name."""
    files = sorted((resource_dir("templates") / "views").glob("*.sql"))
    return tuple(_view(file.stem, file.read_text(encoding="utf-8")) for file in files)


def _view(name: str, text: str) -> View:
    first, rest = text.split("\n", 1)
    return View(name, first.removeprefix("-- "), rest.strip())


def described_views() -> Iterator[str]:
    """Statements for DuckDB: all views, and what tables, columns and views are as comments."""
    for table in ALL_TABLES:
        yield f"comment on table {table.name} is {_text(table.description)}"
        for field in table.fields:
            column = f'{table.name}."{field.name}"'
            yield f"comment on column {column} is {_text(field.description)}"
    for view in views():
        yield f"create view {view.name} as {view.select}"
        yield f"comment on view {view.name} is {_text(view.description)}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def script(target: Target, dialect: str) -> str:
    """The statements that make all views over the tables of a target.

    Raises UsageError: DuckDB cannot read tables that only a catalog of Spark knows.
    """
    statements = [*_tables(target, dialect)]
    temporary = "temporary " if dialect == "spark" and target.warehouse is not None else ""
    for view in views():
        statements.append(
            f"-- {view.description}\n"
            f"create or replace {temporary}view {view.name} as\n{view.select};"
        )
    return "\n\n".join(statements)


def _tables(target: Target, dialect: str) -> Iterator[str]:
    """What makes the tables known by their names."""
    if target.warehouse is None:
        if dialect == "duckdb":
            raise UsageError(
                f"the tables of the target {target.name!r} are in a catalog, which DuckDB cannot"
                " read",
                hint="--dialect spark, and run the script where Spark has the catalog",
            )
        yield f"use {target.schema};"
        return
    folder = f"{target.warehouse.rstrip('/')}/{target.schema}"
    for table in ALL_TABLES:
        place = _text(f"{folder}/{table.name}")
        if dialect == "spark":
            yield (
                f"create or replace temporary view {table.name} using {target.table_format}"
                f" options (path {place});"
            )
        else:
            yield f"create or replace view {table.name} as from delta_scan({place});"
