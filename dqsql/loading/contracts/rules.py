"""Rules of the Open Data Contract Standard, version 3 (https://bitol.io), as annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dqsql.dialect import quoted
from dqsql.loading.annotations import AnnotationProblem, split_annotation
from dqsql.loading.settings import check_words, monitor_options, read_check_settings
from dqsql.model.contract import ContractCheck, spark_type
from dqsql.model.project import Severity
from dqsql.model.settings import SettingProblem
from dqsql.model.wording import scalar_text

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_Settings = Mapping[str, Any]
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
# Rules of version 3.0 by what the standard calls them now. But for the first they demand that there
# are none where they say nothing else.
_OLDER = {
    "countCheck": "rowCount",
    "duplicateCount": "duplicateValues",
    "nullCheck": "nullValues",
    "validValues": "invalidValues",
}
# Options of logical types that say something of each value.
BOUNDS = {
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
DESCRIBING = ("timezone", "defaultTimezone", "description")
_SOFT = ("warn", "info", "low", "minor")
_HARD = ("error", "critical", "high", "major", "fatal", "blocker")
_BETWEEN = {"mustBeBetween": "between", "mustNotBeBetween": "not between"}
_PERCENT, _ROWS = ("percent", "percentage", "%"), ("rows", "row", "count")


class Unfit(Exception):
    """A rule that dqsql does not check; the text says why."""


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A mapping as it is; nothing of anything else."""
    return value if isinstance(value, dict) else {}


