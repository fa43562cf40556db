"""Refuses what people write in annotations that SQL, or a macro, would take for something else."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.aggregates.facts import ABOUT_THE_RELATION, FACT
from dqsql.compiler.aggregates.registry import find_own
from dqsql.compiler.aggregates.relations import RELATION_ROWS
from dqsql.compiler.catalog import Catalog, Macro
from dqsql.compiler.comparisons import number, reads_as_number
from dqsql.compiler.trees import (
    aggregate_call,
    called,
    has_aggregate,
    is_aggregate_node,
    nodes,
    outermost_aggregates,
)
from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span

MetricName = Callable[[exp.Expr], str | None]

_DURATION = re.compile(r"\s*(\d*\.?\d+)\s*(hour|day|minute|week|h|d|m)s?\s*", re.IGNORECASE)
_DOUBLE = re.compile(r"(?<![\w.])(\d*\.?\d+)d\b", re.IGNORECASE)
# A year 0000 stands for no date on purpose.
_DATE = re.compile(r"(?!0000)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
_HOURS = {"hour": 1, "h": 1, "day": 24, "d": 24, "minute": 1 / 60, "m": 1 / 60, "week": 168}
# Aggregates and functions whose value is a number for arguments of any type.
_NUMERIC = frozenset(
    {"count", "count_if", "approx_count_distinct", "sum", "avg", "mean", "median", "length"}
    | {"stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "char_length"}
    | {"skewness", "kurtosis", "corr", "covar_samp", "covar_pop", "approx_percentile"}
    | {"abs", "round", "floor", "ceil", "sqrt", "ln", "log10", "exp", "datediff"}
)
_QUANTILES = frozenset({"approx_percentile", "percentile_approx", "percentile", "kll_quantile"})
_REGEX_FUNCTIONS = frozenset({"rlike", "regexp", "regexp_like", "regexp_count"})
_BROKEN_ANYWHERE = ("missing )", "unbalanced parenthesis", "unterminated character set")
_CHAINED = (exp.GT, exp.GTE, exp.LT, exp.LTE)
ORDERINGS = (*_CHAINED, exp.Between)
# The metric that people mean who compare a check with a number.
_SHARES = {
    "not_null": "completeness",
    "unique": "uniqueness",
    "primary_key": "uniqueness",
    "references": "orphan_ratio(relation, key)",
}


def refuse_share_of_check(ast: exp.Expr, catalog: Catalog, span: Span) -> None:
    """Refuse `@not_null > 0.9`: a check is no number. Raises CompileError."""
    name, _ = name_and_args(ast.this) if isinstance(ast, ORDERINGS) else (None, [])
    if name is not None and catalog.check(name):
        metric = _SHARES.get(name.lower(), "compliance(condition)")
        raise CompileError(
            f"@{name} is a check: it is true or false, not a number",
            span=locate(span, name),
            hint=f"the share of rows is @{metric}",
        )


def refuse_impossible_dates(expanded: exp.Expr, span: Span) -> None:
    """Refuse `>= '2024-31-01'`, which has the form of a date and is none. Raises CompileError."""
    for comparison in expanded.find_all(*ORDERINGS):
        for operand in comparison.iter_expressions():
            text = str(operand.this) if isinstance(operand, exp.Literal) else ""
            match = _DATE.match(text) if operand.is_string else None
            if match is None or _day(*match.groups()) is not None:
                continue
            year, month, day = match.groups()
            hint = "write dates as year, month, day: '2024-01-31'"
            if _day(year, day, month) is not None:
                hint += f"; did you mean '{year}-{day}-{month}{text[match.end() :]}'?"
            raise CompileError(f"'{text}' is not a date", span=locate(span, text), hint=hint)


def _date(operand: exp.Expr) -> dt.date | None:
    """The date that a text begins with; None of anything else."""
    match = _DATE.match(str(operand.this)) if operand.is_string else None
    return None if match is None else _day(*match.groups())


def _day(year: str, month: str, day: str) -> dt.date | None:
    try:
        return dt.date(int(year), int(month), int(day))
    except ValueError:
        return None


def refuse_empty_ranges(expanded: exp.Expr, span: Span) -> None:
    """Refuse `between 5 and 1`, also within a macro: no value is. Raises CompileError."""
    for between in expanded.find_all(exp.Between):
        low, high = between.args["low"], between.args["high"]
        first: float | dt.date | None = number(low)
        last: float | dt.date | None = number(high)
        if first is None and last is None:
            first, last = _date(low), _date(high)
        if first is not None and last is not None and first > last:  # type: ignore[operator]
            written = f"{to_sql(low)} and {to_sql(high)}"
            raise CompileError(
                f"no value is between {written}",
                span=locate(span, "between"),
                hint=f"the smaller one comes first: {to_sql(high)} and {to_sql(low)}",
            )


def refuse_chains(ast: exp.Expr, span: Span) -> None:
    """Refuse `5 < mean < 10`, in which SQL compares true or false with 10. Raises CompileError."""
    for outer in ast.find_all(*_CHAINED):
        inner = outer.this
        if not isinstance(inner, _CHAINED):
            continue
        shared = inner.expression if number(inner.expression) is None else inner.this
        second = type(outer)(this=shared.copy(), expression=outer.expression.copy())
        meant = f"write {to_sql(inner)} and {to_sql(second)}"
        if outer.find(exp.DPipe):
            meant = "|| joins texts: write or"
        raise CompileError(f"{to_sql(outer)} compares a comparison", span=span, hint=meant)


def refuse_is(ast: exp.Expr, span: Span) -> None:
    """Refuse `mean is 3`, which Spark does not read. Raises CompileError."""
    for node in ast.find_all(exp.Is):
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            what, negated = to_sql(node.expression), isinstance(node.parent, exp.Not)
            raise CompileError(
                f"only null, true and false may follow `is`, not {what}",
                span=span,
                hint=f"write {to_sql(node.this)} {'<>' if negated else '='} {what}",
            )


def refuse_null(expanded: exp.Expr, metric_name: MetricName, span: Span) -> None:
    """Refuse `mean = null`, also within a condition: it is never true.

    `metric_name` as for `refuse_text_for_number`. Raises CompileError.
    """
    for node in expanded.find_all(exp.EQ, exp.NEQ, *_CHAINED):
        if not isinstance(node.this, exp.Null) and not isinstance(node.expression, exp.Null):
            continue
        other = node.expression if isinstance(node.this, exp.Null) else node.this
        negation = "not " if isinstance(node, exp.NEQ) else ""
        raise CompileError(
            "a comparison with null is never true",
            span=locate(span, "null"),
            hint=f"write {metric_name(other) or to_sql(other)} is {negation}null",
        )
    for between in expanded.find_all(exp.Between):
        low, high = between.args["low"], between.args["high"]
        if isinstance(low, exp.Null) and isinstance(high, exp.Null):
            raise CompileError(
                "a range without bounds holds everything",
                span=locate(span, "null"),
                hint="give at least one of the two",
            )
        # `coalesce(.., true)`: where a bound is null there is none.
        outer = between.parent
        heeds_null = isinstance(outer, exp.Anonymous) and str(outer.this).lower() == "coalesce"
        if (isinstance(low, exp.Null) or isinstance(high, exp.Null)) and not heeds_null:
            open_end = isinstance(high, exp.Null)
            bound, sign = (low, ">=") if open_end else (high, "<=")
            raise CompileError(
                "a comparison with null is never true",
                span=locate(span, "null"),
                hint=f"for a range with one end, compare: {sign} {to_sql(bound)}",
            )


def refuse_nested(expanded: exp.Expr, span: Span) -> None:
    """Refuse `max(mean(x))`: SQL has no aggregates of aggregates. Raises CompileError."""
    for outer in outermost_aggregates(expanded):
        call = aggregate_call(outer)
        # `fact('run_started')` is the same for every row.
        inner = (
            n for a in call.expressions for n in nodes(a, exp.Anonymous) if is_aggregate_node(n)
        )
        if find_own(call) is None and any(find_own(n) is None for n in inner):
            raise CompileError(
                f"{to_sql(outer)} aggregates an aggregate",
                span=span,
                hint="a check is about one batch: compute the inner one in the model's SELECT",
            )


def refuse_aggregate(condition: exp.Expr, span: Span) -> None:
    """Refuse `{where: "sum(x) > 3"}`: a condition is about one row. Raises CompileError."""
    if has_aggregate(condition):
        raise CompileError(
            f"where is a condition on each row, and {to_sql(condition)} has an aggregate",
            span=span,
            hint="compare the aggregate in a check of its own: @expect(sum(amount) > 0)",
        )


def refuse_idle_where(expanded: exp.Expr, span: Span) -> None:
    """Refuse `column_count > 3 {where: ..}`, which measures no rows. Raises CompileError."""
    measured = list(outermost_aggregates(expanded))
    if measured and all(_is_about_no_row(aggregate) for aggregate in measured):
        raise CompileError(
            "where chooses rows of the model, and nothing of them is measured here",
            span=span,
            hint="leave {where: ..} out; a check model of its own can choose rows of another one",
        )


def _is_about_no_row(aggregate: exp.Expr) -> bool:
    name, args = name_and_args(aggregate)
    fact = bool(args) and str(args[0].this) in ABOUT_THE_RELATION
    return name == RELATION_ROWS or (name == FACT and fact)


def refuse_text_for_number(expanded: exp.Expr, metric_name: MetricName, span: Span) -> None:
    """Refuse `freshness < '24 hours'`: a number compared with a text or an interval.

    `metric_name` gives the name of the metric macro that a node is the expansion of. Raises
    CompileError.
    """
    for comparison in expanded.find_all(*ORDERINGS, exp.EQ, exp.NEQ, exp.In):
        operands = [a for a in comparison.iter_expressions() if isinstance(a, exp.Expr)]
        numeric = next((o for o in operands if is_numeric(o)), None)
        name = None if numeric is None else metric_name(numeric)
        wrong = [(o, t) for o in operands if (t := _no_number(o)) is not None]
        if name == "freshness":
            wrong += [(o, t) for o in operands if (t := _days(o, span)) is not None]
        if not wrong or numeric is None:
            continue
        operand, text = wrong[0]
        is_text = isinstance(operand, exp.Literal)
        hours = _DURATION.fullmatch(text) if name == "freshness" else None
        if hours is not None:
            value = float(hours.group(1)) * _HOURS[hours.group(2).lower()]
            hint = f"freshness is in hours: write {value:g}"
        else:
            hint = "write the number without quotes" if is_text else "write a number"
        shown = f"{to_sql(operand)} is not"
        if is_text:
            shown = f"'{text}' is a text"
        elif hours is not None and isinstance(operand.unnest(), exp.TryCast):
            shown = f"to Spark {text} is the number {text[:-1]}"
        raise CompileError(
            f"{name or to_sql(numeric)} is a number, but {shown}",
            span=locate(span, text if is_text else "interval"),
            hint=hint,
        )


def _no_number(operand: exp.Expr) -> str | None:
    """The text of a literal that is no number, or `1 day` of an interval; None otherwise."""
    if isinstance(operand, exp.Interval) and isinstance(operand.this, exp.Literal):
        return f"{operand.this.this} {operand.args.get('unit') or ''}".strip()
    return operand.name if operand.is_string and not reads_as_number(operand.name) else None


def _days(operand: exp.Expr, span: Span) -> str | None:
    """`1d` as it is written: to Spark the double 1.0, to who writes it of an age a day."""
    operand = operand.unnest()
    literal = operand.this if isinstance(operand, exp.TryCast) else None
    if not isinstance(literal, exp.Literal):
        return None
    # Behind the check stand its settings.
    written = _DOUBLE.finditer(span.text.partition("{")[0])
    return next((m[0] for m in written if float(m[1]) == float(literal.this)), None)


def refuse_broken_regex(expanded: exp.Expr, span: Span) -> None:
    """Refuse a regular expression that Java cannot compile either. Raises CompileError."""
    for node in expanded.find_all(exp.RegexpLike, exp.Anonymous):
        regex = node.expression if isinstance(node, exp.RegexpLike) else _regex_argument(node)
        regex = regex and regex.unnest()
        if not isinstance(regex, exp.Literal | exp.RawString):
            continue
        text = str(regex.this)
        if problem := _regex_problem(text):
            raise CompileError(
                f"the regular expression {text!r} is not valid: {problem}",
                span=span,
                hint="Spark reads regular expressions as Java does; a bracket that is meant as"
                " such needs a backslash",
            )


def _regex_argument(node: exp.Expr) -> exp.Expr | None:
    named = called(node) in _REGEX_FUNCTIONS and len(node.expressions) > 1
    return node.expressions[1] if named else None


def _regex_problem(text: str) -> str | None:
    """What is wrong in the eyes of Python and of Java; their languages differ in other things."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            re.compile(text)
        except re.error as error:
            return error.msg if error.msg.startswith(_BROKEN_ANYWHERE) else None
        except (OverflowError, RecursionError):
            return None
    return None


