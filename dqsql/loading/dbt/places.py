"""Where things of a manifest stand in dbt's YAML files; the manifest itself does not say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dqsql.errors import DqsqlError, Span
from dqsql.loading.dbt.manifest import Manifest, Node
from dqsql.loading.documents import Document, KeyPath, read_document

_SECTIONS = {"model": "models", "seed": "seeds", "snapshot": "snapshots"}
_TESTS = ("data_tests", "tests")


@dataclass
class Places:
    """Finds places by reading the YAML files, each once. What is not found is line 1."""

    root: Path
    packages_dir: str
    manifest: Manifest
    _documents: dict[str, Document | None] = field(default_factory=dict)

    def of_node(self, node: Node) -> Span:
        """Where a node is described, else its own file."""
        entry = self._entry(node)
        return entry[0].span(*entry[1]) if entry else Span(self.file_of(node))

    def of_meta(self, node: Node, column: str | None) -> Span:
        """Where `meta: {dqsql: ..}` of a node or of one of its columns stands."""
        entry = self._entry(node)
        if entry is None:
            return Span(self.file_of(node))
        document, keys, data = entry
        if column is not None:
            at = _index_of(data.get("columns"), column)
            if at is None:
                return document.span(*keys)
            keys = (*keys, "columns", at)
        for path in (("config", "meta", "dqsql"), ("meta", "dqsql")):
            if (*keys, *path) in document.marks:
                return document.span(*keys, *path)
        return document.span(*keys)

    def of_text(self, near: Span, text: str) -> Span:
        """The place of a check's text at or below a place, where it can be told."""
        document = self._documents.get(near.file)
        if document is None:
            return replace(near, text=text)
        marks = [
            mark
            for keys, mark in document.marks.items()
            if mark[0] >= near.line and _value(document.data, keys) == text
        ]
        line, column = min(marks, default=(near.line, near.column))
        return Span(near.file, line, column, text)

    def of_test(self, test: Node, tested: Node | None) -> Span:
        """Where a generic test is written; the file's first line where that is not clear."""
        file = self.file_of(test)
        entry = self._entry(tested) if tested is not None else None
        metadata = test.data.get("test_metadata") or {}
        if entry is None or entry[0].path != file:
            return Span(file)
        document, keys, data = entry
        column = test.data.get("column_name")
        if column is not None:
            at = _index_of(data.get("columns"), str(column).strip("`"))
            if at is None:
                return document.span(*keys)
            keys, data = (*keys, "columns", at), data["columns"][at]
        names = [n for n in (metadata.get("namespace"), metadata.get("name")) if n]
        return self._test_in(document, keys, data, ".".join(names), str(test.data["name"]))

    def _test_in(
        self, document: Document, keys: KeyPath, data: dict[str, Any], kind: str, name: str
    ) -> Span:
        first: Span | None = None
        for section in _TESTS:
            for index, item in enumerate(data.get(section) or []):
                given = next(iter(item)) if isinstance(item, dict) and item else item
                if given != kind:
                    continue
                span = replace(document.span(*keys, section, index), text=kind)
                inside = item[kind] if isinstance(item, dict) else None
                if isinstance(inside, dict) and inside.get("name") == name:
                    return span
                first = first or span
        return first or document.span(*keys)

    def _entry(self, node: Node) -> tuple[Document, KeyPath, dict[str, Any]] | None:
        """The document, keys and mapping that describe a node."""
        path = node.properties_file
        document = self._document(self._in_package(node, path)) if path else None
        entry = None if document is None else _described(document.data, node)
        return None if document is None or entry is None else (document, *entry)

    def file_of(self, node: Node) -> str:
        """The node's file, relative to the root project."""
        return self._in_package(node, node.path)

    def _in_package(self, node: Node, path: str) -> str:
        if node.package == self.manifest.project:
            return path
        return f"{self.packages_dir}/{node.package}/{path}"

    def _document(self, path: str) -> Document | None:
        if path not in self._documents:
            try:
                # Its Jinja is dbt's business.
                self._documents[path] = read_document(self.root / path, path)
            except DqsqlError:
                self._documents[path] = None
        return self._documents[path]


def _described(data: dict[str, Any], node: Node) -> tuple[KeyPath, dict[str, Any]] | None:
    """The keys and the mapping that describe a node in a file."""
    keys: KeyPath = (_SECTIONS.get(node.resource_type, "models"),)
    if node.resource_type == "source":
        at = _index_of(data.get("sources"), str(node.data["source_name"]))
        if at is None:
            return None
        keys = ("sources", at, "tables")
    items = _value(data, keys)
    index = _index_of(items, str(node.data["name"]))
    return None if index is None else ((*keys, index), items[index])


def _index_of(items: object, name: str) -> int | None:
    """The position of the mapping with this name in a list."""
    if not isinstance(items, list):
        return None
    mappings = ((i, item) for i, item in enumerate(items) if isinstance(item, dict))
    return next((i for i, item in mappings if item.get("name") == name), None)


def _value(data: Any, keys: KeyPath) -> Any:
    for key in keys:
        if isinstance(data, dict):
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data
