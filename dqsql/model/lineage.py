"""Who reads a relation: models, snapshots and exposures downstream of what is checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads relations: a node of dbt, or an exposure.

    Attributes:
        unique_id: dbt's.
        name: for people.
        kind: `model`, `snapshot`, `seed`, `source` or `exposure`.
        parents: the unique ids of what it reads.
        relation: what it is built as, as SQL text; None of exposures and ephemeral models.
        sql: its SELECT as Spark runs it; None where that is not known.
    """

    unique_id: str
    name: str
    kind: str
    parents: tuple[str, ...] = ()
    relation: str | None = None
    sql: str | None = None
