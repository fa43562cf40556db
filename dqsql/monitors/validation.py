"""Whether the settings of a project's monitors can be used: asked when it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dqsql.errors import AnnotationError, ConfigError, DqsqlError, Span, nearest
from dqsql.loading.places import place_of
from dqsql.model.plan import Monitor, Plan
from dqsql.model.project import Project
from dqsql.monitors.anomaly import anomaly_call
from dqsql.monitors.novelty import novelty_settings
from dqsql.monitors.settings import (
    ANOMALY_SETTINGS,
    AVH_SETTINGS,
    NOVELTY_SETTINGS,
    PATTERN_SETTINGS,
    Reader,
    read_settings,
)

# The settings of each kind of monitor that has any. A new kind is one line here.
SETTINGS: Mapping[str, Mapping[str, Reader]] = {
    "avh": AVH_SETTINGS,
    "pattern": PATTERN_SETTINGS,
    "anomaly": ANOMALY_SETTINGS,
    "novelty": NOVELTY_SETTINGS,
}
# Monitors whose arguments are more than settings.
_READ: Mapping[str, Callable[[Monitor], object]] = {
    "anomaly": anomaly_call,
    "novelty": novelty_settings,
}


def setting_errors(project: Project) -> tuple[DqsqlError, ...]:
    """What is wrong with the project's settings of monitors."""
    return tuple(error for kind in SETTINGS for error in _of_project(project, kind))


def _of_project(project: Project, kind: str) -> list[DqsqlError]:
    given = project.settings.get(kind)
    if given is None:
        return []
    place = place_of(project, kind)
    if not isinstance(given, Mapping):
        hint = f"`models: {{+{kind}: true}}` gives it to all columns"
        message = f"{kind!r} must be a mapping of settings, not {given!r}"
        return [ConfigError(message, span=place, hint=hint)]
    return _of_mapping(kind, given, SETTINGS[kind], place, f"the project's {kind!r}")


def plan_setting_errors(plan: Plan) -> list[DqsqlError]:
    """What is wrong with the settings of monitors of a model."""
    # One word in config(..) is about all monitors of the kind: it is complained of once.
    errors = [e for kind, readers in SETTINGS.items() for e in _configured(plan, kind, readers)]
    errors += [e for e in map(_of_monitor, plan.monitors) if e is not None]
    return errors


def _of_monitor(monitor: Monitor) -> DqsqlError | None:
    readers = SETTINGS.get(monitor.kind)
    if readers is None:
        return None
    try:
        read = _READ.get(monitor.kind)
        if read is not None:
            read(monitor)
        else:
            read_settings(monitor, readers)
    except AnnotationError as error:
        return error
    return None


def _configured(plan: Plan, kind: str, readers: Mapping[str, Reader]) -> list[DqsqlError]:
    """The errors of `config(avh = {..})`; true and false stand for the monitor without settings."""
    given = plan.model.config.extra.get(kind)
    place = Span(plan.model.path)
    if given is None or isinstance(given, bool):
        return []
    if not isinstance(given, Mapping):
        return [
            ConfigError(
                f"config({kind} = ..) must be true or a mapping of settings, not {given!r}",
                span=place,
                hint=f"write {kind} = true, or {kind} = {{'{next(iter(readers))}': ..}}",
            )
        ]
    return _of_mapping(kind, given, readers, place, f"config({kind} = ..)")


def _of_mapping(
    kind: str, given: Mapping[str, Any], readers: Mapping[str, Reader], place: Span, where: str
) -> list[DqsqlError]:
    errors: list[DqsqlError] = []
    for name, value in given.items():
        if name not in readers:
            hint = nearest(str(name), readers) or f"it has {', '.join(sorted(readers))}"
            message = f"@{kind} has no setting {name!r}, as {where} says"
            errors.append(ConfigError(message, span=place, hint=hint))
            continue
        try:
            readers[name](value)
        except ValueError as error:
            message = f"{name!r} of {where} must be {error}, not {value!r}"
            errors.append(ConfigError(message, span=place))
    return errors
