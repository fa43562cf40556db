"""How people may have meant an annotation that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dqsql.loading import suspects
from dqsql.loading.settings import CHECK_SETTINGS

_Rule = Callable[[str], str | None]
_WORD = re.compile(r"[^\W\d]\w*")
# Operators in sqlglot's eyes, and what is meant.
_OPERATORS = {
    "notnull": "not_null",
    "isnull": "null_count > 0",
    "between": "in_range(1, 100), or a metric: @mean between 1 and 100",
    "like": "matches('regex'), or @satisfies(column like '..')",
    "rlike": "matches('regex')",
    "in": "accepted_values(..)",
    "exists": "not_null",
}
_PERCENT = re.compile(r"\d\s*%\s*(?:$|and\b|or\b)", re.IGNORECASE)
_HALF = re.compile(r"\b(and|or)\s*(?:[<>=!])", re.IGNORECASE)
_NOTHING_BEHIND = re.compile(r"(?:[<>=!]|\b(?:and|or|between|in))\s*$", re.IGNORECASE)
_JOINED = re.compile(r"\b(and|or)\s*$", re.IGNORECASE)
_WHOLE_BETWEEN = re.compile(r"\bbetween\s+\S+\s+and\s*$", re.IGNORECASE)
_ASSIGNED = re.compile(r"\(\s*(\w+)\s*=\s*(?:\[(.*)\]|\()", re.DOTALL)
_COLON = re.compile(r"[(,]\s*([^\W\d]\w*)\s*:\s*(?!:)")
_CURLY_QUOTES = re.compile("[\u2018\u2019\u201a\u201b\u201c\u201d\u201e]")
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+(?:\.\d+)?|\.\d+)(?![\w])")
_BETWEEN_CALL = re.compile(r"^\s*between\s*\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)", re.IGNORECASE)
_BETWEEN_ALONE = re.compile(r"^\s*between\s+(\S+)\s+and\s+(\S+)\s*$", re.IGNORECASE)
_BETWEEN = re.compile(r"^(.*?)\s*\bbetween\b(.*)$", re.IGNORECASE | re.DOTALL)
# What stands bare where a text in quotes is wanted.
_BARE_PATTERN = re.compile(r"^\s*(pattern|matches)\s*[(/](.*?)[)/]?\s*$", re.IGNORECASE | re.DOTALL)
_COLUMN_BEFORE = re.compile(r"(?:[^\W\d]\w*|`[^`]+`)\s*,\s*(?=\S)")
_NO_COMMA = re.compile(r"\([^()]*[\w']\s+['\w][^()]*\)")
_RANGE_DOTS = re.compile(r"(-?\d+(?:\.\d+)?)\s*\.\.+\s*(-?\d+(?:\.\d+)?)")
# Operators of other languages, of typographers and of fast fingers.
_MISTYPED: Mapping[str, str] = {
    "=>": ">=",
    "=<": "<=",
    "> =": ">=",
    "< =": "<=",
    "! =": "<>",
    ">==": ">=",
    "<==": "<=",
    "===": "=",
    "=!": "<>",
    "!>": "<=",
    "!<": ">=",
    "\u2265": ">=",
    "\u2264": "<=",
    "\u2260": "<>",
}
_OPERATOR = re.compile(
    "|".join(re.escape(o).replace(r"\ ", r"\s+") for o in sorted(_MISTYPED, key=len, reverse=True))
)
_IN_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"^:?\s*(?:is\s+|must\s+be\s+|should\s+be\s+)?(?:{words})\s+", re.IGNORECASE), o)
    for words, o in (
        (r"(?:greater|more|larger|bigger|higher)(?:\s+than)?\s+or\s+equal(?:\s+to)?", ">="),
        (r"(?:less|fewer|smaller|lower)(?:\s+than)?\s+or\s+equal(?:\s+to)?", "<="),
        (r"greater\s+than|more\s+than|larger\s+than|bigger\s+than|higher\s+than|above|over", ">"),
        (r"less\s+than|fewer\s+than|smaller\s+than|lower\s+than|below|under", "<"),
        (r"at\s+least|not\s+less\s+than|min(?:imum)?|from", ">="),
        (r"at\s+most|not\s+more\s+than|up\s+to|max(?:imum)?", "<="),
        (r"equals?(?:\s+to)?|equal", "="),
    )
)
_IS_SYMBOL = re.compile(r"^is\s*([<>=!]+)\s*(\S+)", re.IGNORECASE)
_COMMA_IN_NUMBER = re.compile(r"^,(\d+)\b")
_LAST_NUMBER = re.compile(r"(?<![\w.])\d+$")
_UNIT = re.compile(
    r"^(hours?|hrs?|days?|weeks?|minutes?|mins?|seconds?|secs?|percent|percents|pct|rows?|"
    r"characters?|chars?|thousand|million|billion|[kmbhd])\b",
    re.IGNORECASE,
)
_HOURS: Mapping[str, float] = {"w": 168, "d": 24, "h": 1, "m": 1 / 60, "s": 1 / 3600}
_LOOSE_SETTING = re.compile(rf"\b({'|'.join(sorted(CHECK_SETTINGS))})\s*[:=]\s*(\S.*)", re.DOTALL)
_BRACKETED_SETTING = re.compile(rf"[\[(]\s*(?:{'|'.join(sorted(CHECK_SETTINGS))})\s*:(?!:)")
AND = "SQL uses and, not &&"
_PROSE_ELSEWHERE = "put prose before the @ or into {description: ..}"


def expression_hint(text: str) -> str | None:
    """How an expression that cannot be parsed may have been meant, or None."""
    return next((hint for rule in _RULES if (hint := rule(text)) is not None), None)


# --- rules on whole expressions ----------------------------------------------------------------


def _operator_name(text: str) -> str | None:
    word = _WORD.match(text.strip())
    meant = _OPERATORS.get(word.group().lower()) if word else None
    return None if meant is None else f"did you mean @{meant}?"


def curly_quotes(text: str) -> str | None:
    """The hint on quotes as typographers set them, or None."""
    curly = _CURLY_QUOTES.search(_blanked(text))
    return "write straight quotes: 'a text'" if curly and "`" not in text else None


def _unquoted(text: str) -> str | None:
    match = _BARE_PATTERN.match(text)
    if match is None or not match.group(2).strip() or re.search(r"['\"]", text):
        return None
    name, body = match.group(1).lower(), match.group(2).strip()
    what, prefix = ("pattern", "") if name == "pattern" else ("regular expression", "r")
    named = _COLUMN_BEFORE.match(body)
    column = named.group() if named else ""
    return f"quote the {what}: @{name}({column}{prefix}'{body[len(column) :]}')"


def _assigned(text: str) -> str | None:
    match = _ASSIGNED.search(text)
    if match is None:
        return None
    return f"write the values one after the other: ({(match.group(2) or '..').strip()})"


def _mistyped(text: str) -> str | None:
    match = _OPERATOR.search(_outside_brackets(text))
    if match is None:
        return None
    meant = f"{text[: match.start()].strip()} {_symbol(match)} {text[match.end() :].strip()}"
    return f"did you mean @{meant}?"


def _symbol(mistyped: re.Match[str]) -> str:
    return _MISTYPED[" ".join(mistyped.group().split())]


def _between(text: str) -> str | None:
    match = _BETWEEN.match(suspects.LITERAL.sub("''", text))
    if match is None:
        return None
    # `5 - 10` and `5-10` are two numbers here.
    bounds = re.sub(r"(?<=\d)\s*[-\u2013]\s*(?=\.?\d)", " ", match.group(2))
    head, numbers = match.group(1).strip(), _NUMBER.findall(bounds)
    if len(numbers) == 2:
        return f"write @{head} between {' and '.join(numbers)}"
    low = float(numbers[0]) if numbers else 5.0
    high = 2 * low if low > 0 else low + 10
    return f"between needs two bounds: @{head} between {low:g} and {high:g}"


def _joined(text: str) -> str | None:
    match = _JOINED.search(text)
    if match is None or _WHOLE_BETWEEN.search(text):
        return None
    return f"leave {match.group(1)} out: each @ begins a new check"


def _open_bracket(text: str) -> str | None:
    bare = suspects.LITERAL.sub("''", text)
    depth = sum(bare.count(c) for c in "([{") - sum(bare.count(c) for c in ")]}")
    if depth <= 0:
        return None
    several = (
        ": an annotation of several lines must be in /* .. */" if bare.rstrip()[-1:] in ",(" else ""
    )
    return f"a parenthesis is not closed{several}"


def _found(pattern: re.Pattern[str], hint: str, *, bare: bool = False) -> _Rule:
    """A hint where a pattern is found in a text, or in one whose literals are empty."""

    def rule(text: str) -> str | None:
        match = pattern.search(suspects.LITERAL.sub("''", text) if bare else text)
        return None if match is None else hint.format(*match.groups())

    return rule


_missing_end = _found(_NOTHING_BEHIND, "something is missing at the end")
_RULES: tuple[_Rule, ...] = (
    _found(_BETWEEN_CALL, "did you mean @in_range({0}, {1})?"),
    _found(
        _BETWEEN_ALONE, "did you mean @in_range({0}, {1}), or a metric: @mean between {0} and {1}?"
    ),
    _operator_name,
    curly_quotes,
    _unquoted,
    lambda text: "a quote is not closed" if text.count("'") % 2 or text.count('"') % 2 else None,
    _assigned,
    _found(re.compile("&&"), AND, bare=True),
    _found(_PERCENT, "shares are numbers between 0 and 1: 0.8, not 80%"),
    _found(_HALF, "write a whole comparison after {0}, or: between 1 and 100"),
    _joined,
    _mistyped,
    lambda text: _missing_end(text) if _WHOLE_BETWEEN.search(text) else None,
    _between,
    _missing_end,
    _open_bracket,
    _found(_COLON, "name a parameter like this: {0} => ..", bare=True),
    _found(_NO_COMMA, "is a comma missing?", bare=True),
)


# --- what follows an annotation ----------------------------------------------------------------


def rest_hint(expression: str, rest: str) -> str:
    """How what follows an annotation may have been meant."""
    if rest.startswith("{"):
        return 'put all settings into one pair of braces: {severity: warn, where: "a > 0"}'
    if (loose := loose_setting(rest)) is not None:
        return loose
    if suspects.is_condition(rest):
        return 'a condition goes into braces: {where: "a > 0"}; prose before the @'
    if rest.startswith("&&"):
        return AND
    if rest.startswith((")", "]")):
        return "there is one closing parenthesis too many"
    if re.search(r"\bbetween\b", expression, re.IGNORECASE) and _NUMBER.match(rest):
        return _between(f"{expression} {rest}") or _PROSE_ELSEWHERE
    return _comparison_hint(expression, rest) or _call_hint(expression, rest) or _PROSE_ELSEWHERE


def _comparison_hint(expression: str, rest: str) -> str | None:
    digits = _LAST_NUMBER.search(expression)
    comma = _COMMA_IN_NUMBER.match(rest)
    if digits is not None and comma is not None:
        whole, more = digits.group(), comma.group(1)
        is_thousands = len(more) == 3 and int(whole) > 0
        return f"numbers have no comma: write {whole}{'' if is_thousands else '.'}{more}"
    if digits is not None and (unit := unit_hint(expression, rest)) is not None:
        return unit
    mistyped = _OPERATOR.match(rest)
    if mistyped is not None:
        meant = f"{expression} {_symbol(mistyped)} {rest[mistyped.end() :].strip()}"
        return f"did you mean @{meant}?"
    if (symbols := _IS_SYMBOL.match(rest)) is not None:
        return f"did you mean @{expression} {symbols.group(1)} {symbols.group(2)}?"
    for words, operator in _IN_WORDS:
        match = words.match(rest)
        value = _NUMBER.search(rest, match.end()) if match else None
        if value is not None:
            return f"did you mean @{expression} {operator} {value.group()}?"
    return None


def _call_hint(expression: str, rest: str) -> str | None:
    if not re.fullmatch(r"[^\W\d]\w*(?:\(.*\))?", expression, re.DOTALL):
        return None
    given = rest.lstrip(":= ").rstrip()
    numbers = _NUMBER.findall(given)
    if len(numbers) == 1 and numbers[0] == given.rstrip(".;,"):
        return f"compare it, for example: @{expression} >= {given}"
    is_condition = expression.lower() in ("expect", "satisfies") and given
    if "(" not in expression and (is_condition or given[:1] in ("'", '"') or len(numbers) > 1):
        return f"put it into parentheses: @{expression}({given})"
    return None


def unit_hint(expression: str, rest: str) -> str | None:
    """The hint on a unit behind a number: `@freshness < 2 days`; None where none stands there."""
    digits, unit = _LAST_NUMBER.search(expression), _UNIT.match(rest)
    if digits is None or unit is None:
        return None
    word = unit.group(1).lower()
    if expression.lower().startswith("freshness") and word[0] in _HOURS:
        hours = float(digits.group()) * _HOURS[word[0]]
        return f"freshness is in hours: write {hours:.6g}"
    if word.startswith(("percent", "pct")):
        return f"shares are numbers between 0 and 1: {float(digits.group()) / 100:g}"
    return "a number has no unit"


def loose_setting(text: str) -> str | None:
    """The hint on prose that is a setting without its braces, or None."""
    match = _LOOSE_SETTING.search(text)
    if match is None:
        return None
    value = match.group(2).strip()
    if text.lstrip().startswith(("(", "[")):
        value = value.rstrip(")] ")
    return f"write {{{match.group(1)}: {value.rstrip('}').strip()}}}"


def bracketed_setting(text: str) -> int | None:
    """The offset of settings in other brackets than braces: `[severity: warn]`; None without."""
    match = _BRACKETED_SETTING.search(_blanked(text))
    return match.start() if match else None


def _blanked(text: str) -> str:
    """The text with its string literals blanked, each character in its place."""
    return suspects.LITERAL.sub(lambda m: " " * len(m.group()), text)


def _outside_brackets(text: str) -> str:
    """What of a text stands in no parentheses and no string literal."""
    kept, depth = [], 0
    for char in _blanked(text):
        depth += (char in "([{") - (char in ")]}")
        kept.append(" " if depth > 0 else char)
    return "".join(kept)


def dotted_range(text: str) -> str | None:
    """`1, 5` of `1..5` in a text, or None."""
    match = _RANGE_DOTS.search(_blanked(text))
    return f"{match.group(1)}, {match.group(2)}" if match else None


_CONDITION = re.compile(r"\b(where|warn|error_if|warn_if)\s*:\s*([^\s\"'].*?)\s*\}?\s*$", re.DOTALL)


def unquoted_condition(text: str) -> str | None:
    """The hint on settings with a condition that YAML cannot read without quotes."""
    match = _CONDITION.search(text)
    if match is None or '"' in match.group(2):
        return None
    return f'put the condition in quotes: {{{match.group(1)}: "{match.group(2)}"}}'


def setting_without_value(text: str, key: str) -> str:
    """The hint on `{severity=warn}`, `{severity:warn}`, `{warn}`, `{where: a in (1, 2)}`."""
    if not key.isidentifier() and (hint := unquoted_condition(text)):
        return hint
    for sign in "=:":
        if sign in key:
            return f"write {{{key.replace(sign, ': ', 1)}}}"
    return f"write {{{key}: ..}}"
