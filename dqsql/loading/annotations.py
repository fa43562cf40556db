"""Finds `@expression {settings}` in the text of a comment.

The text is that of one comment after Jinja. Positions are offsets into it; the caller turns them
into places in the user's file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import yaml

from dqsql.dialect import prefix_end, shortened
from dqsql.errors import AnnotationError, DqsqlError, Span, SqlSyntaxError, error_of
from dqsql.loading import hints, suspects
from dqsql.loading.documents import DEPTH, LimitedLoader, load_yaml
from dqsql.loading.scanner import TextProblem
from dqsql.loading.settings import read_check_settings
from dqsql.model.project import Annotation, CheckSettings
from dqsql.model.settings import SettingProblem

_START = re.compile(r"(?<!\S)@(?=[^\W\d])")
# Looks like an annotation, but is none: better refused than silently ignored.
_MALFORMED_START = re.compile(
    r"""(?<!\S)@(?=[@(`]|!\(|(?:[-+]?[.\d]+|'[^'\n]*'|"[^"\n]*")\s*[<>=])"""
)
# `not_null.`, or `not_null. Prose`: in SQL no space follows the dot of a name.
_NAME_AND_PERIOD = re.compile(r"\s*[^\W\d]\w*(?=\.(?:\s|$))")
_CALL_AND_PERIOD = re.compile(r"\)(?=\.(?:\s|$))")
_PROSE = re.compile(r"[\w\s.,;:!?\-]*")
_WORD = re.compile(r"[^\W\d]\w*")
_POSITION = re.compile(r"\.? Line \d+, Col: \d+\.?")
_NAMED = re.compile(r"@+([^\W\d]\w*)")
# What follows a name that is meant as a check: a call, settings, a comparison.
_CHECK_LIKE = re.compile(
    r"\(|\s*(?:\{|[<>=!]|in\s*\(|between\b.+\band\b|is\s+(?:not\s+)?null\b)", re.IGNORECASE
)
# Nearer to a known name than this, and a word is likely that name misspelt.
_NEAR = 0.75
_NUMBER = re.compile(r"\b\d")
_NEVER_MET = re.compile(r"not[\s-]+null", re.IGNORECASE)
_NOT_NULL = "did you mean @not_null?"
_OPEN, _CLOSE = "([{", ")]}"
_QUOTED = {"'": re.compile(r"'(?:[^']|'')*+'"), '"': re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)}


class AnnotationProblem(TextProblem):
    """Something wrong with an annotation, at an offset of the comment."""

    annotation = ""

    def error(self, span: Span) -> AnnotationError:
        """The error at a place of the user's file."""
        error = AnnotationError(self.message, span=span, hint=self.hint)
        error.annotation = self.annotation
        return error


@dataclass(frozen=True, slots=True)
class ParsedAnnotation:
    """One annotation. `offset` is that of the `@` in the comment's text."""

    expression: str
    settings: CheckSettings
    offset: int
    text: str


def prose_offsets(comment: str, words: Collection[str]) -> list[int]:
    """The offset of each `@word` in a comment that is no check but prose: `@todo ..`, `@john`.

    `words` are all names that an annotation may begin with, in lower case. A word that is near to
    one of them, or that is followed by what makes a check of it, is none.
    """
    return [at for at in marked(comment) if _is_prose(comment, at, words)]


def marked(comment: str) -> list[int]:
    """The offset of each @ in a comment that begins an annotation, or tries to."""
    return sorted(
        [*annotation_offsets(comment), *(m.start() for m in _MALFORMED_START.finditer(comment))]
    )


def _is_prose(comment: str, at: int, words: Collection[str]) -> bool:
    match = _NAMED.match(comment, at)
    if match is None or _CHECK_LIKE.match(comment, match.end()):
        return False
    return not difflib.get_close_matches(match.group(1).lower(), words, n=1, cutoff=_NEAR)


def has_annotation(comment: str) -> bool:
    """Whether the text of a comment holds an annotation, or something that tries to be one."""
    return _START.search(comment) is not None or _MALFORMED_START.search(comment) is not None


def may_annotate(comment: str, known_names: Collection[str]) -> bool:
    """Whether `parse_comment` has anything to say about the text of a comment."""
    if "@" not in comment:
        return False
    return has_annotation(comment) or any(suspects.stray_names(comment, known_names))


@lru_cache(maxsize=16)
def annotation_offsets(comment: str) -> tuple[int, ...]:
    """The offset of the `@` of each annotation in a comment's text."""
    first = _START.search(comment)
    return tuple(_starts(comment, first.start())) if first else ()


def parse_comment(
    comment: str, known_names: Collection[str] = (), words: Collection[str] = ()
) -> Iterator[ParsedAnnotation | AnnotationProblem]:
    """Yield each annotation of a comment, or what is wrong with it.

    `known_names` are the names of check and metric macros: prose behind an annotation must not
    contain one, since it could be a check whose `@` was forgotten. With `words`, all names that an
    annotation may begin with, what `prose_offsets` finds is left out.
    """
    prose = set(prose_offsets(comment, words)) if words else set()
    malformed = next(
        (m for m in _MALFORMED_START.finditer(comment) if m.start() not in prose), None
    )
    if malformed is not None:
        shown = comment[malformed.start() :].partition("\n")[0].strip()
        yield AnnotationProblem(
            "an annotation starts with @ and a name",
            malformed.start(),
            shown,
            "write a free expression as @expect(..)",
        )
        return
    offsets = annotation_offsets(comment)
    # Where prose with an @ is allowed, it may name a check.
    looked_at = "" if words else comment[: offsets[0] if offsets else None]
    for at, name, hint in suspects.stray_names(looked_at, known_names):
        yield AnnotationProblem(f"@{name} is not read as an annotation here", at, f"@{name}", hint)
    for start, end in pairwise([*offsets, len(comment)]):
        if start in prose:
            continue
        try:
            if start == offsets[0]:
                _refuse_before(comment, start, end)
            yield _parse_one(comment, start, end, known_names)
        except AnnotationProblem as problem:
            problem.annotation = shortened(comment[start:end])
            yield problem


def _starts(comment: str, first: int) -> Iterator[int]:
    """Offsets of `@name` at bracket depth 0 and outside of strings, from the first one on."""
    depth, position = 0, first
    while position < len(comment):
        char = comment[position]
        if char == "{" and depth == 0:
            # YAML has its own rules for quotes, so the mapping is skipped as a whole.
            end = _mapping_end(comment, position)
            position = end if end is not None else position + 1
            continue
        if char in "'\"`":
            position = _string_end(comment, position)
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth = max(0, depth - 1)
        elif char == "@" and depth == 0 and _START.match(comment, position):
            yield position
        position += 1


def _string_end(text: str, start: int) -> int:
    quote, position = text[start], start + 1
    while position < len(text):
        if text[position] == "\\" and quote != "`":
            position += 1
        elif text[position] == quote:
            return position + 1
        position += 1
    # An apostrophe in prose: nothing behind it is swallowed, the tokenizer will complain.
    return start + 1


def _mapping_end(text: str, start: int) -> int | None:
    """The offset behind the YAML flow mapping at `start`, or None when there is none."""
    end = _closing_brace(text, start)
    if end is None:
        return None
    try:
        node = yaml.compose(text[start:end], Loader=LimitedLoader)
    except yaml.YAMLError:
        return None
    return end if isinstance(node, yaml.MappingNode) else None


def _closing_brace(text: str, start: int) -> int | None:
    """The offset behind the brace that closes the one at `start`, by YAML's rules for quotes."""
    depth, begins_value = 0, False
    position = start
    while position < len(text):
        char = text[position]
        if char in "'\"" and begins_value:
            quoted = _QUOTED[char].match(text, position)
            if quoted is None:
                return None
            position, begins_value = quoted.end(), False
            continue
        if char in "{[":
            depth += 1
            if depth > DEPTH:
                return None
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return position + 1
        begins_value = char in "{[,:?" or (begins_value and char.isspace())
        position += 1
    return None


def _split_settings(text: str) -> int | None:
    """The offset of the `{` at depth 0 that starts the settings, or None."""
    depth, position = 0, 0
    while position < len(text):
        char = text[position]
        if char in "'\"`":
            position = _string_end(text, position)
            continue
        if char == "{" and depth == 0:
            return position
        depth += (char in _OPEN) - (char in _CLOSE)
        position += 1
    return None


def _parse_one(
    comment: str, start: int, end: int, known_names: Collection[str]
) -> ParsedAnnotation:
    text = comment[start + 1 : end]
    brace = _split_settings(text)
    expression_text = text if brace is None else text[:brace]
    expression = _expression(expression_text, start + 1)
    if _NEVER_MET.fullmatch(expression.strip()):
        raise AnnotationProblem(
            "this is a condition that is never met", start, f"@{expression.strip()}", _NOT_NULL
        )
    if lost := suspects.lost_escape(expression):
        raise _lost(lost[1], start + 1 + lost[0], lost[1])
    _refuse_other_signs(expression, start + 1)
    rest_at = len(expression)
    settings = CheckSettings()
    stop = rest_at
    if brace is not None:
        if gap := expression_text[rest_at:].strip():
            _refuse_rest(expression, gap, start + 1 + expression_text.index(gap, rest_at))
        stop = _settings_end(text, brace, start + 1)
        settings = _settings(text[brace:stop], start + 1 + brace)
        if settings.where is not None and (lost := suspects.lost_escape(settings.where)):
            raise _lost(lost[1], start + 1 + brace, text[brace:stop])
    _check_prose(expression.strip(), text[stop:], start + 1 + stop, known_names)
    shown = comment[start : start + 1 + stop].strip()
    return ParsedAnnotation(expression.strip(), settings, start, shown)


def _expression(text: str, offset: int) -> str:
    """The longest SQL expression at the start of `text`."""
    if (name := _NAME_AND_PERIOD.match(text)) is not None:
        return name.group()
    candidate = text
    while True:
        try:
            return candidate[: prefix_end(candidate)]
        except SqlSyntaxError as error:
            end = _CALL_AND_PERIOD.search(candidate)
            shorter = candidate[: end.end()] if end else _without_prose_with_quote(candidate)
            if shorter is None:
                raise _expression_problem(text, offset, error) from error
            candidate = shorter


def _refuse_other_signs(expression: str, offset: int) -> None:
    """Refuse `[severity: warn]`, `1..5` and curly quotes, which SQL reads in its own way."""
    at = hints.bracketed_setting(expression)
    if at is not None:
        shown = expression[at:].strip()
        raise AnnotationProblem(
            "settings go in braces", offset + at, shown, f"write {{{shown.strip('[]() ')}}}"
        )
    if (hint := hints.curly_quotes(expression)) is not None:
        shown = f"@{expression.strip()}"
        raise AnnotationProblem("these quotes do not work in SQL", offset, shown, hint)
    values = hints.dotted_range(expression)
    if values is not None:
        raise AnnotationProblem(
            f"SQL has no ranges of numbers: {shortened(expression)!r}",
            offset,
            f"@{expression.strip()}",
            f"write @in_range({values}), or @mean between {values.replace(', ', ' and ')}",
        )


def _lost(escape: str, offset: int, shown: str) -> AnnotationProblem:
    return AnnotationProblem(
        f"SQL drops the backslash of {escape} in a text",
        offset,
        shown,
        f"write it twice: \\{escape}, or put an r before the text: r'..{escape}..'",
    )


def _without_prose_with_quote(text: str) -> str | None:
    """`text` up to a quote that is never closed: an apostrophe of prose, judged as rest later."""
    position = 0
    while position < len(text):
        if text[position] in "'\"`":
            end = _string_end(text, position)
            if end == position + 1:
                return text[:position] if text[:position].strip() else None
            position = end
        else:
            position += 1
    return None


def _expression_problem(text: str, offset: int, error: DqsqlError) -> AnnotationProblem:
    flat = " ".join(text.split())
    shown = shortened(flat)
    detail = _POSITION.sub("", error.message).rpartition("': ")[2]
    # sqlglot's messages about its own classes and texts say nothing to a user.
    detail = "" if "class" in detail or "\n" in detail or "'" in detail else f": {detail}"
    hint = hints.expression_hint(flat) or error.hint or "put prose before the @"
    return AnnotationProblem(
        f"cannot parse the expression {shown!r}{detail}", offset, f"@{shown}", shortened(hint)
    )


def _settings_end(text: str, brace: int, offset: int) -> int:
    end = _mapping_end(text, brace)
    if end is not None:
        return end
    shown = text[brace:].strip()
    detail = ""
    try:
        yaml.compose(shown, Loader=LimitedLoader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None)
        detail = f": {problem}" if problem else ""
    raise AnnotationProblem(
        f"the settings are not a YAML mapping{detail}",
        offset + brace,
        shown,
        hints.unquoted_condition(shown) or 'write {severity: warn, where: "a > 0"}',
    )


def _settings(text: str, offset: int) -> CheckSettings:
    try:
        values: Any = load_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        # Well-formed, but a value is not: an unknown tag, a list as a key, the 99th of a month.
        detail = getattr(error, "problem", None) or error
        raise AnnotationProblem(f"the settings cannot be read: {detail}", offset, text) from error
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise AnnotationProblem("the settings' keys must be names", offset, text)
    _refuse_repeated(text, offset)
    for key, value in values.items():
        # `{warn}` is a YAML mapping of warn to null.
        if value is None and key not in ("description", "name", "where", "fpr"):
            raise AnnotationProblem(
                f"the setting {key!r} has no value",
                offset + max(0, text.find(key)),
                text,
                hints.setting_without_value(text, key),
            )
    try:
        return read_check_settings({k: v for k, v in values.items() if v is not None})
    except SettingProblem as problem:
        at = max(0, text.find(problem.key))
        raise AnnotationProblem(problem.message, offset + at, text, problem.hint) from problem


def _refuse_repeated(text: str, offset: int) -> None:
    """YAML takes the last of several values, without a word."""
    seen: set[str] = set()
    node: Any = yaml.compose(text, Loader=LimitedLoader)
    for key, _ in node.value if node is not None else ():
        if key.value in seen:
            at = offset + key.start_mark.index
            raise AnnotationProblem(f"the setting {key.value!r} appears twice", at, text)
        seen.add(key.value)


def _refuse_before(comment: str, start: int, end: int) -> None:
    """Refuse an annotation that is only the end of what was meant: `0 <= @min < 50`."""
    before = comment[:start].rpartition("\n")[2]
    if suspects.belongs_before(before, comment[start:end].partition("{")[0]):
        raise AnnotationProblem(
            f"what stands before the @ is not part of the check: {shortened(before.strip())!r}",
            start,
            comment[start - len(before) :].partition("\n")[0].strip(),
            "write it behind the @, as in @min >= 0 and min < 50, or as @expect(..)",
        )


def _check_prose(expression: str, text: str, offset: int, known_names: Collection[str]) -> None:
    rest = text.strip()
    at = offset + len(text) - len(text.lstrip())
    # `@min >= 0 - 1 means unknown` compares with -1.
    dashed = rest and suspects.ends_with_dash(expression)
    if dashed or hints.loose_setting(rest) or hints.unit_hint(expression, rest):
        _refuse_rest(expression, rest, at)
    if suspects.is_condition(rest) or not _PROSE.fullmatch(rest) or _NUMBER.search(rest):
        _refuse_rest(expression, rest, at)
    for word in _WORD.finditer(rest):
        if word.group().lower() in known_names:
            raise AnnotationProblem(
                f"{word.group()!r} after an annotation is the name of a check or metric",
                at + word.start(),
                rest,
                f"write @{word.group()} to check it, or put prose into {{description: ..}}",
            )


def _refuse_rest(expression: str, rest: str, offset: int) -> None:
    raise AnnotationProblem(
        f"text after the annotation: {shortened(rest)!r}",
        offset,
        rest,
        hints.rest_hint(expression.strip(), rest),
    )


def with_mark(text: str) -> str:
    """An annotation's text with its `@`, which may be left out where nothing else can stand."""
    return text if text.lstrip().startswith("@") else f"@{text.lstrip()}"


def split_annotation(text: str) -> tuple[str, dict[str, Any]]:
    """The expression of an annotation, with or without its `@`, and its settings as written.

    Raises AnnotationProblem: its settings cannot be read.
    """
    text = text.strip().removeprefix("@")
    brace = _split_settings(text)
    if brace is None:
        return text, {}
    end = _settings_end(text, brace, 0)
    given = text[brace:end]
    _settings(given, brace)
    if text[end:].strip():
        _refuse_rest(text[:brace], text[end:].strip(), end)
    return text[:brace].strip(), load_yaml(given)  # type: ignore[return-value]


def read_annotations(
    texts: Sequence[object], known_names: Collection[str]
) -> tuple[Annotation, ...]:
    """The annotations in some texts, each with or without its `@`.

    The place of one is its text's number and the line and column in it: `checks[2]:1:5`. Raises
    what is wrong with all of them.
    """
    annotations: list[Annotation] = []
    errors: list[DqsqlError] = []
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            span = Span(f"checks[{number}]", text=repr(text))
            errors.append(AnnotationError(f"a check is a text, not {text!r}", span=span))
            continue
        written = with_mark(text)
        parsed = list(parse_comment(written, known_names))
        if not parsed:
            problem = AnnotationProblem("this is not an annotation", 0, text, "write @not_null(id)")
            parsed.append(problem)
        for one in parsed:
            span = Span.at_offset(f"checks[{number}]", written, one.offset, one.text)
            if isinstance(one, AnnotationProblem):
                errors.append(one.error(span))
            else:
                annotations.append(Annotation(one.expression, one.settings, span))
    if errors:
        raise error_of(errors)
    return tuple(annotations)
