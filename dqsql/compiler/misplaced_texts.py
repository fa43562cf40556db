"""Refuses texts that stand where people mean a column, or a condition."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from dqsql.compiler.misuse import ORDERINGS, locate
from dqsql.compiler.trees import called, is_aggregate_node
from dqsql.dialect import column, to_sql, tokenize
from dqsql.errors import CompileError, Span
from dqsql.model.project import DBT_TEST, Annotation

_COMPARISONS = (
    *(*ORDERINGS, exp.EQ, exp.NEQ, exp.NullSafeEQ),
    *(exp.In, exp.Is, exp.Like, exp.RegexpLike),
)
_CONNECTORS = (exp.And, exp.Or, exp.Not)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)
_JOINS_TEXTS = ("listagg", "string_agg")


def refuse_misplaced_texts(
    tree: exp.Expr,
    annotation: Annotation,
    written: Iterable[str | None],
    columns: Collection[str] | None,
) -> None:
    """Refuse `"amount" > 5` and `@satisfies('amount > 5')`.

    `tree` was made of the texts that are `written`; `columns` are those of the model, None where
    they are not known. Tests of dbt mean what they mean to dbt. Raises CompileError.
    """
    if DBT_TEST not in annotation.settings.options:
        _refuse_quoted_columns(tree, written, columns or (), annotation.span)
        _refuse_text_conditions(tree, annotation.span)


def _refuse_text_conditions(tree: exp.Expr, span: Span) -> None:
    """Refuse `@satisfies('amount > 5')`: a text is neither true nor false."""
    for text in tree.find_all(exp.Literal):
        is_word = text.this.lower() in ("true", "false")
        if text.is_string and not is_word and _is_condition(text):
            raise CompileError(
                f"{to_sql(text)} is a text, not a condition",
                span=locate(span, text.this),
                hint="write the condition without quotes around it",
            )


def _is_condition(node: exp.Expr) -> bool:
    """Whether a node stands where only a condition may stand."""
    parent = node.parent
    if isinstance(parent, exp.Paren):
        return _is_condition(parent)
    if isinstance(parent, exp.If):
        case = parent.parent
        if node.arg_key == "this":
            # In `case x when 'a'` it is a value.
            return not (isinstance(case, exp.Case) and case.this is not None)
        return case is not None and isinstance(case.args.get("default"), exp.Boolean)
    return isinstance(parent, _CONNECTORS) or (parent is not None and called(parent) == "count_if")


def _refuse_quoted_columns(
    tree: exp.Expr, written: Iterable[str | None], columns: Collection[str], span: Span
) -> None:
    """Refuse `"amount" > 5`, a text to Spark, where another database would take the column.

    Only where a text makes no sense.
    """
    texts = [text for text in written if text and '"' in text]
    known = {name.lower() for name in columns} if texts else set()
    named = {
        token.text
        for text in texts
        for token in tokenize(text)
        if text[token.start] == '"' and token.text.lower() in known
    }
    for literal in tree.find_all(exp.Literal) if named else ():
        if literal.is_string and literal.this in named and _is_for_column(literal):
            raise CompileError(
                f'"{literal.this}" is a text in Spark\'s SQL, not the column {literal.this}',
                span=locate(span, literal.this),
                hint=f"for the column, write {to_sql(column(literal.this))}; for the text,"
                f" '{literal.this}'",
            )


def _is_for_column(literal: exp.Expr) -> bool:
    """Whether a text stands where only a column makes sense.

    In arithmetic, beside an order, as what is aggregated; and in a condition or an aggregate that
    is about no column.
    """
    node = literal
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    parent = node.parent
    if isinstance(parent, (*ORDERINGS, *_ARITHMETIC)):
        return True
    if parent is not None and is_aggregate_node(parent) and called(parent) not in _JOINS_TEXTS:
        return True
    while node.parent is not None and not _is_whole(node):
        node = node.parent
    return node.find(exp.Column) is None


def _is_whole(node: exp.Expr) -> bool:
    """Whether a node says something by itself: a comparison, an aggregate or a condition."""
    if isinstance(node, _COMPARISONS) or is_aggregate_node(node):
        return True
    return isinstance(node.parent, _CONNECTORS) or (
        isinstance(node.parent, exp.If) and node.arg_key == "this"
    )
