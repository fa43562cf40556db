"""Turns a contract into the annotations of its check model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dqsql.dialect import quoted
from dqsql.errors import ConfigError, DqsqlError, Span, nearest
from dqsql.loading.annotations import AnnotationProblem, split_annotation
from dqsql.loading.contracts.odcs import contract_file
from dqsql.loading.settings import read_check_settings
from dqsql.model.contract import (
    ANY,
    Contract,
    ContractCheck,
    ContractColumn,
    column_list_text,
    is_logical,
    spark_type,
)
from dqsql.model.project import CONTRACT_TAG, Annotation, CheckModel, Severity

SETTING = "contract"
_KEYS = ("file", "object", "columns", "key", "extra", "checks")
_COLUMN_KEYS = ("type", "required", "unique", "description", "checks")
_HINT = "contract = 'contracts/orders.odcs.yaml', or {columns: {id: bigint not null}, key: [id]}"


def with_contract(
    model: CheckModel,
    root: Path,
    declared: Contract | None = None,
    severity: Severity = Severity.ERROR,
) -> tuple[CheckModel, DqsqlError | None]:
    """The model with the checks of its contract, and what is wrong with that.

    Its setting `contract` says where the contract is, or what it says; if neither, what dbt
    declares. `severity` is that of checks of models that set none.
    """
    setting = model.config.extra.get(SETTING)
    if setting is False:
        return model, None
    if setting not in (None, True):
        declared = None
    elif declared is None:
        return model, None
    try:
        span = Span(model.path, text=SETTING)
        contract = declared or read_contract(setting, root, model.name, span)
    except DqsqlError as error:
        return model, error
    promised, own = list(contract_annotations(contract, model)), list(model.annotations)
    for place, annotation in enumerate(model.annotations):
        same = [p for p in promised if _keeps(annotation, p, model.config.severity or severity)]
        if same:
            promised = [p for p in promised if p not in same]
            tags = (*annotation.settings.tags, CONTRACT_TAG)
            own[place] = replace(annotation, settings=replace(annotation.settings, tags=tags))
    unchecked = tuple(f"{contract.name}: {text}" for text in contract.left)
    return replace(model, annotations=(*own, *promised), unchecked=unchecked), None


def _keeps(own: Annotation, promise: Annotation, default: Severity) -> bool:
    """Whether an annotation of the model demands all that the contract does.

    `default` is the severity of annotations that set none.
    """
    if own.expression.strip() != promise.expression:
        return False
    if (own.column or "").lower() != (promise.column or "").lower():
        return False
    severity = own.settings.severity or default
    if severity not in (promise.settings.severity or default, Severity.ERROR):
        return False
    told: dict[str, Any] = {"severity": None, "name": None, "tags": (), "description": None}
    return replace(own.settings, **told) == replace(promise.settings, **told)


def read_contract(setting: Any, root: Path, name: str, span: Span) -> Contract:
    """The contract that a setting names or spells out. Raises ConfigError."""
    if isinstance(setting, str):
        return contract_file(root, setting, span)
    if not isinstance(setting, Mapping):
        raise ConfigError(f"{SETTING!r} is a file or a mapping", span=span, hint=_HINT)
    _refuse_unknown(setting, _KEYS, "a contract", span)
    extra = setting.get("extra", "allow")
    if extra not in ("allow", "refuse"):
        raise ConfigError(f"'extra' must be allow or refuse, not {extra!r}", span=span)
    if "file" in setting:
        path = f"{setting['file']}#{setting.get('object') or ''}"
        contract = contract_file(root, path, span)
        return replace(contract, closed=contract.closed or extra == "refuse")
    return _inline(setting, name, span, closed=extra == "refuse")


def _inline(setting: Mapping[str, Any], name: str, span: Span, *, closed: bool) -> Contract:
    columns = setting.get("columns") or {}
    if not isinstance(columns, Mapping):
        raise ConfigError("'columns' of a contract must be a mapping", span=span, hint=_HINT)
    given = setting.get("key") or ()
    key = [given] if isinstance(given, str) else list(given)
    unknown = [k for k in key if k not in columns]
    if unknown:
        raise ConfigError(
            f"the contract's key names {unknown[0]!r}, which is not one of its columns", span=span
        )
    places = {column: i for i, column in enumerate(key, 1)}
    return Contract(
        name=name,
        columns=tuple(_column(n, v, places.get(n), span) for n, v in columns.items()),
        checks=_texts(setting.get("checks"), span),
        closed=closed,
        span=span,
    )


def _column(name: str, value: Any, key: int | None, span: Span) -> ContractColumn:
    given = {"type": value} if isinstance(value, str) or value is None else value
    if not isinstance(given, Mapping):
        raise ConfigError(f"the column {name!r} of a contract is a type or a mapping", span=span)
    _refuse_unknown(given, _COLUMN_KEYS, f"the column {name!r} of a contract", span)
    text = str(given.get("type") or "")
    bare = text.lower().removesuffix("not null").strip()
    kind = bare if is_logical(bare) else spark_type(bare) if bare else ""
    if kind is None:
        raise ConfigError(f"{name}: {text!r} is not a type of Spark", span=span)
    return ContractColumn(
        name=name,
        type=kind,
        required=given.get("required") is True or text.lower().endswith("not null"),
        unique=given.get("unique") is True,
        key=key,
        checks=_texts(given.get("checks"), span),
    )


def _texts(given: Any, span: Span) -> tuple[ContractCheck, ...]:
    texts = [given] if isinstance(given, str) else list(given or ())
    if not all(isinstance(t, str) for t in texts):
        raise ConfigError("'checks' of a contract must be a list of annotations", span=span)
    try:
        annotations = [split_annotation(t) for t in texts]
    except AnnotationProblem as problem:
        raise ConfigError(problem.message, span=span, hint=problem.hint) from problem
    return tuple(ContractCheck(text, settings=settings) for text, settings in annotations)


def _refuse_unknown(
    given: Mapping[str, Any], known: tuple[str, ...], what: str, span: Span
) -> None:
    for name in given:
        if name not in known:
            hint = nearest(str(name), known) or f"known: {', '.join(known)}"
            raise ConfigError(f"unknown key {name!r} in {what}", span=span, hint=hint)


def contract_annotations(contract: Contract, model: CheckModel) -> Iterator[Annotation]:
    """The checks that a contract stands for: its columns, then what it says of each.

    What is said of a column that the SELECT does not have is left out: the check of the columns
    tells that it is missing.
    """
    types = {c.name: c.type or ANY for c in contract.columns}
    if types:
        closed = ", closed => true" if contract.closed else ""
        text = column_list_text(types).replace("\\", "\\\\").replace("'", "\\'")
        columns = ContractCheck(f"schema_is('{text}'{closed})", name=CONTRACT_TAG)
        yield _annotation(columns, contract, None)
    known = None if model.columns is None else {c.lower() for c in model.columns}
    for column in contract.columns:
        if known is not None and column.name.lower() not in known:
            continue
        for check in _of_column(column, contract):
            placed = replace(check, span=check.span or column.span)
            yield _annotation(placed, contract, column.name)
    key = contract.key
    if len(key) > 1:
        listed = ", ".join(quoted(k) for k in key)
        yield _annotation(ContractCheck(f"primary_key({listed})"), contract, None)
    for check in contract.checks:
        yield _annotation(check, contract, None)


def _of_column(column: ContractColumn, contract: Contract) -> Iterator[ContractCheck]:
    if column.required or contract.key == (column.name,):
        yield ContractCheck("not_null")
    if contract.is_unique(column):
        yield ContractCheck("unique")
    yield from column.checks


def _annotation(check: ContractCheck, contract: Contract, column: str | None) -> Annotation:
    expression = check.expression
    if column is not None:
        expression = expression.replace("{c}", quoted(column))
    own = read_check_settings(check.settings)
    settings = replace(
        own,
        severity=check.severity or own.severity,
        name=check.name or own.name,
        tags=(*own.tags, CONTRACT_TAG),
        description=check.description or own.description,
    )
    span = replace(check.span or contract.span, text=expression)
    return Annotation(expression, settings, span, column)
