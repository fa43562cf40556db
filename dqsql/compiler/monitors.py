"""What each monitor watches: the metrics that a plan computes for it.

Some monitors watch other metrics of numbers than of texts. Types are known only when the model's
view is there, so a plan holds the metrics of all families, and `for_types` takes out those that do
not fit before anything is scanned.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dqsql.compiler.auto import auto_annotations, fit_for_types, name_of, with_monitors
from dqsql.compiler.keys import batch_columns
from dqsql.compiler.trees import filtered_by
from dqsql.dialect import call, column, parse_expression, to_sql, unquoted
from dqsql.errors import AnnotationError, CompileError, Span, nearest
from dqsql.model.metric_traits import PATTERN_MATCHES
from dqsql.model.monitors import MonitorUse, WatchedMetric, monitor_specs
from dqsql.model.plan import Buffer, Family, Metric, Monitor, Plan, StateColumn, Watched
from dqsql.model.project import Annotation, CheckModel, CheckSettings
from dqsql.model.types import FLOATS, TIMES, is_number, type_of

# A setting of models, and the monitor that it asks for.
_CADENCE = "cadence"
# `@avh(amount)`, `@avh(amount, fpr => 0.1)`: the name, the column; the rest follows.
_OF_COLUMN = re.compile(r"\s*(\w+)\s*\(\s*(`(?:[^`]|``)+`|[^\W\d]\w*)\s*(?:,\s*|(?=\)))")
_NESTED = ("array<", "map<", "struct<", "variant")


def watched_metrics(kind: str, use: MonitorUse) -> Sequence[WatchedMetric]:
    """The metrics that a monitor needs.

    Raises CompileError: a monitor about a column stands where there is none, or the metric or the
    names of the columns are missing.
    """
    spec = monitor_specs()[kind]
    if spec.about_column and use.annotation.unbound is not None:
        hint = f"list the column by name, and write @{kind} beside it"
        hint += f"; or config({kind} = true) for all of them" if spec.configurable else ""
        raise AnnotationError(use.annotation.unbound[0], span=use.annotation.span, hint=hint)
    if spec.about_column and use.annotation.column is None:
        hint = "write it on the line of a column"
        hint += f", or config({kind} = true) for all of them" if spec.configurable else ""
        if use.arguments:
            plain = re.fullmatch(r"`?\w+`?", use.arguments[0])
            near = nearest(use.arguments[0], use.model.columns or ()) if plain else None
            hint = near or f"give it a name in the SELECT, and write @{kind} beside it"
        raise CompileError(f"@{kind} is about a column", span=use.annotation.span, hint=hint)
    return spec.watches(use)


def with_named_columns(model: CheckModel, is_check: Callable[[str], bool]) -> CheckModel:
    """The model with `@avh(amount)`, which stands elsewhere, as `@avh` beside its column.

    What `is_check`, too, and has a text, such as `@pattern(code, '<digit>+')`, is none of these.
    """
    annotations = tuple(_beside_its_column(a, model, is_check) for a in model.annotations)
    return replace(model, annotations=annotations)


def _beside_its_column(
    annotation: Annotation, model: CheckModel, is_check: Callable[[str], bool]
) -> Annotation:
    named = _OF_COLUMN.match(annotation.expression)
    spec = None if named is None else monitor_specs().get(named[1].lower())
    if named is None or spec is None or not spec.about_column or annotation.column is not None:
        return annotation
    rest = annotation.expression[named.end() :]
    if re.search("['\"]", rest) and is_check(spec.name):
        return annotation
    name = unquoted(named[2])
    if model.columns is not None:
        # One that the SELECT lacks is for the compiler to refuse.
        alike = [c for c in model.columns if c.lower() == name.lower()]
        name = name if name in alike else next(iter(alike), "")
    expression = named[1] + ("" if rest.strip() == ")" else f"({rest}")
    if not name:
        return annotation
    return replace(annotation, expression=expression, column=name, unbound=None)


def key_columns(model: CheckModel) -> frozenset[str]:
    """The columns that name batches and segments, in lower case."""
    return frozenset(c.lower() for c in (*model.config.segment_by, *batch_columns(model)))


def configured_annotations(model: CheckModel) -> list[Annotation]:
    """The annotations that `config(avh = true)` stands for: one for every column.

    Left out are columns that have the annotation already, and those that name batches and segments.
    Raises CompileError: the columns are not known from the text.
    """
    new_annotations = list(_declared_cadence(model))
    about_columns = (s.name for s in monitor_specs().values() if s.about_column)
    for kind in sorted(about_columns):
        if not model.config.extra.get(kind):
            continue
        place = Span(model.path)
        if model.columns is None:
            raise CompileError(
                f"config({kind} = ..) needs the names of the columns",
                span=place,
                hint="list the columns in the SELECT instead of *",
            )
        taken = {
            a.column.lower()
            for a in model.annotations
            if a.column and name_of(a.expression) == kind
        }
        taken |= key_columns(model)
        new_annotations += [
            Annotation(kind, CheckSettings(), replace(place, text=f"config({kind} = ..)"), c)
            for c in model.columns
            if c.lower() not in taken
        ]
    known = replace(model, annotations=(*model.annotations, *new_annotations))
    return [*new_annotations, *auto_annotations(known)]


def _declared_cadence(model: CheckModel) -> Iterator[Annotation]:
    """`config(cadence = 'daily')`, where no annotation says it."""
    given = model.config.extra.get(_CADENCE)
    is_declared = any(name_of(a.expression) == _CADENCE for a in model.annotations)
    if given and not is_declared:
        own = re.search(rf"\b{_CADENCE}\b\s*=", model.raw_sql)
        place = (
            Span(model.path)
            if own is None
            else Span.at_offset(model.path, model.raw_sql, own.start())
        )
        yield Annotation(_cadence_call(given), CheckSettings(), replace(place, text=_CADENCE))


def with_declared_cadence(model: CheckModel, annotation: Annotation) -> Annotation:
    """The annotation; a `@cadence` without a rhythm has that of `config(cadence = 'daily')`."""
    given = model.config.extra.get(_CADENCE)
    if not given or annotation.expression.strip().lower() not in (_CADENCE, f"{_CADENCE}()"):
        return annotation
    return replace(annotation, expression=_cadence_call(given))


def _cadence_call(rhythm: object) -> str:
    return "{}('{}')".format(_CADENCE, str(rhythm).replace("'", ""))


def family_of(spark_type: str) -> Family:
    """Whether a column of a Spark type is watched as numbers, dates and times, or texts."""
    if spark_type in TIMES:
        return Family.TIME
    return Family.NUMERIC if is_number(spark_type) else Family.TEXT


def batch_argument(model: CheckModel) -> str:
    """The batch of a row as a further argument of a metric; "" for a model without batches."""
    return "" if model.config.batch_by is None else f", {model.config.batch_by}"


def fits(family: Family, spark_type: str, watched: Collection[Family]) -> bool:
    """Whether a metric of a family is for columns of a type.

    `watched` are the families of all metrics of its monitor: where no time is among them, dates and
    times are watched as texts.
    """
    if family is Family.FLOATING:
        return spark_type in FLOATS
    own = family_of(spark_type)
    if own is Family.TIME and own not in watched:
        own = Family.TEXT
    if family is Family.STRING:
        return own is Family.TEXT and not spark_type.startswith(_NESTED)
    return family in (Family.ANY, own)


def for_types(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan without the metrics that monitors watch of columns of another type only.

    `types` gives the Spark types of the model's columns.
    """
    plan = fit_for_types(plan, types)
    if not any(w.family is not Family.ANY for m in plan.monitors for w in m.watched):
        return plan
    return with_monitors(plan, tuple(_for_type(m, types) for m in plan.monitors))


