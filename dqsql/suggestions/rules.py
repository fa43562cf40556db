"""Rules that suggest checks of single columns from their profiles.

Sources: Schelter et al., VLDB 2018, section 3.3, for the first five; Deequ's constraint suggestion
rules for the others (RetainType, CategoricalRange, FractionalCategoricalRange, NonNegative,
HasMin/Max/Mean/StandardDeviation, HasMin/MaxLength, UniqueIfApproximatelyUnique).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

from dqsql.dialect import literal, to_sql
from dqsql.model.plain_names import plain_name
from dqsql.suggestions.intervals import (
    floor_to,
    round_down,
    round_up,
    wald_lower,
    wilson_lower,
    written,
)
from dqsql.suggestions.names import ColumnName, UniqueNames, words
from dqsql.suggestions.profiles import ColumnProfile, Kind, Profile, Summary
from dqsql.suggestions.suggestion import Envelope, Suggestion

WARN = {"severity": "warn"}
# The relative error of a distinct count by an HLL sketch of 4,096 registers: three standard errors.
SKETCH_ERROR = 3 * 1.04 / math.sqrt(4096)
# Fewer rows than this say little about distinct values and extremes.
MIN_ROWS = 30
# What stands before the name of a table in a warehouse.
_LAYERS = frozenset({"raw", "src", "stg", "stage", "staging", "int", "dim", "fct", "fact", "tbl"})
_KEY_WORDS = frozenset({"id", "key", "uuid", "guid", "pk"})
# Longer lists of values are no categories that a person would maintain.
_MAX_CATEGORIES = 30
_MAX_LIST = 500
# Whole numbers beyond it are not exact as doubles, in which summaries are.
_EXACT = 2.0**53
# Whole numbers are categories only when there are very few of them.
_MAX_CODES = 10
# Rows for each category, on average, before the list is thought to be complete.
_ROWS_PER_CATEGORY = 10
# A share of rows that the most frequent values must cover (Deequ: 0.9).
_FRACTION = 0.9
# Fewer batches teach a monitor nothing about weekdays.
_MIN_HISTORY = 14
# The call of suggestions that learn their bounds by themselves.
MONITOR = "anomaly"
# Patterns of more alternatives are lists of values or forms, not formats.
_MAX_ALTERNATIVES = 3


@dataclass(frozen=True)
class ColumnEvidence:
    """What rules know: the profile of the relation, its table's name, and the name classifier.

    `ordered` says that the columns are in the table's own order.
    """

    profile: Profile
    table: str
    names: UniqueNames
    ordered: bool = True

    def is_own_key(self, column: ColumnProfile) -> bool:
        """Whether it is named after the table, as `payment_id` in `payments`, and all differ."""
        *about, last = words(column.name) or [""]
        own = list(dropwhile(_LAYERS.__contains__, words(self.table)))
        if last not in _KEY_WORDS or not about or len(about) != len(own):
            return False
        name = about[-1]
        plurals = (name, f"{name}s", f"{name}es", f"{name[:-1]}ies")
        return about[:-1] == own[:-1] and own[-1] in plurals

    def unique_probability(self, column: ColumnProfile) -> float:
        """What the classifier says of a column's name."""
        columns = tuple(c.name for c in self.profile.columns)
        kind = {"integral": "bigint", "fractional": "double"}.get(column.detected or "")
        return self.names.probability(
            ColumnName(self.table, column.name, kind or column.spark_type, columns, self.ordered)
        )


def column_suggestions(evidence: ColumnEvidence) -> list[Suggestion]:
    """The candidates for every column, in the order of columns and rules."""
    return [
        suggestion
        for column in evidence.profile.columns
        for rule in _RULES
        for suggestion in rule(column, evidence)
    ]


# --- completeness and type ---------------------------------------------------------------------


