"""Two thresholds of one check: `warn`, dbt's `warn_if` and `error_if`, and `mostly`.

A check has one predicate: where it does not hold, the check fails. These settings add a second one,
which only warns, or put another one in its place: about the number of failing rows, or the share of
the rows that pass. All of them compare metrics that are scanned with the others.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from dqsql.compiler.comparisons import (
    COMPARISONS,
    OPPOSITE,
    SYMBOLS,
    bounds_of,
    measured_side,
    number,
    reads_as_number,
)
from dqsql.compiler.keys import not_null
from dqsql.compiler.misuse import locate
from dqsql.compiler.predicates import MetricUse, Predicate, placeholder, restrict
from dqsql.compiler.trees import (
    called,
    conjuncts,
    counts_rows,
    filtered_by,
    function_name,
    only_argument,
    without_nullif,
)
from dqsql.compiler.vacuous import always
from dqsql.dialect import call, formula, literal, parse_expression, to_sql
from dqsql.errors import CompileError, SqlSyntaxError
from dqsql.model.functions import EXPECT
from dqsql.model.metric_traits import BAD_ROW_METRICS, ValueRange
from dqsql.model.project import DBT_TEST, Annotation, Severity

WARN, WARN_IF, ERROR_IF, MOSTLY, AFTER = "warn", "warn_if", "error_if", "mostly", "after"
THRESHOLD_SETTINGS = (WARN, WARN_IF, ERROR_IF, MOSTLY)
FAILING_ROWS, PASSING_SHARE = "failing_rows", "passing_share"

# Stands for what is compared while a condition such as `> 10` is read.
_MEASURED = "dqsql_measured"

_Resolve = Callable[[Annotation], Predicate]


@dataclass(frozen=True)
class Limit:
    """A predicate that must hold, and how a message names it."""

    predicate: Predicate
    text: str


@dataclass(frozen=True)
class CheckLimits:
    """What a check demands: where `fails` does not hold it fails, where `warns` does not it warns.

    `rows` is the predicate about single rows that the others were made of, by which failing rows
    are told from good ones; None where it is `fails` itself.
    """

    fails: Limit
    warns: Limit | None = None
    rows: Predicate | None = None


def limits_of(annotation: Annotation, severity: Severity, resolve: _Resolve) -> CheckLimits | None:
    """The thresholds that an annotation's settings ask for; None where they ask for none.

    `severity` is the check's, whoever set it; `resolve` gives an annotation's predicate.

    Raises CompileError: the settings do not fit each other, or not the check.
    """
    given = [name for name in THRESHOLD_SETTINGS if name in annotation.settings.options]
    refuse_idle_after(annotation, severity)
    if not given:
        return None
    _refuse_mixed(annotation, given)
    if WARN_IF in given or ERROR_IF in given:
        return _counted(annotation, severity, resolve(annotation))
    if WARN in given and severity is Severity.WARN:
        raise _problem(
            annotation,
            WARN,
            "with severity warn both thresholds would warn",
            "write only the condition that warns:"
            f" {{severity: warn}} with {_written(annotation, WARN)}",
        )
    if MOSTLY in given:
        return _mostly(annotation, resolve(annotation))
    return _warned(annotation, resolve)


def refuse_idle_after(annotation: Annotation, severity: Severity, kind: str = "") -> None:
    """Refuse `after` of what never fails. Raises CompileError.

    `kind` is a monitor that only warns unless its annotation says more.
    """
    if AFTER in annotation.settings.options and severity is Severity.WARN:
        why = "with severity warn nothing ever fails, so `after` has no effect"
        hint = "remove one of the two"
        if kind and annotation.settings.severity is None:
            why = f"@{kind} only warns by itself, so `after` has no effect"
            hint = f"{{severity: error, after: {annotation.settings.options[AFTER]}}}"
        raise _problem(annotation, AFTER, why, hint)


def _refuse_mixed(annotation: Annotation, given: list[str]) -> None:
    if len(given) == 1 or set(given) in ({WARN_IF, ERROR_IF}, {WARN, MOSTLY}):
        return
    raise _problem(
        annotation,
        given[1],
        f"{given[0]!r} and {given[1]!r} cannot be used together",
        "warn_if and error_if count failing rows, mostly is a share of rows that pass,"
        " warn is a second bound of what the check compares",
    )


# --- a second bound of the same metric ---------------------------------------------------------


def _warned(annotation: Annotation, resolve: _Resolve) -> CheckLimits:
    """`@completeness >= 0.99 {warn: ">= 0.999"}`."""
    ast = parse_expression(annotation.expression, annotation.span)
    inside: exp.Expr = ast.expressions[0] if _is_expect(ast) else ast
    if not isinstance(inside.unnest(), COMPARISONS):
        raise _problem(
            annotation,
            WARN,
            f"warn is a second bound for a comparison, and {annotation.expression} is not one",
            'write @completeness >= 0.99 {warn: ">= 0.999"}, or {warn_if: "> 0", error_if:'
            ' "> 10"} for numbers of failing rows',
        )
    operand, operator = measured_side(inside.unnest())
    condition = _condition(annotation, WARN, operand, operator)
    if _is_expect(ast):
        condition = exp.Anonymous(this=EXPECT, expressions=[condition])
    first = resolve(annotation)
    second = resolve(replace(annotation, expression=to_sql(condition)))
    _refuse_never(annotation, WARN, first, second)
    return CheckLimits(
        Limit(first, f"expected {to_sql(inside) if _is_expect(ast) else annotation.expression}"),
        Limit(second, f"expected {_condition_text(annotation, WARN, operator)}"),
    )


def _is_expect(ast: exp.Expr) -> bool:
    return called(ast) == EXPECT and len(ast.expressions) == 1


# --- numbers and shares of rows ----------------------------------------------------------------


@dataclass(frozen=True)
class _RowDemand:
    """A demand that every row meets: the metric, what it must be, and its failing rows as SQL."""

    use: MetricUse
    failing: exp.Expr
    rows: exp.Expr
    needs: tuple[exp.Expr, ...] = ()
    # Whether rows of which none has what is needed all meet it.
    vacuous: bool = False


def _counted(annotation: Annotation, severity: Severity, rows: Predicate) -> CheckLimits:
    """`@not_null {warn_if: "> 10", error_if: "> 100"}`: conditions on the number of failing rows.

    As dbt has it: without error_if a single failing row fails, without warn_if it warns.
    """
    options = annotation.settings.options
    demands = _row_demands(annotation, rows, WARN_IF if WARN_IF in options else ERROR_IF)
    use = _failing_rows(annotation, demands)
    if severity is Severity.WARN:
        if ERROR_IF in options:
            raise _problem(
                annotation,
                ERROR_IF,
                "with severity warn the check never fails, so error_if has no effect",
                "write warn_if alone",
            )
        return CheckLimits(_row_limit(annotation, WARN_IF, use), None, rows)
    if ERROR_IF not in options:
        raise _problem(
            annotation,
            WARN_IF,
            "the check fails at the first failing row, so warn_if has no effect",
            'add error_if, such as {warn_if: "> 0", error_if: "> 100"}, or {severity: warn}',
        )
    fails, warns = (_row_limit(annotation, name, use) for name in (ERROR_IF, WARN_IF))
    if WARN_IF in options:
        _refuse_never(annotation, WARN_IF, fails.predicate, warns.predicate)
    elif _is_never(fails.predicate, warns.predicate):
        return CheckLimits(fails, None, rows)
    return CheckLimits(fails, warns, rows)


def _row_limit(annotation: Annotation, setting: str, use: MetricUse) -> Limit:
    """What the number of failing rows must be so that the setting's condition is not met."""
    settings = {setting: "> 0", **annotation.settings.options}
    given = replace(annotation, settings=replace(annotation.settings, options=settings))
    met = _condition(given, setting, placeholder(0), None)
    _refuse_idle(given, setting, met, ValueRange(low=0), "a number of failing rows")
    demand: exp.Expr = exp.Not(this=exp.Paren(this=met))
    if (opposite := OPPOSITE.get(type(met))) is not None:
        demand = opposite(this=met.this, expression=met.expression)
    return Limit(Predicate(demand, (use,)), f"{setting}: {_written(given, setting)}")


