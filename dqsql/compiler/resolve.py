"""From an annotation to a predicate over metrics: macros expanded, the column filled in.

The passes over one annotation's expression, in order: `_expand` replaces calls of check and metric
macros by their SQL (with the context's column as first argument), and `split` cuts the result into
a predicate and the metrics that it compares.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler import misuse, predicates
from dqsql.compiler.aggregates.registry import find_own
from dqsql.compiler.aggregates.relations import METRIC_OF
from dqsql.compiler.arguments import macro_argument, plain, split_arguments
from dqsql.compiler.calls import compared, refuse_wrong_call
from dqsql.compiler.catalog import Catalog, Macro
from dqsql.compiler.comparisons import COMPARISONS, demand_text, measured_side
from dqsql.compiler.misplaced_texts import refuse_misplaced_texts
from dqsql.compiler.misuse import is_bare_name, locate, name_and_args
from dqsql.compiler.references import AS_WRITTEN, RelationNames
from dqsql.compiler.trees import map_children
from dqsql.compiler.vacuous import refuse_idle
from dqsql.dialect import column, parse_expression, to_sql
from dqsql.errors import (
    AnnotationError,
    CompileError,
    DqsqlError,
    MacroError,
    PatternError,
    Span,
    SqlSyntaxError,
    UnsupportedExpressionError,
)
from dqsql.model.functions import EXPECT
from dqsql.model.monitors import monitor_specs
from dqsql.model.project import CONTRACT_TAG, DBT_TEST, Annotation
from dqsql.templating import is_shipped

# Macros may call each other twice each, and so on.
_MAX_EXPANDED = 500_000  # characters of SQL in one check
_PER_MACRO = 200  # characters that parsing a macro's SQL costs besides
_CALLER = "this is in the macro"
# A check or metric by its bare name, as in `not_null`, `mean > 3`, `min between 1 and 2`.
_LEADING = re.compile(r"[a-z]\w+(?=$|\s*[<>=!]|\s+(?:between|in)\b)", re.IGNORECASE)


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
    """Where expansion stands. `home` is the annotation's column, also inside macros.

    `in_sql` is set inside `expect(..)`.
    """

    column: str | None
    home: str | None
    span: Span
    columns: tuple[str, ...]
    stack: tuple[str, ...] = ()
    in_sql: bool = False


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
                f"@{name} is a number, not a condition",
                span=annotation.span,
                hint=f"compare it, for example: @{to_sql(ast)} < 0.2",
            )
        for call in (call for arg in args for call in arg.find_all(exp.Anonymous)):
            self._spread(call)
        positional, named = split_arguments(args)
        texts = [a for a in positional if a.is_string or isinstance(a, exp.RawString)]
        if texts and self._catalog.check(name):
            # `@pattern('<digit>+')`: given what to look for, there is nothing to learn.
            return None
        return MonitorCall(
            name.lower(),
            tuple(to_sql(a) for a in positional),
            {k: to_sql(v) for k, v in named.items()},
            None if compared is None else demand_text(compared),
        )

    def _spread(self, call: exp.Anonymous) -> None:
        """Write a list as values where a macro takes any number: as text it would be an array."""
        macro = self._catalog.check(str(call.this)) or self._catalog.metric(str(call.this))
        if macro is not None and macro.definition.catches_varargs:
            parts = (v for arg in call.expressions for v in _flattened(arg, of_text=False))
            call.set("expressions", list(parts))

    def predicate(
        self,
        annotation: Annotation,
        columns: tuple[str, ...] | None,
        written: Sequence[str | None] | None = None,
    ) -> predicates.Predicate:
        """Expand and split a constraint. Raises CompileError and its kin.

        `written` are the texts of people that it comes from, by default its own: what they write by
        mistake is looked for in these.
        """
        if written is None:
            written = annotation.expression, annotation.settings.where
        ast = parse_expression(annotation.expression, annotation.span)
        if written:
            misuse.refuse_chains(ast, annotation.span)
            misuse.refuse_is(ast, annotation.span)
            self._require_check(ast, annotation)
        home = annotation.column or self._named_candidate(ast, annotation, columns)
        context = _Context(annotation.column, home, annotation.span, columns or ())
        self._expanded = 0
        expanded = self._expand(ast, context)
        if written:
            refuse_misplaced_texts(expanded, annotation, written, columns)
        if annotation.settings.where is not None:
            condition = parse_expression(annotation.settings.where, annotation.span)
            misuse.refuse_aggregate(condition, annotation.span)
            misuse.refuse_idle_where(expanded, annotation.span)
            refuse_misplaced_texts(condition, annotation, written, columns)
            expanded = predicates.restrict(expanded, condition)
        if written:
            self._refuse_misuse(expanded, annotation)
        self._relations.resolve(expanded, annotation.span)
        self._validate(expanded, annotation.span)
        return predicates.split(expanded, context.home, annotation.span)

    def _refuse_misuse(self, expanded: exp.Expr, annotation: Annotation) -> None:
        """Refuse what means something else than people think. Raises CompileError."""
        span = annotation.span
        self._refuse_pointless(expanded, annotation)
        misuse.refuse_ranks(expanded, predicates.metric_name, span)
        misuse.refuse_nested(expanded, span)
        misuse.refuse_impossible_dates(expanded, span)
        misuse.refuse_empty_ranges(expanded, span)
        misuse.refuse_text_for_number(expanded, predicates.metric_name, span)
        misuse.refuse_broken_regex(expanded, span)

    def _refuse_pointless(self, expanded: exp.Expr, annotation: Annotation) -> None:
        """Refuse what demands nothing, or what can never be. Raises CompileError."""
        range_of, settings = self._catalog.range_of, annotation.settings
        predicates.require_conditions(expanded, range_of, annotation.span)
        if DBT_TEST not in settings.options:
            # What a test of dbt demands has the verdict that dbt gives it.
            misuse.refuse_null(expanded, predicates.metric_name, annotation.span)
            lenient = CONTRACT_TAG in settings.tags
            refuse_idle(expanded, range_of, annotation.span, lenient=lenient)

    def _require_check(self, ast: exp.Expr, annotation: Annotation) -> None:
        """A lone `@name` or `@name(..)` must say what it demands."""
        catalog = self._catalog
        misuse.refuse_share_of_check(ast, catalog, annotation.span)
        name, args = name_and_args(ast)
        if name is None or name.lower() == EXPECT or catalog.check(name):
            return
        macro = catalog.metric(name)
        if macro is not None or catalog.is_aggregate(name):
            if name.lower() in _CONDITIONS:
                about = f"({annotation.column})" if annotation.column and not args else ""
                raise CompileError(
                    f"@{name} is an aggregate, not a check",
                    span=annotation.span,
                    hint=f"write @expect({to_sql(ast)}{about})",
                )
            within = catalog.range_of(name)
            meant = compared(ast, name, args, macro, within, annotation.column)
            raise CompileError(
                f"@{name} is a metric, not a condition",
                span=annotation.span,
                hint=f"compare it, for example: {meant}",
            )

    def _named_candidate(
        self, ast: exp.Expr, annotation: Annotation, columns: tuple[str, ...] | None
    ) -> str | None:
        """On a line with several projections, the one that the annotation names.

        None also where it names several, needs none, or names a column that the model has not,
        which is an error of its own.
        """
        if self._needs_no_column(ast) or not (annotation.candidates or annotation.unbound):
            return None
        by_lower = {c.lower(): c for c in annotation.candidates}
        arguments = [c.name.lower() for c in ast.find_all(exp.Column)]
        named = {by_lower[name] for name in arguments if name in by_lower}
        if named:
            return named.pop() if len(named) == 1 else None
        known = None if columns is None else {c.lower() for c in columns}
        inner = [c.name.lower() for c in ast.find_all(exp.Column) if c.find_ancestor(exp.Func)]
        if known is not None and any(name not in known for name in inner):
            return None
        if annotation.unbound is not None:
            if inner:
                return None
            message, hint = annotation.unbound
            raise AnnotationError(message, span=annotation.span, hint=hint)
        names = ", ".join(annotation.candidates)
        raise AnnotationError(
            f"the line holds several columns ({names}): which one is the annotation about?",
            span=annotation.span,
            hint="put each column on its own line, or name it:"
            f" @{_about(annotation.expression, annotation.candidates[0])}",
        )

    def _needs_no_column(self, ast: exp.Expr) -> bool:
        """Whether all that is called says what it is about: `expect(..)`, `row_count > 3`."""
        nodes = ast.find_all(exp.Anonymous, exp.Column)
        outer = [n for n in nodes if n.find_ancestor(exp.Anonymous) is None]
        names = [name for n in outer if (name := name_and_args(n)[0]) is not None]
        macros = [self._catalog.check(name) or self._catalog.metric(name) for name in names]
        if any(name.lower() == EXPECT for name in names):
            return True
        return bool(macros) and all(m is not None and not m.takes_column for m in macros)

    # --- expansion -----------------------------------------------------------------------------

    def _expand(self, node: exp.Expr, context: _Context) -> exp.Expr:
        if isinstance(node, exp.Filter) and isinstance(node.this, exp.Anonymous):
            inner = self._expand(node.this, context)
            narrowed: exp.Expr = predicates.restrict(
                exp.Paren(this=inner), node.expression.this
            ).this
            return narrowed
        plain = node.this if isinstance(node, exp.Filter) else node
        if isinstance(plain, exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            return node
        if isinstance(node, exp.Anonymous):
            return self._expand_call(node, str(node.this), node.expressions, context)
        if is_bare_name(node):
            return self._expand_call(node, node.name, [], context)
        return map_children(node, lambda child: self._expand(child, context))

    def _expand_call(
        self, node: exp.Expr, name: str, args: list[exp.Expr], context: _Context
    ) -> exp.Expr:
        catalog = self._catalog
        if name.lower() == EXPECT:
            return self._expand_expect(args, context)
        if name.lower() == METRIC_OF:
            return self._expand_other(node, args, context)
        macro = None
        if name.lower() not in context.stack:
            macro = catalog.check(name) or catalog.metric(name)
        if macro is not None and not self._is_of_sql(name, macro, args, context):
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
                f"the monitor @{name} must stand alone",
                span=locate(context.span, name),
                hint=f"it learns its bounds: write @{name}",
            )
        if catalog.is_scalar(name) and isinstance(node, exp.Anonymous):
            return map_children(node, lambda child: self._expand(child, context))
        raise catalog.unknown(name, locate(context.span, name), context.columns)

    def _is_of_sql(self, name: str, macro: Macro, args: list[exp.Expr], context: _Context) -> bool:
        """Whether SQL's own aggregate is meant, which a macro is not: `expect(count(1) > 5)`."""
        known = macro.kind == "metric" and self._catalog.is_aggregate(name)
        named = any(isinstance(a, exp.Kwarg | exp.PropertyEQ) for a in args)
        if not context.in_sql or context.stack or not known or named:
            return False
        too_many = len(args) > len(macro.definition.parameters)
        return bool(args) and (too_many or isinstance(args[0], exp.Literal))

    def _expand_expect(self, args: list[exp.Expr], context: _Context) -> exp.Expr:
        if len(args) != 1:
            raise CompileError(
                f"expect takes one condition, not {len(args)}",
                span=context.span,
                hint="join them with `and`" if args else "for example: @expect(sum(amount) > 0)",
            )
        return exp.Paren(this=self._expand(args[0], replace(context, column=None, in_sql=True)))

    def _expand_other(self, node: exp.Expr, args: list[exp.Expr], context: _Context) -> exp.Expr:
        """`metric('ledger', 'completeness(amount)')`: the metric's macros are expanded, too."""
        if len(args) != 2:
            raise CompileError(
                f"{METRIC_OF} takes a relation and a metric of it",
                span=locate(context.span, METRIC_OF),
                hint="for example: @expect(sum(amount) = metric('ledger', 'sum(amount)'))",
            )
        inner = parse_expression(args[1].this, context.span) if args[1].is_string else args[1]
        bare_context = replace(context, column=None, columns=())
        text = to_sql(self._expand(inner, bare_context))
        other = exp.Anonymous(this=METRIC_OF, expressions=[args[0], exp.Literal.string(text)])
        other.meta[AS_WRITTEN] = node.copy()
        return other

    def _expand_macro(self, macro: Macro, args: list[exp.Expr], context: _Context) -> exp.Expr:
        positional, named = split_arguments(args)
        if macro.definition.catches_varargs:
            # As dbt writes them: `accepted_values(['a', 'b'])`, `unique((a, b))`.
            of_text = bool(context.stack)
            positional = [v for arg in positional for v in _flattened(arg, of_text=of_text)]
        given = len(positional)
        if not any(self._is_measured(arg) for arg in positional):
            positional = _with_column(macro, positional, named, context)
        misuse.require_column(macro, positional, named, context.columns, context.span)
        if not context.stack:
            filled = len(positional) > given
            refuse_wrong_call(macro, positional, named, filled, context.span)
        try:
            text = self._catalog.library.call(
                f"{macro.kind}_{macro.name}",
                tuple(macro_argument(a) for a in positional),
                {k: macro_argument(v) for k, v in named.items()},
                context.span,
            )
        except PatternError as error:
            # The pattern is an argument: the annotation is at fault, not the macro.
            error.span = context.span
            raise
        self._expanded += len(text) + _PER_MACRO
        if self._expanded > _MAX_EXPANDED:
            raise MacroError(
                "the macros of one check expand to too much SQL",
                span=context.span,
                hint=f"the last one is {macro.name}, in {macro.definition.path}",
            )
        try:
            parsed = parse_expression(text, context.span)
        except SqlSyntaxError as error:
            raise MacroError(
                f"the macro {macro.kind}_{macro.name} produced SQL that does not parse:"
                f" {error.message}",
                span=context.span,
                hint=f"the macro is in {macro.definition.path}:{macro.definition.line}",
            ) from None
        inner = replace(context, column=None, stack=(*context.stack, macro.name.lower()))
        try:
            expanded = exp.Paren(this=self._expand(parsed, inner))
        except DqsqlError as error:
            if not is_shipped(macro.definition) and _CALLER not in (error.hint or ""):
                place = f"{_CALLER} {macro.name}, {macro.definition.path}:{macro.definition.line}"
                error.hint = place if error.hint is None else f"{error.hint}; {place}"
            raise
        if macro.kind == "metric":
            expanded.meta[predicates.METRIC] = _label(macro, positional, named, context)
        else:
            expanded.meta[predicates.CHECK] = macro.name
        return expanded

    def _is_measured(self, arg: exp.Expr) -> bool:
        """Whether an argument aggregates by itself, as in `reconciles(sum(a), sum(b))`."""
        names = [str(call.this) for call in arg.find_all(exp.Anonymous)]
        catalog = self._catalog
        return METRIC_OF in names or any(
            catalog.is_aggregate(n) or catalog.metric(n) for n in names
        )

    # --- validation ----------------------------------------------------------------------------

    def _validate(self, ast: exp.Expr, span: Span) -> None:
        for node in ast.find_all(exp.Anonymous, exp.Window, exp.Query):
            if not isinstance(node, exp.Anonymous):
                what = "a window" if isinstance(node, exp.Window) else "a subquery"
                raise UnsupportedExpressionError(
                    f"{what} cannot be used in a check: {to_sql(ast)}",
                    span=span,
                    hint="compute it in the SELECT of the check model",
                )
            name = str(node.this)
            if not (self._catalog.is_aggregate(name) or self._catalog.is_scalar(name)):
                raise self._catalog.unknown(name, locate(span, name))


