"""What Python says of a value, Spark says too."""

from __future__ import annotations

import string
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from dqsql.errors import PatternError, UsageError
from dqsql.patterns.language import Pattern, Token, TokenGroup, pattern_of
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matches, spark_regex
from dqsql.patterns.spark_job import sources
from tests.patterns.strategies import EXOTIC, HOSTILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALPHABET = string.ascii_letters + string.digits + HOSTILE + EXOTIC
KINDS = ("const", "digit", "upper", "lower", "letter", "alphanum", "num")


def some_text(random: Random, longest: int) -> str:
    return "".join(random.choices(ALPHABET, k=random.randint(1, longest)))


def some_pattern(random: Random) -> Pattern:
    """Return a random pattern; hypothesis is too slow to draw hundreds for one query."""
    while True:
        tokens: list[Token | TokenGroup] = []
        for kind in random.choices(KINDS, k=random.randint(1, 4)):
            if kind == "const":
                tokens.append(Token("const", some_text(random, 3)))
            else:
                tokens.append(Token(kind, count=random.choice((None, 1, 2))))  # type: ignore[arg-type]
        if random.random() < 0.3:
            tokens.append(TokenGroup((Token("const", some_text(random, 2)),)))
        try:
            return parse_pattern(pattern_of(*tokens).text)
        except PatternError:
            continue


def some_value(random: Random, pattern: Pattern) -> str:
    """Return a value that matches the pattern, or nearly does."""
    examples = {
        "digit": "0123456789٣४",
        "upper": "ABCÅЖ",
        "lower": "abcéß",
        "letter": "aBéש你",
        "alphanum": "aB7٣ש",
    }
    parts: list[str] = []
    for element in pattern.branches[0]:
        for token in element.tokens if isinstance(element, TokenGroup) else (element,):
            if token.kind == "const":
                parts.append(token.text)
            elif token.kind == "num":
                parts.append(random.choice(("0", "-1.5", "3e-05", "1.", "٣")))
            else:
                parts += random.choices(examples[token.kind], k=token.count or 3)
    value = "".join(parts)
    place = random.randint(0, len(value))
    change = random.choice(("", "", random.choice(ALPHABET), "\n"))
    return value[:place] + change + value[place + random.randint(0, 1) :]


def test_rlike_agrees_with_python_on_random_cases(spark: SparkSession) -> None:
    random = Random(2021)
    made = [some_pattern(random) for _ in range(250)]
    assert_agreement(
        spark, [(pattern, [some_value(random, pattern) for _ in range(8)]) for pattern in made]
    )


def test_rlike_agrees_with_python_on_chosen_cases(spark: SparkSession) -> None:
    chosen = [
        "<digit>+",
        "<letter>+",
        "<upper>+",
        "<lower>+",
        "<alphanum>+",
        "<num>",
        "a<all>",
        r"\u{0}",
        r"\n",
        "<letter>+<(>-<letter>+<)?>",
        "<digit>+<|>N/A",
        *(str(parse_pattern(f"a\\{c}" if c in "\\<{+" else f"a{c}")) for c in HOSTILE),
    ]
    values = [
        *("1", "1\n", "\n1", "٣", "४", "²", "Ⅷ", "a", "É", "é", "ǅ", "ª", "שלום", "नमस्ते"),
        *("你好", "\U0001f600", "\U0001d7d8", "\U0001d400", "e\u0301", "\u0301", "a\u2028b", ""),
        *("-1.5e-10", "1.", "a\nb\r\u0085c", "\0", "\n", "a-b", "N/A", "a", "x" * 100_000),
        *(f"a{c}" for c in HOSTILE),
    ]
    assert_agreement(spark, [(parse_pattern(text), values) for text in chosen])


def assert_agreement(spark: SparkSession, cases: list[tuple[Pattern, list[str]]]) -> None:
    rows = [
        (number, spark_regex(pattern), value)
        for number, (pattern, values) in enumerate(cases)
        for value in values
    ]
    frame = spark.createDataFrame(rows, "number int, regex string, value string")
    answers = frame.selectExpr("number", "value", "rlike(value, regex) as answer").collect()
    wrong = [
        (cases[row.number][0].text, row.value, row.answer)
        for row in answers
        if row.answer != matches(cases[row.number][0], row.value)
    ]
    assert wrong == []


def test_long_values_do_not_hang_spark(spark: SparkSession) -> None:
    pattern = parse_pattern("<alphanum>+-<letter>+<digit>+<(> <num><)?>")
    values = [c * 1_000_000 for c in ("a", "1", "a1", "-", "a-", "\n")]
    assert_agreement(spark, [(pattern, values)])


def test_sources_of_files_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,b\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("z\nc\n", encoding="utf-8")

    def found(name: str) -> dict[str, DataFrame]:
        return sources(
            spark,
            name,
            root=tmp_path,
            unreadable=lambda *_: None,
            csv_options=lambda _, given: given,
        )

    assert sorted(found("*.csv")) == ["a.csv", "b.csv"]
    assert found(str(tmp_path / "a.csv")).keys() == {"a.csv"}
    with pytest.raises(UsageError, match="no table"):
        found("no_such_table_anywhere")
    with pytest.raises(UsageError, match="no file"):
        found(str(tmp_path / "*.json"))
    with pytest.raises(UsageError, match="no table"):
        found("two words; drop")
