"""The project's setting `false_alarm_budget`, read and placed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dqsql.errors import ConfigError, DecisionError, Span
from dqsql.model.project import Project

if TYPE_CHECKING:
    from dqsql.decisions.budget import Budget

SETTING = "false_alarm_budget"
_FILES = ("dqsql_project.yml", "dbt_project.yml")
_KEY = re.compile(r"\s*false[-_]alarm[-_]budget\s*:")


def read_budget(project: Project) -> Budget | None:
    """The budget of false alarms of a project, or None where it has none. Raises ConfigError."""
    text = project.settings.get(SETTING)
    if text is None:
        return None
    # Imported here because it starts with numpy, which a project without a budget does not need.
    from dqsql.decisions.budget import parse_budget

    try:
        return parse_budget(str(text))
    except DecisionError as error:
        raise ConfigError(error.message, span=_place(project), hint=error.hint) from error


def budget_errors(project: Project) -> tuple[ConfigError, ...]:
    """What is wrong with the budget, if anything."""
    try:
        read_budget(project)
    except ConfigError as error:
        return (error,)
    return ()


def _place(project: Project) -> Span:
    for name in _FILES:
        file = project.root / name
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        for number, line in enumerate(lines, start=1):
            if _KEY.match(line):
                return Span(name, number, len(line) - len(line.lstrip()) + 1, line.strip())
    return Span(_FILES[0])