def refuse_ranks(expanded: exp.Expr, metric_name: MetricName, span: Span) -> None:
    """Refuse `quantile(95)`: the rank of a quantile is between 0 and 1. Raises CompileError.

    `metric_name` is that of `refuse_text_for_number`.
    """
    for node in expanded.find_all(exp.Anonymous):
        name = str(node.this).lower()
        if name not in _QUANTILES or len(node.expressions) < 2:
            continue
        given = node.expressions[1].unnest()
        ranks = given.expressions if isinstance(given, exp.Array | exp.Anonymous) else [given]
        for rank in ranks:
            value, is_text = number(rank), rank.is_string
            if is_text and reads_as_number(str(rank.this)):
                value = float(str(rank.this))
            if 0 <= value <= 1 if value is not None else not is_text:
                continue
            macros = (metric_name(a) for a in _ancestors(node))
            shown = next((m for m in macros if m is not None), name)
            raise CompileError(
                f"the rank of {shown} is between 0 and 1, and {to_sql(rank)} is not",
                span=locate(span, str(rank.this) if is_text else to_sql(rank).lstrip("-")),
                hint=f"did you mean {value / 100:.12g}?"
                if value is not None and 1 < value <= 100
                else "0.5 is the median, 0.95 is above 95% of the values",
            )


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    ancestor = node.parent
    while ancestor is not None:
        yield ancestor
        ancestor = ancestor.parent


