"""The contract that dbt enforces on a model: types and constraints of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dqsql.dialect import quoted
from dqsql.errors import Span
from dqsql.loading.dbt.manifest import Node
from dqsql.model.contract import Contract, ContractCheck, ContractColumn, spark_type

_NOT_NULL, _UNIQUE, _KEY, _CHECK = "not_null", "unique", "primary_key", "check"


def contract_of(node: Node, span: Span, *, always: bool = False) -> Contract | None:
    """The contract of a model, or None where dbt enforces none.

    Args:
        node: the model.
        span: where it is described.
        always: take types and constraints for promises that dbt does not enforce, too.
    """
    setting = node.config.get("contract")
    enforced = isinstance(setting, dict) and setting.get("enforced") is True
    if not enforced and not (always and node.columns):
        return None
    left: list[str] = []
    key = _model_key(node)
    columns = tuple(_column(name, data, key, left) for name, data in node.columns.items())
    checks = tuple(_model_checks(node, left))
    return Contract(
        name=node.name,
        columns=columns,
        checks=checks,
        # dbt builds such a model with these columns and no others.
        closed=enforced,
        span=span,
        description=str(node.data.get("description") or ""),
        left=tuple(left),
    )


def _constraints(data: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    given = data.get("constraints")
    return [c for c in given if isinstance(c, dict)] if isinstance(given, list) else []


def _model_key(node: Node) -> list[str]:
    for constraint in _constraints(node.data):
        if constraint.get("type") == _KEY:
            return [str(c).lower() for c in constraint.get("columns") or ()]
    return []


def _column(name: str, data: Mapping[str, Any], key: list[str], left: list[str]) -> ContractColumn:
    kinds = {str(c.get("type")) for c in _constraints(data)}
    left += [
        f"{name}: the constraint {kind} is left to dbt"
        for kind in sorted(kinds - {_NOT_NULL, _UNIQUE, _KEY, _CHECK})
    ]
    place = key.index(name.lower()) + 1 if name.lower() in key else None
    return ContractColumn(
        name=name,
        type=spark_type(str(data.get("data_type") or "")) or "",
        required=_NOT_NULL in kinds,
        unique=_UNIQUE in kinds,
        key=1 if _KEY in kinds else place,
        description=str(data.get("description") or ""),
        checks=tuple(_conditions(_constraints(data))),
    )


def _model_checks(node: Node, left: list[str]) -> Iterable[ContractCheck]:
    constraints = _constraints(node.data)
    yield from _conditions(constraints)
    for constraint in constraints:
        kind = constraint.get("type")
        names = [quoted(str(c)) for c in constraint.get("columns") or ()]
        if kind == _NOT_NULL:
            yield from (ContractCheck(f"not_null({name})") for name in names)
        elif kind == _UNIQUE and names:
            yield ContractCheck(f"unique({', '.join(names)})")
        elif kind not in (_KEY, _CHECK):
            left.append(f"the constraint {kind} is left to dbt")


def _conditions(constraints: Iterable[Mapping[str, Any]]) -> Iterable[ContractCheck]:
    """Conditions on rows; as in SQL, one that is null is met."""
    for constraint in constraints:
        if constraint.get("type") == _CHECK and constraint.get("expression"):
            expression = f"satisfies(coalesce({constraint['expression']}, true))"
            name = constraint.get("name")
            yield ContractCheck(expression, name=str(name) if name else None)
