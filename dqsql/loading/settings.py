"""The settings of checks, models and projects: their names and what reads their values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from dqsql.errors import ConfigError, nearest
from dqsql.model.monitors import AUTO, FEATURES, monitor_specs
from dqsql.model.project import CheckSettings, NoData, Scope, Severity
from dqsql.model.routes import read_routes
from dqsql.model.settings import (
    Reader,
    SettingProblem,
    WrongValue,
    as_bool,
    as_given,
    as_mapping,
    as_moment,
    as_names,
    as_rate,
    as_text,
    as_web_address,
    at_least,
    one_of,
    read_value,
    shown_value,
)

_TABLE = re.compile(r"(?:\w|\{model\})+")
_PRIVATE = ("hash", "keep", "drop")


def _several(value: Any) -> int:
    try:
        return int(at_least(2)(value))
    except WrongValue as wrong:
        wrong.hint = "leave 'after' out: a check fails with the first failing batch"
        raise


def _share(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise WrongValue("a share of rows above 0 and up to 1", "write {mostly: 0.95} for 95%")


def _scan_budget(value: Any) -> dict[str, int]:
    """A number of scans for each model, or `{model: .., total: ..}`."""
    limits = value if isinstance(value, Mapping) else {"model": value}
    for name in limits:
        if name not in ("model", "total"):
            raise SettingProblem(
                f"'scan_budget' has no part {name!r}",
                "scan_budget",
                "write a number, or {model: 3, total: 20}",
            )
    return {name: read_value("scan_budget", n, at_least(1)) for name, n in limits.items()}


def _routes(value: Any) -> Any:
    """Who hears of findings, as it is given."""
    try:
        read_routes(value)
    except ConfigError as error:
        raise SettingProblem(error.message, "on_finding", error.hint) from None
    return value


_LINEAGE = ("url", "endpoint", "api_key", "namespace", "file")


def _lineage(value: Any) -> Any:
    """Where events of OpenLineage go, as it is given."""
    given = as_mapping(value)
    unknown = next((key for key in given if key not in _LINEAGE), None)
    if unknown is not None:
        hint = nearest(unknown, _LINEAGE) or f"it may have {', '.join(_LINEAGE)}"
        raise SettingProblem(f"unknown setting {unknown!r} of openlineage", "openlineage", hint)
    url = given.get("url")
    if url is not None and not str(url).startswith(("http://", "https://")):
        hint = "it is an address such as https://lineage.example.com"
        raise SettingProblem(f"the url {url!r} of openlineage is none", "openlineage", hint)
    return given


def _failures_limit(value: Any) -> int | None:
    """A number of rows, or None for `all`."""
    return None if value == "all" else int(at_least(1)(value))


_QUARANTINE: Mapping[str, Reader] = {
    "enabled": as_bool,
    "good": as_text,
    "private": as_text,
    "quarantined": as_text,
    "schema": as_text,
    "warehouse": as_text,
    "whole_batches": as_bool,
}


def _quarantine(value: Any) -> dict[str, Any]:
    """True, false, or where the rows go: `{schema, good, quarantined, ..}`."""
    if not isinstance(value, Mapping):
        return {"enabled": as_bool(value)}
    key = "quarantine"
    parts: dict[str, Any] = {"enabled": True}
    for name, given in value.items():
        if name not in _QUARANTINE:
            hint = f"parts are {', '.join(_QUARANTINE)}"
            raise SettingProblem(f"{key!r} has no part {name!r}", key, hint)
        parts[name] = read_value(f"{key}.{name}", given, _QUARANTINE[name])
    for name in ("good", "quarantined"):
        if name in parts and not _TABLE.fullmatch(parts[name]):
            hint = "letters, digits, underscores, and {model} for the model's name"
            raise SettingProblem(f"{parts[name]!r} is not a table name", key, hint)
    if parts.get("private", _PRIVATE[0]) not in _PRIVATE:
        hint = f"write {', '.join(_PRIVATE)}"
        shown = shown_value(parts["private"])
        raise SettingProblem(f"'{key}.private' cannot be {shown}", key, hint)
    return parts


def _features(value: Any) -> str | tuple[str, ...]:
    """What is watched without annotations: `auto`, or a list of features; false for nothing."""
    if value is False:
        return ()
    if value == AUTO:
        return AUTO
    names = as_names(value)
    for name in names:
        if name not in FEATURES:
            known = f"'{AUTO}', or a list of {', '.join(FEATURES)}"
            hint = nearest(name, FEATURES) or known
            raise SettingProblem(f"'monitors' has no {name!r}", "monitors", hint)
    return names


# Fields of CheckSettings; the other settings of checks are in its `options`.
_CHECK_FIELDS: Mapping[str, Reader] = {
    "severity": one_of(*Severity),
    "where": as_text,
    "name": as_text,
    "tags": as_names,
    "description": as_text,
    "enabled": as_bool,
    "scope": one_of(*Scope),
    "pii": as_bool,
    "no_data": one_of(*NoData),
    "fpr": as_rate,
}
CHECK_SETTINGS = frozenset(_CHECK_FIELDS)
"""Names of settings that any check may have."""
_CHECK_OPTIONS: Mapping[str, Reader] = {
    "quarantine": as_bool,
    "segments": as_bool,
    "store_failures": as_bool,
    "warn": as_text,
    "warn_if": as_text,
    "error_if": as_text,
    "mostly": _share,
    "after": _several,
}
# Fields of ModelConfig; the other settings of models are in its `extra`.
_MODEL_FIELDS: Mapping[str, Reader] = {
    "batch_by": as_text,
    "segment_by": as_names,
    "tags": as_names,
    "severity": one_of(*Severity),
    "no_data": one_of(*NoData),
    "enabled": as_bool,
    "owner": as_text,
    "description": as_text,
    "pii": as_names,
}
# Of models, and of the project for all of its models.
_MODEL_DEFAULTS: Mapping[str, Reader] = {
    "begin": as_moment,
    "failures_limit": _failures_limit,
    "lookback": at_least(0),
    "max_segments": at_least(1),
    "meta": as_given,
    "monitors": _features,
    "quarantine": _quarantine,
    "scan_budget": _scan_budget,
    "store_failures": as_bool,
}
_MODEL_OPTIONS: Mapping[str, Reader] = {**_MODEL_DEFAULTS, "cadence": as_text, "contract": as_given}
_PROJECT_OPTIONS: Mapping[str, Reader] = {
    **_MODEL_DEFAULTS,
    "adopt_dbt_tests": as_bool,
    "false_alarm_budget": as_text,
    "on_finding": _routes,
    "openlineage": _lineage,
    "report_url": as_web_address,
    "store_vars": as_bool,
}


def monitor_options() -> frozenset[str]:
    """Words behind an annotation that are settings of monitors, or are taken for one.

    Parameters of strategies are among them: whoever writes one behind a monitor is told which
    settings that has.
    """
    specs = monitor_specs().values()
    return frozenset(w for s in specs for w in (*s.settings, *s.mistaken)) - CHECK_SETTINGS


def configurable_monitors() -> frozenset[str]:
    """The monitors whose settings a model's config and the project file may hold."""
    return frozenset(name for name, spec in monitor_specs().items() if spec.configurable)


