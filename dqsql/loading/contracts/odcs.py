"""Reads the Open Data Contract Standard, version 3 (https://bitol.io): schema and quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dqsql.errors import ConfigError, Span, nearest
from dqsql.loading.contracts.rules import (
    BOUNDS,
    DESCRIBING,
    Unfit,
    as_mapping,
    enum_values,
    mappings_in,
    rule_of,
    value_checks,
)
from dqsql.loading.documents import Document, KeyPath, Section, read_document
from dqsql.model.contract import (
    BATCH_BY,
    CLOSED,
    LOGICAL,
    SEGMENT_BY,
    Contract,
    ContractCheck,
    ContractColumn,
    spark_type,
)

_VERSIONS = "v3."


def read_odcs(file: Path, shown: str, name: str | None = None) -> Contract:
    """Read one object of a contract, by its name or physical name; None: the only one.

    `shown` is the file's path for people. Raises ConfigError: the file is missing, is no contract
    of version 3, or has no such object.
    """
    document = _read(file, shown)
    objects = document.top.listed("schema")
    index = _chosen(document, objects, name)
    return _Object(document, objects[index], ("schema", index)).contract()


def object_names(file: Path, shown: str) -> list[str]:
    """The names of a contract's objects. Raises ConfigError: it is no contract of version 3."""
    objects = _read(file, shown).top.listed("schema")
    return [str(o.get("name")) for o in objects if isinstance(o, dict)]


def _read(file: Path, shown: str) -> Document:
    document = read_document(file, shown)
    version = str(document.data.get("apiVersion") or "")
    if document.data.get("kind") != "DataContract" or not version.startswith(_VERSIONS):
        raise document.problem(
            f"{shown} is not a data contract of version 3",
            "apiVersion",
            hint="it has kind: DataContract and apiVersion: v3.1.0 (Open Data Contract Standard)",
        )
    return document


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
    for index, candidate in enumerate(known):
        if name.lower() in (str(candidate.get(k) or "").lower() for k in ("name", "physicalName")):
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
        given = Section(self.document, self.data, self.keys).listed("properties")
        self._refuse_malformed(self.data, self.keys)
        columns = tuple(self._column(p, i) for i, p in enumerate(given))
        checks = tuple(self._rules(self.data, None, self.keys))
        if self.document.data.get("slaProperties"):
            self.left.append("slaProperties: say @freshness or @late in the check model")
        return Contract(
            name=str(self.data.get("physicalName") or self.data.get("name") or ""),
            columns=columns,
            checks=checks,
            closed=self._own_words.get(CLOSED) is True,
            span=self.document.span(*self.keys),
            left=tuple(self.left),
            config=self._config(),
        )

    def _config(self) -> dict[str, Any]:
        batch_by, segment_by = (self._own_words.get(name) for name in (BATCH_BY, SEGMENT_BY))
        config: dict[str, Any] = {"batch_by": batch_by, "segment_by": segment_by}
        texts = segment_by if isinstance(segment_by, list) else [segment_by]
        if not all(text is None or isinstance(text, str) for text in (batch_by, *texts)):
            raise self.document.problem(
                f"{BATCH_BY} is a text, and {SEGMENT_BY} a text or a list of texts",
                *self.keys,
                "customProperties",
            )
        return {name: value for name, value in config.items() if value}

    @property
    def _own_words(self) -> Mapping[str, Any]:
        """The custom properties, by their names."""
        entries = mappings_in(self.data.get("customProperties"))
        return {str(e.get("property")): e.get("value") for e in entries}

    def _column(self, data: Any, index: int) -> ContractColumn:
        name = data.get("physicalName") or data.get("name") if isinstance(data, dict) else None
        if not isinstance(name, str) or not name:
            raise self.document.problem(
                "a property has no name", *self.keys, "properties", index, hint="name: order_id"
            )
        position = data.get("primaryKeyPosition")
        key = position if isinstance(position, int) and position > 0 else index + 1
        place = (*self.keys, "properties", index)
        self._refuse_malformed(data, place)
        checks, left = value_checks(as_mapping(data.get("logicalTypeOptions")), data)
        self.left += [f"{name}: {text}" for text in (*left, *_unread(data))]
        return ContractColumn(
            name=name,
            type=_type(data),
            required=data.get("required") is True,
            unique=data.get("unique") is True,
            key=key if data.get("primaryKey") is True else None,
            checks=(*checks, *self._rules(data, name, place)),
            span=self.document.span(*place),
        )

    def _refuse_malformed(self, data: Mapping[str, Any], place: KeyPath) -> None:
        """Raise ConfigError for a promise that would else be none."""
        for key, (kind, what) in _SHAPES.items():
            if not isinstance(data.get(key), kind | None):
                message = f"{key} must be {what}, not {data[key]!r}"
                raise self.document.problem(message, *place, key)
        if data.get("logicalType") != "string":
            return
        for value in _values_in(data):
            if isinstance(value, bool):
                hint = "YAML reads no, off and on as truth: write the value in quotes"
                raise self.document.problem(f"{value} is no text", *place, hint=hint)

    def _rules(
        self, data: Mapping[str, Any], column: str | None, keys: KeyPath
    ) -> Iterator[ContractCheck]:
        for index, rule in enumerate(data.get("quality") or ()):
            if not isinstance(rule, dict):
                message = f"a rule of quality is a mapping, not {rule!r}"
                raise self.document.problem(message, *keys, "quality", index)
            try:
                check = rule_of(rule, column)
                yield replace(check, span=self.document.span(*keys, "quality", index))
            except Unfit as reason:
                title = rule.get("name") or rule.get("description") or rule.get("metric") or "rule"
                where = f"{column}: " if column else ""
                self.left.append(f"{where}{title}: {reason}")


