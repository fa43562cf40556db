"""Reads `sources:` in dbt's form: tables of a catalog, or files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import yaml

from dqsql.dialect import quoted, unquoted
from dqsql.errors import ConfigError, Span
from dqsql.folders import files_below
from dqsql.loading.documents import Document, Section
from dqsql.model.project import Source
from dqsql.model.settings import as_mapping, as_names, as_text
from dqsql.model.wording import scalar_text
from dqsql.resources import expanded
from dqsql.separators import csv_options, json_options

# The source that is proposed for files that none names.
UNNAMED = "files"
_FILE_FORMATS = ("parquet", "csv", "json", "orc", "delta")
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
# CSV between tabs, as a guess.
_TABS = "tsv"
_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": _TABS,
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
# Files of a folder whose names are looked at.
_LOOKED_AT = 100
_URI = re.compile(r"[A-Za-z][\w+.-]+:/")


def read_sources(document: Document, root: Path) -> list[Source]:
    """The sources of a YAML file. Raises ConfigError with the place of what is wrong."""
    return [
        table
        for source in document.top.sections("sources", "a source")
        for table in _read_source(source, root)
    ]


def _name(section: Section, what: str) -> str:
    name = section.read("name", as_text)
    if not name:
        raise section.problem(f"{what} has no name")
    return str(name)


def _read_source(source: Section, root: Path) -> list[Source]:
    source.check_keys(_SOURCE_KEYS, "a source")
    name = _name(source, "the source")
    tables = source.sections("tables", "a table")
    if not tables:
        raise source.problem(f"the source {name!r} has no tables", "name")
    return [_read_table(source, table, root) for table in tables]


def _read_table(source: Section, table: Section, root: Path) -> Source:
    table.check_keys(_TABLE_KEYS, "a table of a source")
    source_name, name = _name(source, "the source"), _name(table, "the table")
    path, file_format, options = _file(source, table)
    if path is None:
        relation = _table_relation(source, table)
    else:
        relation = quoted(f"dqsql_source__{source_name}__{name}")
        path = resolve_path(path, root)
        file_format = file_format or guess_format(path)
        if file_format == _TABS:
            file_format, options = "csv", {"sep": "\t", **options}
    tags = (*(source.read("tags", as_names) or ()), *(table.read("tags", as_names) or ()))
    return Source(
        name=source_name,
        table=name,
        relation=relation,
        span=replace(table.document.span(*table.keys, "name"), text=name),
        path=path,
        file_format=file_format,
        options=options,
        description=table.read("description", as_text),
        tags=tags,
    )


def _table_relation(source: Section, table: Section) -> str:
    catalog = source.read("database", as_text) or source.read("catalog", as_text)
    # As in dbt the schema is the source's name; `schema: null` leaves it to the session.
    has_schema = "schema" in source.values
    schema = source.read("schema", as_text) if has_schema else _name(source, "the source")
    identifier = table.read("identifier", as_text) or _name(table, "the table")
    # Of several parts, as that of a target may be; in backticks the dots are those of one name.
    parts = (unquoted(schema),) if "`" in (schema or "") else (schema or "").split(".")
    return quoted(*(part for part in (catalog, *parts, identifier) if part))


def _file(source: Section, table: Section) -> tuple[str | None, str | None, dict[str, str]]:
    """Path, format and reader options of a table; those of the source are its defaults."""
    path: str | None = None
    file_format: str | None = None
    options: dict[str, str] = {}
    for section in (_external(source), source, _external(table), table):
        section_path = section.read("path", as_text) or section.read("location", as_text)
        is_below = section_path and path and section.keys[: len(table.keys)] == table.keys
        if section_path and path and is_below and not _is_absolute(section_path):
            # The source's path is the folder of its tables.
            section_path = f"{path.rstrip('/')}/{section_path}"
        path = section_path or path
        for key in ("format", "file_format", "using"):
            if value := section.read(key, as_text):
                file_format = _known_format(section, key, value)
        given = section.read("options", as_mapping) or {}
        options.update({k: scalar_text(v) for k, v in given.items()})
    if path is None and (file_format or options):
        raise table.problem("a file source needs a path", hint="add `path: data/x.csv`")
    if path is not None and len(source.values["tables"]) > 1 and not _has_own_path(table):
        raise table.problem(
            "the tables of this source would all be the same file", hint="give each a path"
        )
    return path, file_format, options


def _external(section: Section) -> Section:
    """Dbt's `external:`, a location or a mapping with one."""
    external = section.values.get("external")
    if isinstance(external, str):
        return Section(section.document, {"location": external}, (*section.keys, "external"))
    return section.section("external", "'external'")


