"""Names of columns in SQL that people write: their backticks and their letter case."""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import exp

from dqsql.dialect import parse_expression, quoted
from dqsql.errors import DqsqlError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Reserved in Spark's ANSI mode, or where a table may have an alias.
_RESERVED = frozenset(
    """
    all and anti any as authorization both case cast check collate column constraint create cross
    current_date current_path current_time current_timestamp current_user distinct else end escape
    except exists false fetch filter for foreign from full grant group having in inner intersect
    interval
    into is join lateral leading left like limit minus natural not null offset on only or order
    outer overlaps primary references right select semi session_user some sql table then
    to trailing true union unique unknown user using values when where with within
    """.split()  # noqa: SIM905 - a list of a hundred quoted words reads worse
)


# What has a letter case of its own: texts, and what follows a dot, which may be the key of a map.
_CASED = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\.(?:`(?:[^`]|``)*`|\w+))|`(?:[^`]|``)*`|[^'"`.]+|.""",
    re.DOTALL,
)
_QUOTED = re.compile(r"('(?:[^'\\]|\\.)*'|\.`(?:[^`]|``)*`)|`(?:[^`]|``)*`", re.DOTALL)


@lru_cache(maxsize=4096)
def names_in_lower_case(sql: str) -> str:
    """SQL text with the names of columns in lower case: Spark does not tell them apart by it.

    >>> names_in_lower_case("where Amount > 5 and kind = 'A' and labels.Key = 'b'")
    "where amount > 5 and kind = 'A' and labels.Key = 'b'"
    >>> names_in_lower_case("`It's` = 'A' or `Foo.Bar` > 2")
    "`it's` = 'A' or `foo.bar` > 2"
    """
    return _CASED.sub(lambda found: found[1] or found[0].lower(), sql)


def quoted_in_lower_case(sql: str) -> str:
    """SQL text with the quoted names of columns in lower case, and all else as it is.

    >>> quoted_in_lower_case("SUM(`Amount`) FILTER(WHERE `Kind` = 'A')")
    "SUM(`amount`) FILTER(WHERE `kind` = 'A')"
    """
    return _QUOTED.sub(lambda found: found[1] or found[0].lower(), sql)


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """A column's name as SQL text: in backticks unless it surely needs none."""
    return name if _needs_no_quotes(name) else quoted(name)


def plain_relation(name: str) -> str:
    """The name of a source or table as SQL text, its parts as `plain_name` writes them."""
    return name if "`" in name else ".".join(map(plain_name, name.split(".")))


def _needs_no_quotes(name: str) -> bool:
    if not _PLAIN.fullmatch(name) or name.lower() in _RESERVED:
        return False
    text = "f({0}, {0} is null or {0} >= 0 and {0} in (1) or {0} between 1 and 2) > 1"
    try:
        bare = parse_expression(text.format(name))
        safe = parse_expression(text.format(quoted(name)))
    except DqsqlError:
        return False
    return _unquoted(bare) == _unquoted(safe)


def _unquoted(ast: exp.Expr) -> exp.Expr:
    for identifier in ast.find_all(exp.Identifier):
        identifier.set("quoted", False)
    return ast
