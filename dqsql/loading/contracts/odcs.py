"""Reads the Open Data Contract Standard, version 3 (https://bitol.io): schema and quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dqsql.errors import ConfigError, Span, nearest
from dqsql.loading.contracts.quality import Unfit, rule_of, value_checks
from dqsql.loading.documents import Document, KeyPath, read_document
from dqsql.model.contract import (
    LOGICAL,
    Contract,
    ContractCheck,
    ContractColumn,
    spark_type,
)

VERSIONS = "v3."
# In custom properties of an object: whether further columns break the contract.
CLOSED = "dqsql.closed"


def read_odcs(file: Path, shown: str, name: str | None = None) -> Contract:
    """Read one object of a contract.

    Args:
        file: the YAML file.
        shown: its path for people.
        name: the object, by its name or physical name; None: the only one.

    Raises:
        ConfigError: the file is missing, is no contract of version 3, or has no such object.
    """
    document = read_document(file, shown)
    version = str(document.data.get("apiVersion") or "")
    if document.data.get("kind") != "DataContract" or not version.startswith(VERSIONS):
        raise document.problem(
            f"{shown} is no data contract of version 3",
            "apiVersion",
            hint="it has kind: DataContract and apiVersion: v3.1.0 (Open Data Contract Standard)",
        )
    objects = document.sequence(document.data.get("schema"), "schema", what="'schema'")
    index = _chosen(document, objects, name)
    return _Object(document, objects[index], ("schema", index)).contract()


def object_names(file: Path, shown: str) -> list[str]:
    """The names of a contract's objects. Raises ConfigError."""
    document = read_document(file, shown)
    objects = document.sequence(document.data.get("schema"), "schema", what="'schema'")
    return [str(o.get("name")) for o in objects if isinstance(o, dict)]


def _chosen(document: Document, objects: Sequence[Any], name: str | None) -> int:
    known = [o for o in objects if isinstance(o, dict)]
    names = [str(o.get("name") or "") for o in known]
    if len(known) != len(objects) or not known:
        raise document.problem("'schema' must be a list of objects", "schema")
    if name is None:
        if len(known) == 1:
            return 0
        raise document.problem(
            f"the contract has {len(known)} objects",
            "schema",
            hint=f"name one: contract = '{document.path}#{names[0]}'",
        )
    for index, found in enumerate(known):
        if name.lower() in (str(found.get(k) or "").lower() for k in ("name", "physicalName")):
            return index
    raise document.problem(
        f"the contract has no object {name!r}",
        "schema",
        hint=nearest(name, names) or f"its objects: {', '.join(names)}",
    )


@dataclass
class _Object:
    """One object of a contract. Rules that are not understood are remembered, not refused."""

    document: Document
    data: Mapping[str, Any]
    keys: KeyPath
    left: list[str] = field(default_factory=list)

    def contract(self) -> Contract:
        given = self.document.sequence(
            self.data.get("properties"), *self.keys, "properties", what="'properties'"
        )
        columns = tuple(self._column(p, i) for i, p in enumerate(given))
        checks = tuple(self._rules(self.data, None))
        return Contract(
            name=str(self.data.get("physicalName") or self.data.get("name") or ""),
            columns=columns,
            checks=checks,
            closed=self._custom(CLOSED) is True,
            span=self.document.span(*self.keys),
            version=str(self.document.data.get("version") or ""),
            description=str(self.data.get("description") or ""),
            left=tuple(self.left),
        )

    def _custom(self, name: str) -> Any:
        given = self.data.get("customProperties")
        entries = [e for e in given if isinstance(e, dict)] if isinstance(given, list) else []
        return next((e.get("value") for e in entries if e.get("property") == name), None)

    def _column(self, data: Any, index: int) -> ContractColumn:
        name = data.get("physicalName") or data.get("name") if isinstance(data, dict) else None
        if not isinstance(name, str) or not name:
            raise self.document.problem(
                "a property has no name", *self.keys, "properties", index, hint="name: order_id"
            )
        position = data.get("primaryKeyPosition")
        key = position if isinstance(position, int) and position > 0 else index + 1
        options = data.get("logicalTypeOptions")
        checks: list[ContractCheck] = []
        try:
            logical = str(data.get("logicalType") or "")
            given = options if isinstance(options, dict) else {}
            checks += value_checks(given, data.get("enum"), logical)
        except Unfit as reason:
            self.left.append(f"{name}: {reason}")
        return ContractColumn(
            name=name,
            type=self._type(data),
            required=data.get("required") is True,
            unique=data.get("unique") is True,
            key=key if data.get("primaryKey") is True else None,
            description=str(data.get("description") or ""),
            checks=(*checks, *self._rules(data, name)),
        )

    def _type(self, data: Mapping[str, Any]) -> str:
        """Spark's type where the physical one is one, else the logical type."""
        found = spark_type(str(data.get("physicalType") or ""))
        if found is not None:
            return found
        logical = str(data.get("logicalType") or "")
        return f"<{logical}>" if logical in LOGICAL else ""

    def _rules(self, data: Mapping[str, Any], column: str | None) -> list[ContractCheck]:
        given = data.get("quality")
        found = []
        for rule in given if isinstance(given, list) else []:
            if not isinstance(rule, dict):
                continue
            try:
                found.append(rule_of(rule, column))
            except Unfit as reason:
                title = rule.get("name") or rule.get("description") or rule.get("metric") or "rule"
                where = f"{column}: " if column else ""
                self.left.append(f"{where}{title}: {reason}")
        return found


def contract_file(root: Path, setting: str, span: Span) -> Contract:
    """The contract that a setting names: `orders.odcs.yaml#orders`. Raises ConfigError."""
    path, _, name = setting.partition("#")
    file = root / path
    if not file.is_file():
        raise ConfigError(
            f"there is no contract {path!r}",
            span=span,
            hint="the path is relative to the project: contracts/orders.odcs.yaml",
        )
    return read_odcs(file, path, name or None)