def _mostly(annotation: Annotation, rows: Predicate) -> CheckLimits:
    """`@in_range(0, 1) {mostly: 0.95}`: the share of rows that pass.

    Where rows without a value pass, the share is that of the rows with one, as in Great
    Expectations.
    """
    share = annotation.settings.options[MOSTLY]
    demands = _row_demands(annotation, rows, MOSTLY)
    if len(demands) > 1:
        raise _problem(
            annotation, MOSTLY, f"{annotation.expression} has several conditions", _SEVERAL
        )
    use = _passing_share(annotation, demands[0])
    demand = exp.GTE(this=placeholder(0), expression=literal(share))
    fails = Limit(Predicate(demand, (use,)), f"expected mostly: {share}")
    if WARN not in annotation.settings.options:
        return CheckLimits(fails, None, rows)
    condition = _condition(annotation, WARN, placeholder(0), exp.GTE)
    _refuse_idle(annotation, WARN, condition, ValueRange(0, 1), "a share of rows")
    text = _condition_text(annotation, WARN, exp.GTE)
    warns = Limit(Predicate(condition, (use,)), f"expected {text}")
    _refuse_never(annotation, WARN, fails.predicate, warns.predicate)
    return CheckLimits(fails, warns, rows)


_OWN_CONDITION = re.compile(r"\s*(?:satisfies|compliance|expect)\s*\(", re.IGNORECASE)
_SEVERAL = "write an annotation for each"


