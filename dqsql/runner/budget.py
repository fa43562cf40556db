"""The project's setting `false_alarm_budget`, read and placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dqsql.errors import ConfigError, DecisionError
from dqsql.loading.config import place_of
from dqsql.model.project import Project

if TYPE_CHECKING:
    from dqsql.decisions.budget import Budget

SETTING = "false_alarm_budget"


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
        raise ConfigError(
            error.message, span=place_of(project, SETTING), hint=error.hint
        ) from error


def budget_errors(project: Project) -> tuple[ConfigError, ...]:
    """What is wrong with the budget, if anything."""
    try:
        read_budget(project)
    except ConfigError as error:
        return (error,)
    return ()