# --- arguments ---------------------------------------------------------------------------------


def _flattened(arg: exp.Expr, *, of_text: bool) -> list[exp.Expr]:
    """The parts of a list or tuple; in the text of a macro also of a list, there `ARRAY(..)`.

    `array(..)` as users write it is a value: one of a column of arrays.
    """
    bare = arg.unnest()
    is_list = isinstance(bare, exp.Array | exp.Tuple)
    if is_list or (of_text and isinstance(bare, exp.Anonymous) and bare.this == "ARRAY"):
        return list(bare.expressions)
    return [arg]


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
    if not _has_value(name, args, context.column):
        args = [column(context.column), *args]
    return exp.Anonymous(this=name, expressions=[a.copy() for a in args])


# Aggregates that are true or false.
_CONDITIONS = frozenset({"any", "bool_and", "bool_or", "every", "some"})
# Aggregates of two values, of which the column may be the first.
_OF_TWO = frozenset({"corr", "covar_pop", "covar_samp", "max_by", "min_by"})


def _has_value(name: str, args: list[exp.Expr], about: str) -> bool:
    """Whether the arguments say what is aggregated, as in `avg(length(name))`."""
    if any(c.name.lower() == about.lower() for arg in args for c in arg.find_all(exp.Column)):
        return True
    of_two = name.lower() in _OF_TWO or name.lower().startswith("regr_")
    return len(args) > of_two and args[0].find(exp.Column) is not None


