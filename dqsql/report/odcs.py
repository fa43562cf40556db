"""Writes a check model as a data contract in the Open Data Contract Standard, version 3.1."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import yaml
from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.model.contract import BATCH_BY, CLOSED, SEGMENT_BY, is_logical, logical_of, quoted_fields
from dqsql.model.functions import name_and_arguments
from dqsql.model.monitors import AUTO
from dqsql.model.plan import Check, Monitor, Plan
from dqsql.model.project import CONTRACT_TAG, DBT_TEST, DBT_TEST_NAME, Scope, Severity

_API_VERSION = "v3.1.0"
# Rules that only dqsql understands are written for this engine.
_ENGINE = "dqsql"
# What names its columns itself, wherever it stands.
_FREE = ("", "satisfies", "expect")
# Says the columns themselves.
_COLUMNS = ("schema_is", "schema")
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://bitol.io/dqsql")
_Json = dict[str, Any]


def odcs_text(project: str, plan: Plan, columns: Mapping[str, str], key: Sequence[str] = ()) -> str:
    """A check model as YAML, with its columns' Spark types where they are known, and its `key`."""
    document = odcs_document(project, plan, columns, key)
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return text


_WORDS: Mapping[type[exp.Expr], str] = {
    exp.GTE: "minimum",
    exp.LTE: "maximum",
    exp.GT: "exclusiveMinimum",
    exp.LT: "exclusiveMaximum",
}
_INCLUSIVE = ("minimum", "maximum")
_MEASURES: Mapping[str, str] = {"length": "Length", "size": "Items", "array_size": "Items"}


def odcs_document(
    project: str, plan: Plan, columns: Mapping[str, str], key: Sequence[str] = ()
) -> _Json:
    """The same as data."""
    model = plan.model
    contract: _Json = {
        "apiVersion": _API_VERSION,
        "kind": "DataContract",
        "id": str(uuid.uuid5(_NAMESPACE, f"{project}.{model.name}")),
        "name": model.name,
        "version": "1.0.0",
        "status": "active",
    }
    if model.config.description:
        contract["description"] = {"purpose": model.config.description}
    if model.config.owner:
        contract["team"] = {"name": model.config.owner}
    if model.config.tags:
        contract["tags"] = list(model.config.tags)
    contract["schema"] = [_object(plan, columns, key)]
    return contract


def _object(plan: Plan, columns: Mapping[str, str], key: Sequence[str]) -> _Json:
    checked = (c.column for c in plan.declared if c.column is not None)
    # A SELECT of * has the columns of the last run, and those that checks are about.
    open_names = {name.lower(): name for name in (*columns, *checked)}
    names = plan.model.columns or tuple(open_names.values())
    types = {name.lower(): kind for name, kind in columns.items()}
    properties = {name.lower(): _property(name, types.get(name.lower())) for name in names}
    made: _Json = {"name": plan.model.name, "physicalType": "table", "properties": []}
    rules: list[_Json] = []
    for check in plan.declared:
        if isinstance(check, Monitor) and AUTO in check.tags:
            # Nobody has promised what a monitor of `auto` finds usual.
            continue
        own = properties.get((check.column or "").lower())
        if _is_expressed(check, own, properties):
            continue
        target = rules if own is None or not _on_column(check) else own.setdefault("quality", [])
        target.append(_rule(check))
    named = properties.get(key[0].lower()) if len(key) == 1 else None
    # The two checks of a single key say the same of it.
    if named is not None and named.get("required") and named.pop("unique", False):
        _is_key(key, properties)
    made["properties"] = list(properties.values())
    if rules:
        made["quality"] = rules
    config = plan.model.config
    own_words = {
        CLOSED: any(map(_is_closed, plan.declared)) or None,
        BATCH_BY: config.batch_by,
        SEGMENT_BY: list(config.segment_by) or None,
    }
    custom = [{"property": k, "value": v} for k, v in own_words.items() if v is not None]
    if custom:
        made["customProperties"] = custom
    return made


def _is_closed(check: Check | Monitor) -> bool:
    """Whether further columns break what is promised of the columns."""
    name, _ = _call(check)
    arguments = parse_expression(check.expression).find_all(exp.Kwarg)
    named = {kwarg.this.name: kwarg.expression for kwarg in arguments}
    return name == "schema_is" and named.get("closed") == exp.true()


def _property(name: str, kind: str | None) -> _Json:
    made: _Json = {"name": name}
    if kind and is_logical(kind):
        made["logicalType"] = kind.strip("<>")
    elif kind:
        made |= {"logicalType": logical_of(kind), "physicalType": quoted_fields(kind)}
    return made


def _on_column(check: Check | Monitor) -> bool:
    """Whether an annotation stands on a column's line: else it names its columns itself."""
    name, args = _call(check)
    return name in _FREE or not args or check.column is None or _fills(check)


def _fills(check: Check | Monitor) -> bool:
    return not any(
        c.name.lower() == (check.column or "").lower()
        for c in parse_expression(check.expression).find_all(exp.Column)
    )


