"""Refuses comparisons that always hold, or never, since a metric cannot have other values.

`@completeness >= 95` fails every batch, `@completeness <= 95` none. The range of a metric is what
the documentation of its macro says. A check that is there twice says nothing either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.compiler.comparisons import MIRROR, OPERATORS, SYMBOLS, number
from dqsql.compiler.misuse import locate
from dqsql.compiler.predicates import CHECK, METRIC, Label, RangeOf
from dqsql.dialect import to_sql
from dqsql.errors import CompileError, Span
from dqsql.model.metric_traits import ValueRange
from dqsql.model.plan import Check, Monitor, Plan
from dqsql.model.project import DBT_TEST, Scope

_PERCENT = 100
_STRICT = (exp.GT, exp.LT)


@dataclass(frozen=True)
class _Measured:
    """A metric in an expanded expression: how it is written, and its range."""

    text: str
    within: ValueRange


def refuse_idle(expanded: exp.Expr, range_of: RangeOf, span: Span, *, lenient: bool) -> None:
    """Refuse what a metric's range makes true or false whatever the data are.

    In a macro's expansion a part may be so, for example by a default, as long as the whole is not.
    `lenient` allows what always holds. Raises CompileError.
    """
    _Comparisons(range_of, span, lenient).truth(expanded, inside=None)


def always(operator: type[exp.Expr], value: float, within: ValueRange) -> bool | None:
    """Whether `metric operator value` is always true or always false; None where it depends."""
    below = value < within.low or (value == within.low and within.low_open)
    above = value > within.high or (value == within.high and within.high_open)
    if operator in (exp.EQ, exp.NEQ):
        return (operator is exp.NEQ) if below or above else None
    # At an end, what includes the bound may hold always, and what does not never.
    at_low, at_high, strict = value == within.low, value == within.high, operator in _STRICT
    holds, fails = above or (at_high and not strict), below or (at_low and strict)
    if operator in (exp.GT, exp.GTE):
        holds, fails = below or (at_low and not strict), above or (at_high and strict)
    return holds if holds or fails else None


@dataclass(frozen=True)
class _Idle:
    """A comparison that says nothing."""

    text: str
    holds: bool
    hint: str
    word: str


@dataclass
class _Comparisons:
    range_of: RangeOf
    span: Span
    lenient: bool
    _found: list[_Idle] = field(default_factory=list)

    def truth(self, node: exp.Expr, inside: str | None) -> bool | None:
        """What a condition is for all data, None where that depends on them.

        `inside` is the check macro whose expansion the node is in. Raises CompileError.
        """
        check: str | None = node.meta.get(CHECK)
        if check is not None and inside is None:
            known = self.truth(node.this, check)
            if known is not None and self._found:
                outcome = "always passes" if known else "always fails"
                raise self._problem(self._found[0], f"@{check} {outcome}: ")
            return known
        if METRIC in node.meta:
            return None
        if isinstance(node, exp.Paren):
            return self.truth(node.this, inside)
        if isinstance(node, exp.Not):
            known = self.truth(node.this, inside)
            return None if known is None else not known
        if isinstance(node, exp.And | exp.Or):
            parts = [self.truth(node.left, inside), self.truth(node.right, inside)]
            decisive = isinstance(node, exp.Or)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        idle = self._idle(node)
        if idle is None or (idle.holds and self.lenient):
            return None
        if inside is None:
            raise self._problem(idle)
        self._found.append(idle)
        return idle.holds

    def _measured(self, node: exp.Expr) -> _Measured | None:
        label: Label | None = node.meta.get(METRIC)
        within = None if label is None else self.range_of(label.name)
        return None if label is None or within is None else _Measured(label.text, within)

    def _problem(self, idle: _Idle, beginning: str = "") -> CompileError:
        holds = "always holds" if idle.holds else "never holds"
        return CompileError(
            f"{beginning}{idle.text} {holds}", span=_place(self.span, idle.word), hint=idle.hint
        )

    def _idle(self, node: exp.Expr) -> _Idle | None:
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, exp.In):
            return self._listed(node)
        kind = next((o for o in OPERATORS if type(node) is o), None)
        if kind is None:
            return None
        metric, other = node.this, node.expression
        if number(other) is None:
            metric, other, kind = other, metric, MIRROR[kind]
        measured, value = self._measured(metric), number(other)
        if measured is None or value is None:
            return None
        holds = always(kind, value, measured.within)
        if holds is None:
            return None
        meant = _meant(kind, value, measured.within)
        text = f"{measured.text} {SYMBOLS[kind]} {to_sql(other)}"
        return _Idle(text, holds, _hint(measured, meant), to_sql(other))

    def _between(self, node: exp.Between) -> _Idle | None:
        measured = self._measured(node.this)
        low, high = number(node.args["low"]), number(node.args["high"])
        if measured is None or low is None or high is None:
            return None
        within = measured.within
        nowhere = always(exp.GTE, low, within) is False or always(exp.LTE, high, within) is False
        everywhere = always(exp.GTE, low, within) and always(exp.LTE, high, within)
        if not nowhere and not everywhere:
            return None
        shown = f"{to_sql(node.args['low'])} and {to_sql(node.args['high'])}"
        meant = None
        if nowhere and _is_percent(within, low) and _is_percent(within, high):
            meant = f"between {_share(low)} and {_share(high)}"
        return _Idle(
            f"{measured.text} between {shown}", not nowhere, _hint(measured, meant), "between"
        )

    def _listed(self, node: exp.In) -> _Idle | None:
        measured = self._measured(node.this)
        values = [number(v) for v in node.expressions]
        if measured is None or not values:
            return None
        if not all(v is not None and always(exp.EQ, v, measured.within) is False for v in values):
            return None
        shown = ", ".join(to_sql(v) for v in node.expressions)
        return _Idle(f"{measured.text} in ({shown})", False, _hint(measured, None), "in")


def _place(span: Span, word: str) -> Span:
    """Where the number stands that says nothing, rather behind a comparison than elsewhere."""
    compared = re.search(rf"(?<!=)[<>=]\s*({re.escape(word)})(?![\w.])", span.text)
    if compared is None or "\n" in span.text[: compared.start()]:
        return locate(span, word.lstrip("-"))
    return replace(span, column=span.column + compared.start(1), text=word)


def _hint(measured: _Measured, meant: str | None) -> str:
    what = "a share is" if measured.within.is_share else f"{measured.text} is"
    return f"{what} {measured.within}" + (f": did you mean {meant}?" if meant else "")


def _meant(kind: type[exp.Binary], value: float, within: ValueRange) -> str | None:
    """The comparison that people mean who write one that says nothing."""
    if kind is exp.NEQ:
        return None
    symbol = SYMBOLS[kind]
    if _is_percent(within, value):
        share = value / _PERCENT
        return None if always(kind, share, within) is not None else f"{symbol} {_share(value)}"
    upwards = kind in (exp.GT, exp.GTE)
    if value == within.low and not within.low_open:
        return f"> {within.low:g}" if upwards else f"= {within.low:g}"
    if value == within.high and not within.high_open:
        return f"= {within.high:g}" if upwards else f"< {within.high:g}"
    return f"> {within.low:g}" if upwards and value < within.low else None


def _is_percent(within: ValueRange, value: float) -> bool:
    return within.is_share and 1 < value <= _PERCENT


def _share(percent: float) -> str:
    return f"{percent / _PERCENT:.12g}"


def repeated_checks(plan: Plan) -> Iterator[str]:
    """A warning for each check or monitor that says what one before it says, with both places.

    `@not_null` next to a column and `@not_null(column)` elsewhere are the same.
    """
    seen: dict[tuple[str, ...], list[Check | Monitor]] = {}
    for declared in plan.declared:
        if DBT_TEST in declared.settings.options:
            continue
        others = seen.setdefault(declared.metrics, [])
        same = next((o for o in others if _meaning(o) == _meaning(declared)), None)
        if same is None:
            others.append(declared)
        else:
            yield (
                f"{declared.span}: @{declared.expression} appears twice, also at {same.span}"
                + ("" if same.expression == declared.expression else f" as @{same.expression}")
            )


def counted_again(plan: Plan) -> Iterator[str]:
    """A warning where each run adds all rows to what it found in them before."""
    totals = {m.alias for m in plan.metrics if m.scope is Scope.CUMULATIVE}
    added = next((c for c in plan.checks if not totals.isdisjoint(c.metrics)), None)
    if added is not None and plan.model.reads_all_rows:
        yield (
            f"{added.span}: without batch_by each run is a batch, and {{scope: cumulative}} adds up"
            " what all of them read: rows that are still there are counted again. Set batch_by, or"
            " leave the scope out, unless a stream gives new rows to each run"
        )


def _meaning(declared: Check | Monitor) -> tuple[object, ...]:
    """What a check or monitor says of its metrics."""
    if isinstance(declared, Check):
        warning = declared.warning and declared.warning.predicate
        return (declared.predicate, declared.rows, warning, declared.settings)
    about = (declared.column or "").lower()
    given = declared.arguments.items()
    arguments = {name: text for name, text in given if text.strip("`").lower() != about}
    return (declared.kind, arguments, declared.demand, declared.relations, declared.settings)