def _for_type(monitor: Monitor, types: Mapping[str, str]) -> Monitor:
    families = {w.family for w in monitor.watched}
    kept = tuple(
        w for w in monitor.watched if fits(w.family, type_of(w.about or "", types), families)
    )
    return replace(monitor, watched=kept)


def with_matches(plan: Plan, monitor: Monitor, pattern: str, matching: exp.Expr) -> Plan:
    """The plan with one more count for a monitor: its values that match a pattern.

    `matching` is the aggregate that counts them; the rows are those of the monitor's `where`.
    """
    where = monitor.settings.where
    scan = matching if where is None else filtered_by(matching, parse_expression(where))
    parameters = pattern if where is None else f"{pattern} where {where}"
    slug = re.sub(r"\W+", "_", monitor.column or "", flags=re.ASCII).strip("_").lower()
    name = f"{slug}__matches_{zlib.crc32(to_sql(scan).encode()):08x}".lstrip("_")
    alias = f"{name}__{monitor.id}"
    metric = Metric(
        alias=alias,
        name=PATTERN_MATCHES,
        column=monitor.column,
        parameters=parameters,
        text=f"{PATTERN_MATCHES}({monitor.column}, {pattern!r})",
        finish=column(name),
        states=(name,),
        where=where,
    )
    watched = (*monitor.watched, Watched(Family.ANY, "matches", alias, monitor.column))
    monitors = tuple(
        replace(m, watched=watched) if m.id == monitor.id else m for m in plan.monitors
    )
    states = plan.states
    if name not in {s.name for s in states}:
        merge = call("sum", column(name))
        states = (*states, StateColumn(name, scan, merge, Buffer.FIXED, (name,)))
    return replace(plan, monitors=monitors, metrics=(*plan.metrics, metric), states=states)
