"""Spark's SQL for sqlglot, in which every function call is an opaque name with arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from dqsql.errors import ConfigError

_TYPES: dict[object, str] = {}
# Checks here and keywords of statements elsewhere; types that Spark does not have.
_WORDS = frozenset(
    {"UNIQUE", "SCHEMA", "REFERENCES", "INDEX", "COLUMN", "RANGE", "BIGDECIMAL", "BIGNUMERIC"}
)
# max_by(value, order, k)
_TOP_K = 3
_KEEP_FUNCTION_PARSERS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM")


class OpaqueSpark(Spark):
    """Spark SQL in which function calls stay opaque and doubled quotes are escapes (Spark 4)."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with fewer keywords."""

        STRING_ESCAPES: ClassVar = ["\\", "'", '"']
        KEYWORDS: ClassVar = {
            word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word not in _WORDS
        }

    class Parser(SparkParser):
        """Spark's grammar without the knowledge of functions."""

        FUNCTIONS: ClassVar = {}
        # `any(x > 0)` is an aggregate in Spark, and elsewhere a word before a subquery.
        NO_PAREN_FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name != "ANY"
        }
        FUNCTION_PARSERS: ClassVar = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in _KEEP_FUNCTION_PARSERS
        }

        def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
            """A cast; `1.5BD` is written again as it was, not as a cast of a text."""
            if self._prev.text.upper() != "BD":
                return super().build_cast(strict, **kwargs)
            value = kwargs["this"]
            if not isinstance(value, exp.Literal) or value.is_string:
                self.raise_error("BD follows a number")
            return exp.TryCast(this=value, to=exp.DataType(this=exp.DType.BIGDECIMAL))

        def _parse_between(self, this: exp.Expr | None) -> exp.Between:
            """`between 5 and 10`; sqlglot takes `between 5 10` for that, too."""
            if isinstance(this, (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)):
                this = exp.Paren(this=this)
            symmetric = True if self._match_text_seq("SYMMETRIC") else None
            low = self._parse_bitwise()
            if low is not None and not self._match(TokenType.AND):
                self.raise_error("between lacks its and: x between 0 and 9")
            high = self._parse_bitwise()
            return self.expression(exp.Between(this=this, low=low, high=high, symmetric=symmetric))

    class Generator(SparkGenerator):
        """Spark's writing without what dqsql's statements never need, which took half the time."""

        TRANSFORMS: ClassVar = {
            kind: write
            for kind, write in SparkGenerator.TRANSFORMS.items()
            # Rewrites QUALIFY, DISTINCT ON and UNNEST, and walks every statement for each.
            if kind is not exp.Select
        }
        # Spark takes a WITH in a subquery; others are searched for it.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """A cast; JSON, for which Spark's looks, is an opaque function here."""
            if expression.to.this is exp.DType.BIGDECIMAL:
                return f"{self.sql(expression, 'this')}BD"
            if expression.to.expressions:
                return str(super().cast_sql(expression, safe_prefix))
            return str(Generator.cast_sql(self, expression, safe_prefix))

        def datatype_sql(self, expression: exp.DataType) -> str:
            """A type; plain ones are written once."""
            name = expression.this
            if any(value for key, value in expression.args.items() if key != "this"):
                return str(super().datatype_sql(expression))
            if name not in _TYPES:
                _TYPES[name] = str(super().datatype_sql(expression.copy()))
            return _TYPES[name]


class OpaqueSpark41(OpaqueSpark):
    """The same, written for Spark 4.1: its `max_by` gives one value, and not the k largest."""

    class Generator(OpaqueSpark.Generator):
        """Writes what Spark 4.1 lacks in other words."""

        def anonymous_sql(self, expression: exp.Anonymous) -> str:
            """A call; one of the k largest is written in other words."""
            if _is_top(expression):
                return self._top(expression)
            return str(super().anonymous_sql(expression))

        def filter_sql(self, expression: exp.Filter) -> str:
            """An aggregate of some rows."""
            if not _is_top(expression.this):
                return str(super().filter_sql(expression))
            return self._top(
                expression.this, f" FILTER({self.sql(expression, 'expression').strip()})"
            )

        def _top(self, call: exp.Expr, rows: str = "") -> str:
            """All of some `rows` are collected, sorted and cut."""
            value, order, k = map(self.sql, call.expressions)
            pairs = f"collect_list(named_struct('by', {order}, 'value', {value})){rows}"
            return f"transform(slice(sort_array({pairs}, false), 1, {k}), top_ -> top_.value)"


def _is_top(call: object) -> bool:
    """Whether an aggregate gives the k largest."""
    if not isinstance(call, exp.Anonymous) or len(call.expressions) != _TOP_K:
        return False
    return str(call.this).lower() == "max_by"


def usable(dialect: Spark) -> Spark:
    """The dialect, where sqlglot lets its classes be extended.

    Its compiled build refuses that when such a class is first used: see `sqlglot_build`. Raises
    ConfigError.
    """
    try:
        dialect.parser()
    except TypeError:
        raise ConfigError(
            "sqlglot's compiled build (the package sqlglotc) was imported before dqsql, which"
            " cannot extend its dialects then",
            hint="import dqsql before sqlglot and what uses it, or pip uninstall sqlglotc",
        ) from None
    return dialect
