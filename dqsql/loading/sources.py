"""Reads `sources:` in dbt's form: tables of a catalog, or files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dqsql.errors import ConfigError
from dqsql.loading.documents import Document
from dqsql.loading.settings import as_mapping, as_names, as_text
from dqsql.model.project import Source

FILE_FORMATS = ("parquet", "csv", "json", "orc", "delta")
_FILE_KEYS = frozenset({"path", "location", "external", "format", "options"})
_DESCRIBING_KEYS = frozenset(
    # dbt's keys that do not change what is read.
    {"description", "meta", "tags", "config", "loader", "loaded_at_field", "loaded_at_query"}
    | {"freshness", "overrides", "quoting"}
)
_SOURCE_KEYS = _DESCRIBING_KEYS | _FILE_KEYS | {"name", "schema", "database", "catalog", "tables"}
_TABLE_KEYS = (
    _DESCRIBING_KEYS | _FILE_KEYS | {"name", "identifier", "columns", "tests", "data_tests"}
)
_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
_URI = re.compile(r"[A-Za-z][\w+.-]+:/")


def quote(*parts: str) -> str:
    """Names as a quoted SQL identifier."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def read_sources(document: Document, root: Path) -> list[Source]:
    """The sources of a YAML file. Raises ConfigError with the place of what is wrong."""
    return [
        source
        for number, entry in enumerate(
            document.sequence(document.data.get("sources"), "sources", what="'sources'")
        )
        for source in _read_source(document, entry, number, root)
    ]


def _name(document: Document, values: Mapping[str, Any], what: str, *keys: Any) -> str:
    name = document.read(values, "name", as_text, *keys)
    if not name:
        raise document.problem(f"{what} has no name", *keys)
    return str(name)


def _read_source(document: Document, entry: object, number: int, root: Path) -> list[Source]:
    keys = ("sources", number)
    values = document.mapping(entry, *keys, what="a source")
    document.check_keys(values, _SOURCE_KEYS, *keys, what="a source")
    name = _name(document, values, "the source", *keys)
    tables = document.sequence(values.get("tables"), *keys, "tables", what="'tables'")
    if not tables:
        raise document.problem(f"the source {name!r} has no tables", *keys, "name")
    return [
        _read_table(document, values, table, root, name, (*keys, "tables", i))
        for i, table in enumerate(tables)
    ]


def _read_table(
    document: Document,
    source: Mapping[str, Any],
    entry: object,
    root: Path,
    name: str,
    keys: tuple[str | int, ...],
) -> Source:
    values = document.mapping(entry, *keys, what="a table")
    document.check_keys(values, _TABLE_KEYS, *keys, what="a table of a source")
    table = _name(document, values, "the table", *keys)
    path, file_format, options = _file(document, source, values, keys)
    tags = (
        *(document.read(source, "tags", as_names, *keys[:2]) or ()),
        *(document.read(values, "tags", as_names, *keys) or ()),
    )
    if path is None:
        relation = _table_relation(document, source, values, name, table, keys)
    else:
        relation = quote(f"dqsql_source__{name}__{table}")
        path = resolve_path(path, root)
        file_format = file_format or guess_format(path)
    return Source(
        name=name,
        table=table,
        relation=relation,
        span=document.span(*keys, "name"),
        path=path,
        file_format=file_format,
        options=options,
        description=document.read(values, "description", as_text, *keys),
        tags=tags,
    )


def _table_relation(
    document: Document,
    source: Mapping[str, Any],
    values: Mapping[str, Any],
    name: str,
    table: str,
    keys: tuple[str | int, ...],
) -> str:
    catalog_key = "database" if source.get("database") else "catalog"
    catalog = document.read(source, catalog_key, as_text, *keys[:2])
    # As in dbt the schema is the source's name; `schema: null` leaves it to the session.
    schema = document.read(source, "schema", as_text, *keys[:2]) if "schema" in source else name
    identifier = document.read(values, "identifier", as_text, *keys) or table
    return quote(*(part for part in (catalog, schema, identifier) if part))


def _file(
    document: Document,
    source: Mapping[str, Any],
    values: Mapping[str, Any],
    keys: tuple[str | int, ...],
) -> tuple[str | None, str | None, dict[str, str]]:
    """Path, format and reader options of a table; those of the source are its defaults."""
    path: str | None = None
    file_format: str | None = None
    options: dict[str, str] = {}
    for level, at in ((source, keys[:2]), (values, keys)):
        external = level.get("external")
        if isinstance(external, str):
            external = {"location": external}
        nested = document.mapping(external, *at, "external", what="'external'")
        for settings, place in ((nested, (*at, "external")), (level, at)):
            found = document.read(settings, "path", as_text, *place) or document.read(
                settings, "location", as_text, *place
            )
            if found and path is not None and level is values and "path" in source:
                found = f"{path.rstrip('/')}/{found}" if not _is_absolute(found) else found
            path = found or path
            for key in ("format", "file_format", "using"):
                file_format = document.read(settings, key, as_text, *place) or file_format
            given = document.read(settings, "options", as_mapping, *place) or {}
            options.update({k: _option(v) for k, v in given.items()})
    if path is None and (file_format or options):
        raise document.problem("a file source needs a path", *keys, hint="add `path: data/x.csv`")
    if path is not None and source.get("path") == path and len(source["tables"]) > 1:
        raise document.problem(
            "the tables of this source would all be the same file", *keys, hint="give each a path"
        )
    if file_format is not None:
        file_format = _known_format(document, file_format, keys)
    return path, file_format, options


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known_format(document: Document, value: str, keys: tuple[str | int, ...]) -> str:
    if value.lower() in FILE_FORMATS:
        return value.lower()
    raise document.problem(
        f"unknown file format {value!r}",
        *keys,
        "format",
        hint=f"one of {', '.join(FILE_FORMATS)}",
    )


def _is_absolute(path: str) -> bool:
    return bool(_URI.match(path)) or Path(path).is_absolute()


def resolve_path(path: str, root: Path) -> str:
    """An absolute path: relative ones start at the project's root; URIs stay."""
    if _URI.match(path):
        return path
    return str(root / Path(path).expanduser())


def guess_format(path: str) -> str:
    """The Spark format of a file or folder, from its name; a folder is taken for Parquet."""
    if (Path(path) / "_delta_log").is_dir():
        return "delta"
    name = path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return _SUFFIXES.get(Path(name).suffix.lower(), "parquet")


def refuse_duplicates(sources: list[Source]) -> list[ConfigError]:
    """One error for each table that is declared twice."""
    seen: dict[tuple[str, str], Source] = {}
    errors: list[ConfigError] = []
    for source in sources:
        first = seen.setdefault((source.name, source.table), source)
        if first is not source:
            errors.append(
                ConfigError(
                    f"the source table {source.name}.{source.table} is declared twice: "
                    f"here and at {first.span}",
                    span=source.span,
                )
            )
    return errors
