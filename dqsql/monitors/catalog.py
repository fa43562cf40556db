"""The names that annotations may use, and what macros ask of the pattern language."""

from __future__ import annotations

from dqsql.compiler.catalog import Catalog
from dqsql.model.project import Project
from dqsql.templating import MacroLibrary, base_context


def catalog_of(project: Project) -> Catalog:
    """The names that the annotations of a project may use."""
    context = base_context(project.vars, project.target)
    library = MacroLibrary(project.macros, {**context, "pattern_regex": _pattern_regex})
    return Catalog(library, project.functions)


def _pattern_regex(text: str) -> str:
    # Imported where a check needs it: patterns bring scipy and pyarrow along.
    from dqsql.monitors.pattern_rules import pattern_regex

    return pattern_regex(str(text))