def check_words() -> frozenset[str]:
    """The settings that any check may have."""
    return CHECK_SETTINGS.union(_CHECK_OPTIONS)


def model_settings() -> dict[str, Reader]:
    """The settings of a model with their readers; those of monitors read themselves."""
    monitors = dict.fromkeys(configurable_monitors(), as_given)
    return {**monitors, **_MODEL_FIELDS, **_MODEL_OPTIONS}


def project_settings() -> dict[str, Reader]:
    """What is kept in `Project.settings`, with its readers; those of monitors read themselves."""
    return {**dict.fromkeys(configurable_monitors(), as_given), **_PROJECT_OPTIONS}


def read_check_settings(values: Mapping[str, Any]) -> CheckSettings:
    """The settings behind an annotation. Raises SettingProblem."""
    own = {**_CHECK_FIELDS, **_CHECK_OPTIONS}
    readers = {**dict.fromkeys(monitor_options(), as_given), **own}
    read = {key: _read(key, value, readers, own) for key, value in values.items()}
    options = {key: read.pop(key) for key in values if key not in _CHECK_FIELDS}
    return CheckSettings(**read, options=options)


def read_model_settings(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[SettingProblem]]:
    """The settings of `config(..)` or of a folder, and what is wrong with each of the others.

    Those that are no fields of ModelConfig are under `extra`; None is a setting that is not given.
    """
    readers = model_settings()
    settings: dict[str, Any] = {"extra": {}}
    problems: list[SettingProblem] = []
    for key, value in values.items():
        if value is None:
            continue
        place = settings if key in _MODEL_FIELDS else settings["extra"]
        try:
            place[key] = _read(key, value, readers, readers)
        except SettingProblem as problem:
            problems.append(problem)
    return settings, problems


def _read(key: str, value: Any, readers: Mapping[str, Reader], listed: Collection[str]) -> Any:
    """A setting's value; where the setting is unknown, the hint names those `listed`."""
    if key not in readers:
        hint = nearest(key, readers) or f"known settings: {', '.join(sorted(listed))}"
        if key in model_settings():
            hint = f"it is a setting of whole models: {{{{ config({key} = ..) }}}}"
        raise SettingProblem(f"unknown setting {key!r}", key, hint)
    return read_value(key, value, readers[key])