def _row_demands(annotation: Annotation, rows: Predicate, setting: str) -> list[_RowDemand]:
    """What the check demands of rows. Raises CompileError: it is not about rows."""
    parts = list(conjuncts(rows.ast))
    demands = [d for part in parts if (d := _row_demand(part, rows)) is not None]
    if _OWN_CONDITION.match(annotation.expression):
        # That a row without a value passes is what the condition itself says.
        demands = [replace(d, needs=(), vacuous=False) for d in demands]
    if len(demands) < len(parts):
        raise _problem(
            annotation,
            setting,
            f"{setting} is about rows that pass or fail, and {annotation.expression} is not"
            " about rows",
            'for another bound of the same metric write {warn: "> .."}',
        )
    values = [d for d in demands if d.use.name != "duplicate_count"]
    if len(demands) > 1 and (len(values) > 1 or len(demands) > 2):
        # Rows that fail both would be counted twice; those that repeat a value have one.
        raise _problem(
            annotation, setting, f"{annotation.expression} has several conditions", _SEVERAL
        )
    return demands


def _row_demand(part: exp.Expr, rows: Predicate) -> _RowDemand | None:
    """The demand behind `share = 1` or `count = 0`; None where a comparison is no such thing."""
    if not isinstance(part, exp.EQ | exp.GTE | exp.LTE) or not isinstance(part.this, exp.Column):
        return None
    wanted = number(part.expression)
    use = next(m for i, m in enumerate(rows.metrics) if part.this.name == placeholder(i).name)
    expression = use.sql.unnest()
    if wanted == 1 and not isinstance(part, exp.LTE):
        return _share_demand(use, expression)
    counts = use.name in BAD_ROW_METRICS or function_name(expression) == "count_if"
    if wanted == 0 and counts and not isinstance(part, exp.GTE):
        return _RowDemand(use, expression, _row_count(expression), _keys(expression))
    return None


def _share_demand(use: MetricUse, node: exp.Expr) -> _RowDemand | None:
    if not isinstance(node, exp.Div):
        return None
    part, whole = node.this.unnest(), without_nullif(node.expression)
    if not counts_rows(whole) or function_name(part) not in ("count", "count_if"):
        return None
    failing = formula("case when {0} > 0 then {0} - {1} end", whole, part)
    premise = _premise(only_argument(part))
    if premise is not None:
        return _RowDemand(use, failing, whole, (premise,), vacuous=True)
    return _RowDemand(use, failing, whole, _values(only_argument(part)))


def _row_count(counted: exp.Expr) -> exp.Expr:
    """The number of rows that an aggregate looks at."""
    found = counted.find(exp.Filter)
    return filtered_by(call("count", exp.Star()), found and found.expression.this)


def _premise(condition: exp.Expr | None) -> exp.Expr | None:
    """What has a value in rows that meet x in `case when x then y else true end`."""
    met = None if condition is None else condition.unnest()
    if not isinstance(met, exp.Case) or met.this is not None or len(met.args["ifs"]) != 1:
        return None
    is_premise = met.args.get("default") == exp.true()
    return formula("case when {0} then true end", met.args["ifs"][0].this) if is_premise else None


