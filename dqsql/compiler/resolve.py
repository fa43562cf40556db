"""From an annotation to a predicate over metrics: macros expanded, the column filled in.

The passes over one annotation's expression, in order: `_expand` replaces calls of check and metric
macros by their SQL (with the context's column as first argument), and `split` cuts the result into
a predicate and the metrics that it compares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.aggregates.registry import find_own
from dqsql.compiler.aggregates.relations import METRIC_OF
from dqsql.compiler.arguments import argument_text, named_text, plain, split_arguments
from dqsql.compiler.catalog import Catalog, Macro
from dqsql.compiler.comparisons import COMPARISONS, demand_text, measured_side
from dqsql.compiler.misuse import (
    is_bare_name,
    locate,
    name_and_args,
    refuse_broken_regex,
    refuse_empty_ranges,
    refuse_share_of_check,
    refuse_text_for_number,
    require_column,
)
from dqsql.compiler.references import AS_WRITTEN, RelationNames
from dqsql.compiler.trees import filtered_by, has_aggregate, map_aggregates, map_children
from dqsql.dialect import column, parse_expression, to_sql
from dqsql.errors import (
    AnnotationError,
    CompileError,
    MacroError,
    PatternError,
    Span,
    SqlSyntaxError,
    UnsupportedExpressionError,
)
from dqsql.model.functions import EXPECT
from dqsql.model.monitors import monitor_specs
from dqsql.model.project import Annotation

# Macros may call each other twice each, and so on.
_MAX_EXPANDED = 500_000  # characters of SQL in one check
_PER_MACRO = 200  # characters that parsing a macro's SQL costs besides
_METRIC = "metric"
_CONNECTORS = (exp.And, exp.Or, exp.Not, exp.Paren)
_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Between,
    exp.In,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Like,
    exp.RegexpLike,
)


@dataclass(frozen=True)
class MetricUse:
    """A metric as it occurs in a check: its SQL over the model's rows, and how to name it."""

    name: str
    column: str | None
    parameters: str
    text: str
    sql: exp.Expr


@dataclass(frozen=True)
class Predicate:
    """A boolean expression whose operands `m[i]` stand for `metrics[i]`."""

    ast: exp.Expr
    metrics: tuple[MetricUse, ...]


@dataclass(frozen=True)
class MonitorCall:
    """`@monitor(args)`: positional and named arguments as SQL text.

    `demand` is what is demanded of one that gives a number: `< 0.2`.
    """

    kind: str
    args: tuple[str, ...]
    kwargs: dict[str, str]
    demand: str | None = None


@dataclass(frozen=True)
class _Context:
    """Where expansion stands. `home` is the annotation's column, also inside macros."""

    column: str | None
    home: str | None
    span: Span
    columns: tuple[str, ...]
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Label:
    """The name of a metric macro's expansion, kept on its AST node."""

    name: str
    column: str | None
    parameters: str
    text: str

    def __deepcopy__(self, memo: dict[int, object]) -> _Label:
        """Itself: copies of a tree, of which there are many, copy what is kept on its nodes."""
        return self


def placeholder(index: int) -> exp.Column:
    """The stand-in for metric number `index` in a `Predicate`."""
    return exp.Column(this=exp.to_identifier(f"metric#{index}", quoted=True))


