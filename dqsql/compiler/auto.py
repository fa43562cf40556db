"""`monitors: auto`: the monitors of a model that nobody has annotated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlglot import exp

from dqsql.compiler.keys import batch_columns, check_batch_by
from dqsql.errors import Span
from dqsql.model.monitors import AUTO, COLUMN_TYPES, FEATURES
from dqsql.model.plan import Monitor, Plan
from dqsql.model.project import Annotation, CheckModel, CheckSettings, Severity
from dqsql.model.types import is_textless, type_of
from dqsql.model.wording import first_of

SETTING = "monitors"
# Of wider models only so many columns are watched, and fewer together by `@novelty`.
MAX_COLUMNS, MAX_NOVELTY = 150, 40
_OF_COLUMNS = frozenset(["columns", "alive", "keys"])
_NAMED = _OF_COLUMNS | {"novelty"}
# Names of columns that may be keys: of others, values would be counted for nothing.
_KEY = re.compile(
    r"(?:^|_)(?i:id|key|uuid|guid|code|no|nr|number|ref|reference|hash"
    r"|sku|ean|upc|gtin|asin|isbn|isin|iban|vin)$"
    # orderId, CustomerID and InvoiceNo, and neither paid nor casino
    r"|[a-z](?:Id|ID|Key|Uuid|UUID|Guid|GUID|Code|No|Nr|Number|Ref|Hash|Sku|SKU)$"
)
# Casts to them take the day of a time.
_DAYS = {exp.DataType.Type.DATE, exp.DataType.Type.DATE32}
_UNFIT = ("array", "map", "struct", "binary", "variant", "interval")


def features_of(model: CheckModel) -> tuple[str, ...]:
    """What `monitors` asks for; empty where it does not."""
    given = model.config.extra.get(SETTING)
    if given == AUTO:
        return FEATURES
    return tuple(f for f in FEATURES if isinstance(given, tuple) and f in given)


def lacks_columns(model: CheckModel) -> bool:
    """Whether the monitors of columns cannot be had, as their names are not in the text."""
    return model.columns is None and bool(_NAMED & {*features_of(model)})


def with_features(model: CheckModel, features: tuple[str, ...]) -> CheckModel:
    """The model with some features."""
    extra = {**model.config.extra, SETTING: features}
    return replace(model, config=replace(model.config, extra=extra))


@dataclass(frozen=True)
class _Auto:
    model: CheckModel
    features: tuple[str, ...]

    def annotations(self) -> Iterator[Annotation]:
        """What is watched, without what the model's own annotations watch already."""
        own = {
            (a.column.lower() if a.column else None, name_of(a.expression))
            for a in self.model.annotations
        }
        own |= {(None, f"{name_of(a.expression)} {_first(a)}") for a in self.model.annotations}
        for made in (*self._of_model(), *self._of_columns()):
            column = made.column.lower() if made.column else None
            about = {
                (column, name_of(made.expression)),
                (column, f"{name_of(made.expression)} {_first(made)}"),
            }
            several = made.expression.startswith("anomaly(")
            if not (about - ({(column, "anomaly")} if several else set())) & own:
                yield made

    def _of_model(self) -> Iterator[Annotation]:
        config, features = self.model.config, self.features
        batches = config.batch_by is not None
        segments = {"segments": True} if config.segment_by else {}
        if "volume" in features:
            yield self._made("anomaly(row_count)", options=segments)
        if "cadence" in features and batches:
            yield self._made("cadence")
        if "segments" in features and config.segment_by:
            yield self._made("expected_segments")
        if "schema" in features:
            yield self._made("schema", options={"allow": ("added",)})
        known = self.model.columns
        if "novelty" in features and known is not None and 1 < len(known) <= MAX_NOVELTY:
            yield self._made("novelty")

    @property
    def fit_columns(self) -> list[str]:
        """The columns that can be watched, though there may be too many of them."""
        types = self.model.config.extra.get(COLUMN_TYPES, {})
        unfit = {c.lower() for c, kind in types.items() if _is_unfit(kind)}
        unfit |= same_in_a_batch(self.model, types)
        return [c for c in self.model.columns or () if c.lower() not in unfit]

    def _of_columns(self) -> Iterator[Annotation]:
        # That a segment is gone is told by its name, but not how many rows are of none.
        segments = {c.lower() for c in self.model.config.segment_by}
        for name in self.fit_columns[:MAX_COLUMNS]:
            if "columns" in self.features:
                yield self._made("avh", name)
            if name.lower() in segments:
                continue
            if "alive" in self.features:
                yield self._made("alive", name)
            if "keys" in self.features and _KEY.search(name):
                yield self._made("stays_unique", name)

    def _made(
        self,
        expression: str,
        column: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Annotation:
        # Nobody has looked at it: it does not stop a run.
        severity = self.model.config.severity or Severity.WARN
        settings = CheckSettings(severity=severity, tags=(AUTO,), options=options or {})
        return Annotation(expression, settings, Span(self.model.path, text=expression), column)


def auto_annotations(model: CheckModel) -> Iterator[Annotation]:
    """The annotations that `monitors: auto` stands for.

    Columns that name batches are not watched by themselves, nor what the model's own annotations
    watch. Of those that name segments the shares of values are.
    """
    features = features_of(model)
    if features:
        yield from _Auto(model, features).annotations()


def left_out(model: CheckModel, features: tuple[str, ...]) -> Iterator[str]:
    """What a person should know of what `monitors: auto` does not watch.

    `features` are those of the model that its `scan_budget` leaves.
    """
    if dropped := [f for f in features_of(model) if f not in features]:
        yield f"scan_budget leaves no room for {', '.join(dropped)} of `monitors: auto`"
    more = _Auto(model, features).fit_columns[MAX_COLUMNS:] if _OF_COLUMNS & {*features} else []
    own = {a.column.lower() for a in model.annotations if a.column}
    own |= {_first(a).lower() for a in model.annotations}
    if unwatched := [name for name in more if name.lower() not in own]:
        verb = "is" if len(unwatched) == 1 else "are"
        yield (
            f"`monitors` watches {MAX_COLUMNS} columns by itself: {first_of(unwatched, 3)} {verb}"
            " not watched, for which @avh beside the column is needed"
        )


def fit_for_types(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan without automatic monitors of columns whose type they say nothing about."""
    same = same_in_a_batch(plan.model, types)
    unfit = {
        m.id
        for m in plan.monitors
        if AUTO in m.tags and m.column
        if _is_unfit(type_of(m.column, types)) or m.column.lower() in same
    }
    return without_monitors(plan, unfit)


def without_monitors(plan: Plan, ids: Collection[str]) -> Plan:
    """The plan without some monitors, and without what is measured for them alone."""
    if not ids:
        return plan
    return with_monitors(plan, tuple(m for m in plan.monitors if m.id not in ids))


def with_monitors(plan: Plan, monitors: tuple[Monitor, ...]) -> Plan:
    """The plan with fewer monitors, or with some that watch less, and what is measured for them."""
    before = {alias for m in plan.monitors for alias in m.metrics}
    needed = {alias for m in monitors for alias in m.metrics}
    needed |= {alias for c in plan.checks for alias in c.metrics}
    metrics = tuple(m for m in plan.metrics if m.alias in needed or m.alias not in before)
    dropped = {s for m in plan.metrics for s in m.states} - {s for m in metrics for s in m.states}
    # Moments are merged with the help of others of their group.
    kept = {n for s in plan.states if s.name not in dropped for n in s.group}
    states = tuple(s for s in plan.states if s.name not in dropped or s.name in kept)
    return replace(plan, monitors=monitors, metrics=metrics, states=states)


def same_in_a_batch(model: CheckModel, types: Mapping[str, str] = MappingProxyType({})) -> set[str]:
    """The columns that `batch_by` reads, but times of which it takes the day; in lower case.

    What may be such a time is none of them, as long as its type is not known.
    """
    batch_by = check_batch_by(model)
    while isinstance(batch_by, exp.Paren) or (
        isinstance(batch_by, exp.Cast) and batch_by.is_type(*exp.DataType.TEMPORAL_TYPES - _DAYS)
    ):
        batch_by = batch_by.this
    is_column = isinstance(batch_by, exp.Column)
    read = {c.lower(): type_of(c, types) for c in batch_columns(model)}
    return {
        c for c, kind in read.items() if is_column or (kind and not kind.startswith("timestamp"))
    }


def _is_unfit(kind: str) -> bool:
    return kind.startswith(_UNFIT) or is_textless(kind)


def name_of(expression: str) -> str:
    """The name that an annotation begins with, in lower case."""
    return re.split(r"\W", expression.strip().lower(), maxsplit=1)[0]


def _first(annotation: Annotation) -> str:
    """The first word in the parentheses of a call."""
    match = re.match(r"\w+\(\s*(\w+)", annotation.expression.strip().lower())
    return match[1] if match else ""