def _values(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    """What must have a value in `x is null or y is null or ..`: a row without one says nothing."""
    met = None if condition is None else condition.unnest()
    if not isinstance(met, exp.Or):
        return ()
    terms = [term.unnest() for term in met.flatten()]
    nulls = itertools.takewhile(
        lambda term: isinstance(term, exp.Is) and isinstance(term.expression, exp.Null), terms
    )
    # The last one is the condition itself.
    return tuple(term.this for term in nulls)[: len(terms) - 1]


def _keys(counted: exp.Expr) -> tuple[exp.Expr, ...]:
    """What must have a value so that a row is looked up, or its value counted."""
    for node in counted.find_all(exp.Anonymous):
        name = called(node)
        if name == "is_orphan":
            # The relation, then pairs of a column and a key.
            return tuple(node.expressions[1::2])
        if name == "frequency":
            keys = node.expressions[1:]
            if len(keys) == 1:
                return tuple(keys)
            # Rows without any value repeat nothing.
            some = exp.or_(*(not_null(key.copy()) for key in keys))
            return (formula("case when {0} then true end", some),)
    return ()


def _failing_rows(annotation: Annotation, demands: list[_RowDemand]) -> MetricUse:
    total = demands[0].failing
    for more in demands[1:]:
        # Where no row has a value there are no duplicates, and all rows fail the other demand.
        total = formula(
            "case when {0} is not null or {1} is not null"
            " then coalesce({0}, 0) + coalesce({1}, 0) end",
            total,
            more.failing,
        )
    return _use(annotation, demands, FAILING_ROWS, total)


def _passing_share(annotation: Annotation, demand: _RowDemand) -> MetricUse:
    # Not 1 - failing / rows: with 7 of 100 that is a bit less than the 0.93 that somebody wrote.
    passing = formula("{0} - {1}", demand.rows, exp.Paren(this=demand.failing))
    share = formula("{0} / nullif({1}, 0)", exp.Paren(this=passing), demand.rows)
    if demand.needs:
        there = [exp.Not(this=exp.Is(this=n.copy(), expression=exp.Null())) for n in demand.needs]
        share = restrict(share, exp.and_(*there))
    if demand.vacuous:
        share = formula("case when {0} > 0 then coalesce({1}, 1) end", demand.rows, share)
    return _use(annotation, [demand], PASSING_SHARE, share)


def _use(annotation: Annotation, demands: list[_RowDemand], name: str, sql: exp.Expr) -> MetricUse:
    about = demands[0].use.column
    parameters = " and ".join(d.use.text for d in demands)
    return MetricUse(name, about, parameters, annotation.expression.strip(), exp.Paren(this=sql))


# --- conditions in settings --------------------------------------------------------------------


def _condition(
    annotation: Annotation, setting: str, operand: exp.Expr, operator: type[exp.Binary] | None
) -> exp.Expr:
    """The condition of a setting, such as `> 10`, of an operand.

    A number alone is taken with the operator of the check.
    """
    text = _condition_text(annotation, setting, operator)
    message = f"{setting} is not a comparison: {text!r}"
    problem = _problem(annotation, setting, message, f'for example {{{setting}: "> 10"}}')
    try:
        ast = parse_expression(f"{_MEASURED} {text}", annotation.span).unnest()
    except SqlSyntaxError as error:
        raise problem from error
    if not isinstance(ast, COMPARISONS) or ast.this.name != _MEASURED:
        raise problem
    condition = ast.copy()
    condition.set("this", operand.copy())
    return condition


def _condition_text(annotation: Annotation, setting: str, operator: type[exp.Binary] | None) -> str:
    text = _written(annotation, setting)
    return f"{SYMBOLS[operator]} {text}" if operator is not None and reads_as_number(text) else text


def _written(annotation: Annotation, setting: str) -> str:
    return str(annotation.settings.options[setting]).strip()


def _refuse_idle(
    annotation: Annotation, setting: str, condition: exp.Expr, within: ValueRange, what: str
) -> None:
    """Refuse a condition that is met whatever the data are, or never."""
    value = number(condition.args.get("expression") or exp.Null())
    holds = None if value is None else always(type(condition), value, within)
    if holds is not None and DBT_TEST not in annotation.settings.options:
        how_often = "always" if holds else "never"
        message = f"{setting}: {_written(annotation, setting)} {how_often} holds"
        raise _problem(annotation, setting, message, f"{what} is {within}")


def _is_never(fails: Predicate, warns: Predicate) -> bool:
    """Whether what warns has failed before."""
    first, second = bounds_of(fails.ast), bounds_of(warns.ast)
    return to_sql(fails.ast) == to_sql(warns.ast) or (
        first is not None and second is not None and first != second and first.within(second)
    )


def _refuse_never(annotation: Annotation, setting: str, fails: Predicate, warns: Predicate) -> None:
    """Refuse a warning that can never be told, since the check has failed before."""
    if _is_never(fails, warns):
        message = "the warning would never appear: the check fails first"
        hint = "the threshold that warns must be the stricter one"
        raise _problem(annotation, setting, message, hint)


# --- errors ------------------------------------------------------------------------------------


def _problem(annotation: Annotation, setting: str, message: str, hint: str) -> CompileError:
    return CompileError(message, span=locate(annotation.span, setting), hint=hint)