class Resolver:
    """Resolves the annotations of one model against the project's catalog and relations."""

    def __init__(self, catalog: Catalog, relations: RelationNames) -> None:
        self._catalog = catalog
        self._relations = relations
        self._expanded = 0

    def monitor(self, annotation: Annotation) -> MonitorCall | None:
        """The monitor that the annotation calls, or None when it is a constraint."""
        ast = parse_expression(annotation.expression, annotation.span)
        compared = ast.unnest() if isinstance(ast.unnest(), COMPARISONS) else None
        name, args = name_and_args(ast if compared is None else measured_side(compared)[0])
        spec = None if name is None else monitor_specs().get(name.lower())
        if name is None or spec is None or (compared is not None and not spec.compared):
            return None
        if spec.compared and compared is None:
            raise CompileError(
                f"@{name} is a number and demands nothing",
                span=annotation.span,
                hint=f"compare it, for example: @{to_sql(ast)} < 0.2",
            )
        positional, named = split_arguments(args)
        if self._catalog.check(name) and any(_is_text(a) for a in positional):
            # `@pattern('<digit>+')`: given what to look for, there is nothing to learn.
            return None
        return MonitorCall(
            name.lower(),
            tuple(to_sql(a) for a in positional),
            {k: to_sql(v) for k, v in named.items()},
            None if compared is None else demand_text(compared),
        )

    def predicate(self, annotation: Annotation, columns: tuple[str, ...] | None) -> Predicate:
        """Expand and split a constraint. Raises CompileError and its kin."""
        ast = parse_expression(annotation.expression, annotation.span)
        self._require_check(ast, annotation)
        home = annotation.column or _named_candidate(ast, annotation)
        context = _Context(annotation.column, home, annotation.span, columns or ())
        self._expanded = 0
        expanded = self._expand(ast, context)
        if annotation.settings.where is not None:
            condition = parse_expression(annotation.settings.where, annotation.span)
            expanded = restrict(expanded, condition)
        refuse_empty_ranges(expanded, annotation.span)
        refuse_text_for_number(expanded, _metric_name, annotation.span)
        refuse_broken_regex(expanded, annotation.span)
        self._relations.resolve(expanded, annotation.span)
        self._validate(expanded, annotation.span)
        return split(expanded, context.home, annotation.span)

    def _require_check(self, ast: exp.Expr, annotation: Annotation) -> None:
        """A lone `@name` or `@name(..)` must say what it demands."""
        refuse_share_of_check(ast, self._catalog, annotation.span)
        name, _ = name_and_args(ast)
        if name is None or name.lower() == EXPECT or self._catalog.check(name):
            return
        if self._catalog.metric(name) or self._catalog.is_aggregate(name):
            raise CompileError(
                f"@{name} is a metric and demands nothing",
                span=annotation.span,
                hint=f"compare it, for example: @{to_sql(ast)} > 0",
            )

    # --- expansion -----------------------------------------------------------------------------

    def _expand(self, node: exp.Expr, context: _Context) -> exp.Expr:
        if isinstance(node, exp.Filter) and isinstance(node.this, exp.Anonymous):
            inner = self._expand(node.this, context)
            narrowed: exp.Expr = restrict(exp.Paren(this=inner), node.expression.this).this
            return narrowed
        if isinstance(node, exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            return node
        if isinstance(node, exp.Anonymous):
            return self._expand_call(node, str(node.this), node.expressions, context)
        if is_bare_name(node):
            return self._expand_call(node, node.name, [], context)
        return map_children(node, lambda child: self._expand(child, context))

    def _expand_call(
        self,
        node: exp.Expr,
        name: str,
        args: list[exp.Expr],
        context: _Context,
    ) -> exp.Expr:
        catalog = self._catalog
        if name.lower() == EXPECT:
            return self._expand_expect(args, context)
        if name.lower() == METRIC_OF:
            return self._expand_other(node, args, context)
        macro = None
        if name.lower() not in context.stack:
            macro = catalog.check(name) or catalog.metric(name)
        if macro is not None:
            return self._expand_macro(macro, args, context)
        if find_own(node) is not None:
            return node
        if catalog.is_aggregate(name):
            return _aggregate_call(node, name, args, context)
        if name.lower() in context.stack:
            circle = " -> ".join([*context.stack, name])
            raise MacroError(f"circular macro: {circle}", span=context.span)
        if name.lower() in monitor_specs():
            raise AnnotationError(
                f"the monitor @{name} must stand alone", span=locate(context.span, name)
            )
        if catalog.is_scalar(name) and isinstance(node, exp.Anonymous):
            return map_children(node, lambda child: self._expand(child, context))
        raise catalog.unknown(name, locate(context.span, name), context.columns)

    def _expand_expect(self, args: list[exp.Expr], context: _Context) -> exp.Expr:
        if len(args) != 1:
            raise CompileError(f"expect takes one condition, not {len(args)}", span=context.span)
        return exp.Paren(this=self._expand(args[0], replace(context, column=None)))

    def _expand_other(self, node: exp.Expr, args: list[exp.Expr], context: _Context) -> exp.Expr:
        """`metric('ledger', 'completeness(amount)')`: the metric's macros are expanded, too."""
        if len(args) != 2:
            raise CompileError(
                f"{METRIC_OF} takes a relation and a metric of it",
                span=locate(context.span, METRIC_OF),
                hint="for example: @expect(sum(amount) = metric('ledger', 'sum(amount)'))",
            )
        inner = parse_expression(args[1].this, context.span) if _is_text(args[1]) else args[1]
        alone = replace(context, column=None, columns=())
        text = to_sql(self._expand(inner, alone))
        other = exp.Anonymous(this=METRIC_OF, expressions=[args[0], exp.Literal.string(text)])
        other.meta[AS_WRITTEN] = node.copy()
        return other

    def _expand_macro(self, macro: Macro, args: list[exp.Expr], context: _Context) -> exp.Expr:
        positional, named = split_arguments(args)
        if macro.definition.catches_varargs:
            # As dbt writes them: `accepted_values(['a', 'b'])`.
            positional = [
                value
                for arg in positional
                for value in (arg.expressions if isinstance(arg, exp.Array) else [arg])
            ]
        positional = _with_column(macro, positional, context)
        require_column(macro, positional, named, context.columns, context.span)
        try:
            text = self._catalog.library.call(
                f"{macro.kind}_{macro.name}",
                tuple(argument_text(a) for a in positional),
                {k: named_text(v) for k, v in named.items()},
                context.span,
            )
        except PatternError as error:
            # The pattern is an argument: the annotation is at fault, not the macro.
            error.span = context.span
            raise
        self._expanded += len(text) + _PER_MACRO
        if self._expanded > _MAX_EXPANDED:
            raise MacroError(
                "the macros of one check give too much SQL",
                span=context.span,
                hint=f"the last one is {macro.name}, in {macro.definition.path}",
            )
        try:
            parsed = parse_expression(text, context.span)
        except SqlSyntaxError as error:
            raise MacroError(
                f"the macro {macro.kind}_{macro.name} gave SQL that does not parse:"
                f" {error.message}",
                span=context.span,
                hint=f"the macro stands in {macro.definition.path}:{macro.definition.line}",
            ) from None
        inner = replace(context, column=None, stack=(*context.stack, macro.name.lower()))
        expanded = exp.Paren(this=self._expand(parsed, inner))
        if macro.kind == "metric":
            expanded.meta[_METRIC] = _label(macro, positional, named, context)
        return expanded

    # --- validation ----------------------------------------------------------------------------

    def _validate(self, ast: exp.Expr, span: Span) -> None:
        for node in ast.find_all(exp.Anonymous, exp.Window, exp.Query):
            if not isinstance(node, exp.Anonymous):
                what = "a window" if isinstance(node, exp.Window) else "a subquery"
                raise UnsupportedExpressionError(
                    f"{what} cannot stand in a check: {to_sql(ast)}",
                    span=span,
                    hint="compute it in the SELECT of the check model",
                )
            name = str(node.this)
            if not (self._catalog.is_aggregate(name) or self._catalog.is_scalar(name)):
                raise self._catalog.unknown(name, locate(span, name))


# --- cutting a predicate at its metrics --------------------------------------------------------


def split(ast: exp.Expr, home: str | None, span: Span) -> Predicate:
    """Cut an expanded expression into a predicate and the metrics that it compares.

    The operands of comparisons become the metrics: a metric macro's expansion under its own name,
    any other expression of aggregates under its SQL text.
    """
    metrics: list[MetricUse] = []

    def operand(node: exp.Expr) -> exp.Expr:
        use = _metric_use(node, home)
        known = [i for i, m in enumerate(metrics) if m.text == use.text]
        if not known:
            metrics.append(use)
        return placeholder(known[0] if known else len(metrics) - 1)

    def visit(node: exp.Expr) -> exp.Expr:
        is_metric = _METRIC in node.meta
        if isinstance(node, _CONNECTORS + _COMPARISONS) and not is_metric:
            return map_children(node, visit)
        return operand(node) if is_metric or has_aggregate(node) else node

    predicate = visit(ast)
    if not metrics:
        raise CompileError(
            f"the check {to_sql(ast)} compares no metric",
            span=span,
            hint="use a metric or an aggregate, or @satisfies(..) for a condition on every row",
        )
    for name in predicate.find_all(exp.Column):
        if not name.name.startswith("metric#"):
            raise CompileError(
                f"{to_sql(name)} stands outside an aggregate",
                span=locate(span, name.name),
                hint="use an aggregate of it, or @satisfies(..) for a condition on every row",
            )
    return Predicate(predicate, tuple(metrics))


def _metric_name(node: exp.Expr) -> str | None:
    """The name of the metric macro that a node is the expansion of."""
    label: _Label | None = node.meta.get(_METRIC)
    return label.name if label is not None else None


def _metric_use(node: exp.Expr, home: str | None) -> MetricUse:
    label: _Label | None = node.meta.get(_METRIC)
    if label is not None:
        return MetricUse(label.name, label.column, label.parameters, label.text, node)
    labels = [n.meta[_METRIC] for n in node.find_all(exp.Paren) if _METRIC in n.meta]
    text = _display(node)
    about = {label.column for label in labels}
    return MetricUse(text, about.pop() if len(about) == 1 else home, "", text, node)


def _display(node: exp.Expr) -> str:
    """The expression as a user would write it: metric macros and relations by their names."""

    def rename(part: exp.Expr) -> exp.Expr:
        label: _Label | None = part.meta.get(_METRIC)
        if label is not None:
            return exp.Var(this=label.text)
        if AS_WRITTEN in part.meta:
            part = part.meta[AS_WRITTEN]
        if isinstance(part, exp.Column):
            return exp.Var(this=plain(part))
        return map_children(part, rename)

    return to_sql(rename(node))


def restrict(ast: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """Restrict every aggregate of the expression to the rows that meet the condition."""
    restricted = map_aggregates(ast, lambda aggregate: filtered_by(aggregate, condition))
    text = to_sql(condition)
    for node in restricted.find_all(exp.Paren):
        label: _Label | None = node.meta.get(_METRIC)
        if label is not None:
            suffix = f"where {text}"
            node.meta[_METRIC] = replace(
                label,
                parameters=f"{label.parameters} {suffix}".strip(),
                text=f"{label.text} {suffix}",
            )
    return restricted


# --- arguments ---------------------------------------------------------------------------------


def _aggregate_call(node: exp.Expr, name: str, args: list[exp.Expr], context: _Context) -> exp.Expr:
    """A plain SQL aggregate; in a column's context the column is its first argument."""
    if context.column is None:
        if not isinstance(node, exp.Anonymous):
            raise CompileError(
                f"the aggregate {name} has no argument",
                span=context.span,
                hint=f"write it next to a column, or name one: @{name}(the_column)",
            )
        return node
    if not _names_column(args, context.column):
        args = [column(context.column), *args]
    return exp.Anonymous(this=name, expressions=[a.copy() for a in args])


def _with_column(macro: Macro, args: list[exp.Expr], context: _Context) -> list[exp.Expr]:
    """Put the context's column before the arguments unless it is there or there is no room."""
    if context.column is None:
        return args
    # A relation may have the name of the column: then an argument is missing.
    if _names_column(args, context.column) and len(args) >= macro.definition.required:
        return args
    if not macro.takes_column or not macro.has_room_for(len(args) + 1):
        return args
    return [column(context.column), *args]


def _names_column(args: list[exp.Expr], name: str) -> bool:
    return bool(args) and isinstance(args[0], exp.Column) and args[0].name.lower() == name.lower()


def _named_candidate(ast: exp.Expr, annotation: Annotation) -> str | None:
    """On a line with several projections, the one that the annotation names."""
    if not annotation.candidates:
        return None
    by_lower = {c.lower(): c for c in annotation.candidates}
    named = {
        by_lower[c.name.lower()] for c in ast.find_all(exp.Column) if c.name.lower() in by_lower
    }
    if len(named) == 1:
        return named.pop()
    names = ", ".join(annotation.candidates)
    raise AnnotationError(
        f"the line holds several columns ({names}): which one is the annotation about?",
        span=annotation.span,
        hint="put each column on its own line, or name it:"
        f" @completeness({annotation.candidates[0]}) > 0.9",
    )


def _label(
    macro: Macro,
    positional: list[exp.Expr],
    named: dict[str, exp.Expr],
    context: _Context,
) -> _Label:
    rest = positional
    about = context.home
    if positional and isinstance(positional[0], exp.Column) and not positional[0].table:
        about, rest = positional[0].name, positional[1:]
    keywords = [f"{k} => {to_sql(v)}" for k, v in named.items()]
    parameters = ", ".join([*(plain(a) for a in rest), *keywords])
    shown = ", ".join([*(plain(a) for a in positional), *keywords])
    return _Label(macro.name, about, parameters, f"{macro.name}({shown})" if shown else macro.name)


# --- small helpers -----------------------------------------------------------------------------


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)