# What a property or an object may say, and what it is then.
_SHAPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("required", "unique", "primaryKey"), (bool, "true or false")),
    "logicalTypeOptions": (dict, "a mapping"),
    **dict.fromkeys(("quality", "enum"), (list, "a list")),
}
_VALUES = ("validValues", "missingValues")


def _values_in(data: Mapping[str, Any]) -> Iterator[Any]:
    """The values that a property lists, in an enumeration or in its rules."""
    yield from enum_values(data.get("enum") or ())
    for rule in data.get("quality") or ():
        arguments = as_mapping(as_mapping(rule).get("arguments"))
        lists = (arguments.get(name) for name in _VALUES)
        yield from (v for values in lists if isinstance(values, list) for v in values)


def _type(data: Mapping[str, Any]) -> str:
    """Spark's type where the physical one is one, else the logical type."""
    physical_type = spark_type(str(data.get("physicalType") or ""))
    if physical_type is not None:
        return physical_type
    logical = str(data.get("logicalType") or "")
    return f"<{logical}>" if logical in LOGICAL else ""


def _unread(data: Mapping[str, Any]) -> Iterator[str]:
    """What a property says that is not checked."""
    if not _type(data) and (physical := data.get("physicalType")):
        yield f"{physical!r} is no type of Spark, so that any type passes"
    logical = data.get("logicalType")
    if logical is not None and logical not in LOGICAL:
        yield f"{logical!r} is no logical type of the standard"
    # The format of numbers and times says how they are written elsewhere.
    ignored = () if data.get("logicalType") == "string" else ("format",)
    known = (*BOUNDS, "pattern", "uniqueItems", "multipleOf", *DESCRIBING, *ignored)
    for option in as_mapping(data.get("logicalTypeOptions")):
        if option not in known:
            yield f"the option {option} of logicalTypeOptions"
    for nested in ("properties", "items"):
        if _promises(data.get(nested)):
            yield f"what is said of its {'fields' if nested == 'properties' else nested}"


def _promises(nested: Any) -> bool:
    """Whether fields or items have more than names and types."""
    entries = nested if isinstance(nested, list) else [nested]
    return any(
        isinstance(e, dict)
        and (
            any(e.get(k) for k in ("required", "unique", "quality", "logicalTypeOptions", "enum"))
            or _promises(e.get("properties"))
            or _promises(e.get("items"))
        )
        for e in entries
    )


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
