"""dbt's `selectors.yml`: selections with a name, for `--selector` and `selector:`.

A definition is a criterion as on the command line (`"+tag:daily"`), one in keys (`method`, `value`,
`parents`, `children` ..), `{tag: daily}`, or a list of these under `union` or `intersection`; an
item `exclude` takes away from its list.
See https://docs.getdbt.com/reference/node-selection/yaml-selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dqsql.errors import ConfigError, SelectionError, nearest
from dqsql.loading.documents import Document, KeyPath, Section, read_document
from dqsql.model.project import CheckModel, Project
from dqsql.model.settings import as_bool
from dqsql.model.wording import scalar_text
from dqsql.selection.methods import Criterion, Method, Selector
from dqsql.templating import MacroLibrary, base_context

_FILES = ("selectors.yml", "selectors.yaml")
METHOD = "selector"
_LISTS = ("union", "intersection")
_DEPTHS = ("parents_depth", "children_depth")
_FLAGS = ("parents", "children", "childrens_parents")
# dbt's word for which tests come along: checks run with their model here.
_KEYS = ("method", "value", *_FLAGS, *_DEPTHS, "exclude", "indirect_selection")
_HINT = 'write "tag:daily", {method: tag, value: daily}, or a list under union: or intersection:'


@dataclass(frozen=True)
class NamedSelectors:
    """The selectors of a project's file; `definitions` by name, with their places."""

    document: Document
    definitions: Mapping[str, tuple[Any, KeyPath]]
    default: str | None = None

    def evaluate(self, name: str, selector: Selector) -> set[str]:
        """The names of the models that a selector chooses. Raises SelectionError, ConfigError."""
        if name not in self.definitions:
            known = ", ".join(self.definitions) or "none"
            raise SelectionError(
                f"there is no selector {name!r} in {self.document.path}",
                hint=nearest(name, self.definitions) or f"known: {known}",
            )
        definition, path = self.definitions[name]
        return _Evaluation(self, selector, (name,)).of(definition, path)


@dataclass(frozen=True)
class _Evaluation:
    """Evaluates one definition; `within` are the selectors that led to it."""

    selectors: NamedSelectors
    selector: Selector
    within: tuple[str, ...]

    def of(self, definition: object, path: KeyPath) -> set[str]:
        """The models of a definition."""
        if isinstance(definition, str):
            return self.selector.union([definition])
        if isinstance(definition, Mapping):
            if "method" in definition:
                return self._criterion(definition, path)
            if len(definition) == 1:
                ((key, value),) = definition.items()
                if key in _LISTS and isinstance(value, list):
                    return self._list(key, value, (*path, key))
                if isinstance(value, str | int | float) and not isinstance(value, bool):
                    return self._criterion({"method": key, "value": value}, path)
        raise self._problem("this is not a definition of a selector", path)

    def _list(self, key: str, items: Sequence[object], path: KeyPath) -> set[str]:
        chosen: list[set[str]] = []
        left_out: set[str] = set()
        for at, item in enumerate(items):
            if isinstance(item, Mapping) and set(item) == {"exclude"}:
                left_out |= self._excluded(item, (*path, at))
            else:
                chosen.append(self.of(item, (*path, at)))
        if not chosen:
            raise self._problem(f"{key!r} selects nothing", path)
        together = set.union(*chosen) if key == "union" else set.intersection(*chosen)
        return together - left_out

    def _excluded(self, item: Mapping[str, Any], path: KeyPath) -> set[str]:
        excluded = item.get("exclude") or []
        if not isinstance(excluded, list):
            raise self._problem("'exclude' must be a list", path)
        path, inner = (*path, "exclude"), replace(self, selector=self.selector.of_excludes)
        return set[str]().union(*(inner.of(e, (*path, at)) for at, e in enumerate(excluded)))

    def _criterion(self, item: Mapping[str, Any], path: KeyPath) -> set[str]:
        Section(self.selectors.document, item, path).check_keys(_KEYS, "a selector")
        if item.get("value") is None:
            raise self._problem(f"{item['method']!r} needs a value", path)
        method, _, argument = str(item["method"]).partition(".")
        value = item["value"]
        text = scalar_text(value)
        if method == METHOD:
            chosen = self._other(text, path)
        else:
            criterion = Criterion(
                method,
                argument,
                text,
                parents=self._steps(item, "parents", path),
                children=self._steps(item, "children", path),
                with_siblings=bool(item.get("childrens_parents")),
            )
            try:
                chosen = self.selector.of(criterion)
            except SelectionError as error:
                raise self._problem(error.message, path, error.hint) from error
        return chosen - self._excluded(item, path)

    def _steps(self, item: Mapping[str, Any], key: str, path: KeyPath) -> int | None:
        """How far to go: 0 not at all, None as far as there is something."""
        if not item.get(key):
            return 0
        depth = item.get(f"{key}_depth")
        if depth is None:
            return None
        if not isinstance(depth, int) or isinstance(depth, bool) or depth < 0:
            raise self._problem(f"'{key}_depth' must be a whole number", path)
        return depth

    def _other(self, name: str, path: KeyPath) -> set[str]:
        if name in self.within:
            circle = " -> ".join((*self.within, name))
            raise self._problem(f"selectors in a circle: {circle}", path)
        if name not in self.selectors.definitions:
            hint = nearest(name, self.selectors.definitions)
            raise self._problem(f"there is no selector {name!r}", path, hint)
        definition, at = self.selectors.definitions[name]
        inner = _Evaluation(self.selectors, self.selector, (*self.within, name))
        return inner.of(definition, at)

    def _problem(self, message: str, path: KeyPath, hint: str | None = None) -> ConfigError:
        return self.selectors.document.problem(message, *path, hint=hint or _HINT)


