"""Compiles one check model: annotations in, `Plan` out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sqlglot import exp

from dqsql.compiler import thresholds
from dqsql.compiler.catalog import Catalog
from dqsql.compiler.comparisons import bounds_of
from dqsql.compiler.cumulative import require_mergeable
from dqsql.compiler.keys import batch_columns, short_names, slug
from dqsql.compiler.misplaced_texts import refuse_misplaced_texts
from dqsql.compiler.misuse import locate
from dqsql.compiler.monitors import (
    configured_annotations,
    watched_metrics,
    with_declared_cadence,
    with_named_columns,
)
from dqsql.compiler.output_columns import OutputColumns, case_matters, columns_of
from dqsql.compiler.predicates import MetricUse, Predicate
from dqsql.compiler.privacy import (
    pii_columns,
    private_keys,
    unknown_columns,
    unknown_private,
    withheld,
)
from dqsql.compiler.references import RelationNames
from dqsql.compiler.resolve import MonitorCall, Resolver
from dqsql.compiler.states import ROW_COLUMNS, StateRegistry
from dqsql.compiler.trees import called
from dqsql.dialect import parse_expression, to_sql
from dqsql.errors import CompileError, DqsqlError, Span, nearest
from dqsql.model.monitors import AUTO, MonitorUse, monitor_specs
from dqsql.model.plan import (
    Bounds,
    Check,
    Metric,
    Monitor,
    Plan,
    SecondThreshold,
    StateColumn,
    Watched,
)
from dqsql.model.project import (
    DBT_FRESHNESS,
    DBT_LIMIT,
    DBT_TEST,
    DBT_TEST_NAME,
    DBT_VALUES,
    Annotation,
    CheckModel,
    CheckSettings,
    NoData,
    Project,
    Scope,
    Severity,
)

# Options that mean something to a check: the rest is for monitors.
_OF_DBT = (DBT_TEST, DBT_TEST_NAME, DBT_VALUES, DBT_LIMIT, DBT_FRESHNESS)
_CHECK_OPTIONS = frozenset(
    {"quarantine", "segments", "store_failures", *_OF_DBT, thresholds.AFTER}
).union(thresholds.THRESHOLD_SETTINGS)

# The metric whose rows are described in words.
_ORPHAN_COUNT = "orphan_count"


def compile_model(model: CheckModel, project: Project, catalog: Catalog) -> Plan:
    """Compile the annotations of a check model.

    An annotation that cannot be compiled lands in `Plan.rejected` with its error; the rest of the
    plan stands without it.
    """
    model = with_named_columns(model, lambda name: catalog.check(name) is not None)
    relations = RelationNames(model, {m.name: m for m in project.models}, project.sources)
    compiler = _ModelCompiler(model, project, Resolver(catalog, relations), relations)
    compiler.check_config()
    for annotation in (*model.annotations, *compiler.configured()):
        compiler.add(annotation)
    return compiler.plan()


@dataclass
class _ModelCompiler:
    model: CheckModel
    project: Project
    resolver: Resolver
    relations: RelationNames
    states: StateRegistry = field(init=False)
    metrics: dict[tuple[str, ...], Metric] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    monitors: list[Monitor] = field(default_factory=list)
    rejected: list[DqsqlError] = field(default_factory=list)
    refused: list[tuple[Check, DqsqlError]] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.states = StateRegistry(self.relations.used, self._named.tells_case)

    @cached_property
    def _named(self) -> OutputColumns:
        return OutputColumns(self.model, case_matters(self.project.target))

    @cached_property
    def _private(self) -> frozenset[str]:
        return pii_columns(self.model)

    def plan(self) -> Plan:
        states = self.states.states
        return Plan(
            model=self.model,
            states=states,
            metrics=tuple(self.metrics.values()),
            checks=tuple(self.checks),
            monitors=tuple(self.monitors),
            rejected=tuple(self.rejected),
            notes=_notes(states),
            relations=tuple(self.relations.used.values()),
            refused=tuple(self.refused),
        )

    def check_config(self) -> None:
        """Reject `batch_by`, `segment_by` and `pii` that cannot work."""
        place = Span(self.model.path)
        try:
            used = batch_columns(self.model)
        except DqsqlError as error:
            self.rejected.append(error)
            return
        self.rejected.extend(_unusable_segments(self.model.config.segment_by, place))
        self.rejected.extend(private_keys(self.model, used))
        if (known := self._named.known) is not None:
            named = [*used, *self.model.config.segment_by]
            self.rejected.extend(unknown_columns(self.model, named, known))
            self.rejected.extend(unknown_private(self.model, known))

    def configured(self) -> list[Annotation]:
        """Monitors that `config(..)` asks for."""
        try:
            return configured_annotations(self.model)
        except DqsqlError as error:
            self.rejected.append(error)
            return []

    def add(self, annotation: Annotation) -> None:
        if not annotation.settings.enabled:
            return
        annotation = with_declared_cadence(self.model, annotation)
        try:
            call = self.resolver.monitor(annotation)
            if call is not None:
                self._refuse_misplaced(annotation)
                self.monitors.append(self._monitor(annotation, call))
                return
            _refuse_monitor_settings(annotation)
            limits = thresholds.limits_of(annotation, self._severity(annotation), self._predicate)
            limits = limits or thresholds.CheckLimits(
                thresholds.Limit(self._predicate(annotation), "")
            )
            self.checks.append(self._check(annotation, limits))
        except DqsqlError as error:
            error.span = error.span or annotation.span
            self.rejected.append(error)
            check = refused_check(self.model, annotation.expression.strip(), annotation.span)
            check = replace(check, **self._declared(annotation, annotation.column))
            self.refused.append((check, error))

    def _declared(self, annotation: Annotation, about: str | None) -> dict[str, Any]:
        """The fields of `Declared` of a check or monitor that is about a column."""
        settings, expression = annotation.settings, annotation.expression.strip()
        # Which rows it is about is part of a name: by number, a check above would take the name.
        rows = "" if settings.where is None else f"_where_{slug(settings.where)}"
        return {
            "id": self._free_id(about, settings.name or f"{slug(expression)}{rows}"),
            "name": settings.name or expression,
            "model": self.model.name,
            "column": about,
            "expression": expression,
            "severity": self._severity(annotation),
            "settings": settings,
            "span": annotation.span,
            "tags": tuple(dict.fromkeys((*self.model.config.tags, *settings.tags))),
        }

    # --- checks --------------------------------------------------------------------------------

    def _predicate(
        self, annotation: Annotation, written: Sequence[str | None] | None = None
    ) -> Predicate:
        """The predicate of an annotation without its thresholds. Raises CompileError."""
        predicate = self.resolver.predicate(annotation, self._named.known, written)
        self._named.require(predicate.metrics, annotation)
        return predicate

    def _refuse_misplaced(self, annotation: Annotation) -> None:
        """Refuse misplaced texts in what a monitor leaves out. Raises CompileError."""
        text = annotation.settings.options.get("exclude_where")
        if isinstance(text, str):
            left_out = parse_expression(text, annotation.span)
            refuse_misplaced_texts(left_out, annotation, (text,), self._named.known)

    def _measured(
        self, predicate: Predicate, annotation: Annotation
    ) -> tuple[exp.Expr, list[Metric], Bounds | None]:
        """A predicate over the plan's metrics, these, and the interval that it demands."""
        metrics = [self._metric(use, annotation) for use in predicate.metrics]
        aliases = {f"metric#{i}": m.alias for i, m in enumerate(metrics)}
        by_alias = {m.alias: m for m in metrics}
        ast = predicate.ast.copy()
        for operand in list(ast.find_all(exp.Column)):
            operand.set("this", exp.to_identifier(aliases[operand.name], quoted=True))
        bounds = bounds_of(ast)
        for operand in list(ast.find_all(exp.Column)):
            if _has_text(by_alias[operand.name].finish):
                # `histogram > 0` compares its number.
                operand.set("table", operand.this)
                operand.set("this", exp.to_identifier("value", quoted=True))
        return ast, metrics, bounds

    def _check(self, annotation: Annotation, limits: thresholds.CheckLimits) -> Check:
        ast, metrics, bounds = self._measured(limits.fails.predicate, annotation)
        alias = f"c{len(self.checks)}"
        warning = None
        if limits.warns is not None:
            stricter, more, interval = self._measured(limits.warns.predicate, annotation)
            metrics = list({m.alias: m for m in (*metrics, *more)}.values())
            warning = SecondThreshold(f"{alias}w", stricter, limits.warns.text, interval)
        rows = None if limits.rows is None else self._measured(limits.rows, annotation)[0]
        no_data = annotation.settings.no_data or self.model.config.no_data
        about = annotation.column or _shared_column(metrics)
        declared = self._declared(annotation, about)
        declared["column"] = about or self._only_column(metrics, annotation)
        return Check(
            **declared,
            alias=alias,
            predicate=ast,
            metrics=tuple(m.alias for m in metrics),
            bounds=bounds,
            no_data=no_data or self.project.no_data,
            warning=warning,
            demand=limits.fails.text or None,
            rows=rows,
        )

    def _only_column(self, metrics: Sequence[Metric], annotation: Annotation) -> str | None:
        """The column of a condition such as `satisfies(price > 0)`; None where it has several."""
        states = (s for m in metrics for s in self.states.named(m.states))
        read = {c.lower() for c in columns_of(states)}
        # Not those of `where`.
        columns = parse_expression(annotation.expression).find_all(exp.Column)
        named = {c.parts[0].name.lower(): c.parts[0].name for c in columns}
        about = read.intersection(named)
        if len(about) != 1:
            return None
        name = about.pop()
        return next((c for c in self._named.known or () if c.lower() == name), named[name])

    def _metric(self, use: MetricUse, annotation: Annotation) -> Metric:
        scope = annotation.settings.scope
        key = (use.column or "", use.name, use.parameters, scope.value)
        if key not in self.metrics:
            finish, states = self.states.finish(use.sql)
            metric = Metric(
                alias=f"m{len(self.metrics)}",
                name=use.name,
                column=use.column,
                parameters=use.parameters,
                text=f"{use.text} (cumulative)" if scope is Scope.CUMULATIVE else use.text,
                finish=finish,
                states=states,
                scope=scope,
                where=annotation.settings.where,
                counts=self.relations.counts(use.sql) if use.name == _ORPHAN_COUNT else None,
            )
            if scope is Scope.CUMULATIVE:
                used = self.states.named(states)
                require_mergeable(use.text, metric, used, annotation.span, self._private)
            self.metrics[key] = metric
        return self.metrics[key]

    def _monitor(self, annotation: Annotation, call: MonitorCall) -> Monitor:
        _check_options(annotation, call.kind)
        spec = monitor_specs()[call.kind]
        severity = annotation.settings.severity or spec.severity or self._severity(annotation)
        own = call.kind if spec.severity is severity else ""
        thresholds.refuse_idle_after(annotation, severity, own)
        use = MonitorUse(call.args, annotation, self.model, self._options(annotation, call))
        watched = self._watched(call, use)
        self._refuse_withheld(annotation, watched)
        about = {w.about for w in watched if w.about}
        named = spec.compared and len(about) == 1
        fields = self._declared(annotation, about.pop() if named else annotation.column)
        return Monitor(
            **{**fields, "severity": severity},
            kind=call.kind,
            arguments={str(i): a for i, a in enumerate(call.args)} | call.kwargs,
            watched=watched,
            demand=call.demand,
            relations=tuple(
                self.relations.named(name, annotation.span).sql for name in spec.relations(use)
            ),
        )

    def _refuse_withheld(self, annotation: Annotation, watched: Sequence[Watched]) -> None:
        """Refuse a monitor none of whose metrics is kept, since they are private values."""
        if not (watched and self._private) or AUTO in annotation.settings.tags:
            return
        wanted = {w.alias for w in watched}
        metrics = [m for m in self.metrics.values() if m.alias in wanted]
        if withheld(metrics, self.states.states, self._private) == wanted:
            raise CompileError(
                f"{annotation.expression.strip()} has nothing to learn from: values of private"
                " columns are not kept",
                span=annotation.span,
                hint="watch what is no value of a row: completeness, count_distinct, mean",
            )

    def _watched(self, call: MonitorCall, monitor: MonitorUse) -> tuple[Watched, ...]:
        """The metrics that a monitor needs; the rows are those of its `where`."""
        annotation, kind = monitor.annotation, call.kind
        # Nobody has to be told what is wrong with metrics that are the monitor's own.
        where = annotation.settings.where
        written = (annotation.expression, where) if call.args or call.kwargs or where else ()
        settings = CheckSettings(where=where, scope=annotation.settings.scope)
        watched: list[Watched] = []
        for metric in watched_metrics(kind, monitor):
            _require_metric(metric.expression, kind, annotation)
            about = replace(
                annotation,
                expression=f"({metric.expression}) is not null",
                settings=settings,
                column=metric.about if metric.in_context else None,
                candidates=(),
                unbound=None,
            )
            watched.extend(
                Watched(metric.family, metric.name, self._metric(use, about).alias, metric.about)
                for use in self._predicate(about, written).metrics
            )
        return tuple(watched)

    def _options(self, annotation: Annotation, call: MonitorCall) -> dict[str, object]:
        """A monitor's settings by name: the project's, the model's, its own."""
        given = self.project.settings.get(call.kind), self.model.config.extra.get(call.kind)
        options: dict[str, object] = {}
        for outer in given:
            options |= outer if isinstance(outer, Mapping) else {}
        for name, text in call.kwargs.items():
            value = parse_expression(text, annotation.span)
            options[name] = value.this if isinstance(value, exp.Literal) else text
        return {**options, **annotation.settings.options}

    # --- settings and names --------------------------------------------------------------------

    def _severity(self, annotation: Annotation) -> Severity:
        return annotation.settings.severity or self.model.config.severity or self.project.severity

    def _free_id(self, about: str | None, name: str) -> str:
        short = short_names(self._named.known or self.model.annotated)
        parts = [self.model.name, about and short.get(about.lower(), slug(about)), slug(name)]
        base = ".".join(p for p in parts if p)
        unique, number = base, 2
        while unique in self._ids:
            unique, number = f"{base}_{number}", number + 1
        self._ids.add(unique)
        return unique


