"""Reads settings of annotations and models: known keys, types, and clear errors."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from dqsql.errors import DqsqlError, nearest
from dqsql.model.monitors import AUTO, FEATURES, monitor_specs
from dqsql.model.project import CheckSettings, NoData, Scope, Severity

# Settings of a model that later parts of dqsql read from `ModelConfig.extra`, beside monitors'.
_EXTRAS = frozenset(
    {
        "cadence",
        "contract",
        "monitors",
        "lookback",
        "max_segments",
        "begin",
        "meta",
        "quarantine",
        "row_anomalies",
        "store_failures",
        "failures_limit",
        "scan_budget",
    }
)

_Choice = TypeVar("_Choice", bound=StrEnum)


class SettingProblem(Exception):
    """A setting that cannot be used; the caller knows the place and the kind of error.

    `key` is the setting to point at.
    """

    def __init__(self, message: str, key: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
        self.hint = hint

    def at(self, error: type[DqsqlError], span: Any) -> DqsqlError:
        """The same problem as an error of dqsql at a place in the user's file."""
        return error(self.message, span=span, hint=self.hint)


_SHOWN = 200
_HUGE = 10**18
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    try:
        shown = repr(value)
    except ValueError:  # a number of thousands of digits
        return "so long a number"
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}.."


def as_text(key: str, value: object) -> str:
    """A string; a number is taken as its text."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE:
        return str(value)
    raise SettingProblem(f"{key!r} must be text, not {_shown(value)}", key)


def as_bool(key: str, value: object) -> bool:
    """True or false, also as rendered by Jinja."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise SettingProblem(f"{key!r} must be true or false, not {_shown(value)}", key)


def as_int(key: str, value: object, *, minimum: int = 0) -> int:
    """A whole number of at least `minimum`, also as rendered by Jinja."""
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and minimum <= value < _HUGE:
        return value
    raise SettingProblem(
        f"{key!r} must be a whole number of at least {minimum}, not {_shown(value)}", key
    )


def as_rate(key: str, value: object) -> float:
    """A number between 0 and 1, both excluded."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    raise SettingProblem(f"{key!r} must be a number between 0 and 1, not {_shown(value)}", key)


def as_several(key: str, value: object) -> int:
    """A whole number of at least 2."""
    try:
        return as_int(key, value, minimum=2)
    except SettingProblem as problem:
        problem.hint = f"leave {key!r} out: a check fails with the first failing batch"
        raise


def as_share(key: str, value: object) -> float:
    """A number above 0 and up to 1."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return float(value)
    raise SettingProblem(
        f"{key!r} must be a share of rows above 0 and up to 1, not {_shown(value)}",
        key,
        f"write {{{key}: 0.95}} for 95 %",
    )


