"""What a finding means for others: the models and exposures of dbt that read what it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dqsql.compiler.flow import STAR, Flow, Leaves, Relation, flow_of, relation_key
from dqsql.model.lineage import Reader
from dqsql.model.project import CheckModel
from dqsql.model.wording import first_of, plural
from dqsql.runner.lifecycle import RESOLVED

# In the order in which they are named.
_KINDS = ("model", "snapshot", "seed", "exposure")
_NAMED = 5
Row = dict[str, Any]


@dataclass(frozen=True)
class Impact:
    """Who reads a model or one of its columns, directly or through others, nearest first."""

    about: str
    readers: tuple[Reader, ...]

    @property
    def words(self) -> str | None:
        """`3 models and 1 exposure read this column: orders, ..`; None where nobody does."""
        if not self.readers:
            return None
        counts = Counter(r.kind for r in self.readers)
        parts = [plural(counts[k], k) for k in _KINDS if counts[k]]
        who = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
        named = first_of([r.name for r in self.readers], _NAMED)
        return f"{who} {'reads' if len(self.readers) == 1 else 'read'} this {self.about}: {named}"


@dataclass
class Impacts:
    """Tells who reads what. `readers` are all of a project, upstream first."""

    readers: Sequence[Reader]

    def of(self, model: CheckModel, column: str | None, columns: Collection[str]) -> Impact:
        """Who reads a check model's relation, or one column of it.

        Args:
            model: the check model.
            column: the column; None: any of them.
            columns: all columns of the relation.
        """
        about = "model" if column is None else "column"
        start = (model.config.extra.get("dbt") or {}).get("unique_id")
        root = next((r for r in self.readers if r.unique_id == start), None)
        key = None if root is None or root.relation is None else relation_key(root.relation)
        if root is None or key is None:
            return Impact(about, ())
        hit = frozenset({STAR if column is None else column.lower()})
        spread = _Spread({root.unique_id}, {key: hit}, {key: sorted(columns)})
        found = [r for r in self.readers if r is not root and spread.reaches(r)]
        # An ephemeral model is no relation; those that read it are.
        told = [r for r in found if r.kind == "exposure" or r.relation is not None]
        return Impact(about, tuple(sorted(told, key=lambda r: r.kind == "exposure")))


@dataclass
class _Spread:
    """How far a finding reaches: `nodes`, and of their relations the columns that it is about."""

    nodes: set[str]
    hit: dict[Relation, frozenset[str]]
    columns: dict[Relation, Sequence[str]]

    def reaches(self, reader: Reader) -> bool:
        """Whether it reaches a reader, all of whose parents have been looked at."""
        if not self.nodes.intersection(reader.parents):
            return False
        flow = None if reader.sql is None else flow_of(reader.sql, self.columns)
        key = None if reader.relation is None else relation_key(reader.relation)
        if flow is not None and key is not None and STAR not in flow.columns:
            self.columns[key] = list(flow.columns)
        found = frozenset({STAR}) if flow is None else self._through(flow)
        if not found:
            return False
        self.nodes.add(reader.unique_id)
        if key is not None:
            self.hit[key] = found
        return True

    def _through(self, flow: Flow) -> frozenset[str]:
        """The columns of a SELECT that it reaches; STAR where it may change which rows it has."""
        whole = any(STAR in self.hit.get(r, ()) for r in flow.relations)
        if whole or self._meets(flow.rows):
            return frozenset({STAR})
        found = {name for name, leaves in flow.columns.items() if self._meets(leaves)}
        if STAR in found:
            found |= {name for r, _ in flow.columns[STAR] for name in self.hit.get(r, ())}
            found.discard(STAR)
        return frozenset(found)

    def _meets(self, leaves: Leaves) -> bool:
        return any(
            name in self.hit.get(key, ()) or (name == STAR and key in self.hit)
            for key, name in leaves
        )


def with_impact(
    rows: Sequence[Row], model: CheckModel, readers: Sequence[Reader], columns: Mapping[str, str]
) -> list[Row]:
    """The findings of a model with who reads what they are about; resolved ones as they are."""
    impacts, known = Impacts(readers), dict[str | None, Impact]()
    found = []
    for row in rows:
        if row["state"] != RESOLVED:
            column = row["column_name"]
            if column not in known:
                known[column] = impacts.of(model, column, columns)
            impact = known[column]
            names = [r.name for r in impact.readers]
            found.append({**row, "impact": impact.words, "readers": names})
        else:
            found.append(row)
    return found