def read_selectors(project: Project) -> NamedSelectors | None:
    """The selectors of a project's file, None without one. Raises ConfigError with the place."""
    file = next((f for f in map(project.root.joinpath, _FILES) if f.is_file()), None)
    if file is None:
        return None
    library = MacroLibrary((), base_context(project.vars, project.target))
    document = read_document(file, file.name, library.render)
    document.top.check_keys(("selectors",), "a file of selectors")
    definitions: dict[str, tuple[Any, KeyPath]] = {}
    defaults: list[str] = []
    for at, item in enumerate(document.top.listed("selectors")):
        section = document.top.inner(item, "a selector", "selectors", at)
        section.check_keys(("name", "definition", "description", "default"), "a selector")
        name = section.values.get("name")
        if not isinstance(name, str) or not name:
            raise section.problem("a selector has no name")
        if "definition" not in section.values:
            raise section.problem(f"the selector {name!r} has no definition", hint=_HINT)
        if name in definitions:
            raise section.problem(f"the selector {name!r} is defined twice", "name")
        definitions[name] = (section.values["definition"], (*section.keys, "definition"))
        if section.read("default", as_bool):
            defaults.append(name)
    if len(defaults) > 1:
        raise document.problem(f"several selectors are the default: {', '.join(defaults)}")
    return NamedSelectors(document, definitions, defaults[0] if defaults else None)


@dataclass
class SelectorMethod:
    """The method `selector:NAME` over the models of a project.

    `methods` are those that definitions may use; it is asked for when the file is first needed.
    """

    project: Project
    methods: Callable[[], Mapping[str, Method]]
    is_excluded: bool = False
    _chosen: dict[str, set[str]] = field(default_factory=dict)
    _within: list[str] = field(default_factory=list)

    @property
    def of_excludes(self) -> SelectorMethod:
        """The same as a part of what is excluded."""
        return SelectorMethod(
            self.project, self.methods, not self.is_excluded, _within=self._within
        )

    def __call__(self, model: CheckModel, _: str, value: str) -> bool:
        """Whether the selector `value` chooses the model."""
        if value in self._within:
            raise SelectionError(f"selectors in a circle: {' -> '.join((*self._within, value))}")
        if value not in self._chosen:
            selector = Selector(self.project.models, self.methods())
            selector = selector.of_excludes if self.is_excluded else selector
            self._within.append(value)
            self._chosen[value] = self._selectors.evaluate(value, selector)
            self._within.pop()
        return model.name in self._chosen[value]

    @cached_property
    def _selectors(self) -> NamedSelectors:
        selectors = read_selectors(self.project)
        if selectors is None:
            raise SelectionError(
                f"there is no {_FILES[0]} in {self.project.root}",
                hint="selectors have names there, as in dbt; --select takes criteria",
            )
        return selectors


def default_selector(project: Project) -> tuple[str, ...]:
    """The selection of a command that is told none: the project's default selector, or all."""
    selectors = read_selectors(project)
    return (f"{METHOD}:{selectors.default}",) if selectors is not None and selectors.default else ()
