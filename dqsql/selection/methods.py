"""Chooses check models by dbt's selection syntax.

Arguments and spaces are unions, commas are intersections: `tag:daily,path:checks/sales +orders`.
A criterion is `[@][n+][method:]value[+n]`; without a method it is a path, a name, or dbt's
qualified name (`package.folder.model`, whole or its beginning, with globs).

The unit is the check model. A method about checks (`column:`, `check:`, `severity:`, `test_name:`,
`test_type:`), a tag of a check and the name of a test of dbt choose the models that have such a
check: all checks of a model share its scan, and a batch is checked whole or not at all. So they
exclude only models of which they are about all checks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from sqlglot import exp

from dqsql.dialect import parse_expression
from dqsql.errors import SelectionError, nearest
from dqsql.model.monitors import monitor_specs
from dqsql.model.project import DBT_TEST, DBT_TEST_NAME, Annotation, CheckModel, Severity
from dqsql.model.wording import first_of, scalar_text

# A method answers whether it chooses a model. `argument` is what stands behind the dot of the
# method's name, as in `config.severity:warn`.
Method = Callable[["CheckModel", str, str], bool]


_GLOB = re.compile(r"[*?[\]]")
_CRITERION = re.compile(
    r"(?P<at>@)?(?:(?P<parents>\d*)\+)?"
    r"(?:(?P<method>[a-z_]+)(?:\.(?P<argument>[\w.]+))?:)?(?P<value>[^+]+?)"
    r"(?:\+(?P<children>\d*))?"
)


def _by_name(model: CheckModel, _: str, value: str) -> bool:
    return fnmatchcase(model.name, value) or fnmatchcase(str(model.dbt.get("name", "")), value)


def _by_fqn(project: str) -> Method:
    """Dbt's qualified names, a model's own name, and the name of an adopted test."""

    def method(model: CheckModel, _: str, value: str) -> bool:
        if _by_name(model, "", value) or _has_test(model, value):
            return True
        # dbt's qualified names are not about sources.
        fqn = () if _is_source(model) else _fqn(model, project)
        return any(_is_qualified(name, value, _is_versioned(model)) for name in (fqn, fqn[1:]))

    return method


def _has_test(model: CheckModel, name: str) -> bool:
    tests = (a.settings for a in model.annotations if DBT_TEST in a.settings.options)
    return any(settings.name == name for settings in tests)


def _fqn(model: CheckModel, project: str) -> tuple[str, ...]:
    """The package, the folders below that of the models, and the name."""
    parts = model.dbt.get("fqn")
    if isinstance(parts, list) and parts:
        return tuple(map(str, parts))
    return (project, *PurePosixPath(model.path).with_suffix("").parts[1:])


def _is_versioned(model: CheckModel) -> bool:
    fqn = _fqn(model, "")
    return len(fqn) > 1 and model.dbt.get("name") == "_".join(fqn[-2:])


def _is_qualified(fqn: Sequence[str], value: str, versioned: bool) -> bool:
    """Whether a value is a qualified name or its beginning, by dbt's rules.

    From the first part with a glob on, the rest is compared as one text. A versioned model is also
    named without its version.
    """
    if not fqn:
        return False
    names = [part for name in fqn for part in name.split(".")]
    parts = value.split(".")
    if value == fqn[-1] or (versioned and (value == fqn[-2:][0] or parts[-2:] == names[-2:])):
        return True
    if len(parts) > len(names):
        return False
    for at, part in enumerate(parts):
        if _GLOB.search(part):
            return fnmatchcase(".".join(names[at:]), ".".join(parts[at:]))
        if names[at] != part:
            return False
    return True


def _by_package(project: str) -> Method:
    def method(model: CheckModel, _: str, value: str) -> bool:
        own = str(model.dbt.get("package") or project)
        return fnmatchcase(own, project if value == "this" else value)

    return method


def _by_tag(model: CheckModel, _: str, value: str) -> bool:
    of_checks = (a.settings for a in model.annotations)
    tags = (*model.config.tags, *(tag for s in of_checks if s.enabled for tag in s.tags))
    return any(fnmatchcase(tag, value) for tag in tags)


def _by_path(model: CheckModel, _: str, value: str) -> bool:
    path, wanted = PurePosixPath(model.path), PurePosixPath(value).parts
    return any(_fits(place.parts, wanted) for place in (path, *path.parents))


def _fits(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a path is one that is wanted; `**` stands for any number of folders."""
    if not wanted:
        return not parts
    first, rest = wanted[0], wanted[1:]
    if first == "**":
        return any(_fits(parts[i:], rest) for i in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and _fits(parts[1:], rest)


def _by_file(model: CheckModel, _: str, value: str) -> bool:
    path = PurePosixPath(model.path)
    return fnmatchcase(path.name, value) or fnmatchcase(path.stem, value)


def _by_config(model: CheckModel, argument: str, value: str) -> bool:
    key, *rest = argument.split(".")
    setting = getattr(model.config, key) if key != "extra" and hasattr(model.config, key) else None
    if setting is None:
        setting = model.config.extra.get(key)
    if setting is None:
        config = model.dbt.get("config")
        setting = config.get(key) if isinstance(config, Mapping) else None
    for part in rest:
        setting = setting.get(part) if isinstance(setting, Mapping) else None
    if setting is None:
        return False
    if isinstance(setting, list | tuple | set | frozenset):
        return any(fnmatchcase(scalar_text(item), value) for item in setting)
    # As in dbt: true is True.
    return fnmatchcase(scalar_text(setting), value.lower() if isinstance(setting, bool) else value)


def _by_source(model: CheckModel, _: str, value: str) -> bool:
    if model.dbt and not _is_source(model):
        # In a dbt project the source has a model of its own; `source:x+` are those that read it.
        return False
    parts = value.split(".")
    wanted = [f"source.{value}" if len(parts) > 1 else f"source.{value}.*"]
    if len(parts) == 3 and fnmatchcase(str(model.dbt.get("package") or ""), parts[0]):
        # dbt's package.source.table.
        wanted.append(f"source.{parts[1]}.{parts[2]}")
    return any(fnmatchcase(uid, w) for uid in model.depends_on for w in wanted)


def _is_source(model: CheckModel) -> bool:
    return model.dbt.get("resource_type") == "source"


def _by_resource_type(model: CheckModel, _: str, value: str) -> bool:
    return bool(value == model.dbt.get("resource_type", "model"))


def _by_group(model: CheckModel, _: str, value: str) -> bool:
    return fnmatchcase(str(model.dbt.get("group") or ""), value)


def _by_owner(model: CheckModel, _: str, value: str) -> bool:
    return model.config.owner is not None and fnmatchcase(model.config.owner, value)


def _of_checks(matches: Callable[[CheckModel, Annotation, str], bool]) -> Method:
    """A method that chooses the models with a matching check."""

    def method(model: CheckModel, _: str, value: str) -> bool:
        return any(matches(model, a, value) for a in model.annotations if a.settings.enabled)

    return method


def _check_named(_: CheckModel, annotation: Annotation, value: str) -> bool:
    return fnmatchcase(annotation.settings.name or annotation.expression, value)


def _check_on(_: CheckModel, annotation: Annotation, value: str) -> bool:
    """The column that the check is beside, or one that it names: Spark ignores their case."""
    names = [annotation.column] if annotation.column is not None else []
    ast = parse_expression(annotation.expression, annotation.span)
    names += [c.name for c in ast.find_all(exp.Column) if c.find_ancestor(exp.Func)]
    return any(fnmatchcase(name.lower(), value.lower()) for name in names)


def _by_severity(default: Severity) -> Method:
    """Models with a check of a severity; `default` is that of a check which does not name one."""

    def matches(model: CheckModel, annotation: Annotation, value: str) -> bool:
        spec = monitor_specs().get(_first_word(annotation))
        own = annotation.settings.severity or (None if spec is None else spec.severity)
        return value == (own or model.config.severity or default).value

    return _of_checks(matches)


def _check_test(_: CheckModel, annotation: Annotation, value: str) -> bool:
    """The name of dbt's generic test, or the first word of the annotation."""
    name = annotation.settings.options.get(DBT_TEST_NAME) or _first_word(annotation)
    return fnmatchcase(str(name), value)


def _first_word(annotation: Annotation) -> str:
    word = re.match(r"\w+", annotation.expression)
    return word.group() if word else ""


def _check_type(_: CheckModel, annotation: Annotation, value: str) -> bool:
    """`generic` or `singular`, together `data`, of what was adopted; or `annotation`."""
    test = annotation.settings.options.get(DBT_TEST)
    if test is None:
        return value == "annotation"
    # The id of a generic test ends with a hash: test.shop.not_null_orders_id.5a8.
    return value in ("data", "generic" if str(test).count(".") > 2 else "singular")


def project_methods(project: str, severity: Severity = Severity.ERROR) -> dict[str, Method]:
    """The methods that know the project: its name, and the severity of its checks."""
    return {
        "fqn": _by_fqn(project),
        "package": _by_package(project),
        "severity": _by_severity(severity),
    }


# What may be about checks; without a method, it may be the name of a test.
_ABOUT_CHECKS = (None, "tag", "fqn", "check", "column", "severity", "test_name", "test_type")
METHODS: dict[str, Method] = {
    "name": _by_name,
    "tag": _by_tag,
    "path": _by_path,
    "file": _by_file,
    "config": _by_config,
    "source": _by_source,
    "resource_type": _by_resource_type,
    "group": _by_group,
    "owner": _by_owner,
    "check": _of_checks(_check_named),
    "column": _of_checks(_check_on),
    **project_methods(""),
    "test_name": _of_checks(_check_test),
    "test_type": _of_checks(_check_type),
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion of a selection: a method's question, and relatives of what it chooses."""

    method: str | None
    argument: str
    value: str
    # Steps to ancestors and descendants: 0 none, None all.
    parents: int | None = 0
    children: int | None = 0
    with_siblings: bool = False


def select_models(
    models: Sequence[CheckModel],
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    methods: Mapping[str, Method] | None = None,
) -> list[CheckModel]:
    """The enabled models that `select` chooses (all when empty) and `exclude` does not.

    The order of `models` is kept. `methods` adds methods such as `state:` and `result:`, whose
    answers need more than the models. Choosing nothing is no error.

    Raises SelectionError: a criterion that cannot be read, or an unknown method.
    """
    selector = Selector(models, {**METHODS, **(methods or {})})
    chosen = selector.union(select) if any(s.strip() for s in select) else set(selector.names)
    chosen -= selector.of_excludes.union(exclude)
    return [m for m in models if m.name in chosen and m.config.enabled]


def unmatched(
    models: Sequence[CheckModel],
    arguments: Sequence[str],
    *,
    methods: Mapping[str, Method] | None = None,
) -> tuple[str, ...]:
    """Sentences about the criteria of `--select` or `--exclude` that find no enabled model."""
    selector = Selector(models, {**METHODS, **(methods or {})})
    enabled = {m.name for m in models if m.config.enabled}
    terms = dict.fromkeys(terms_of(arguments, selector.names))
    sentences = []
    for term in terms:
        if not selector.union([term]) & enabled:
            near = nearest(term, enabled)
            if (model := term.partition(".")[0]) in enabled:
                near = f"checks run with their model: --select {model}"
            sentences.append(f"no check model matches {term!r}" + (f"; {near}" if near else ""))
    return tuple(sentences)


def kept_in_part(
    models: Sequence[CheckModel],
    exclude: Sequence[str],
    chosen: Collection[str],
    *,
    methods: Mapping[str, Method] | None = None,
) -> tuple[str, ...]:
    """Sentences about criteria of `--exclude` that are about some checks of chosen models."""
    selector = Selector(models, {**METHODS, **(methods or {})})
    sentences = []
    for term in dict.fromkeys(terms_of(exclude, selector.names)):
        kept = sorted(selector.union([term]).intersection(chosen))
        if kept:
            about = f"{term!r} is about some checks, and leaves out no model that has others"
            sentences.append(f"{about}: {first_of(kept, 3)} will be checked with all checks")
    return tuple(sentences)


def terms_of(arguments: Iterable[str], names: Collection[str]) -> list[str]:
    """The criteria of arguments, which blanks part, but for those in the names of models."""
    return [
        term
        for argument in arguments
        for term in ([argument] if _odd_name(argument, names) else argument.split())
    ]


def _odd_name(term: str, names: Collection[str]) -> str | None:
    """The model that is meant by its whole name, with signs in it that mean something here."""
    name = term.removeprefix("name:")
    return name if _SIGNS.search(name) and name in names else None


_SIGNS = re.compile(r"[\s,+@*?\[\]:]")


class Selector:
    """Chooses among models, whose relations it knows, by methods."""

    def __init__(self, models: Sequence[CheckModel], methods: Mapping[str, Method]) -> None:
        self._models = models
        self._methods = methods
        self._is_whole = False
        self.names = [m.name for m in models]
        names_by_id = {m.unique_id: m.name for m in models}
        # The model about a source of dbt stands where the source does.
        names_by_id |= {uid: m.name for m in models if _is_source(m) for uid in m.depends_on}
        self._parents: dict[str, set[str]] = {
            m.name: {names_by_id[uid] for uid in m.depends_on if uid in names_by_id} - {m.name}
            for m in models
        }
        self._children: dict[str, set[str]] = {m.name: set() for m in models}
        for child, parents in self._parents.items():
            for parent in parents:
                self._children[parent].add(child)

    @property
    def of_excludes(self) -> Selector:
        """What chooses by a criterion about checks only models of which it is about all checks.

        Within an exclude of an exclude it chooses as ever.
        """
        selector = copy(self)
        selector._is_whole = not self._is_whole
        # What stands in a file under a name is a part of it.
        named = getattr(self._methods.get("selector"), "of_excludes", None)
        if named is not None:
            selector._methods = {**self._methods, "selector": named}
        return selector

    def union(self, arguments: Sequence[str]) -> set[str]:
        """The names that arguments choose, as the command line takes them."""
        chosen: set[str] = set()
        for term in terms_of(arguments, self.names):
            name = _odd_name(term, self.names)
            chosen |= self._intersection(term) if name is None else {name}
        return chosen

    def _intersection(self, term: str) -> set[str]:
        parts = term.split(",")
        if not all(parts):
            raise SelectionError(
                f"cannot read the selection {term!r}", hint="put a comma between two criteria"
            )
        return set.intersection(*(self.of(_parse(p)) for p in parts))

    def of(self, criterion: Criterion) -> set[str]:
        """The names that one criterion chooses, with the relatives that it asks for."""
        _refuse_unknown(criterion, self._methods)
        chosen = {m.name for m in self._models if self._chooses(m, criterion)}
        if criterion.with_siblings:
            # dbt's `@`: the descendants, and everything that these need.
            family = chosen | _walk(chosen, self._children, None)
            return family | _walk(family, self._parents, None)
        return (
            chosen
            | _walk(chosen, self._parents, criterion.parents)
            | _walk(chosen, self._children, criterion.children)
        )

    def _chooses(self, model: CheckModel, criterion: Criterion) -> bool:
        matches = self._matches(model, criterion)
        if not matches or not self._is_whole or criterion.method not in _ABOUT_CHECKS:
            return matches
        # Without any check, it is the model that is meant.
        if self._matches(replace(model, annotations=()), criterion):
            return True
        checks = [a for a in model.annotations if a.settings.enabled]
        alone = (replace(model, annotations=(a,)) for a in checks)
        return not _has_more(model) and all(self._matches(m, criterion) for m in alone)

    def _matches(self, model: CheckModel, criterion: Criterion) -> bool:
        if criterion.method is not None:
            return self._methods[criterion.method](model, criterion.argument, criterion.value)
        value = criterion.value
        if "/" in value or value.endswith(".sql"):
            return _by_path(model, "", value) or _by_file(model, "", value)
        return self._methods["fqn"](model, "", value)


def _has_more(model: CheckModel) -> bool:
    """Whether a model has checks besides those that are written: automatic monitors."""
    return bool(model.config.extra.get("monitors"))


def _walk(start: set[str], edges: Mapping[str, set[str]], steps: int | None) -> set[str]:
    """Everything reachable from `start` in at most `steps` steps (None: any number)."""
    reached: set[str] = set()
    queue = deque((name, 0) for name in start)
    while queue:
        name, distance = queue.popleft()
        if steps is not None and distance >= steps:
            continue
        for following in edges[name] - reached:
            reached.add(following)
            queue.append((following, distance + 1))
    return reached


def _refuse_unknown(criterion: Criterion, methods: Mapping[str, Method]) -> None:
    method = criterion.method
    text = f"{method}:{criterion.value}"
    if method is not None and method not in methods:
        raise SelectionError(
            f"unknown selection method {method!r} in {text!r}",
            hint=nearest(method, methods) or f"known methods: {', '.join(sorted(methods))}",
        )
    if method == "config" and not criterion.argument:
        raise SelectionError(f"{text!r} names no setting", hint="write config.severity:warn")


def _parse(text: str) -> Criterion:
    match = _CRITERION.fullmatch(text)
    if match is None or (match["method"] is None and ":" in match["value"]):
        raise SelectionError(
            f"cannot read the selection {text!r}",
            hint="write a name, tag:x, path:x, config.key:x, source:x, with + for relatives",
        )
    at, method = match["at"] is not None, match["method"]
    if at and (match["parents"] is not None or match["children"] is not None):
        raise SelectionError(f"{text!r} mixes @ and +", hint="@ already takes all relatives")
    return Criterion(
        method=method,
        argument=match["argument"] or "",
        value=match["value"],
        parents=_steps(match["parents"]),
        children=_steps(match["children"]),
        with_siblings=at,
    )


def _steps(text: str | None) -> int | None:
    if text is None:
        return 0
    # More steps than a number of nine digits says are all there are.
    return int(text) if text and len(text) < 10 else None
