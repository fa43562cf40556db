"""What validation makes of candidates: kept, with a bound that held, replaced, or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from dqsql.suggestions.intervals import floor_to, round_down, round_up
from dqsql.suggestions.rules import comparison
from dqsql.suggestions.suggestion import Envelope, Suggestion, SuggestionVerdict

_LENGTHS = ("min_length(", "max_length(")
_EXTREMES = ("min(", "max(", *_LENGTHS)
_SHARES = ("completeness(", "compliance(")
# How many standard deviations from the mean of batches the next one may lie.
_DEVIATIONS = 4.0
# From so many batches on, a bound that failed is learned from the batches instead.
_MIN_BATCHES = 3


@dataclass(frozen=True)
class Outcome:
    """What was measured of one candidate.

    `holds` has one entry a batch (and segment), None where there was nothing to measure; `failed`
    are the batches on which it failed, `batches` how many there are. `coverage` is the share
    of held-out rows that comply, None where none were held out or the check is of no rows.
    `values` are the values of the envelope's metric, by batch.
    """

    holds: tuple[bool | None, ...]
    coverage: float | None = None
    values: tuple[float | None, ...] = ()
    batches: int = 0
    failed: int = 0

    @property
    def held(self) -> int:
        """The number of batches on which the check did not fail."""
        return self.batches - self.failed

    @property
    def all_held(self) -> bool:
        """Whether the check failed on no batch, and could be evaluated on one at least."""
        return all(h is not False for h in self.holds) and any(self.holds)


def decide(candidate: Suggestion, outcomes: Mapping[str, Outcome], key: str) -> list[Suggestion]:
    """What becomes of a candidate whose outcome is `outcomes[key]`, its weaker form's `key + 'w'`.

    The candidate itself comes first, refused where it did not hold; a weaker form that holds
    follows it.
    """
    outcome = outcomes.get(key)
    if candidate.verdict is not SuggestionVerdict.SUGGESTED:
        return [replace(candidate, measured=outcome.coverage if outcome else None)]
    if outcome is None:
        return [candidate.refused("it could not be measured")]
    suggestion = _measured(candidate, outcome)
    if outcome.all_held:
        return [_silent(_with_margin(suggestion, outcome), outcome)]
    fitted = _fitted(suggestion, outcome)
    if fitted is not None:
        return [fitted]
    # What only a resemblance of values speaks for is nobody's question.
    refused = [] if suggestion.is_guess else [suggestion.refused(_why(outcome))]
    if candidate.weaker is None:
        return refused
    weaker = decide(candidate.weaker, outcomes, f"{key}w")
    return [*refused, *(w for w in weaker if w.verdict is SuggestionVerdict.SUGGESTED)]


def _measured(candidate: Suggestion, outcome: Outcome) -> Suggestion:
    batches = outcome.batches
    coverage = outcome.coverage
    if coverage is None and candidate.coverage is None and batches:
        coverage = outcome.held / batches
    return replace(candidate, measured=coverage, batches=batches, held=outcome.held)


def _silent(candidate: Suggestion, outcome: Outcome) -> Suggestion:
    """Batches without anything to measure are no finding."""
    if None not in outcome.holds:
        return candidate
    return replace(candidate, settings={**candidate.settings, "no_data": "ignore"})


def _with_margin(candidate: Suggestion, outcome: Outcome) -> Suggestion:
    """An extreme or share that held, as wide as it would be if it had failed on a batch.

    The largest of the rows looked at is exceeded sooner or later, unless batches reach the same.
    """
    envelope = candidate.envelope
    if envelope is None or not envelope.metric.startswith((*_EXTREMES, *_SHARES)):
        return candidate
    fitted = _fitted(candidate, outcome) if len(outcome.values) >= _MIN_BATCHES else None
    if fitted is None or fitted.envelope is None:
        return candidate
    values = [v for v in outcome.values if v is not None]
    low, high, wider = envelope.lower, envelope.upper, fitted.envelope
    is_share = envelope.metric.startswith(_SHARES)
    if (
        low is not None
        and wider.lower is not None
        and (is_share or not _is_limit(min(values), values))
    ):
        low = min(low, wider.lower)
    if high is not None and wider.upper is not None and not _is_limit(max(values), values):
        above = max(high, wider.upper)
        high = min(above, 0.0) if high <= 0 else above
    if (low, high) == (envelope.lower, envelope.upper):
        return candidate
    return replace(
        fitted, comparison=comparison(low, high), envelope=replace(envelope, lower=low, upper=high)
    )


def _is_limit(extreme: float, values: Sequence[float]) -> bool:
    """Whether nothing is likely to lie beyond: several batches reach it, or shares end there."""
    return values.count(extreme) > 1 or extreme in (0, 1, 100)


def _fitted(candidate: Suggestion, outcome: Outcome) -> Suggestion | None:
    """The candidate with bounds that held on every batch; None where no such bounds say anything.

    With few batches the bounds are those of their values; with more the interval of the values is
    widened, since the next batch may lie outside: see `_margin`.
    """
    envelope = candidate.envelope
    values = [v for v in outcome.values if v is not None]
    if envelope is None or not envelope.widen or not values:
        return None
    if not all(math.isfinite(v) for v in values):
        return None
    low, high = min(values), max(values)
    below, above = _margins(low, high, len(values))
    lower, upper = _bounds(envelope, low, high, below, above)
    if envelope.lower is not None and "completeness(" in envelope.metric and not lower:
        return None
    if lower is None and upper is None:
        return None
    # The reason is about the rows that were learned from, the bounds about batches.
    words = f"{candidate.reason} in the sample; the bounds hold in {_batches(outcome.batches)}"
    fitted = replace(
        candidate,
        reason=words,
        comparison=comparison(lower, upper),
        envelope=replace(envelope, lower=lower, upper=upper),
        held=outcome.batches,
        measured=1.0,
    )
    return _silent(
        fitted, replace(outcome, holds=tuple(v is not None or None for v in outcome.values))
    )


def _margins(low: float, high: float, batches: int) -> tuple[float, float]:
    """How far the next batch may lie below and above the interval of the values of some batches.

    Four standard deviations from the mean, taken from the range of the values as if these were
    normal (Tippett 1925; expected extremes by Blom 1958): half of the range for thirty batches,
    twice of it for three. Positive values may be skewed: of these the bound above is as far as in
    logarithms, but not more than twice as far.
    """
    if batches < _MIN_BATCHES or low == high:
        return 0.0, 0.0
    extreme = NormalDist().inv_cdf((batches - 0.375) / (batches + 0.25))
    share = max(0.5, _DEVIATIONS / (2 * extreme) - 0.5)
    below = share * (high - low)
    skewed = high * (math.sqrt(high / low) - 1) if low > 0 else below
    return below, max(below, min(skewed, 2 * below))


def _bounds(
    envelope: Envelope, low: float, high: float, under: float, over: float
) -> tuple[float | None, float | None]:
    share = envelope.metric.startswith(_SHARES)
    if envelope.metric.startswith(_LENGTHS):
        # Lengths are whole numbers, and that of no text is no bound.
        below, above = max(1.0, float(math.floor(low - under))), float(math.ceil(high + over))
        lower = below if envelope.lower is not None and low >= below else None
        return lower, None if envelope.upper is None else above
    lower = upper = None
    if envelope.lower is not None:
        below = max(0.0, low - under) if low >= 0 else low - under
        lower = floor_to(below) if share else round_down(below)
    if envelope.upper is not None:
        upper = round_up(high + over)
        # No number is below it: the bound would say nothing.
        lower = None if lower == 0 else lower
    return lower, upper


def _why(outcome: Outcome) -> str:
    if outcome.coverage is not None and outcome.coverage < 1:
        return f"it holds for {_share(outcome.coverage)} of the held-out rows only"
    if all(h is None for h in outcome.holds):
        return "there was nothing to measure"
    if outcome.batches == 1:
        return "it failed on the whole relation"
    return f"it failed on {outcome.failed:,} of {_batches(outcome.batches)}"


def _share(value: float) -> str:
    shown = f"{value:.1%}"
    return shown if value == 1 or shown != "100.0%" else f"{value:.4%}"


def _batches(count: int) -> str:
    return "the whole relation" if count == 1 else f"{count:,} batches"


def coverage_of(shares: Sequence[float | None], rows: Sequence[int], held_out: int) -> float | None:
    """The share of held-out rows that comply, from the shares of all rows by batch.

    The rows that a rule was learned from comply all, so that every violation is a held-out row.
    None where no rows were held out.
    """
    if held_out <= 0:
        return None
    pairs = zip(shares, rows, strict=True)
    violations = sum((1 - share) * n for share, n in pairs if share is not None)
    return min(1.0, max(0.0, 1 - round(violations) / held_out))
