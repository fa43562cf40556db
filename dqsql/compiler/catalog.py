"""The names an annotation may use: check macros, metric macros, monitors, SQL functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dqsql.errors import Span, UnknownNameError, nearest
from dqsql.model.functions import AGGREGATES, EXPECT, MONITORS, SCALARS
from dqsql.templating import MacroDef, MacroLibrary


@dataclass(frozen=True)
class Macro:
    """A check or metric macro as annotations see it."""

    name: str
    kind: str
    definition: MacroDef

    @property
    def takes_column(self) -> bool:
        """Whether the macro has a parameter that a column's context can fill."""
        return bool(self.definition.parameters) or self.definition.catches_varargs

    def has_room_for(self, arguments: int) -> bool:
        """Whether the macro takes that many positional arguments."""
        return self.definition.catches_varargs or arguments <= len(self.definition.parameters)


class Catalog:
    """Looks names up in the order that DESIGN fixes: check, metric, aggregate, scalar function."""

    def __init__(self, library: MacroLibrary, functions: Iterable[str] = ()) -> None:
        self.library = library
        self._macros = {
            (kind, name.removeprefix(f"{kind}_")): Macro(name.removeprefix(f"{kind}_"), kind, m)
            for name, m in library.macros.items()
            for kind in ("check", "metric")
            if name.startswith(f"{kind}_")
        }
        self._functions = frozenset(f.lower() for f in functions)

    def check(self, name: str) -> Macro | None:
        """The check macro `name`, or None."""
        return self._macros.get(("check", name.lower()))

    def metric(self, name: str) -> Macro | None:
        """The metric macro `name`, or None."""
        return self._macros.get(("metric", name.lower()))

    def is_aggregate(self, name: str) -> bool:
        """Whether Spark has an aggregate function of that name."""
        return name.lower() in AGGREGATES

    def is_scalar(self, name: str) -> bool:
        """Whether Spark or the project has a scalar function of that name."""
        return name.lower() in SCALARS or name.lower() in self._functions

    @property
    def annotation_names(self) -> frozenset[str]:
        """Names that may stand directly behind `@`."""
        return frozenset(name for _, name in self._macros) | MONITORS | {EXPECT}

    def unknown(self, name: str, span: Span, columns: Sequence[str] = ()) -> UnknownNameError:
        """The error for a name that is nothing that may stand in a check."""
        if name.lower() in {c.lower() for c in columns}:
            return UnknownNameError(
                f"the column {name!r} stands outside an aggregate",
                span=span,
                hint="use an aggregate of it, or @satisfies(..) for a condition on every row",
            )
        return UnknownNameError(
            f"unknown check, metric or function {name!r}",
            span=span,
            hint=nearest(name, self.annotation_names | AGGREGATES)
            or "dqsql ls --resource-type macro lists what there is",
        )
