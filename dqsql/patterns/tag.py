"""Tagging columns by example: the dual of FMDV (Auto-Validate, section 2.3).

Validation wants a pattern that good data will not leave; tagging wants one that other domains do
not enter: the most restrictive pattern (least coverage in the corpus) that still misses at most a
given share of the domain's values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dqsql.errors import PatternError
from dqsql.patterns.generation import column_sample, hypotheses
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.infer import InferenceSettings, NoPattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matcher

_MAX_RANKED = 256


@dataclass(frozen=True, slots=True)
class TagPattern:
    """A pattern that names a domain.

    Attributes:
        pattern: in printable form.
        coverage: columns of the corpus with at least one match.
        false_negative_rate: mean share of values that it misses in those columns, in [0, 1].
    """

    pattern: str
    coverage: int
    false_negative_rate: float


@dataclass(frozen=True, slots=True)
class TaggedColumn:
    """A column that shares the domain, with the share of its values that match, in [0, 1]."""

    table: str
    column: str
    share: float


def tag_pattern(
    values: Iterable[str | None],
    index: PatternIndex,
    *,
    max_false_negatives: float = 0.1,
    m: int | None = None,
) -> TagPattern | NoPattern:
    """Return the most restrictive pattern of a column's domain.

    Args:
        values: the example column; nulls are left out.
        index: the corpus.
        max_false_negatives: largest share of values missed, in the column and, on the mean, in the
            columns of the corpus that match, in [0, 1).
        m: least coverage; None as in `InferenceSettings`.

    Raises:
        PatternError: max_false_negatives is out of range.
    """
    if not 0 <= max_false_negatives < 1:
        raise PatternError(f"max_false_negatives {max_false_negatives} is not in [0, 1)")
    kept = [value for value in values if value is not None][: index.settings.max_values]
    if not kept:
        return NoPattern("no_values", "the column has no values to learn from")
    sample = column_sample(kept)
    masks = hypotheses(sample, tau=index.settings.tau, min_share=1 - max_false_negatives)
    texts = list(masks)
    evidence = index.lookup(texts)
    least = InferenceSettings(m=m).min_coverage(index.columns)
    feasible = np.flatnonzero((evidence.coverage >= least) & (evidence.fpr <= max_false_negatives))
    if not len(feasible):
        return NoPattern(
            "unknown_domain",
            f"no pattern of the values is common ({least} columns) and misses at most "
            f"{max_false_negatives:.1%} of its domain",
        )
    rarest = feasible[np.argsort(evidence.coverage[feasible], kind="stable")][:_MAX_RANKED]
    best = min(
        rarest,
        key=lambda i: (evidence.coverage[i], parse_pattern(texts[i]).generality, texts[i]),
    )
    return TagPattern(texts[best], int(evidence.coverage[best]), float(evidence.fpr[best]))


def tag_columns(
    pattern: str,
    columns: Iterable[tuple[str, str, Iterable[str | None]]],
    *,
    max_false_negatives: float = 0.1,
) -> list[TaggedColumn]:
    """Return the columns, given as (table, column, values), that share the pattern's domain.

    Ordered by the share of matching values, largest first. `store.tables_with` names the tables
    that are worth reading.
    """
    conforms = matcher(parse_pattern(pattern))
    tagged: list[TaggedColumn] = []
    for table, column, values in columns:
        kept = [value for value in values if value is not None]
        if not kept:
            continue
        share = sum(map(conforms, kept)) / len(kept)
        if share >= 1 - max_false_negatives:
            tagged.append(TaggedColumn(table, column, share))
    return sorted(tagged, key=lambda found: (-found.share, found.table, found.column))