def as_names(key: str, value: object) -> tuple[str, ...]:
    """A list of strings; a single string is a list of one."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise SettingProblem(f"{key!r} must be text or a list of texts, not {_shown(value)}", key)


def as_mapping(key: str, value: object) -> dict[str, Any]:
    """A mapping with string keys."""
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        return dict(value)
    raise SettingProblem(f"{key!r} must be a mapping, not {_shown(value)}", key)


def as_choice(kind: type[_Choice]) -> Callable[[str, object], _Choice]:
    """A reader of one of the values of an enumeration."""

    def read(key: str, value: object) -> _Choice:
        if isinstance(value, str) and value.lower() in [c.value for c in kind]:
            return kind(value.lower())
        choices = " or ".join(repr(c.value) for c in kind)
        raise SettingProblem(
            f"{key!r} must be {choices}, not {_shown(value)}",
            key,
            nearest(str(value), [c.value for c in kind]),
        )

    return read


def as_moment(key: str, value: object) -> str:
    """A date, a timestamp or a number as text; YAML makes dates of some texts by itself."""
    if isinstance(value, dt.date):
        return str(value)
    return as_text(key, value)


def as_scan_budget(key: str, value: object) -> dict[str, int]:
    """A number of scans for each model, or `{model: .., total: ..}`."""
    limits = value if isinstance(value, Mapping) else {"model": value}
    for name in limits:
        if name not in ("model", "total"):
            raise SettingProblem(
                f"{key!r} has no part {name!r}", key, "write a number, or {model: 3, total: 20}"
            )
    return {str(name): as_int(key, limit, minimum=1) for name, limit in limits.items()}


def as_failures_limit(key: str, value: object) -> int | None:
    """A number of rows, or None for `all`."""
    return None if value == "all" else as_int(key, value, minimum=1)


_TABLE = re.compile(r"(?:\w|\{model\})+")
_PRIVATE = ("hash", "keep", "drop")


def as_quarantine(key: str, value: object) -> dict[str, Any]:
    """True, false, or where the rows go: `{schema, good, quarantined, ..}`."""
    if not isinstance(value, Mapping):
        return {"enabled": as_bool(key, value)}
    found: dict[str, Any] = {"enabled": True}
    for name, given in value.items():
        if name in ("enabled", "whole_batches"):
            found[name] = as_bool(f"{key}.{name}", given)
        elif name not in ("schema", "warehouse", "good", "quarantined", "private"):
            known = "enabled, good, private, quarantined, schema, warehouse, whole_batches"
            raise SettingProblem(f"{key!r} has no part {name!r}", key, f"parts are {known}")
        else:
            found[name] = as_text(f"{key}.{name}", given)
    for name in ("good", "quarantined"):
        if name in found and not _TABLE.fullmatch(found[name]):
            hint = "letters, digits, underscores, and {model} for the model's name"
            raise SettingProblem(f"{found[name]!r} is no name of a table", key, hint)
    if found.get("private", _PRIVATE[0]) not in _PRIVATE:
        hint = f"write {', '.join(_PRIVATE)}"
        raise SettingProblem(f"'{key}.private' cannot be {_shown(found['private'])}", key, hint)
    return found


def as_features(key: str, value: object) -> str | tuple[str, ...]:
    """What is watched without annotations: `auto`, or a list of features; false for nothing."""
    if value is False:
        return ()
    if value == AUTO:
        return AUTO
    names = as_names(key, value)
    for name in names:
        if name not in FEATURES:
            known = f"'{AUTO}', or a list of {', '.join(FEATURES)}"
            raise SettingProblem(
                f"{key!r} knows no {name!r}", key, nearest(name, FEATURES) or known
            )
    return names


# Settings of the project and of models that bound what a run does.
LIMITS: Mapping[str, Callable[[str, Any], Any]] = {
    "begin": as_moment,
    "cadence": as_text,
    "failures_limit": as_failures_limit,
    "false_alarm_budget": as_text,
    "lookback": as_int,
    "monitors": as_features,
    "max_segments": lambda key, value: as_int(key, value, minimum=1),
    "quarantine": as_quarantine,
    "scan_budget": as_scan_budget,
    "store_failures": as_bool,
    "store_vars": as_bool,
}


@dataclass(frozen=True, slots=True)
class _Known:
    """`options` are those of monitors and limits; `listed` of them are named where one is wrong."""

    readers: Mapping[str, Callable[[str, Any], Any]]
    options: frozenset[str]
    option_readers: Mapping[str, Callable[[str, Any], Any]] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()

    def read(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split `values` into checked known settings and options."""
        known: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for key, value in values.items():
            if key in self.readers:
                known[key] = self.readers[key](key, value)
            elif key in self.options:
                read = self.option_readers.get(key)
                options[key] = read(key, value) if read is not None else value
            else:
                names = [*self.readers, *self.options]
                listed = ", ".join(sorted({*self.readers, *self.listed}))
                hint = nearest(key, names) or f"known settings: {listed}"
                raise SettingProblem(f"unknown setting {key!r}", key, hint)
        return known, options

    def problems(self, values: Mapping[str, Any]) -> list[SettingProblem]:
        """What is wrong with each of `values`."""
        found: list[SettingProblem] = []
        for key, value in values.items():
            try:
                self.read({key: value})
            except SettingProblem as problem:
                found.append(problem)
        return found


# Settings of checks beyond those that all have.
_CHECK_OPTIONS: Mapping[str, Callable[[str, Any], Any]] = {
    "quarantine": as_bool,
    "segments": as_bool,
    "store_failures": as_bool,
    "warn": as_text,
    "warn_if": as_text,
    "error_if": as_text,
    "mostly": as_share,
    "after": as_several,
}

_CHECK_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "severity": as_choice(Severity),
    "where": as_text,
    "name": as_text,
    "tags": as_names,
    "description": as_text,
    "enabled": as_bool,
    "scope": as_choice(Scope),
    "pii": as_bool,
    "no_data": as_choice(NoData),
    "fpr": as_rate,
}
_MODEL_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "batch_by": as_text,
    "segment_by": as_names,
    "tags": as_names,
    "severity": as_choice(Severity),
    "no_data": as_choice(NoData),
    "enabled": as_bool,
    "owner": as_text,
    "description": as_text,
    "pii": as_names,
}
# Names of settings that any check may have.
CHECK_SETTINGS = frozenset(_CHECK_READERS)


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


def _check_words() -> _Known:
    options = frozenset(_CHECK_OPTIONS)
    return _Known(_CHECK_READERS, monitor_options() | options, _CHECK_OPTIONS, options)


def _model_words() -> _Known:
    extras = _EXTRAS | configurable_monitors()
    return _Known(_MODEL_READERS, extras, LIMITS, extras - {"meta"})


def check_words() -> frozenset[str]:
    """The settings that any check may have."""
    return CHECK_SETTINGS.union(_CHECK_OPTIONS)


def model_words() -> frozenset[str]:
    """The settings of a model, those of monitors among them."""
    words = _model_words()
    return words.options.union(words.readers)


def read_check_settings(values: Mapping[str, Any]) -> CheckSettings:
    """The settings behind an annotation. Raises SettingProblem."""
    known, options = _check_words().read(values)
    return CheckSettings(**known, options=options)


def read_model_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `config(..)` or of a folder, checked; monitors' own are under `extra`.

    Raises SettingProblem.
    """
    known, extra = _model_words().read(_given(values))
    return {**known, "extra": extra}


def model_setting_problems(values: Mapping[str, Any]) -> list[SettingProblem]:
    """What is wrong with the settings of `config(..)` or of a folder, one problem for each."""
    return _model_words().problems(_given(values))


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def is_model_setting(key: str) -> bool:
    """Whether `config(key=..)` is known."""
    words = _model_words()
    return key in words.readers or key in words.options
