"""Whether the settings of a project's monitors can be used: asked when it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dqsql.errors import AnnotationError, ConfigError, DqsqlError, Span, nearest
from dqsql.loading.config import place_of
from dqsql.model.monitors import MonitorSpec
from dqsql.model.plan import Monitor, Plan
from dqsql.model.project import Project
from dqsql.model.settings import SettingProblem, read_value
from dqsql.model.wording import first_of
from dqsql.monitors.context import defaults_of
from dqsql.monitors.registry import all_kinds, find
from dqsql.monitors.settings import read_settings

# So many columns are named in a note.
_NAMED = 5
# Where a kind of monitor is declared.
_TO_ALL = "`models: {{+{0}: true}}` gives it to all columns"
_ON_THE_MODEL = "write @{0} in the SQL of a model, on a line of its own or beside a column"


def setting_errors(project: Project) -> tuple[DqsqlError, ...]:
    """What is wrong with the project's settings of monitors."""
    return tuple(error for spec in _configurable() for error in _of_project(project, spec))


def _configurable() -> list[MonitorSpec]:
    return [kind.spec for kind in all_kinds() if kind.spec.configurable]


def _of_project(project: Project, spec: MonitorSpec) -> list[DqsqlError]:
    kind = spec.name
    given = project.settings.get(kind)
    if given is None:
        return []
    place = place_of(project, kind)
    if not isinstance(given, Mapping):
        hint = _TO_ALL.format(kind) if spec.about_column else _ON_THE_MODEL.format(kind)
        message = f"{kind!r} must be a mapping of settings, not {given!r}"
        return [ConfigError(message, span=place, hint=hint)]
    return _of_mapping(spec, given, place, f"the project's {kind!r}")


@dataclass(frozen=True)
class Misset:
    """Monitors of a model whose settings cannot be used: those behind them, or the config's.

    Attributes:
        monitors: the monitors and why.
        others: errors of settings in the config that are about no monitor, or not alone, each with
            the setting.
    """

    monitors: tuple[tuple[Monitor, DqsqlError], ...]
    others: tuple[tuple[str, DqsqlError], ...]

    @property
    def errors(self) -> tuple[DqsqlError, ...]:
        """All errors, each once: one word of the config is about all monitors of its kind."""
        errors = (*(e for _, e in self.monitors), *(e for _, e in self.others))
        return tuple({id(error): error for error in errors}.values())


def misset(plan: Plan, project: Project) -> Misset:
    """The monitors of a model whose settings cannot be used, and why."""
    unread = {spec.name for spec in _configurable() if _of_project(project, spec)}
    by_kind = {spec.name: _configured(plan, spec) for spec in _configurable()}
    config = {kind: errors for kind, errors in by_kind.items() if errors}
    monitors: list[tuple[Monitor, DqsqlError]] = []
    for monitor in plan.monitors:
        # Where these are wrong, what comes of it is no news.
        is_wrong = monitor.kind in config or monitor.kind in unread
        defaults = {} if is_wrong else defaults_of(monitor.kind, project.settings, plan)
        error = _of_monitor(monitor, defaults)
        if error is None and monitor.kind in config:
            error = config[monitor.kind][0][1]
        if error is not None:
            monitors.append((monitor, error))
    error_ids = {id(error) for _, error in monitors}
    others = [
        (text, e) for errors in config.values() for text, e in errors if id(e) not in error_ids
    ]
    return Misset(tuple(monitors), tuple(others))


def setting_notes(plan: Plan, project: Project) -> tuple[str, ...]:
    """What to know of the settings of a model's monitors, each once for all its columns."""
    notes: dict[tuple[str, str], list[str]] = {}
    for monitor in plan.monitors:
        kind = find(monitor.kind)
        if kind is None or kind.note is None:
            continue
        try:
            text = kind.note(monitor, defaults_of(monitor.kind, project.settings, plan))
        except AnnotationError:
            # An error of its own tells of what cannot be read.
            continue
        if text is not None:
            notes.setdefault((monitor.kind, text), []).append(monitor.column or plan.model.name)
    return tuple(f"@{kind} of {first_of(c, _NAMED)}: {text}" for (kind, text), c in notes.items())


def _of_monitor(monitor: Monitor, defaults: Mapping[str, Any]) -> DqsqlError | None:
    kind = find(monitor.kind)
    if kind is None:
        return None
    try:
        if kind.read is not None:
            kind.read(monitor)
        else:
            read_settings(monitor, kind.spec.settings)
        if kind.reach is not None:
            kind.reach(monitor, defaults)
    except AnnotationError as error:
        return error
    return None


def _configured(plan: Plan, spec: MonitorSpec) -> list[tuple[str, DqsqlError]]:
    """The errors of `config(avh = {..})`, each with the setting.

    True and false stand for the monitor without settings.
    """
    kind, readers = spec.name, spec.settings
    given = plan.model.config.extra.get(kind)
    place = Span(plan.model.path)
    where = f"config({kind} = ..)"
    if given is True and not spec.about_column and all(m.kind != kind for m in plan.monitors):
        message = f"{where} adds no @{kind}, which is not given to columns"
        return [(where, ConfigError(message, span=place, hint=_ON_THE_MODEL.format(kind)))]
    if given is None or isinstance(given, bool):
        return []
    if isinstance(given, Mapping):
        return [
            (f"config({kind} = {{'{name}': ..}})", error)
            for name, value in given.items()
            for error in _of_mapping(spec, {name: value}, place, where)
        ]
    error = ConfigError(
        f"{where} must be true or a mapping of settings, not {given!r}",
        span=place,
        hint=f"write {kind} = true, or {kind} = {{'{next(iter(readers))}': ..}}",
    )
    return [(where, error)]


def _of_mapping(
    spec: MonitorSpec, given: Mapping[str, Any], place: Span, where: str
) -> list[DqsqlError]:
    kind, readers = spec.name, spec.settings
    errors: list[DqsqlError] = []
    for name, value in given.items():
        if name not in readers:
            hint = nearest(str(name), readers) or f"it has {', '.join(sorted(readers))}"
            message = f"@{kind} has no setting {name!r}, as {where} says"
            errors.append(ConfigError(message, span=place, hint=hint))
            continue
        try:
            read_value(name, value, readers[name], where)
        except SettingProblem as problem:
            errors.append(problem.at(ConfigError, place))
    return errors
