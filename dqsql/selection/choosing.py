"""Which models of a project a command is about: dbt's selection, with all of its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from dqsql.errors import UsageError
from dqsql.model.project import Project
from dqsql.model.wording import texts_of
from dqsql.selection.methods import METHODS, Method, project_methods, select_models, unmatched
from dqsql.selection.selectors import METHOD, SelectorMethod, default_selector
from dqsql.selection.state import state_of


def methods_of(project: Project, state: str | PathLike[str] | None = None) -> Mapping[str, Method]:
    """The methods that know the project, its selectors, and earlier artefacts."""
    own = project_methods(project.name, project.severity)
    methods = {**METHODS, **own, **state_of(project, state).methods()}
    methods[METHOD] = SelectorMethod(project, lambda: methods)
    return methods


def chosen_names(project: Project, select: Sequence[str], exclude: Sequence[str] = ()) -> list[str]:
    """The names of the models of a project that are selected: see `select_models`.

    Raises UsageError: there is none by names. Methods (`result:fail`) may well find none.
    """
    methods = methods_of(project)
    select, exclude = texts_of(select), texts_of(exclude)
    names = [m.name for m in select_models(project.models, select, exclude, methods=methods)]
    if not names and not any(":" in part for part in select):
        problems = unmatched(project.models, select, methods=methods)
        if problems:
            raise UsageError("; ".join(problems), hint="`dqsql ls` lists the check models")
    return names


def selection(
    project: Project,
    select: Sequence[str],
    exclude: Sequence[str],
    selector: str | None,
    *,
    by_default: bool,
) -> Sequence[str]:
    """What to select: `--select`, the selector with a name, or (`by_default`) the default one."""
    if selector is not None:
        if [*select, *exclude]:
            raise UsageError(
                "--selector stands alone, without --select and --exclude",
                hint=f"--select {METHOD}:{selector} can be combined with others",
            )
        return (f"{METHOD}:{selector}",)
    if by_default and not [*select, *exclude]:
        return default_selector(project)
    return select
