"""One bad batch as one finding: its symptoms ranked, root symptoms first.

Metrics of one batch depend on each other: half the rows gone moves sums, counts and distinct counts
of every column; nulls in a column move its mean. `group_findings` ranks what the monitors found in
a batch of a model, as one finding:

1. By what causes what: schema, then volume, repeated keys, freshness, nulls, types and patterns,
   then values and their distribution, then the vector of all metrics (novelty), which only restates
   the others.
2. Symptoms that a root in the same place explains follow it: volume explains counts and sums of
   every column; completeness of a column explains its other metrics; keys that came twice explain
   that the values of other columns did.
3. Segments: where one or few segments show the same symptom as the whole, and the others do not,
   the segments come first and explain the whole; where nearly all do, the whole explains them.

Pure functions over simple records.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dqsql.model.by_key import by_key
from dqsql.model.metric_traits import COMPLETENESS_METRICS, DISTRIBUTION_METRICS, ROW_DRIVEN_METRICS

# A symptom shown by at least this share of the segments is one of the whole batch.
_MOST_SEGMENTS = 0.8

SCHEMA, VOLUME, KEYS, FRESHNESS, COMPLETENESS, CONFORMITY, VALUES, DISTRIBUTION, VECTOR = range(9)
# The chain of causes in words, first causes first.
STAGES = (
    "schema",
    "volume",
    "keys",
    "freshness",
    "nulls",
    "types and patterns",
    "values",
    "distribution",
    "all metrics together",
)
_STAGES: Mapping[str, int] = {
    **dict.fromkeys(("schema", "column_count"), SCHEMA),
    **dict.fromkeys(("row_count", "count", "equal_row_count", "fewer_rows_than"), VOLUME),
    # Rows that came twice change counts, sums and shares.
    **dict.fromkeys(("unique", "primary_key", "duplicates"), KEYS),
    "freshness": FRESHNESS,
    **dict.fromkeys(
        ("null_count", "not_null", *COMPLETENESS_METRICS, "completeness"), COMPLETENESS
    ),
    **dict.fromkeys(
        ("pattern", "matches", "type_consistency", "type_count", "data_type"), CONFORMITY
    ),
}


@dataclass(frozen=True, slots=True)
class Symptom:
    """One finding of one monitor or check, as little of it as ranking needs.

    Attributes:
        check: its name or text, for people.
        metric: name of the metric (or of the check, where there is none).
        column: its column; None for the batch as a whole.
        segment: its segment; None for all rows.
        severity: 'error' or 'warn'.
        score: how far beyond its bounds, in units of their distance; None if unknown.
        p_value: if it has one.
        key: whatever the caller knows it by.
        cause: its place in the chain of causes, one of `STAGES`; None: the metric's.
    """

    check: str
    metric: str
    column: str | None = None
    segment: str | None = None
    severity: str = "error"
    score: float | None = None
    p_value: float | None = None
    key: Hashable = None
    cause: str | None = None

    @property
    def stage(self) -> int:
        """Place in the chain of causes, 0 for the first."""
        if self.cause is not None:
            return STAGES.index(self.cause)
        if self.metric in DISTRIBUTION_METRICS:
            return DISTRIBUTION
        return _STAGES.get(self.metric, VALUES)


def group_findings(
    symptoms: Iterable[Symptom], segments: int | None = None
) -> list[tuple[Symptom, Symptom | None]]:
    """Rank what was found in one batch of a model, each symptom with the one that explains it.

    Root symptoms, which no other one explains, come first. `segments` is how many the batch has;
    None if it is not known.
    """
    ranked = sorted(symptoms, key=_rank)
    where, causes = _segment_causes(ranked, segments), _Causes(ranked)
    explained = [(s, where.get(id(s)) or causes.of(s)) for s in ranked]
    return sorted(explained, key=lambda pair: pair[1] is not None)


def _rank(symptom: Symptom) -> tuple[object, ...]:
    """Earlier stage, then worse severity, then further off, then by name."""
    score = symptom.score
    far = 0.0 if score is None or math.isnan(score) else score
    rare = 1.0 if symptom.p_value is None else symptom.p_value
    return (
        symptom.stage,
        symptom.severity != "error",
        -far,
        rare,
        symptom.column or "",
        symptom.segment or "",
        symptom.check,
    )


class _Causes:
    """What can explain the symptoms of each segment; they come best first."""

    def __init__(self, ranked: Sequence[Symptom]) -> None:
        self.of_place = by_key(((s.segment, s.column), s) for s in ranked)
        self.first = {s.segment: s for s in reversed(ranked)}
        self.keys = {s.segment: s for s in reversed(ranked) if s.stage == KEYS}

    def of(self, symptom: Symptom) -> Symptom | None:
        """The first symptom of the same segment that explains this one."""
        if symptom.stage == VECTOR:
            first = self.first[symptom.segment]
            return first if first.stage < VECTOR else None
        whole = self.of_place.get((symptom.segment, None), [])
        schema = [s for s in whole if s.stage == SCHEMA and s.stage < symptom.stage]
        if symptom.column is None:
            # Several checks and monitors may watch the number of rows.
            alike = [s for s in whole if s.stage == VOLUME and s.metric == symptom.metric]
            if alike and alike[0] is not symptom:
                return alike[0]
            return schema[0] if schema and symptom.stage == CONFORMITY else None
        mine = self.of_place[symptom.segment, symptom.column]
        earlier = [s for s in mine if s.stage < symptom.stage]
        if earlier:
            return earlier[0]
        volume = [s for s in whole if s.stage == VOLUME]
        if volume and symptom.metric in ROW_DRIVEN_METRICS:
            return volume[0]
        if symptom.metric == "unique_ratio" and symptom.segment in self.keys:
            return self.keys[symptom.segment]
        same = [s for s in mine if s.stage == symptom.stage and s is not symptom]
        return same[0] if same and _rank(same[0]) < _rank(symptom) else None


def _segment_causes(symptoms: Sequence[Symptom], segments: int | None) -> dict[int, Symptom]:
    """Per symptom (by identity) the same one of the whole, or of a segment, that explains it."""
    causes: dict[int, Symptom] = {}
    for group in by_key(((s.metric, s.column), s) for s in symptoms).values():
        whole = [s for s in group if s.segment is None]
        parts = [s for s in group if s.segment is not None]
        if not whole or not parts:
            continue
        if segments is not None and len(parts) >= max(2.0, _MOST_SEGMENTS * segments):
            causes |= {id(s): whole[0] for s in parts}
        else:
            causes |= {id(s): parts[0] for s in whole}
    return causes