def _has_own_path(table: Section) -> bool:
    external = _external(table).values
    return any(v.get(key) for v in (table.values, external) for key in ("path", "location"))


def _known_format(section: Section, key: str, value: str) -> str:
    if value.lower() in _FILE_FORMATS:
        return value.lower()
    raise section.problem(
        f"unknown file format {value!r}", key, hint=f"one of {', '.join(_FILE_FORMATS)}"
    )


def _is_absolute(path: str) -> bool:
    return bool(_URI.match(path)) or Path(path).is_absolute()


def resolve_path(path: str, root: Path) -> str:
    """An absolute path: relative ones start at the project's root; URIs stay."""
    if _URI.match(path):
        return path
    return str(root / expanded(path))


def unnamed_source(path: str, shown: str, name: str, example: Path | None = None) -> Source:
    """A file or folder that no source names, as it would be read if one did.

    `shown` is its path for people, `name` that of the table; of a pattern of files, `example` is
    one that it matches.
    """
    file_format, options = _reading(path, example)
    return Source(
        name=UNNAMED,
        table=name,
        relation=quoted(f"dqsql_source__{UNNAMED}__{name}"),
        span=Span(shown),
        path=path,
        file_format=file_format,
        options=options,
    )


def _reading(path: str, example: Path | None) -> tuple[str, dict[str, str]]:
    """The format and the options with which Spark reads what no source names."""
    seen = Path(path) if example is None else example
    file_format = guess_format(path if is_known_format(path) else str(seen))
    if file_format == "json":
        return "json", json_options(next(_files_inside(seen), seen))
    if file_format not in ("csv", _TABS):
        return file_format, {}
    separator = "\t" if file_format == _TABS else None
    return "csv", csv_options(next(_files_inside(seen), seen), separator)


def declaration(
    source: str, table: str, path: str, shown: str, *, example: Path | None = None, first: bool
) -> str:
    """What declares a file as a source, as YAML; with `sources:` where it is the `first`.

    `path`, `shown` and `example` as for `unnamed_source`.
    """
    lines = [
        f"  - name: {_as_yaml(source)}",
        "    tables:",
        f"      - name: {_as_yaml(table)}",
        f"        path: {_as_yaml(shown)}",
    ]
    file_format, options = _reading(path, example)
    guessed = guess_format(path)
    if guessed not in (file_format, _TABS):
        lines.append(f"        format: {file_format}")
    if guessed == _TABS:
        del options["sep"]
    if options:
        given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in options.items())
        lines.append(f"        options: {{{given}}}")
    return "\n".join([*(["sources:"] if first else []), *lines])


def _as_yaml(text: str) -> str:
    """A text in YAML; in quotes where it would be something else, as `null` or `a: b`."""
    try:
        same = "\n" not in text and yaml.safe_load(f"- {text}") == [text]
    except yaml.YAMLError:
        same = False
    return text if same else json.dumps(text, ensure_ascii=False)


def is_known_format(path: str) -> bool:
    """Whether a file's name says how it is to be read."""
    return _format_of(path) is not None


def guess_format(path: str) -> str:
    """The format of a file, or of a folder of this machine, from the names of the files.

    One of Spark's, or `tsv`; Parquet where the names say nothing.
    """
    if (Path(path) / "_delta_log").is_dir():
        return "delta"
    return _format_of(path) or _format_inside(Path(path)) or "parquet"


def _format_of(path: str) -> str | None:
    name = path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return _SUFFIXES.get(Path(name).suffix.lower())


def _format_inside(folder: Path) -> str | None:
    """The format of the first file in a folder that Spark would read and whose name has one."""
    first = next(_files_inside(folder), None)
    return None if first is None else _format_of(first.name)


def _files_inside(folder: Path) -> Iterator[Path]:
    """The files in a folder that Spark would read and whose names have a format."""
    files = islice(files_below(folder), _LOOKED_AT)
    return (f for f in files if _format_of(f.name) is not None)


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
