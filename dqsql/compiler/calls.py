"""What is wrong with a call in an annotation, and how people may have meant it.

Told in the annotation's words: `@quantile needs 'rank'`, with an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from dqsql.compiler.arguments import plain
from dqsql.compiler.catalog import Macro
from dqsql.compiler.comparisons import number
from dqsql.compiler.misuse import locate
from dqsql.dialect import to_sql
from dqsql.errors import MacroError, Span, nearest
from dqsql.model.metric_traits import ValueRange, usual_demand, usual_operator

_COLUMN = "column"
_KEY = re.compile(r"(?:^|_)(?:id|key|code)$", re.IGNORECASE)
# What stands for an argument in an example, by the parameter's name.
_EXAMPLES: Mapping[str, str] = {
    _COLUMN: "the_column",
    "value": "'a', 'b'",
    "low": "0",
    "high": "100",
    "other": "other_column",
    "regex": "r'^[A-Z]+$'",
    "pattern": "'<letter>{2}-<digit>+'",
    "relation": "customers",
    "key": "id",
    "rank": "0.9",
    "determinant": "zip",
    "from": "from => other_column",
    "type": "'integral'",
    "condition": "amount > 0",
    "premise": "status = 'paid'",
}


# Settings that look like arguments.
_SETTINGS = ("after", "mostly", "name", "no_data", "scope", "segments", "severity", "tags", "where")


def _instead_of(name: str, macro: Macro) -> str:
    """What to write instead of an argument that a macro does not take."""
    definition = macro.definition
    if name in _SETTINGS:
        return f"it is a setting: @{macro.name} {{{name}: ..}}"
    if definition.catches_varargs:
        return f"write the values one after the other: @{macro.name}('a', 'b')"
    parameters = definition.parameters
    known = f"its parameters are {', '.join(parameters)}" if parameters else "it takes none"
    return nearest(name, parameters) or known


def refuse_wrong_call(
    macro: Macro, args: Sequence[exp.Expr], named: Mapping[str, exp.Expr], filled: bool, span: Span
) -> None:
    """Refuse arguments that a macro does not take, or that are missing.

    `filled` says that the first argument is the column of the line. Raises MacroError.
    """
    definition, at = macro.definition, locate(span, macro.name)
    parameters = definition.parameters
    given = parameters[: len(args)]
    if len(args) > len(parameters) and not definition.catches_varargs:
        raise MacroError(
            f"@{macro.name} got {_arguments(len(args))} and takes {len(parameters) or 'none'}",
            span=at,
            hint=f"its parameters are {', '.join(parameters)}"
            if len(parameters) > 1
            else f"write @{macro.name}",
        )
    for name in named:
        if name in given:
            raise MacroError(f"@{macro.name} got {name!r} twice", span=locate(span, name))
        if name not in parameters and not definition.catches_kwargs:
            raise MacroError(
                f"@{macro.name} has no parameter {name!r}",
                span=locate(span, name),
                hint=_instead_of(name, macro),
            )
    missing = [p for p in parameters[len(given) : definition.required] if p not in named]
    if missing:
        listed = " and ".join(repr(p) for p in missing)
        raise MacroError(
            f"@{macro.name} needs {listed}",
            span=at,
            hint=f"for example: @{_example(macro, args, named, filled)}",
        )


def _arguments(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _example(
    macro: Macro, args: Sequence[exp.Expr], named: Mapping[str, exp.Expr], filled: bool
) -> str:
    """The call with what it lacks, as it can be written in its place."""
    given = [part for arg in args for part in _parts(arg)]
    shown = [plain(a) for a in given[1 if filled else 0 :]]
    shown += [f"{k} => {to_sql(v)}" for k, v in named.items()]
    for name in macro.definition.parameters[len(given) : macro.definition.required]:
        if name not in named:
            example = _EXAMPLES.get(name, name)
            by_name = bool(named) and "=>" not in example
            shown.append(f"{name} => {example}" if by_name else example)
    return f"{macro.name}({', '.join(shown)})"


def _parts(arg: exp.Expr) -> list[exp.Expr]:
    """An argument as the two that people mean by `1-5` and `customers.id`."""
    if isinstance(arg, exp.Sub) and number(arg.left) is not None and number(arg.right) is not None:
        return [arg.left, arg.right]
    if isinstance(arg, exp.Column) and len(arg.parts) == 2 and _KEY.search(arg.name):
        return [exp.column(arg.table), exp.column(arg.name)]
    return [arg]


def compared(
    ast: exp.Expr,
    name: str,
    args: Sequence[exp.Expr],
    macro: Macro | None,
    within: ValueRange | None,
    home: str | None,
) -> str:
    """A metric that demands nothing, with a comparison: `@max(5)` as `@max <= 5`.

    `macro` is the metric's, None of a SQL aggregate; `within` its range; `home` the column beside
    which it stands.
    """
    rank = _only_rank(args, macro)
    if rank is not None:
        columns = [plain(a) for a in args if a is not rank]
        if not columns and home is None:
            columns = [_EXAMPLES[_COLUMN]]
        share = f"{_as_share(number(rank) or 0.0):.12g}"
        return f"@{name}({', '.join([*columns, share])}) {usual_demand(name.lower(), None)}"
    bounds = list(_bounds(args, macro, home))
    if not bounds:
        return f"@{to_sql(ast)} {usual_demand(name.lower(), within)}"
    kept = [plain(a) for a in args if not any(a is b for b in bounds)]
    needs_column = macro is None or macro.definition.parameters[:1] == (_COLUMN,)
    if home is None and needs_column and not kept:
        kept = [_EXAMPLES[_COLUMN]]
    call = f"@{name}({', '.join(kept)})" if kept else f"@{name}"
    numbers = sorted(_scaled(number(b) or 0.0, within) for b in bounds)
    if len(numbers) == 1:
        return f"{call} {usual_operator(name.lower())} {numbers[0]:.12g}"
    return f"{call} between {numbers[0]:.12g} and {numbers[-1]:.12g}"


def _only_rank(args: Sequence[exp.Expr], macro: Macro | None) -> exp.Expr | None:
    """The only number of a metric that wants a rank: that of `@quantile(95)` is no bound."""
    if macro is None or macro.definition.parameters[:2] != (_COLUMN, "rank"):
        return None
    numbers = [a for a in args if number(a) is not None]
    return numbers[0] if len(numbers) == 1 else None


def _bounds(args: Sequence[exp.Expr], macro: Macro | None, home: str | None) -> Iterator[exp.Expr]:
    """The numbers among arguments where the metric wants a column, or wants nothing any more."""
    parameters = (_COLUMN,) if macro is None else macro.definition.parameters
    filled = home is not None and parameters[:1] == (_COLUMN,)
    named = bool(args) and isinstance(args[0], exp.Column)
    for place, arg in enumerate(args, start=1 if filled and not named else 0):
        wants_number = place < len(parameters) and parameters[place] != _COLUMN
        if number(arg) is not None and not wants_number:
            yield arg


def _scaled(value: float, within: ValueRange | None) -> float:
    """A percentage of what is a share as that share."""
    return _as_share(value) if within is not None and within.is_share else value


def _as_share(value: float) -> float:
    return value / 100 if 1 < value <= 100 else value
