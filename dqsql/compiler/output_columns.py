"""The columns of a model's SELECT, as checks name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from dqsql.compiler.aggregates.registry import find_own
from dqsql.compiler.misuse import locate
from dqsql.compiler.predicates import MetricUse
from dqsql.errors import CompileError, UnknownNameError, nearest
from dqsql.model.plan import StateColumn
from dqsql.model.project import Annotation, CheckModel, Target

CASE_SENSITIVE = "spark.sql.caseSensitive"


def case_matters(target: Target) -> bool:
    """Whether Spark tells columns apart by upper and lower case in sessions of a target."""
    return target.spark_conf.get(CASE_SENSITIVE, "").lower() == "true"


@dataclass(frozen=True)
class OutputColumns:
    """The columns that the checks of a model may name; any where the SELECT does not list them."""

    model: CheckModel
    case_matters: bool

    @cached_property
    def known(self) -> tuple[str, ...] | None:
        """Their names, None where they are not known."""
        return self.model.columns

    @cached_property
    def _counted(self) -> Counter[str]:
        known = self.known or ()
        return Counter(known if self.case_matters else map(str.lower, known))

    def _number_of(self, name: str) -> int:
        return self._counted[name if self.case_matters else name.lower()]

    @property
    def tells_case(self) -> bool:
        """Whether columns may differ by letter case alone: Spark is told, or a SELECT has such."""
        known = self.known or ()
        return self.case_matters or len({name.lower() for name in known}) < len({*known})

    def require(self, metrics: Sequence[MetricUse], annotation: Annotation) -> None:
        """Refuse metrics over a column that is not there, or twice.

        Raises CompileError, UnknownNameError.
        """
        known = self.known
        if known is None:
            return
        for use in metrics:
            for reference in row_columns(use.sql):
                head, last = reference.parts[0].name, reference.parts[-1].name
                same = self._number_of(head)
                if same > 1:
                    raise CompileError(
                        f"{same} columns of {self.model.name} are called {head!r}",
                        span=locate(annotation.span, head),
                        hint=f"give one another name: .. as {head}_2",
                    )
                if same:
                    continue
                hint = f"its columns are {', '.join(known)}; a text needs quotes: '{head}'"
                if len(reference.parts) > 1 and self._number_of(last):
                    hint = f"checks see the columns of the SELECT, not its tables: write {last}"
                raise UnknownNameError(
                    f"the model {self.model.name} has no column {head!r}",
                    span=locate(annotation.span, head),
                    hint=nearest(head, known) or hint,
                )


def row_columns(metric: exp.Expr) -> Iterator[exp.Column]:
    """The references to the model's columns in a metric; not those to a frequency table's."""
    if isinstance(metric, exp.Column):
        yield metric
        return
    own = find_own(metric)
    children = own.over_rows(metric.expressions) if own else list(metric.iter_expressions())
    for child in children:
        yield from row_columns(child)


def columns_of(states: Iterable[StateColumn]) -> set[str]:
    """The columns of the model's SELECT that states are computed of."""
    parts = (part for state in states for part in state.over_rows)
    return {c.parts[0].name for part in parts for c in row_columns(part)}
