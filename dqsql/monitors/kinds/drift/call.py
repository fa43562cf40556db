"""`@drift(column, measure, against => ..)` taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from dqsql.compiler.arguments import split_arguments
from dqsql.compiler.comparisons import COMPARISONS, measured_side
from dqsql.compiler.misuse import locate
from dqsql.compiler.trees import called
from dqsql.decisions.drift import MEASURES, WITH_P_VALUE
from dqsql.dialect import parse_expression, to_sql
from dqsql.errors import CompileError, Span, nearest

DRIFT, P_VALUE = "drift", "drift_pvalue"
_PREVIOUS = "previous"
_LAST = re.compile(r"last\s+(\d{1,9})", re.IGNORECASE)
_LAST_OF_WHAT = re.compile(r"last\b.*|last\d+", re.IGNORECASE)
_AGAINST = "against"
_EXAMPLE = "@drift(psi, against => 'last 7') < 0.25"


@dataclass(frozen=True)
class Against:
    """What a batch is compared with: the newest accepted `batches`, a `batch`, a `relation`."""

    batches: int = 0
    batch: str | None = None
    relation: str | None = None


@dataclass(frozen=True)
class DriftCall:
    """The measure, the column, and what it is compared with."""

    measure: str
    column: str | None
    against: Against

    @property
    def shown(self) -> str:
        """The arguments for the tables: measure, and what it is compared with."""
        to = self.against
        what = f"'{to.batch}'" if to.batch is not None else to.relation
        if what is None:
            what = f"'{_PREVIOUS}'" if to.batches == 1 else f"'last {to.batches}'"
        return f"{self.measure}, {_AGAINST} => {what}"


def drift_call(expression: str, column: str | None, span: Span) -> DriftCall:
    """The call in an annotation's expression; `column` is the annotation's.

    Raises CompileError.
    """
    ast = parse_expression(expression, span).unnest()
    node = measured_side(ast)[0] if isinstance(ast, COMPARISONS) else ast
    name = called(node) or node.name.lower()
    default = "ks" if name == P_VALUE else "psi"
    given, named = split_arguments(node.expressions if called(node) else [])
    for unknown in named.keys() - {_AGAINST}:
        raise CompileError(
            f"@{name} has no argument {unknown!r}", span=span, hint=f"for example {_EXAMPLE}"
        )
    about, measure = _column_and_measure(given, column, default, span)
    if name == P_VALUE and measure not in WITH_P_VALUE:
        raise CompileError(
            f"{measure} has no p-value", span=span, hint="use ks for numbers or chi2 for categories"
        )
    return DriftCall(measure, about, _against(named.get(_AGAINST), span))


def _column_and_measure(
    given: list[exp.Expr], column: str | None, default: str, span: Span
) -> tuple[str, str]:
    words = [g.name for g in given]
    if len(words) == 1 and words[0].lower() in MEASURES and column is not None:
        return column, words[0].lower()
    if len(words) == 1 and words[0].lower() == (column or "").lower():
        return words[0], default
    # The name of a measure alone says nothing of a column.
    if len(words) == 1 and column is None and words[0].lower() not in MEASURES:
        return words[0], default
    if not words and column:
        return column, default
    if len(words) == 2 and words[1].lower() in MEASURES:
        return words[0], words[1].lower()
    wrong = words[-1] if words else ""
    raise CompileError(
        f"drift is about a column and one of {', '.join(MEASURES)}",
        span=span,
        hint=nearest(wrong, MEASURES) or f"for example {_EXAMPLE}, on the line of a column",
    )


def _against(node: exp.Expr | None, span: Span) -> Against:
    if node is None:
        return Against(batches=1)
    if not (isinstance(node, exp.Literal) and node.is_string):
        if isinstance(node, exp.Column | exp.Anonymous):
            return Against(relation=to_sql(node))
        raise CompileError(
            f"cannot compare with {to_sql(node)}",
            span=span,
            hint="'previous', 'last 7', a batch such as '2024-01', or a relation without quotes",
        )
    text = str(node.this).strip()
    if text.lower() == _PREVIOUS:
        return Against(batches=1)
    match = _LAST.fullmatch(text)
    if match and int(match.group(1)) > 0:
        return Against(batches=int(match.group(1)))
    if _LAST_OF_WHAT.fullmatch(text) or nearest(text.lower(), [_PREVIOUS]):
        raise CompileError(
            f"'{text}' is neither 'previous' nor a number of batches",
            span=locate(span, text),
            hint="against => 'previous', or 'last 7' for the seven batches before",
        )
    return Against(batch=text)