def mappings_in(value: Any) -> list[Mapping[str, Any]]:
    """The mappings among the items of a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def value_checks(
    options: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[list[ContractCheck], list[str]]:
    """What the options of a logical type and an enumeration say of the values of a column.

    `data` is the property. `{c}` in an expression stands for the column. Beside the checks, what of
    them is not checked.
    """
    checks, left, given = [], [], {**options, "enum": data.get("enum")}
    for name in (*BOUNDS, "uniqueItems", "multipleOf", "pattern", "enum"):
        value = given.get(name)
        if value is True and name in _STRICT:
            # Before version 3.1 it says of the other bound that it is exclusive.
            value = given.get(_STRICT[name])
        elif name in _STRICTER and given.get(_STRICTER[name]) is True:
            continue
        try:
            if value is not None and (text := _of_option(name, value, data)) is not None:
                checks.append(ContractCheck(text))
        except Unfit as reason:
            left.append(str(reason))
    return checks, left


def enum_values(enum: Sequence[Any]) -> list[Any]:
    """The values of an enumeration, each of which may be described."""
    return [e.get("value") if isinstance(e, dict) else e for e in enum]


def _of_option(name: str, value: Any, data: Mapping[str, Any]) -> str | None:
    """The annotation for an option; None where it asks for nothing. Raises Unfit."""
    if name == "enum":
        listed = _listed(enum_values(value))
        return f"accepted_values({listed})" if listed else None
    if name == "pattern":
        return f"matches({_literal(str(value))})"
    if name == "uniqueItems":
        condition = "size(array_distinct({c})) = size({c})" if value is True else None
    elif name == "multipleOf":
        step = _number(value)
        if Decimal(step) <= 0:
            raise Unfit(f"multipleOf {step} is not above 0")
        # The remainder of a float is not what its digits say.
        number = "{c}" if step.isdigit() else "try_cast(cast({c} as string) as decimal(38,18))"
        condition = f"{number} % {Decimal(step):f} = 0"
    else:
        bound = None if isinstance(value, bool) else _bound(value, data)
        condition = None if bound is None else BOUNDS[name].format(c="{c}", v=bound)
    return None if condition is None else f"satisfies({{c}} is null or {condition})"


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
        severity=_severity(severity),
        settings=settings,
        description=str(rule["description"]) if rule.get("description") else None,
    )


def _severity(text: str) -> Severity | None:
    if text.startswith(_SOFT):
        return Severity.WARN
    return Severity.ERROR if text.startswith(_HARD) else None


def _of_library(rule: Mapping[str, Any], column: str | None) -> str:
    metric = str(rule.get("metric") or rule.get("rule") or "")
    counts_valid = False
    if metric in _OLDER:
        has_bounds = any(str(name).startswith("must") for name in rule)
        counts_valid = metric == "validValues" and has_bounds
        metric = _OLDER[metric]
        if metric != "rowCount" and not has_bounds:
            rule = {**rule, "mustBe": 0}
    arguments = as_mapping(rule.get("arguments"))
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
        valid, wrong = _valid(rule), []
        if valid:
            wrong.append(f"{{c}} not in ({_listed(valid)})")
        if pattern:
            wrong.append(f"not {{c}} rlike {_literal(str(pattern))}")
        if not wrong:
            raise Unfit(f"{metric} has neither validValues nor pattern")
        if not pattern and _conditions(rule) == ["= 0"]:
            return f"accepted_values({_listed(valid)})"
        if counts_valid:
            # What took the place of `validValues` counts the others.
            return _share(f"count_if(not ({' or '.join(wrong)}))", rule)
        return _share(f"count_if({' or '.join(wrong)})", rule)
    raise Unfit(f"the metric {metric!r} is not in the standard")


def _valid(rule: Mapping[str, Any]) -> list[Any]:
    """The values that are valid, but for nulls."""
    given = as_mapping(rule.get("arguments")).get("validValues") or rule.get("validValues")
    return [v for v in given if v is not None] if isinstance(given, list) else []


def _share(count: str, rule: Mapping[str, Any]) -> str:
    """A number of rows, or their share in percent, compared."""
    unit = str(rule.get("unit") or "rows").lower()
    if unit not in (*_PERCENT, *_ROWS):
        raise Unfit(f"the unit {unit!r} is neither rows nor percent")
    if unit in _PERCENT:
        count = f"{count} * 100.0 / nullif(count(*), 0)"
    return f"expect({_all(_conditions(rule), count)})"


def _all(conditions: Sequence[str], subject: str) -> str:
    return " and ".join(f"{subject} {condition}" for condition in conditions)


def _conditions(rule: Mapping[str, Any]) -> list[str]:
    """What a rule demands of its metric: all of it. Raises Unfit: nothing."""
    conditions = [
        text.format(_number(rule[name])) for name, text in _OPERATORS.items() if name in rule
    ]
    for name, word in _BETWEEN.items():
        ends = rule.get(name)
        if isinstance(ends, list) and len(ends) == 2:
            conditions.append(f"{word} {_number(ends[0])} and {_number(ends[1])}")
        elif ends is not None:
            raise Unfit(f"{name} takes two numbers, not {ends!r}")
    for name in rule:
        if str(name).startswith("must") and name not in (*_OPERATORS, *_BETWEEN):
            raise Unfit(f"{name} is no condition of the standard")
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
    sampled = any(table.args.get("sample") for table in tables)
    if not is_simple or sampled or [t.name for t in tables] != ["dqsql_object"]:
        raise Unfit("its SQL is more than one aggregate over the object")
    for node in tree.find_all(exp.Column):
        # The one relation may have an alias: `select count(*) from {object} o where o.x > 1`.
        if len(node.parts) > 1 and node.parts[0].name in ("dqsql_object", tables[0].alias):
            node.set(("table", "db", "catalog")[len(node.parts) - 2], None)
    projection = exp.paren(tree.expressions[0].unalias())
    if not isinstance(projection.this, exp.Binary):
        projection = projection.this
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
    entries = mappings_in(rule.get("customProperties"))
    # Other tools have properties of their own.
    known = check_words() | monitor_options()
    settings = {e["property"]: e.get("value") for e in entries if e.get("property") in known}
    settings |= written
    try:
        read_check_settings(settings)
    except SettingProblem as problem:
        raise Unfit(problem.message) from None
    return text, settings


def _bound(value: Any, data: Mapping[str, Any]) -> str:
    logical = str(data.get("logicalType") or spark_type(str(data.get("physicalType"))) or "")
    if isinstance(value, int | float):
        return str(value)
    text = str(value)
    if logical in ("date", "timestamp", "timestamp_ntz"):
        return f"{'date' if len(text) <= 10 else 'timestamp'} {_literal(text)}"
    return _number(text)


def _number(value: Any) -> str:
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        raise Unfit(f"{value!r} is not a number")
    return text


def _listed(values: Sequence[Any]) -> str:
    """Values as SQL; that there is none is no value."""
    return ", ".join(
        str(v)
        if isinstance(v, int | float) and not isinstance(v, bool)
        else _literal(scalar_text(v))
        for v in values
        if v is not None
    )


def _literal(text: str) -> str:
    """A SQL text; backslashes stay what they are in raw strings."""
    if "\\" in text and "'" not in text:
        return f"r'{text}'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
