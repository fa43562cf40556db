"""What `@avh` measures beside the scan: distances to the accepted batch before, injected issues."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dqsql.compiler.issues import ISSUES_VERSION, papers_issues
from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.distances import CategoricalState, NumericState, numeric_distances
from dqsql.decisions.running_numbers import TextState, text_distances
from dqsql.model import metric_traits
from dqsql.model.results import MetricProfile

TEXT_DISTANCES = (*metric_traits.CATEGORICAL_DISTANCES, *metric_traits.PATTERN_DISTANCES)


class ColumnDistribution:
    """One batch of a column: its profiles, and for numbers its count, mean and deviation.

    Args:
        numeric: whether the column holds numbers.
        value: gives the value of a metric; NaN for none.
        profile: gives a profile by name; None for none.
    """

    def __init__(
        self,
        numeric: bool,
        value: Callable[[str], float],
        profile: Callable[[str], MetricProfile | None],
    ) -> None:
        self.numeric = numeric
        if numeric:
            quantiles = profile("quantile_profile")
            self.state = NumericState(
                np.array(quantiles.quantiles if quantiles else (), dtype=float),
                value("count"),
                value("mean"),
                value("stddev"),
            )
        else:
            self.texts = TextState(
                CategoricalState.of(profile("value_profile")),
                CategoricalState.of(profile("pattern_profile")),
            )


def distances(before: ColumnDistribution, now: ColumnDistribution) -> Mapping[str, float]:
    """The two-distribution metrics by name; NaN where either batch has no values."""
    if now.numeric:
        return numeric_distances(before.state, now.state)
    return text_distances(before.texts, now.texts)


_DIGITS = 9


@dataclass(frozen=True, eq=False)
class IssueEvidence:
    """Metrics of a sample of good rows, as it is and with each issue injected.

    Attributes:
        batch: the batch that was sampled.
        metrics: names of the metrics, M.
        issues: names of the variants, V.
        clean: metrics of the sample as it is, M; NaN for none.
        variants: V x M metrics; NaN for a metric without a value.
        version: of the set of variants, see `dqsql.compiler.issues.ISSUES_VERSION`.
    """

    batch: str
    metrics: tuple[str, ...]
    issues: tuple[str, ...]
    clean: FloatArray
    variants: FloatArray
    version: int = ISSUES_VERSION
    _stored: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def outdated(self) -> bool:
        """Whether issues have been added since: it serves until it is renewed."""
        return self.version != ISSUES_VERSION

    def part(self, number: int) -> IssueEvidence:
        """Every second issue of each kind: other magnitudes of it are in the other part, 0 or 1."""
        seen: dict[str, int] = {}
        kept = []
        for place, issue in enumerate(self.issues):
            kind = issue.split("_")[0]
            seen[kind] = seen.get(kind, -1) + 1
            if seen[kind] % 2 == number:
                kept.append(place)
        return self._of(kept)

    def of_paper(self) -> IssueEvidence:
        """The issues of the paper and of its authors' code."""
        known = papers_issues()
        return self._of([place for place, issue in enumerate(self.issues) if issue in known])

    def _of(self, kept: Sequence[int]) -> IssueEvidence:
        issues = tuple(self.issues[place] for place in kept)
        return replace(self, issues=issues, variants=self.variants[kept], _stored=None)

    def onto(self, metrics: Sequence[str], newest: FloatArray) -> FloatArray:
        """The wanted metrics of the variants of another batch, V x len(metrics).

        The sample is smaller than a batch, and older than the newest one. What an issue changes is
        carried over: by the same factor for metrics that grow with the number of rows, by the same
        difference for all others. A metric that the sample has no value of is taken as unchanged.
        """
        out = np.tile(newest, (len(self.issues), 1))
        for place, name in enumerate(metrics):
            if name not in self.metrics:
                continue
            own = self.metrics.index(name)
            clean, variants = self.clean[own], self.variants[:, own]
            if math.isnan(clean):
                continue
            # What is larger than any double is infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                if name in metric_traits.FACTOR_METRICS and clean != 0:
                    out[:, place] = newest[place] * variants / clean
                else:
                    out[:, place] = newest[place] + variants - clean
            if name not in metric_traits.SIGNED_METRICS:
                out[:, place] = np.maximum(out[:, place], 0.0)
            if name.endswith("_ratio"):
                out[:, place] = np.minimum(out[:, place], 1.0)
        return out

    def to_dict(self) -> Mapping[str, Any]:
        """A JSON-serialisable form; NaN is None."""
        if self._stored is not None:
            return self._stored
        return {
            "version": self.version,
            "batch": self.batch,
            "metrics": list(self.metrics),
            "issues": list(self.issues),
            "clean": _numbers(self.clean),
            "variants": [_numbers(row) for row in self.variants],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> IssueEvidence:
        """The evidence that `to_dict` wrote."""
        metrics = tuple(data["metrics"])
        variants = [_array(row) for row in data["variants"]]
        return cls(
            data["batch"],
            metrics,
            tuple(data["issues"]),
            _array(data["clean"]),
            np.array(variants) if variants else np.zeros((0, len(metrics))),
            data.get("version", 1),
            data,
        )


def _numbers(values: FloatArray) -> list[float | None]:
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]


def _array(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def origin_of(evidence: Mapping[str, Any] | None) -> tuple[Any, Any] | None:
    """What stored evidence was made of: another batch or other issues make a new version."""
    return None if evidence is None else (evidence["batch"], evidence.get("version", 1))