def refused_check(model: CheckModel, text: str, span: Span) -> Check:
    """A check in place of an annotation of a model that could not be read: only what it says."""
    return Check(
        id=f"{model.name}.{slug(text)}",
        alias="",
        name=text,
        model=model.name,
        column=None,
        expression=text,
        predicate=exp.Null(),
        metrics=(),
        bounds=None,
        severity=Severity.ERROR,
        no_data=NoData.WARN,
        settings=CheckSettings(),
        span=span,
    )


def _unusable_segments(segments: Sequence[str], place: Span) -> list[CompileError]:
    """Segment columns stand in the tables of states, beside columns of dqsql's own."""
    named = [s.lower() for s in segments]
    return [
        *(
            CompileError(
                f"segment_by names {name!r}, a name that dqsql uses itself",
                span=place,
                hint=f"rename the column in the SELECT: `{name}` as {name}_of_row",
            )
            for name in segments
            if name.lower() in ROW_COLUMNS
        ),
        *(
            CompileError(f"segment_by names {name!r} twice", span=place)
            for i, name in enumerate(segments)
            if name.lower() in named[:i]
        ),
    ]


def _refuse_monitor_settings(annotation: Annotation) -> None:
    """A check has nothing to learn: a setting of a monitor would do nothing."""
    settings = annotation.settings
    given = [*(["fpr"] if settings.fpr is not None else []), *settings.options]
    for name in given:
        if name not in _CHECK_OPTIONS:
            raise CompileError(
                f"{name!r} is a setting of monitors, but this is a check",
                span=locate(annotation.span, name),
                hint="monitors are " + ", ".join(f"@{kind}" for kind in sorted(monitor_specs())),
            )


