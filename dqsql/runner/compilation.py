"""Loads and compiles a project; nothing here starts Spark."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from dqsql.compiler.adoption import CompiledModel, compile_adopted, is_checked
from dqsql.compiler.auto import features_of, left_out, with_features, without_monitors
from dqsql.compiler.catalog import Catalog
from dqsql.compiler.plan import refused_check
from dqsql.compiler.plan_cache import PlanCache
from dqsql.compiler.privacy import derived_warnings
from dqsql.compiler.queries import compiled_queries, over_budget
from dqsql.compiler.vacuous import counted_again, repeated_checks
from dqsql.errors import AnnotationError, DqsqlError, Span, UsageError, error_of, nearest
from dqsql.loading import load_project
from dqsql.loading.suspects import suspicions
from dqsql.model.monitors import monitor_specs
from dqsql.model.plan import Plan, Query
from dqsql.model.project import CheckModel, Project
from dqsql.model.wording import texts_of
from dqsql.monitors.auto import is_open, with_auto_monitors
from dqsql.monitors.catalog import catalog_of
from dqsql.monitors.rates import budget_errors
from dqsql.monitors.validation import misset, setting_errors, setting_notes
from dqsql.selection.choosing import methods_of, selection
from dqsql.selection.methods import kept_in_part, select_models, unmatched

Variables = Mapping[str, Any] | str | None


class Place(TypedDict, total=False):
    """Which target of a project is meant, and its variables, in the words of the command line."""

    target: str | None
    """Output of the profile; by default the one that the profile names."""
    profile: str | None
    """Name of the profile, instead of the project's."""
    profiles_dir: str | PathLike[str] | None
    """Folder of `profiles.yml`; see `load_target` for where it is looked for by default."""
    vars: Variables
    """Variables that override the project's: a mapping, or a text of YAML or JSON."""


class ModelChoice(TypedDict, total=False):
    """Which models of a project are meant; see `compile_project`."""

    select: Sequence[str]
    exclude: Sequence[str]
    dbt_tests: bool | None
    state: str | PathLike[str] | None
    selector: str | None
    default_selector: bool


@dataclass(frozen=True)
class CompileResult:
    """A compiled project: plans and statements of the selected models, and all errors found."""

    project: Project
    plans: tuple[Plan, ...]
    queries: Mapping[str, tuple[Query, ...]]
    errors: tuple[DqsqlError, ...]

    def raise_errors(self) -> None:
        """Raise what is wrong with the project, all of it at once."""
        if self.errors:
            raise error_of(self.errors)

    def plan(self, name: str) -> Plan:
        """The plan of a check model. Raises UsageError: there is none of that name."""
        known = {p.model.name: p for p in self.plans}
        if name not in known:
            raise UsageError(
                f"there is no check model {name!r} with checks",
                hint=nearest(name, known) or "`dqsql ls` lists the check models",
            )
        return known[name]

    def raise_unless_sound(self) -> None:
        """As `raise_errors`, but only if nothing can be done before they are mended."""
        if not self.sound:
            self.raise_errors()

    @property
    def sound(self) -> bool:
        """Whether a run has something to do: some model is right, and so is the project itself."""
        of_models = [e for p in self.plans for e in p.rejected]
        if len(of_models) < len(self.errors):
            return False
        # Columns may have changed that only Spark knows.
        return not self.plans or any(not p.blocked or is_open(p.model) for p in self.plans)


# Some 300 megabytes of trees.
_MANY_OBJECTS = 1_500_000


