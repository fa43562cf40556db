"""What `@pattern` needs of a run: learning, the counts in the scan, and the verdict.

A pattern is learned once from a sample of values (`engine.value_samples`) and an index that is in
memory (`lake_index.learning_index`), and stored. In every scan two counts are its state: values
that match, and non-null values. Both add up, so that any union of batches can be judged by sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlglot import exp

from dqsql.dialect import column, formula, literal, parse_expression, to_sql
from dqsql.errors import PatternError
from dqsql.patterns.infer import LearnedPattern, NoPattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import spark_regex
from dqsql.patterns.validate import HomogeneityTest, PatternDecision, decide


def matching_count(name: str, pattern: str) -> exp.Expr:
    """The aggregate that counts the values of a column that match a pattern in printable form.

    Values are matched as Spark writes them, as they were when the pattern was learned.

    Raises PatternError: the pattern cannot be read.
    """
    return formula("count_if(cast({0} as string) rlike {1})", column(name), _regex_literal(pattern))


def _regex_literal(pattern: str) -> exp.Expr:
    return literal(spark_regex(parse_pattern(pattern)))


def pattern_regex(text: str) -> str:
    r"""A SQL literal of a pattern as a SQL literal of its regular expression: for macros.

    `'<digit>{2}'` becomes `'\\A(?:\\p{Nd}{2})\\z'`, ready to stand behind `rlike`.

    Raises PatternError: the text is no string literal, or the pattern cannot be read.
    """
    value = parse_expression(text).unnest()
    if not isinstance(value, exp.Literal) or not value.is_string:
        raise PatternError(
            f"a pattern is a text in quotes, not {text}", hint="for example '<letter>{3}-<digit>+'"
        )
    return to_sql(_regex_literal(value.this))


def judge(
    learned: LearnedPattern,
    rows: int,
    matching: int,
    significance: float,
    test: HomogeneityTest,
    samples: Sequence[str] = (),
) -> PatternDecision:
    """Whether a batch still follows a learned pattern, by the number of its values that match."""
    return decide(
        learned.pattern,
        training_rows=learned.rows,
        training_nonconforming=learned.nonconforming,
        rows=rows,
        nonconforming=rows - matching,
        significance=significance,
        test=test,
        samples=samples,
    )


def to_record(outcome: LearnedPattern | NoPattern) -> dict[str, Any]:
    """What was learned, or why nothing was, as JSON-ready values for `dq_programs`."""
    if isinstance(outcome, LearnedPattern):
        return asdict(outcome)
    return {"no_pattern": outcome.code, "reason": outcome.reason}


def from_record(content: Mapping[str, Any]) -> LearnedPattern | NoPattern:
    """Read what `to_record` gave. Raises PatternError: a field is missing or wrong."""
    if "no_pattern" in content:
        return NoPattern(str(content["no_pattern"]), str(content.get("reason", "")))
    return LearnedPattern.from_dict(content)