def _completeness(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    """Complete: not null. Incomplete: at least the lower end of the Bernoulli interval."""
    share = column.completeness
    if share is None or not column.count:
        return
    name, rows = plain_name(column.name), column.rows
    lower = floor_to(wald_lower(share, rows))
    bound = Suggestion(
        "RetainCompleteness",
        "completeness",
        column.name,
        "completeness",
        f"{share:.1%} of {rows:,} rows have a value",
        comparison=f">= {written(lower)}",
        envelope=Envelope(f"completeness({name})", lower=lower, widen=True),
    )
    if column.count == rows:
        likely = floor_to(wilson_lower(1.0, rows), 3)
        weaker = replace(
            bound,
            reason="nearly all rows have a value",
            comparison=f">= {written(likely)}",
            envelope=Envelope(f"completeness({name})", lower=likely, widen=True),
        )
        yield Suggestion(
            "CompleteIfComplete",
            "completeness",
            column.name,
            "not_null",
            "the only row has a value" if rows == 1 else f"all of {rows:,} rows have a value",
            coverage=f"completeness({name})",
            weaker=weaker,
        )
    elif lower > 0:
        yield bound


def _type(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    """Texts that all read as one type."""
    kind = column.detected
    if kind is None:
        return
    name = plain_name(column.name)
    count = f"type_count({name}, '{kind}')"
    if kind == "fractional":
        count += f" + type_count({name}, 'integral')"
    yield Suggestion(
        "RetainType",
        "type",
        column.name,
        "expect",
        f"all values read as {kind}",
        arguments=(f"{count} = count({name})",),
        takes_column=False,
        coverage=f"({count}) / nullif(count({name}), 0)",
    )


# --- values ------------------------------------------------------------------------------------


def _unique(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    """As many distinct values as rows, within the sketch's error; the name must agree."""
    if column.distinct is None or column.count < MIN_ROWS:
        return
    if column.kind not in (Kind.INTEGER, Kind.TEXT) or column.detected == "fractional":
        return
    ratio = column.distinct / column.count
    if abs(1 - ratio) > SKETCH_ERROR:
        return
    score = evidence.unique_probability(column)
    is_own = evidence.is_own_key(column)
    name = plain_name(column.name)
    lower = floor_to(wilson_lower(min(1.0, ratio), column.count))
    weaker = Suggestion(
        "UniqueIfApproximatelyUnique",
        "unique",
        column.name,
        "uniqueness",
        "most values occur once",
        comparison=f">= {written(lower)}",
        settings=WARN,
        envelope=Envelope(f"uniqueness({name})", lower=lower),
        score=score,
    )
    suggestion = Suggestion(
        "UniqueIfApproximatelyUnique",
        "unique",
        column.name,
        "unique",
        f"about {column.about_distinct:,.0f} distinct values in"
        f" {column.count:,} rows,"
        + (
            " and it is named after the table" if is_own else f" and the name says so ({score:.0%})"
        ),
        coverage=f"uniqueness({name})",
        weaker=weaker,
        score=score,
    )
    why = (
        f"the values look unique, but the name does not (probability {score:.2f});"
        " likely they are not meant to be"
    )
    yield suggestion if is_own or score > 0.5 else suggestion.refused(why)


def _non_negative(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    summary = column.summary
    if summary is None or not summary.minimum >= 0 or column.count < MIN_ROWS:
        return
    name = plain_name(column.name)
    least = written(summary.minimum) if abs(summary.minimum) < _EXACT else "far above 0"
    reason = f"the smallest of {column.count:,} values is {least}"
    if column.kind is Kind.TEXT:
        # Texts are compared as numbers here: `'9' >= 0` would be a cast to int, too small for some.
        condition = f"{name} is null or try_cast({name} as double) >= 0"
        yield Suggestion(
            "NonNegativeNumbers",
            "lower",
            column.name,
            "satisfies",
            reason,
            arguments=(condition,),
            takes_column=False,
            coverage=f"compliance({condition})",
        )
        return
    yield Suggestion(
        "NonNegativeNumbers",
        "lower",
        column.name,
        "non_negative",
        reason,
        coverage=f"compliance({name} is null or {name} >= 0)",
    )


def _categories(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    """Few distinct values: those are accepted, or most of the rows have one of the frequent."""
    values = column.distribution
    if values is None or column.kind not in (Kind.TEXT, Kind.INTEGER) or column.count < MIN_ROWS:
        return
    if column.detected == "timestamp" or values.has_dates:
        # Tomorrow there is a further one.
        return
    number = len(values.values)
    few = _MAX_CODES if column.is_integral else _MAX_CATEGORIES
    fractional = _frequent(column, evidence)
    enough = column.count >= _ROWS_PER_CATEGORY * number
    listed = _listed(column, values.values)
    if not values.complete or number > few or not enough or listed is None:
        if fractional is not None:
            yield fractional
        return
    name = plain_name(column.name)
    yield Suggestion(
        "CategoricalRange",
        "values",
        column.name,
        "accepted_values",
        f"{number} values in {column.count:,} rows" if number > 1 else "there is only one value",
        arguments=listed,
        coverage=f"compliance({name} is null or {name} in ({', '.join(listed)}))",
        weaker=fractional,
    )


def _frequent(column: ColumnProfile, evidence: ColumnEvidence) -> Suggestion | None:
    """Deequ's FractionalCategoricalRange: the values that cover 90 % of the rows."""
    values = column.distribution
    if values is None or column.is_numeric or column.distinct is None:
        return None
    if column.distinct > 0.4 * column.count:
        return None
    covered, chosen = 0, 0
    while chosen < len(values.values) and covered < _FRACTION * values.total:
        covered += values.counts[chosen]
        chosen += 1
    listed = _listed(column, values.values[:chosen])
    if covered < _FRACTION * values.total or chosen > _MAX_CATEGORIES or listed is None:
        return None
    share = covered / values.total
    lower = floor_to(wilson_lower(share, values.total))
    name = plain_name(column.name)
    condition = f"{name} is null or {name} in ({', '.join(listed)})"
    return Suggestion(
        "FractionalCategoricalRange",
        "values",
        column.name,
        "compliance",
        f"{share:.1%} of the values are one of {chosen}",
        arguments=(condition,),
        comparison=f">= {written(lower)}",
        settings=WARN,
        takes_column=False,
        envelope=Envelope(f"compliance({condition})", lower=lower, widen=True),
    )


def _listed(column: ColumnProfile, values: Sequence[str]) -> tuple[str, ...] | None:
    """Values as SQL, sorted; None when they cannot stand in a comment or are too long a list."""
    if column.kind is Kind.INTEGER:
        literals = [str(n) for n in sorted(int(v) for v in values)]
    else:
        if not all(stands_in_comment(v) for v in values):
            return None
        literals = [to_sql(literal(v)) for v in sorted(values)]
    return tuple(literals) if sum(len(f) + 2 for f in literals) <= _MAX_LIST else None


def stands_in_comment(text: str) -> bool:
    """Whether a text can be a literal in a one-line SQL comment that Jinja renders."""
    return text.isprintable() and not any(part in text for part in ("{", "}", "\\", "`"))


# --- bounds ------------------------------------------------------------------------------------


def _bounds(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    """Deequ's HasMin, HasMax, HasMean, HasStandardDeviation, as intervals that warn."""
    summary = column.summary
    if summary is None or column.kind is Kind.TEXT or column.count < MIN_ROWS:
        return
    if not _finite(summary) or summary.minimum == summary.maximum or _is_key(column, evidence):
        return
    # To Spark NaN is the largest number, so that batches with it keep no bound; and a number
    # that a double cannot hold is none to compare with.
    if column.nan or max(abs(summary.minimum), abs(summary.maximum)) >= _EXACT:
        return
    coded = column.distribution is not None and len(column.distribution.values) <= _MAX_CODES
    # Codes are whole numbers, which are listed.
    if coded and column.kind is Kind.INTEGER:
        return
    spread = summary.stddev or 0.0
    if summary.minimum < 0:
        low = round_down(summary.minimum, spread)
        yield _bounded(column, "min", "lower", low, None, f"the smallest is {summary.minimum:g}")
    high = round_up(summary.maximum, spread)
    yield _bounded(column, "max", "upper", None, high, f"the largest is {summary.maximum:g}")
    if not spread or coded:
        return
    high = round_up(min(summary.mean + spread, summary.maximum), spread)
    least = _mean_from(summary, spread)
    why = f"the mean is {summary.mean:.4g}, the standard deviation {spread:.4g}"
    yield _bounded(column, "mean", "mean", least, high, why)
    low, high = round_down(0.9 * spread), round_up(1.1 * spread)
    yield _bounded(column, "stddev", "stddev", low, high, f"the standard deviation is {spread:.4g}")


def _mean_from(summary: Summary, spread: float) -> float | None:
    """The least mean, which is none below the smallest value; None where it would say nothing."""
    low = round_down(max(summary.mean - spread, summary.minimum), spread)
    return None if low == 0 and summary.minimum >= 0 else low


def _lengths(column: ColumnProfile, evidence: ColumnEvidence) -> Iterator[Suggestion]:
    """Deequ's HasMinLength and HasMaxLength; equal where all texts are of one length."""
    lengths = column.lengths
    if lengths is None or column.count < MIN_ROWS or not column.is_plain_text:
        return
    values = column.distribution
    if values is not None and values.complete and len(values.values) <= _MAX_CATEGORIES:
        return
    low, high = int(lengths.minimum), int(lengths.maximum)
    why = (
        f"all values have {low} characters" if low == high else f"the shortest has {low} characters"
    )
    if low > 0:
        yield _bounded(column, "min_length", "min_length", low, None, why)
    why = why if low == high else f"the longest has {high} characters"
    yield _bounded(column, "max_length", "max_length", None, high, why)


def _bounded(
    column: ColumnProfile,
    metric: str,
    promise: str,
    low: float | None,
    high: float | None,
    reason: str,
) -> Suggestion:
    words = {"min": "Min", "max": "Max", "mean": "Mean", "stddev": "StandardDeviation"}
    words |= {"min_length": "MinLength", "max_length": "MaxLength"}
    return Suggestion(
        f"Has{words[metric]}",
        promise,
        column.name,
        metric,
        reason,
        comparison=comparison(low, high),
        settings=WARN,
        envelope=Envelope(f"{metric}({plain_name(column.name)})", low, high, widen=True),
    )


def comparison(low: float | None, high: float | None) -> str:
    """`between 1 and 5`, `>= 1` or `<= 5`."""
    if low is not None and high is not None:
        return f"between {written(low)} and {written(high)}"
    return f">= {written(low)}" if low is not None else f"<= {written(high or 0.0)}"


def _finite(summary: Summary) -> bool:
    return all(math.isfinite(v) for v in (summary.minimum, summary.maximum, summary.mean))


def _is_key(column: ColumnProfile, evidence: ColumnEvidence) -> bool:
    """Whether extremes and means say nothing: numbers that name things, or count them up."""
    if column.kind is not Kind.INTEGER or column.distinct is None:
        return False
    unique = abs(1 - column.distinct / column.count) <= SKETCH_ERROR
    lower = column.name.lower()
    named = lower == "id" or lower.endswith(("_id", "_key", "_no", "_nr", "_code"))
    return unique or named


_Rule = Callable[[ColumnProfile, ColumnEvidence], Iterator[Suggestion]]
_RULES: tuple[_Rule, ...] = (
    _completeness,
    _type,
    _unique,
    _non_negative,
    _categories,
    _bounds,
    _lengths,
)


# --- patterns that were learned elsewhere -------------------------------------------------------


def wants_pattern(column: ColumnProfile) -> bool:
    """Whether a pattern may say something: texts that are no categories and no numbers."""
    if column.count < MIN_ROWS or not column.is_plain_text:
        return False
    if column.private:
        # A pattern may spell out what all values have in common.
        return False
    values = column.distribution
    return values is None or not values.complete or len(values.values) > _MAX_CATEGORIES


def pattern_suggestion(
    column: ColumnProfile,
    pattern: str,
    regex: str,
    nonconforming: float,
    reason: str,
    weaker: Suggestion | None = None,
) -> Suggestion | None:
    """A learned pattern as a check; None where it cannot stand in a comment.

    `pattern` is in printable form, `regex` its Java regular expression, `nonconforming` the share
    of training values in [0, 1] that do not match, `weaker` a wider pattern. Patterns of more than
    three alternatives are lists of values or forms, not formats.
    """
    if nonconforming > 0 or pattern.count("<|>") >= _MAX_ALTERNATIVES or not pattern_fits(pattern):
        return None
    name = plain_name(column.name)
    return Suggestion(
        "Pattern",
        "pattern",
        column.name,
        "pattern",
        reason,
        arguments=(to_sql(literal(pattern)),),
        coverage=f"compliance({name} is null or {name} rlike {to_sql(literal(regex))})",
        weaker=weaker,
    )


def volume_suggestion(batches: int) -> Suggestion | None:
    """A monitor of the number of rows, where there is a history that it can learn from."""
    if batches < _MIN_HISTORY:
        return None
    return Suggestion(
        "Volume",
        "volume",
        None,
        MONITOR,
        f"{batches:,} batches show how many rows are usual",
        arguments=("row_count",),
        settings=WARN,
        takes_column=False,
    )


def pattern_fits(pattern: str) -> bool:
    """Whether a pattern can stand in a comment: its braces must not look like Jinja's."""
    plain = pattern.replace("{", "").replace("}", "")
    jinja = any(two in pattern for two in ("{{", "{%", "{#"))
    return stands_in_comment(plain) and not jinja
