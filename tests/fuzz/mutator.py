"""Makes texts that nobody would write from texts that people do write."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

# What the readers look for, and what has broken readers before.
TOKENS = (
    *("'", '"', "`", "--", "/*", "*/", "/*+", "\\", "\\'", "\n", "\r\n", "\t", " ", ";", ",", "."),
    *("{{", "}}", "{%", "%}", "{#", "#}", "{", "}", "(", ")", "[", "]", "<", ">", "::", "=>", "@"),
    *("{% raw %}", "{% endraw %}", "{% if x %}", "{% endif %}", "{% for i in range(9) %}"),
    *("{% endfor %}", "{{ 'a' * 10**9 }}", "{{ loop }}", "{{ ref('m') }}", "{{ config(pii=1) }}"),
    *("@not_null", "@mean", "@expect(", "@@", "@(", "@todo", " and ", " not ", " or ", " between "),
    *("select ", " from t", " union all ", "with a as (", "case when ", " end", " as ", "*", "-"),
    *("null", "true", "NaN", "Infinity", "-1", "0", "1e999", "0x" + "f" * 40, "9" * 30, "9" * 5000),
    *("&a ", "*a", "<<: ", "- ", ": ", "? ", "| ", "!!python/name:os ", "!x ", "---\n", "%YAML "),
    *(
        "2024-99-99",
        "~",
        "[]",
        "{}",
        '""',
        "\x00",
        "\x07",
        "\x1b[31m",
        "\ufeff",
        "\u202e",
        "ß",
        "é",
    ),
    *("\U0001f600", "\ue0d1", "\ud7ff", "e\u0301", "K", "<num>", "<digit>{3}", "<all>", "+", "\\<"),
    *(
        "--select",
        "--vars",
        "-x",
        "--",
        "state:modified",
        "tag:",
        "+m+",
        "@m",
        "result:fail",
        "*:*",
    ),
)
_LONGEST = 100_000


def mutated(seeds: Sequence[str], chance: random.Random) -> str:
    """One of the seeds after one to eight changes, mostly one."""
    text = chance.choice(seeds)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        change = chance.choice(_CHANGES)
        text = change(text, seeds, chance)[:_LONGEST]
    return text


def _span(text: str, chance: random.Random, longest: int = 40) -> tuple[int, int]:
    start = chance.randint(0, len(text))
    return start, min(len(text), start + chance.randint(0, longest))


def _insert(text: str, _: Sequence[str], chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(TOKENS) + text[at:]


def _delete(text: str, _: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    return text[:start] + text[end:]


def _repeat(text: str, _: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance, 12)
    return text[:end] + text[start:end] * chance.choice((1, 2, 10, 60, 500)) + text[end:]


def _nest(text: str, _: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    left, right = chance.choice(
        (("(", ")"), ("[", "]"), ("{", "}"), ("{a: ", "}"), ("not ", ""), ("- ", ""), ("case ", ""))
    )
    times = chance.choice((1, 5, 30, 60, 400))
    return text[:start] + left * times + text[start:end] + right * times + text[end:]


def _splice(text: str, seeds: Sequence[str], chance: random.Random) -> str:
    other = chance.choice(seeds)
    start, end = _span(other, chance, 200)
    at = chance.randint(0, len(text))
    return text[:at] + other[start:end] + text[at:]


def _swap(text: str, _: Sequence[str], chance: random.Random) -> str:
    start, end = _span(text, chance)
    return text[:start] + text[start:end][::-1] + text[end:]


def _character(text: str, _: Sequence[str], chance: random.Random) -> str:
    at = chance.randint(0, len(text))
    code = chance.choice((chance.randint(0, 127), chance.randint(128, 0xD7FF)))
    return text[:at] + chr(code) + text[at + 1 :]


_CHANGES: tuple[Callable[[str, Sequence[str], random.Random], str], ...] = (
    *(_insert, _insert, _insert, _delete, _delete, _repeat, _nest, _splice, _swap, _character),
)