@contextmanager
def _without_collector() -> Iterator[None]:
    """Let Python's cycle collector rest: walking all trees again and again takes a third more."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@_without_collector()
def compile_project(
    project_dir: str | PathLike[str] = ".",
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    dbt_tests: bool | None = None,
    state: str | PathLike[str] | None = None,
    selector: str | None = None,
    default_selector: bool = False,
    in_place_of: Mapping[str, str] | None = None,
    change: Callable[[CheckModel], CheckModel] | None = None,
    loaded: Callable[[Project], None] = lambda _: None,
    **place: Unpack[Place],
) -> CompileResult:
    """Load a project and compile the selected check models.

    Errors in single annotations are returned, not raised; an unreadable project raises.
    `dbt_tests` says whether the generic tests of a dbt project are adopted (None: as its settings
    say). `state` is the folder of earlier artefacts that `state:` and `result:` compare with.
    `selector` is a name in `selectors.yml`; with `default_selector` the file's default is used if
    nothing else is selected.
    `in_place_of` names views to read instead of sources, `change` replaces models before they are
    compiled. `loaded` is called with the project before it is compiled.
    """
    project = load_project(
        project_dir, dbt_tests=dbt_tests, strict=False, in_place_of=in_place_of, **place
    )
    loaded(project)
    if change is not None:
        project = replace(project, models=tuple(map(change, project.models)))
    project = with_auto_monitors(project)
    compiler = _Compiler(project)
    methods = methods_of(project, state)
    select, exclude = texts_of(select), texts_of(exclude)
    select = selection(project, select, exclude, selector, by_default=default_selector)
    selected = select_models(project.models, select, exclude, methods=methods)
    missed = unmatched(project.models, (*select, *exclude), methods=methods)
    names = {m.name for m in selected}
    missed += kept_in_part(project.models, exclude, names, methods=methods)
    # In the project's order, which loading made a topological one.
    chosen = [m for m in selected if compiler.can_compile(m)]
    kept = [compiler.compiled(model) for model in chosen]
    plans = tuple(_with_errors(c.plan, project) for c in kept)
    left = (*project.left_tests, *(t for c in kept for t in c.left))
    queries = _Queries({p.model.name: p for p in plans if not p.rejected}, compiler.queries)
    budgets = {m.name: compiler.budget(m) for m in chosen}
    over_limit = over_budget(plans, queries, budgets, compiler.total_budget.get("total"))
    by_id = {model.unique_id: model for model in project.models}
    derived = (
        warning
        for model in chosen
        for warning in derived_warnings(model, [by_id[d] for d in model.depends_on if d in by_id])
    )
    warnings = (*project.warnings, *missed, *_suspicions(plans, compiler.catalog), *derived)
    return CompileResult(
        project=replace(project, left_tests=left, warnings=warnings),
        plans=plans,
        queries=queries,
        errors=(
            *(e for p in plans for e in p.rejected),
            *setting_errors(project),
            *budget_errors(project),
            *over_limit,
        ),
    )


def recompiled(compiled: CompileResult, project: Project, names: Collection[str]) -> CompileResult:
    """What was compiled, with some models as they are in a project where more is known of them.

    Those that were not compiled are added.
    """
    compiler = _Compiler(project)
    models = {m.name: m for m in project.models}

    def again(name: str) -> Plan:
        return _with_errors(compiler.anew(models[name]).plan, project)

    known = {p.model.name: p for p in compiled.plans}
    plans = [again(n) if n in names else known[n] for n in dict.fromkeys((*known, *names))]
    queries = _Queries({p.model.name: p for p in plans if not p.rejected})
    return replace(
        compiled,
        project=replace(compiled.project, models=project.models, settings=project.settings),
        plans=tuple(plans),
        queries=queries,
    )


@_without_collector()
def plan_of(project: Project, name: str) -> Plan | None:
    """The plan of one model of a project that was loaded; None where it has none by that name."""
    compiler = _Compiler(with_auto_monitors(project))
    for model in compiler.project.models:
        if model.name == name and model.config.enabled and compiler.can_compile(model):
            return _with_errors(compiler.compiled(model).plan, compiler.project)
    return None


@dataclass(frozen=True)
class _Compiler:
    """Compiles models of a project, and keeps what they were compiled to."""

    project: Project

    @cached_property
    def catalog(self) -> Catalog:
        return catalog_of(self.project)

    @cached_property
    def _cache(self) -> PlanCache:
        return PlanCache(self.project)

    @cached_property
    def total_budget(self) -> Mapping[str, int]:
        """The project's `scan_budget`."""
        budget: Mapping[str, int] = self.project.settings.get("scan_budget", {})
        return budget

    def budget(self, model: CheckModel) -> Mapping[str, int]:
        """The `scan_budget` of a model."""
        budget: Mapping[str, int] = model.config.extra.get("scan_budget", self.total_budget)
        return budget

    def can_compile(self, model: CheckModel) -> bool:
        """Whether something of the model is checked, or wrong."""
        return is_checked(model) or model.name in self.project.broken

    def compiled(self, model: CheckModel) -> CompiledModel:
        """A model compiled, by an earlier command if nothing has changed since."""
        limit = self.budget(model).get("model")
        compiled = self._cache.plan(model, limit)
        if compiled is None:
            compiled = self.anew(model)
            self._cache.keep_plan(model, limit, compiled)
            _collect_circles()
        return compiled

    def anew(self, model: CheckModel) -> CompiledModel:
        """A model compiled; of `monitors: auto` so much is left out that it keeps its budget."""
        limit = self.budget(model).get("model")
        compiled = compile_adopted(model, self.project, self.catalog)
        features = features_of(model)
        while limit is not None and features and not compiled.plan.rejected:
            if sum(q.scans for q in compiled_queries(compiled.plan)) <= limit:
                break
            features = features[:-1]
            compiled = compile_adopted(with_features(model, features), self.project, self.catalog)
        notes = (*compiled.plan.notes, *left_out(model, features))
        return replace(compiled, plan=replace(compiled.plan, notes=notes))

    def queries(self, plan: Plan) -> tuple[Query, ...]:
        """The statements that are shown of a plan."""
        model = self._models[plan.model.name]
        limit = self.budget(model).get("model")
        queries = self._cache.queries(model, limit)
        if queries is None:
            queries = compiled_queries(plan)
            self._cache.keep_queries(model, limit, queries)
        return queries

    @cached_property
    def _models(self) -> Mapping[str, CheckModel]:
        return {m.name: m for m in self.project.models}