def _require_metric(metric: str, kind: str, annotation: Annotation) -> None:
    """Refuse what is no metric where a monitor wants one: `@anomaly('row_count')`, `(mean > 3)`."""
    node = parse_expression(metric, annotation.span)
    compared = isinstance(node, exp.Predicate) and not isinstance(node, exp.Func)
    if compared or isinstance(node, exp.Connector | exp.Not):
        raise CompileError(
            f"@{kind} watches a metric, and {metric} is a condition",
            span=locate(annotation.span, metric),
            hint=f"name the metric alone, or check the condition: @expect({metric})",
        )
    if isinstance(node, exp.Literal):
        raise CompileError(
            f"@{kind} watches a metric, and {metric} is not one",
            span=locate(annotation.span, str(node.this)),
            hint=f"write it without quotes: @{kind}({node.this})"
            if node.is_string
            else f"for example @{kind}(row_count)",
        )


def _check_options(annotation: Annotation, kind: str) -> None:
    """Refuse words in a monitor's settings that mean nothing to it."""
    for option, known in monitor_specs()[kind].listed.items():
        given = annotation.settings.options.get(option, ())
        words = [given] if isinstance(given, str) else given
        if not isinstance(words, list | tuple):
            raise CompileError(
                f"{option!r} must be a list", span=annotation.span, hint=f"of {', '.join(known)}"
            )
        for word in words:
            if word not in known:
                raise CompileError(
                    f"@{kind}: {option} cannot be {word!r}",
                    span=locate(annotation.span, str(word)),
                    hint=nearest(str(word), known) or f"one of {', '.join(known)}",
                )


def _has_text(finish: exp.Expr) -> bool:
    """Whether a metric is a number with a text beside it: a struct of `value` and `text`."""
    node = finish.unnest()
    if isinstance(node, exp.Case):
        return all(_has_text(branch.args["true"]) for branch in node.args["ifs"])
    names = [e.name for e in node.expressions[::2]]
    return called(node) == "named_struct" and names == ["value", "text"]


def _shared_column(metrics: Sequence[Metric]) -> str | None:
    about = {m.column for m in metrics}
    return about.pop() if len(about) == 1 else None


def _notes(states: Sequence[StateColumn]) -> tuple[str, ...]:
    return tuple(
        f"{to_sql(s.scan)} does not merge: it is kept per batch only"
        for s in states
        if not s.mergeable and s.source is None
    )
