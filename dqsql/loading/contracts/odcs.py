"""Reads the Open Data Contract Standard, version 3 (https://bitol.io): schema and quality."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dqsql.dialect import quoted
from dqsql.errors import ConfigError, Span, nearest
from dqsql.loading.annotations import AnnotationProblem, split_annotation
from dqsql.loading.documents import Document, KeyPath, read_document
from dqsql.loading.settings import check_words, monitor_options, read_check_settings
from dqsql.model.contract import LOGICAL, Contract, ContractCheck, ContractColumn, spark_type
from dqsql.model.project import Severity
from dqsql.model.settings import SettingProblem
from dqsql.model.wording import scalar_text

_VERSIONS = "v3."
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_Settings = Mapping[str, Any]
# In custom properties of an object: whether further columns break the contract.
_CLOSED = "dqsql.closed"


def read_odcs(file: Path, shown: str, name: str | None = None) -> Contract:
    """Read one object of a contract, by its name or physical name; None: the only one.

    `shown` is the file's path for people. Raises ConfigError: the file is missing, is no contract
    of version 3, or has no such object.
    """
    document = read_document(file, shown)
    version = str(document.data.get("apiVersion") or "")
    if document.data.get("kind") != "DataContract" or not version.startswith(_VERSIONS):
        raise document.problem(
            f"{shown} is not a data contract of version 3",
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
        given = self.document.sequence(
            self.data.get("properties"), *self.keys, "properties", what="'properties'"
        )
        columns = tuple(self._column(p, i) for i, p in enumerate(given))
        checks = tuple(self._rules(self.data, None, self.keys))
        if self.document.data.get("slaProperties"):
            self.left.append("slaProperties: say @freshness or @late in the check model")
        return Contract(
            name=str(self.data.get("physicalName") or self.data.get("name") or ""),
            columns=columns,
            checks=checks,
            closed=self._is_closed(),
            span=self.document.span(*self.keys),
            left=tuple(self.left),
        )

    def _is_closed(self) -> bool:
        given = self.data.get("customProperties")
        entries = [e for e in given if isinstance(e, dict)] if isinstance(given, list) else []
        return next((e.get("value") for e in entries if e.get("property") == _CLOSED), None) is True

    def _column(self, data: Any, index: int) -> ContractColumn:
        name = data.get("physicalName") or data.get("name") if isinstance(data, dict) else None
        if not isinstance(name, str) or not name:
            raise self.document.problem(
                "a property has no name", *self.keys, "properties", index, hint="name: order_id"
            )
        position = data.get("primaryKeyPosition")
        key = position if isinstance(position, int) and position > 0 else index + 1
        place = (*self.keys, "properties", index)
        checks: list[ContractCheck] = []
        try:
            checks += value_checks(_mapping(data.get("logicalTypeOptions")), data)
        except Unfit as reason:
            self.left.append(f"{name}: {reason}")
        self.left += [f"{name}: {text}" for text in _unread(data)]
        return ContractColumn(
            name=name,
            type=_type(data),
            required=data.get("required") is True,
            unique=data.get("unique") is True,
            key=key if data.get("primaryKey") is True else None,
            checks=(*checks, *self._rules(data, name, place)),
            span=self.document.span(*place),
        )

    def _rules(
        self, data: Mapping[str, Any], column: str | None, keys: KeyPath
    ) -> Iterator[ContractCheck]:
        given = data.get("quality")
        for index, rule in enumerate(given if isinstance(given, list) else ()):
            if not isinstance(rule, dict):
                continue
            try:
                check = rule_of(rule, column)
                yield replace(check, span=self.document.span(*keys, "quality", index))
            except Unfit as reason:
                title = rule.get("name") or rule.get("description") or rule.get("metric") or "rule"
                where = f"{column}: " if column else ""
                self.left.append(f"{where}{title}: {reason}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


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
    # The format of numbers and times says how they are written elsewhere.
    ignored = () if data.get("logicalType") == "string" else ("format",)
    known = (*_BOUNDS, "pattern", "uniqueItems", "multipleOf", *_DESCRIBING, *ignored)
    for option in _mapping(data.get("logicalTypeOptions")):
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


# --- rules of quality ----------------------------------------------------------------------------

_ENGINE = "dqsql"
_DIALECT = "databricks"
_OPERATORS = {
    "mustBe": "= {0}",
    "mustNotBe": "<> {0}",
    "mustBeGreaterThan": "> {0}",
    "mustBeGreaterOrEqualTo": ">= {0}",
    "mustBeLessThan": "< {0}",
    "mustBeLessOrEqualTo": "<= {0}",
}
# Options of logical types that say something of each value.
_BOUNDS = {
    "minimum": "{c} >= {v}",
    "maximum": "{c} <= {v}",
    "exclusiveMinimum": "{c} > {v}",
    "exclusiveMaximum": "{c} < {v}",
    "minLength": "length({c}) >= {v}",
    "maxLength": "length({c}) <= {v}",
    "minItems": "size({c}) >= {v}",
    "maxItems": "size({c}) <= {v}",
}
_STRICT = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_STRICTER = {inclusive: strict for strict, inclusive in _STRICT.items()}
# Options that describe a type without promising anything of values.
_DESCRIBING = ("timezone", "defaultTimezone", "description")
_SOFT = ("warn", "info", "low", "minor")


class Unfit(Exception):
    """A rule that dqsql does not check; the text says why."""


def value_checks(options: Mapping[str, Any], data: Mapping[str, Any]) -> list[ContractCheck]:
    """What the options of a logical type and an enumeration say of the values of a column.

    `data` is the property. `{c}` in an expression stands for the column. Raises Unfit.
    """
    logical, enum = str(data.get("logicalType") or ""), data.get("enum")
    checks = []
    for name, text in _BOUNDS.items():
        given = options.get(name)
        if given is True and name in _STRICT:
            # Before version 3.1 it says of the other bound that it is exclusive.
            given = options.get(_STRICT[name])
        elif name in _STRICT.values() and options.get(_STRICTER[name]) is True:
            continue
        if given is not None and not isinstance(given, bool):
            condition = text.format(c="{c}", v=_bound(given, logical))
            checks.append(ContractCheck(f"satisfies({{c}} is null or {condition})"))
    if options.get("uniqueItems") is True:
        unique = "size(array_distinct({c})) = size({c})"
        checks.append(ContractCheck(f"satisfies({{c}} is null or {unique})"))
    if (step := options.get("multipleOf")) is not None:
        if not isinstance(step, int) or step <= 0:
            raise Unfit(f"multipleOf {step}: only whole numbers are checked")
        checks.append(ContractCheck(f"satisfies({{c}} is null or {{c}} % {step} = 0)"))
    if "pattern" in options:
        checks.append(ContractCheck(f"matches({_literal(str(options['pattern']))})"))
    if isinstance(enum, list) and enum:
        values = [e.get("value") if isinstance(e, dict) else e for e in enum]
        checks.append(ContractCheck(f"accepted_values({_listed(values)})"))
    return checks


def rule_of(rule: Mapping[str, Any], column: str | None) -> ContractCheck:
    """One rule of `quality`; `{c}` in its expression stands for the column. Raises Unfit."""
    kind = str(rule.get("type") or "library")
    makers: Mapping[str, Callable[[Mapping[str, Any], str | None], tuple[str, _Settings]]] = {
        "library": lambda rule, column: (_of_library(rule, column), {}),
        "sql": _of_sql,
        "custom": _of_engine,
    }
    if kind not in makers:
        raise Unfit("it is plain text" if kind == "text" else f"a rule of type {kind!r}")
    expression, settings = makers[kind](rule, column)
    severity = str(rule.get("severity") or "").lower()
    return ContractCheck(
        expression=expression,
        name=str(rule["name"]) if rule.get("name") else None,
        severity=Severity.WARN if severity.startswith(_SOFT) else None,
        settings=settings,
        description=str(rule["description"]) if rule.get("description") else None,
    )


def _of_library(rule: Mapping[str, Any], column: str | None) -> str:
    metric = str(rule.get("metric") or rule.get("rule") or "")
    arguments = _mapping(rule.get("arguments"))
    # An example of the standard has it one level too high.
    pattern = arguments.get("pattern") or rule.get("pattern")
    if metric == "rowCount":
        conditions = _conditions(rule)
        if len(conditions) == 1:
            return f"row_count {conditions[0]}"
        return f"expect({_all(conditions, 'count(*)')})"
    if metric == "duplicateValues":
        names = arguments.get("properties")
        listed = ", ".join(quoted(str(n)) for n in names) if isinstance(names, list) else ""
        if not listed and column is None:
            raise Unfit("duplicateValues names no properties")
        return _share(f"coalesce(duplicate_count({listed or '{c}'}), 0)", rule)
    if column is None:
        raise Unfit(f"the metric {metric!r} is about a column")
    if metric == "nullValues":
        return _share("count_if({c} is null)", rule)
    if metric == "missingValues":
        values = arguments.get("missingValues")
        texts = [v for v in values if v is not None] if isinstance(values, list) else [""]
        inside = f" or {{c}} in ({_listed(texts)})" if texts else ""
        return _share(f"count_if({{c}} is null{inside})", rule)
    if metric == "invalidValues":
        given = arguments.get("validValues")
        valid: list[Any] = given if isinstance(given, list) else []
        wrong = []
        if valid:
            wrong.append(f"{{c}} not in ({_listed(valid)})")
        if pattern:
            wrong.append(f"not {{c}} rlike {_literal(str(pattern))}")
        if not wrong:
            raise Unfit("invalidValues has neither validValues nor pattern")
        if not pattern and _conditions(rule) == ["= 0"]:
            return f"accepted_values({_listed(valid)})"
        return _share(f"count_if({' or '.join(wrong)})", rule)
    raise Unfit(f"the metric {metric!r} is not in the standard")


def _share(count: str, rule: Mapping[str, Any]) -> str:
    """A number of rows, or their share in percent, compared."""
    if str(rule.get("unit") or "rows").lower() in ("percent", "%"):
        count = f"{count} * 100.0 / nullif(count(*), 0)"
    return f"expect({_all(_conditions(rule), count)})"


def _all(conditions: Sequence[str], subject: str) -> str:
    return " and ".join(f"{subject} {condition}" for condition in conditions)


def _conditions(rule: Mapping[str, Any]) -> list[str]:
    """What a rule demands of its metric: all of it. Raises Unfit: nothing."""
    conditions = [
        text.format(_number(rule[name])) for name, text in _OPERATORS.items() if name in rule
    ]
    for name, word in (("mustBeBetween", "between"), ("mustNotBeBetween", "not between")):
        ends = rule.get(name)
        if isinstance(ends, list) and len(ends) == 2:
            conditions.append(f"{word} {_number(ends[0])} and {_number(ends[1])}")
    if not conditions:
        raise Unfit("it has no condition (mustBe, mustBeLessThan ..)")
    return conditions


def _of_sql(rule: Mapping[str, Any], column: str | None) -> tuple[str, _Settings]:
    """A query that is one aggregate over the object, perhaps with a condition."""
    query = str(rule.get("query") or "")
    text = re.sub(r"\$?\{(?:object|table|model)\}", "dqsql_object", query)
    name = quoted(column or "dqsql_column")
    text = re.sub(r"\$?\{(?:property|column|field)\}", lambda _: name, text)
    try:
        tree = parse_one(text, dialect=_DIALECT)
    except SqlglotError:
        raise Unfit("its SQL cannot be read") from None
    known = {"expressions", "from_", "from", "where"}
    extra = [k for k, v in tree.args.items() if v and k not in known]
    tables = list(tree.find_all(exp.Table))
    is_simple = isinstance(tree, exp.Select) and not extra and len(tree.expressions) == 1
    if not is_simple or [t.name for t in tables] != ["dqsql_object"]:
        raise Unfit("its SQL is more than one aggregate over the object")
    for node in tree.find_all(exp.Column):
        # The one relation may have an alias: `select count(*) from {object} o where o.x > 1`.
        if node.table in ("dqsql_object", tables[0].alias) and len(node.parts) == 2:
            node.set("table", None)
    projection = tree.expressions[0].unalias()
    if not projection.find(exp.AggFunc):
        raise Unfit("its SQL is not an aggregate")
    where = tree.args.get("where")
    condition = None if where is None else where.this.sql(dialect=_DIALECT)
    settings = {} if condition is None else {"where": condition}
    return f"expect({_all(_conditions(rule), projection.sql(dialect=_DIALECT))})", settings


def _of_engine(rule: Mapping[str, Any], column: str | None) -> tuple[str, _Settings]:
    """An annotation of dqsql's own, as an export writes it; its settings are custom properties."""
    if str(rule.get("engine") or "").lower() != _ENGINE:
        raise Unfit(f"it is for {rule.get('engine') or 'another tool'}")
    try:
        text, written = split_annotation(str(rule.get("implementation") or ""))
    except AnnotationProblem as problem:
        raise Unfit(problem.message) from None
    if not text:
        raise Unfit("it has no implementation")
    given = rule.get("customProperties")
    entries = [e for e in given if isinstance(e, dict)] if isinstance(given, list) else []
    # Other tools have properties of their own.
    known = check_words() | monitor_options()
    settings = {e["property"]: e.get("value") for e in entries if e.get("property") in known}
    settings |= written
    try:
        read_check_settings(settings)
    except SettingProblem as problem:
        raise Unfit(problem.message) from None
    return text, settings


def _bound(value: Any, logical: str) -> str:
    if isinstance(value, int | float):
        return str(value)
    text = str(value)
    if logical in ("date", "timestamp"):
        return f"{'date' if len(text) <= 10 else 'timestamp'} {_literal(text)}"
    return _number(text)


def _number(value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        raise Unfit(f"{value!r} is not a number")
    return text


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(
        str(v)
        if isinstance(v, int | float) and not isinstance(v, bool)
        else _literal(scalar_text(v))
        for v in values
    )


def _literal(text: str) -> str:
    """A SQL text; backslashes stay what they are in raw strings."""
    if "\\" in text and "'" not in text:
        return f"r'{text}'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
