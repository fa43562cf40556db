"""What stored states are about: the expressions and types behind the columns that they read.

A check says `sum(x)`, and what x is stands in the SELECT. Where the SELECT gives x another
expression, or its source another type, the states of earlier batches are about something else. So
the names of state columns are made anew from what their columns are, once Spark has told the types:
earlier states are then left out of cumulative metrics, which start anew. `batch_by` concerns all
states alike; see `Meaning.same_batches`. Other rows, and other expressions in the models that the
SELECT reads, start nothing anew: they are told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlglot import exp

from dqsql.compiler.keys import check_batch_by, short_hash
from dqsql.compiler.made import Definitions, rows_of, upstream_of
from dqsql.compiler.output_columns import columns_of
from dqsql.compiler.states import ROWS
from dqsql.compiler.trees import renamed
from dqsql.dialect import to_sql
from dqsql.model.plan import FrequencyTable, Metric, Plan, StateColumn
from dqsql.model.project import CheckModel, Scope
from dqsql.model.types import WHOLE_NUMBERS

_OTHER_ROWS = "the SELECT has another FROM, WHERE or the like than before"


@dataclass(frozen=True)
class Meaning:
    """What the batches of a model, and the columns that cumulative metrics read, are made from.

    `columns` has for each column, in lower case, a hash of its expressions and its Spark type;
    `batch_type` is the Spark type of `batch_by`, `batch_made` a hash of the expressions behind it
    (empty: not known), `segment_by` the columns of segments (None: not known). `rows` has a hash
    of what decides which rows the SELECT has, under "", and of what each model upstream makes
    of them and of the columns, by its name; nothing without cumulative metrics. `watched` has a
    hash of the expressions of each column that monitors compare with its history. It is stored with
    each batch in the ledger, as JSON.
    """

    batch_by: str = ""
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    batch_type: str = ""
    segment_by: tuple[str, ...] | None = None
    batch_made: str = ""
    rows: Mapping[str, str] = field(default_factory=dict)
    watched: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        plan: Plan,
        types: Mapping[str, str],
        batch_type: str = "",
        models: Iterable[CheckModel] = (),
    ) -> Meaning:
        """The meaning of a plan whose model has columns of these Spark types.

        `models` are those of the project, of which it may read some.
        """
        wanted = {n for m in plan.metrics if m.scope is Scope.CUMULATIVE for n in m.states}
        read = _columns(s for s in plan.states if s.name in wanted)
        known, definitions = _lower(types), Definitions.of(plan.model.sql)
        columns = {c: (_hash(definitions.behind(c)), known.get(c, "")) for c in sorted(read)}
        by = check_batch_by(plan.model)
        names = set() if by is None else {c.name.lower() for c in by.find_all(exp.Column)}
        made = _hash([definitions.behind(name) for name in sorted(names)])
        rows: dict[str, str] = {}
        if wanted:
            made_upstream = upstream_of(plan.model, models, read)
            rows = {"": _hash(rows_of(plan.model.sql))}
            rows |= {name: _hash(texts) for name, texts in made_upstream.items()}
        own = {alias for monitor in plan.monitors for alias in monitor.metrics}
        compared = {n for m in plan.metrics if m.alias in own for n in m.states}
        seen = _columns(s for s in plan.states if s.name in compared)
        return cls(
            batch_by_text(plan.model),
            columns,
            batch_type,
            plan.model.config.segment_by,
            made,
            rows,
            {c: _hash(definitions.computed(c)) for c in sorted(seen & known.keys())},
        )

    @classmethod
    @lru_cache(maxsize=1024)
    def read(cls, text: str) -> Meaning | None:
        """What `text` said; None for a text that is none. Most batches of a model share one."""
        try:
            record = json.loads(text)
            columns = {str(c): (str(h), str(t)) for c, (h, t) in record["columns"].items()}
            segments = record.get("segment_by")
            segment_by = None if segments is None else tuple(map(str, segments))
            return cls(
                str(record["batch_by"]),
                columns,
                str(record.get("batch_type", "")),
                segment_by,
                str(record.get("batch_made", "")),
                dict(record.get("rows", {})),
                dict(record.get("watched", {})),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @property
    def text(self) -> str:
        """The meaning as text."""
        return json.dumps(asdict(self), sort_keys=True)

    def same_batches(self, text: str) -> bool:
        """Whether the batches of an earlier meaning were made by the same expression."""
        before = Meaning.read(text)
        return before is None or _bare(before.batch_by) == _bare(self.batch_by)

    def made_otherwise(self, text: str) -> bool:
        """Whether the SELECT computes what `batch_by` reads by another expression than earlier."""
        before = Meaning.read(text)
        return before is not None and before.batch_made not in ("", self.batch_made)

    def other_type(self, text: str) -> str | None:
        """The type of `batch_by` in an earlier meaning, where it was another.

        Whole numbers of any width are of one, and so are moments.
        """
        before = Meaning.read(text)
        if before is None or not before.batch_type or not self.batch_type:
            return None
        kinds = (_written(before.batch_type), _written(self.batch_type))
        return None if kinds[0] == kinds[1] else before.batch_type

    def other_rows(self, text: str) -> tuple[str, ...]:
        """What is otherwise about rows and models upstream than in an earlier meaning, in words."""
        before = Meaning.read(text)
        rows = {} if before is None else before.rows
        names = [n for n, made in self.rows.items() if made != rows.get(n, made)]
        return tuple(
            f"{n}, which the SELECT reads, is another than before" if n else _OTHER_ROWS
            for n in sorted(names)
        )

    def watched_otherwise(self, text: str) -> tuple[str, ...]:
        """The columns that monitors watch, and that earlier were another expression.

        Without those that `changes` tells of.
        """
        before = Meaning.read(text)
        old, told = ({}, {}) if before is None else (before.watched, before.columns)
        changed = {c for c, made in self.watched.items() if made != old.get(c, made)}
        return tuple(
            sorted(c for c in changed if c not in told or told[c] == self.columns.get(c, told[c]))
        )

    def other_segments(self, text: str) -> str | None:
        """How segments are called otherwise than in an earlier meaning, in words."""
        before = Meaning.read(text)
        was = None if before is None else before.segment_by
        if was in (None, self.segment_by) or not self.segment_by or not (was or self.columns):
            return None
        now, before_it = ", ".join(self.segment_by), ", ".join(was or ()) or "not set"
        return f"segment_by is {now}, and was {before_it}"

    def changes(self, text: str) -> tuple[str, ...]:
        """What is otherwise than in an earlier meaning, in words."""
        before = Meaning.read(text)
        if before is None:
            return ()
        changes = []
        for name in self.columns.keys() & before.columns.keys():
            (expression, kind), (old, old_kind) = self.columns[name], before.columns[name]
            if kind != old_kind and kind and old_kind:
                changes.append(f"{name} is now {kind}, before it was {old_kind}")
            elif kind != old_kind:
                changes.append(f"{name} is {'new' if kind else 'gone'}")
            elif expression != old:
                changes.append(f"the SELECT computes {name} by another expression than before")
        return tuple(sorted(changes))


def _written(kind: str) -> str:
    if kind.startswith("timestamp"):
        return "timestamp"
    if kind in WHOLE_NUMBERS or re.fullmatch(r"decimal\(\d+,0\)", kind):
        return "integer"
    # Of one scale they are written alike.
    return re.sub(r"^decimal\(\d+", "decimal(", kind)


def batch_by_text(model: CheckModel) -> str:
    """`batch_by` as it is kept; "" without."""
    batch_by = check_batch_by(model)
    return "" if batch_by is None else to_sql(batch_by)


def other_batch_by(model: CheckModel, text: str) -> str | None:
    """The `batch_by` of an earlier meaning, where it is another than the model has now.

    How names are written makes no difference.
    """
    before = Meaning.read(text)
    if before is None or _bare(before.batch_by) == _bare(batch_by_text(model)):
        return None
    return before.batch_by


def other_segments(model: CheckModel, text: str) -> bool:
    """Whether the `segment_by` of an earlier meaning is another than the model has now."""
    before = Meaning.read(text)
    return before is not None and before.segment_by not in (None, model.config.segment_by)


def _bare(sql: str) -> str:
    return sql.replace("`", "").lower()


def with_meaning(plan: Plan, types: Mapping[str, str]) -> Plan:
    """The plan with states named by what the columns that they read are, too.

    `types` gives the Spark types of the model's columns.
    """
    known, definitions = _lower(types), Definitions.of(plan.model.sql)

    def about(state: StateColumn) -> str:
        read = sorted(_columns([state]))
        return _hash([(c, known.get(c, ""), definitions.behind(c)) for c in read])

    abouts = {s.name: about(s) for s in plan.states if s.over_rows and s.name != ROWS}
    names = {name: _name(name, digest) for name, digest in abouts.items()}
    states = tuple(_renamed_state(s, names, abouts.get(s.name, "")) for s in plan.states)
    metrics = tuple(_with_names(m, names) for m in plan.metrics)
    return _with_own_states(replace(plan, states=states, metrics=metrics))


def _with_own_states(plan: Plan) -> Plan:
    """The plan with states of their own for cumulative metrics that are made of several.

    So all that such a metric is made of begins with the same batch: a check that is new would
    divide what it has summed since by the rows of all batches.
    """
    by_name = {s.name: s for s in plan.states}
    own: dict[str, StateColumn] = {}
    metrics = []
    for metric in plan.metrics:
        names = {}
        if metric.scope is Scope.CUMULATIVE and _may_part([by_name[n] for n in metric.states]):
            suffix = _hash(sorted(metric.states))
            names = {name: f"{name}_{suffix}" for name in metric.states}
            own.update((names[n], _renamed_state(by_name[n], names, suffix)) for n in names)
        metrics.append(_with_names(metric, names))
    if not own:
        return plan
    read = {name for metric in metrics for name in metric.states} | {ROWS}
    read |= {name for state in plan.states if state.name in read for name in state.group}
    replaced = {name for metric in plan.metrics for name in metric.states} - read
    kept = (state for state in plan.states if state.name not in replaced)
    return replace(plan, states=(*kept, *own.values()), metrics=tuple(metrics))


def _may_part(states: Sequence[StateColumn]) -> bool:
    """Whether some of the states of a metric may be kept of more batches than others."""
    tables = [s.frequency for s in states]
    # Those over one table of counts begin with it.
    return len(states) > 1 and (tables[0] is None or any(t != tables[0] for t in tables))


def _renamed_state(state: StateColumn, names: Mapping[str, str], about: str) -> StateColumn:
    """A state under the name that it is given, with what its merge reads.

    If it is taken over counts of values, these are told from those of others by `about`.
    """
    source = state.source
    if isinstance(source, FrequencyTable):
        source = replace(source, about=f"{source.about}{about}")
    merge = None if state.merge is None else renamed(state.merge, names)
    group = tuple(names.get(n, n) for n in state.group)
    name = names.get(state.name, state.name)
    return replace(state, name=name, merge=merge, group=group, source=source)


def _name(name: str, about: str) -> str:
    stem, _, digest = name.rpartition("_")
    return f"{stem}_{_hash([digest, about])}"


def _lower(types: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): kind for name, kind in types.items()}


def _with_names(metric: Metric, names: Mapping[str, str]) -> Metric:
    states = tuple(names.get(n, n) for n in metric.states)
    return replace(metric, finish=renamed(metric.finish, names), states=states)


def _columns(states: Iterable[StateColumn]) -> set[str]:
    return {name.lower() for name in columns_of(states)}


def _hash(content: Any) -> str:
    return short_hash(json.dumps(content))