def is_numeric(node: exp.Expr) -> bool:
    """Whether an operand is a number whatever the types of columns are."""
    node = node.unnest()
    node = node.this if isinstance(node, exp.Filter) else node
    if isinstance(node, exp.Div | exp.Mul | exp.Mod | exp.Neg):
        return True
    if isinstance(node, exp.Add | exp.Sub):
        # A date and a number make a date.
        return is_numeric(node.left) and is_numeric(node.right)
    return called(node) in _NUMERIC


def require_column(
    macro: Macro,
    args: Sequence[exp.Expr],
    named: Mapping[str, exp.Expr],
    known: Sequence[str],
    span: Span,
) -> None:
    """Refuse a number or text where the macro wants a column: `@accepted_values(1, 2)` alone.

    And `f(low = 1)`, which is a comparison in SQL, where `low` is a parameter and no column.
    `known` are the columns of the model, none where they are not known. Raises CompileError.
    """
    parameters = macro.definition.parameters
    for arg in args:
        left = arg.this if isinstance(arg, exp.EQ) else None
        if not known or left is None or not is_bare_name(left):
            continue
        if left.name in parameters and left.name.lower() not in {c.lower() for c in known}:
            raise CompileError(
                f"@{macro.name}: {to_sql(arg)} is a comparison",
                span=locate(span, left.name),
                hint=f"name the parameter: {left.name} => {to_sql(arg.expression)}",
            )
    if parameters[:1] != ("column",) or "column" in named:
        return
    first = args[0] if args else None
    takes_tuple = macro.definition.catches_varargs or "relation" in parameters
    if isinstance(first, exp.Tuple | exp.Array) and not takes_tuple:
        # A tuple is never null, whatever is in it.
        each = " ".join(f"@{macro.name}({to_sql(part)})" for part in first.expressions)
        raise CompileError(
            f"@{macro.name} takes one column, and {to_sql(first)} is not one",
            span=locate(span, macro.name),
            hint=f"write one for each: {each}",
        )
    value = first.this if isinstance(first, exp.Neg) else first
    missing = first is None and macro.definition.required > 0
    if missing or isinstance(value, exp.Literal):
        none = "" if first is None else f", and {to_sql(first)} is not one"
        rest = ", .." if first is not None or macro.definition.required > 1 else ""
        raise CompileError(
            f"@{macro.name} needs a column{none}",
            span=locate(span, macro.name),
            hint=f"write it next to a column, or name one: @{macro.name}(the_column{rest})",
        )


def name_and_args(ast: exp.Expr) -> tuple[str | None, list[exp.Expr]]:
    """The name and arguments of a call, or of a bare name; None of anything else."""
    if isinstance(ast, exp.Anonymous):
        return str(ast.this), list(ast.expressions)
    return (ast.name, []) if is_bare_name(ast) else (None, [])


def is_bare_name(node: exp.Expr) -> bool:
    """Whether the node is a name without quotes and dots."""
    return (
        isinstance(node, exp.Column)
        and not node.table
        and isinstance(node.this, exp.Identifier)
        and not node.this.quoted
    )


def locate(span: Span, word: str) -> Span:
    """The place of `word` within the annotation at `span`, where it can be told."""
    match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", span.text, re.IGNORECASE)
    if match is None or "\n" in span.text[: match.start()]:
        return span
    return replace(span, column=span.column + match.start(), text=word)