def _with_column(
    macro: Macro, args: list[exp.Expr], named: Collection[str], context: _Context
) -> list[exp.Expr]:
    """Put the context's column before the arguments unless it is there or there is no room."""
    if context.column is None or {*macro.definition.parameters[:1]} & {*named}:
        return args
    # A relation may have the name of the column: then an argument is missing.
    if _names_column(args, context.column) and len(args) >= macro.definition.required:
        return args
    # A number cannot be the column: there are too many arguments.
    crowded = bool(args) and isinstance(args[0], exp.Literal)
    crowded = crowded and macro.definition.parameters[:1] == ("column",)
    if not macro.takes_column or not (crowded or macro.has_room_for(len(args) + len(named) + 1)):
        return args
    return [column(context.column), *args]


def _names_column(args: list[exp.Expr], name: str) -> bool:
    """Whether the first argument is the column, an expression of it, or a field.

    `unique(lower(email))` is not about pairs of an email and its own lower case.
    """
    if not args:
        return False
    first = args[0]
    if isinstance(first, exp.Column) and first.name.lower() == name.lower():
        return True
    read = (c for c in first.find_all(exp.Column) if c is not first or c.table)
    return any(name.lower() in (c.name.lower(), c.parts[0].name.lower()) for c in read)


def _about(expression: str, name: str) -> str:
    """An annotation as it is about a column that it names: `mean(price) > 3` for `mean > 3`."""
    word = _LEADING.match(expression)
    if word is None:
        return f"completeness({name}) > 0.9"
    return f"{word.group()}({name}){expression[word.end() :]}"


def _label(
    macro: Macro, positional: list[exp.Expr], named: dict[str, exp.Expr], context: _Context
) -> predicates.Label:
    rest = positional
    about = context.home
    if positional and isinstance(positional[0], exp.Column) and not positional[0].table:
        about, rest = positional[0].name, positional[1:]
    keywords = [f"{k} => {to_sql(v)}" for k, v in named.items()]
    parameters = ", ".join([*(plain(a) for a in rest), *keywords])
    shown = ", ".join([*(plain(a) for a in positional), *keywords])
    return predicates.Label(
        macro.name, about, parameters, f"{macro.name}({shown})" if shown else macro.name
    )