def _is_expressed(
    check: Check | Monitor, own: _Json | None, properties: Mapping[str, _Json]
) -> bool:
    """Put a check into what the standard has words for; whether that says all of it."""
    name, args = _call(check)
    if name in _COLUMNS:
        return True
    plain = check.severity is Severity.ERROR and not check.settings.name
    if not name or not plain or _settings(check):
        return False
    if name == "primary_key":
        return _is_key([a.name for a in args] or [check.column or ""], properties)
    if name in ("not_null", "unique") and len(args) == 1 and args[0].name.lower() in properties:
        own, args = properties[args[0].name.lower()], []
    if own is None:
        return False
    if name in ("not_null", "unique") and not args:
        own["required" if name == "not_null" else "unique"] = True
        return True
    options = _options(name, args) or _bound(name, args, check.column or "")
    if options is None:
        return False
    known = own.get("logicalTypeOptions", {})
    if any(known.get(name, value) != value for name, value in options.items()):
        # The standard has room for one bound.
        return False
    own["logicalTypeOptions"] = {**known, **options}
    return True


def _is_key(names: Sequence[str], properties: Mapping[str, _Json]) -> bool:
    entries = [properties.get(name.lower()) for name in names]
    if any(p is None or p.get("primaryKey") for p in entries):
        return False
    for place, entry in enumerate(entries, 1):
        if entry is not None:
            # That it has no nulls needs no word, which would be a check of its own.
            entry |= {"primaryKey": True, "primaryKeyPosition": place}
    return True


def _options(name: str, args: Sequence[exp.Expr]) -> _Json | None:
    values = [_value(a) for a in args]
    if name == "in_range" and len(values) == 2 and all(isinstance(v, int | float) for v in values):
        return {"minimum": values[0], "maximum": values[1]}
    if name == "matches" and len(values) == 1 and isinstance(values[0], str):
        return {"pattern": values[0]}
    return None


def _bound(name: str, args: Sequence[exp.Expr], column: str) -> _Json | None:
    """A bound of values or lengths, as an imported contract has it: `c is null or c >= 0`."""
    either = args[0].unnest() if name == "satisfies" and len(args) == 1 else None
    if not isinstance(either, exp.Or) or not isinstance(either.this, exp.Is):
        return None
    if not _is_column(either.this.this, column) or not isinstance(either.this.expression, exp.Null):
        return None
    compared = either.expression.unnest()
    word, value = _WORDS.get(type(compared)), _value(compared.expression or exp.Null())
    if word is None or not isinstance(value, int | float):
        return None
    if _is_column(compared.this, column):
        return {word: value}
    function, inner = _call_of(compared.this)
    suffix = _MEASURES.get(function)
    if suffix is None or word not in _INCLUSIVE or not _is_column(inner, column):
        return None
    return {word[:3] + suffix: value}


def _is_column(node: exp.Expr | None, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name.lower()


def _call_of(node: exp.Expr) -> tuple[str, exp.Expr | None]:
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        return str(node.this).lower(), node.expressions[0]
    return (node.sql_name().lower(), node.this) if isinstance(node, exp.Func) else ("", None)


def _value(node: exp.Expr) -> Any:
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        return -inner if isinstance(inner, int | float) else None
    if isinstance(node, exp.RawString):
        return str(node.this)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    written = Decimal(node.this)
    if written == written.to_integral_value() and node.this.isdigit():
        return int(node.this)
    # A number that a float does not hold would be another one in the file.
    return float(written) if Decimal(repr(float(written))) == written else None


def _settings(check: Check | Monitor) -> _Json:
    """What stands behind the expression of a check, but for what a rule has words for."""
    given = check.settings
    settings: _Json = {"where": given.where, "fpr": given.fpr, "no_data": given.no_data}
    settings |= {"scope": given.scope if given.scope is not Scope.DELTA else None}
    tags = [t for t in given.tags if t != CONTRACT_TAG]
    settings |= {"pii": given.pii or None, "tags": tags or None}
    settings |= {k: v for k, v in given.options.items() if k not in (DBT_TEST, DBT_TEST_NAME)}
    return {key: _plain(value) for key, value in settings.items() if value is not None}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _rule(check: Check | Monitor) -> _Json:
    name, args = _call(check)
    made: _Json = {"name": check.settings.name} if check.settings.name else {}
    if check.settings.description:
        made["description"] = check.settings.description
    values, settings = [_value(a) for a in args], _settings(check)
    if name == "accepted_values" and values and None not in values and not settings:
        made |= {"metric": "invalidValues", "arguments": {"validValues": values}, "mustBe": 0}
    else:
        made |= {
            "type": "custom",
            "engine": _ENGINE,
            "implementation": f"@{check.expression.strip()}",
        }
        if settings:
            made["customProperties"] = [{"property": k, "value": v} for k, v in settings.items()]
    made["severity"] = "warning" if check.severity is Severity.WARN else "error"
    return made


def _call(check: Check | Monitor) -> tuple[str, list[exp.Expr]]:
    return name_and_arguments(parse_expression(check.expression))
