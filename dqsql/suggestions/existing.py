"""Which suggestions a model already has, so that suggesting twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dqsql.dialect import parse_expression, to_sql
from dqsql.errors import DqsqlError
from dqsql.model.functions import name_and_arguments
from dqsql.model.monitors import AUTO
from dqsql.model.plan import Monitor
from dqsql.model.project import Annotation, Severity
from dqsql.model.wording import scalar_text
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict

# What is demanded of a column, and the checks and metrics that demand it.
_PROMISES = {
    promise: frozenset(names.split())
    for promise, names in {
        "completeness": "not_null completeness null_count primary_key",
        "values": "accepted_values histogram_values",
        # These may take several columns, whose tuples they are about.
        "unique": "unique primary_key uniqueness unique_value_ratio distinctness duplicate_count",
        "lower": "non_negative positive greater_than greater_than_or_equal_to in_range min",
        "upper": "in_range less_than less_than_or_equal_to max",
        "mean": "mean avg median",
        "stddev": "stddev variance",
        "min_length": "min_length",
        "max_length": "max_length",
        "pattern": "pattern matches",
        "type": "type_consistency data_type type_count",
        "volume": "row_count",
    }.items()
}


@dataclass
class Existing:
    """The promises and texts of a model's annotations, switched-off ones among them."""

    promises: set[tuple[str, str]] = field(default_factory=set)
    texts: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def from_annotations(cls, annotations: Iterable[Annotation]) -> Existing:
        """Read annotations; what does not parse promises nothing."""
        existing = cls()
        for annotation in annotations:
            try:
                ast = parse_expression(annotation.expression)
            except DqsqlError:
                continue
            column = (annotation.column or "").lower()
            existing.texts.add((column, _plain(ast)))
            existing.promises |= set(_promised(ast, column))
        return existing

    def has(self, suggestion: Suggestion) -> bool:
        """Whether an annotation says the same, or demands the same thing with other bounds."""
        column = (suggestion.column or "").lower()
        if (column, suggestion.promise) in self.promises:
            return True
        inside = _plain(parse_expression(suggestion.expression(inside=True)))
        named = _plain(parse_expression(suggestion.expression(inside=False)))
        return (column, inside) in self.texts or any(
            (about, named) in self.texts for about in ("", column)
        )

    def marked(self, suggestions: Iterable[Suggestion]) -> list[Suggestion]:
        """The suggestions, those that exist marked so, and no weaker forms that exist."""
        return [
            replace(s, verdict=SuggestionVerdict.EXISTS)
            if self.has(s)
            else replace(s, weaker=self._new(s.weaker))
            for s in suggestions
        ]

    def _new(self, weaker: Suggestion | None) -> Suggestion | None:
        """The weaker forms without those that exist."""
        if weaker is None:
            return None
        further = self._new(weaker.weaker)
        return further if self.has(weaker) else replace(weaker, weaker=further)


def _plain(ast: exp.Expr) -> str:
    """The text without the bound that a metric is compared with, and without quotes."""
    if isinstance(ast, exp.GTE | exp.LTE | exp.GT | exp.LT | exp.EQ | exp.Between):
        ast = ast.this
    return to_sql(ast).replace("`", "").lower()


def _promised(ast: exp.Expr, home: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk():
        if isinstance(node, exp.In) and isinstance(node.this, exp.Column):
            yield node.this.name.lower(), "values"
        name, arguments = name_and_arguments(node)
        column = home
        if arguments and isinstance(arguments[0], exp.Column):
            column = arguments[0].name.lower()
            if name in _PROMISES["unique"] and any(
                isinstance(a, exp.Column) for a in arguments[1:]
            ):
                # A key of several columns says nothing of one of them.
                continue
        for promise, names in _PROMISES.items():
            if name in names:
                yield ("" if promise == "volume" else column), promise
        named = [to_sql(a).replace("`", "") for a in arguments if isinstance(a, exp.Column)]
        if name == "references" and named:
            own = named[0].lower() != home
            relation = named[0] if own or len(named) < 2 else named[1]
            owner = home or named[0].lower()
            target = relation if home else (named[1] if len(named) > 1 else relation)
            yield owner, f"references {target}"


def of_monitor(monitor: Monitor) -> Suggestion:
    """What is watched automatically, as an annotation."""
    settings = {"severity": monitor.severity.value}
    for name, value in monitor.settings.options.items():
        is_list = isinstance(value, tuple)
        settings[name] = f"[{', '.join(map(str, value))}]" if is_list else scalar_text(value)
    if monitor.severity is Severity.ERROR:
        settings.pop("severity")
    call, _, rest = monitor.expression.partition("(")
    return Suggestion(
        rule=AUTO,
        promise=call,
        column=monitor.column,
        call=call,
        reason="watched automatically",
        arguments=(rest.removesuffix(")"),) if rest else (),
        settings=settings,
        takes_column=False,
    )