def _collect_circles() -> None:
    """Give the memory of compiling back: of a thousand models it would be tens of gigabytes.

    Only what is new since the last time is looked at.
    """
    if gc.get_count()[0] > _MANY_OBJECTS:
        gc.collect(0)


def _suspicions(plans: Sequence[Plan], catalog: Catalog) -> Iterator[str]:
    """What may be no check though it looks like one, and models without any."""
    names = catalog.annotation_names
    complete = frozenset(n for n in names if catalog.check(n) or n in monitor_specs())
    read = {r.unique_id for plan in plans for r in plan.relations}
    read |= {uid for plan in plans for uid in plan.model.depends_on}
    for plan in plans:
        model = plan.model
        yield from repeated_checks(plan)
        yield from counted_again(plan)
        yield from suspicions(model, names, complete)
        # One without checks may be what others are compared with.
        if not (model.unique_id in read or plan.checks or plan.monitors or plan.rejected):
            yield f"{model.path}: no check is in this model; write one: -- @not_null"


def _with_errors(plan: Plan, project: Project) -> Plan:
    """The plan with all that is wrong with its model: comments, checks, settings of monitors."""
    unread = project.broken.get(plan.model.name, ())
    checks = [
        (refused_check(plan.model, _text_of(e, e.span), e.span), e)
        for e in unread
        if e.span is not None
    ]
    wrong = misset(plan, project)
    monitors = [
        (
            replace(
                refused_check(plan.model, m.expression, m.span),
                id=m.id,
                name=m.name,
                column=m.column,
                severity=m.severity,
                settings=m.settings,
                tags=m.tags,
            ),
            error,
        )
        for m, error in wrong.monitors
    ]
    kept = without_monitors(plan, {m.id for m, _ in wrong.monitors})
    path = Span(plan.model.path)
    others = [(refused_check(plan.model, text, path), error) for text, error in wrong.others]
    return replace(
        kept,
        notes=(*kept.notes, *setting_notes(kept, project)),
        rejected=(*unread, *plan.rejected, *wrong.errors),
        refused=(*checks, *plan.refused, *monitors, *others),
    )


def _text_of(error: DqsqlError, span: Span) -> str:
    """What the annotation says that an error is about."""
    annotation = error.annotation if isinstance(error, AnnotationError) else ""
    return annotation or span.text or error.message


class _Queries(Mapping[str, tuple[Query, ...]]):
    """The statements of plans by the names of their models, written when they are asked for."""

    def __init__(
        self,
        plans: Mapping[str, Plan],
        write: Callable[[Plan], tuple[Query, ...]] = compiled_queries,
    ) -> None:
        self._plans, self._write = plans, write
        self._written: dict[str, tuple[Query, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Query, ...]:
        if name not in self._written:
            with _without_collector():
                self._written[name] = self._write(self._plans[name])
                _collect_circles()
        return self._written[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)


@dataclass(frozen=True)
class Where:
    """The project and target that are meant, in the words of the command line."""

    project_dir: str | PathLike[str] = "."
    target: str | None = None
    profile: str | None = None
    profiles_dir: str | PathLike[str] | None = None
    vars: Variables = None

    def project(self) -> Project:
        """Load the project; what is wrong with its annotations is in it. Raises DqsqlError."""
        return load_project(self.project_dir, strict=False, **self._place)

    def stored_project(self) -> Project:
        """As `project`, with all tests of dbt that a run may have adopted. Raises DqsqlError."""
        return load_project(self.project_dir, strict=False, all_tests=True, **self._place)

    def compile(self, **choice: Unpack[ModelChoice]) -> CompileResult:
        """Load the project and compile the selected models; see `compile_project`."""
        return compile_project(self.project_dir, **choice, **self._place)

    @property
    def _place(self) -> Place:
        return {
            "target": self.target,
            "profile": self.profile,
            "profiles_dir": self.profiles_dir,
            "vars": self.vars,
        }


def git_sha(root: Path) -> str | None:
    """The commit of the project's repository, or None outside one."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
