"""Finds SQL comments and Jinja blocks in raw text, in one pass and linear time.

The lexical rules are Spark's: nested block comments, hints (`/*+ .. */`) that are no comments,
`--` comments continued by a backslash at the end of the line, raw strings, doubled quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

_DASHES = re.compile(r"(?:^|[\s,])--(?:\s|$)")


class TextProblem(Exception):
    """Something wrong at `offset` of a text; the caller knows the file."""

    def __init__(self, message: str, offset: int, text: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.text = text
        self.hint = hint


class SegmentKind(StrEnum):
    """What a stretch of text is."""

    LINE_COMMENT = "line comment"
    BLOCK_COMMENT = "block comment"
    HINT = "hint"
    JINJA = "jinja"


@dataclass(frozen=True, slots=True)
class Segment:
    """A comment, hint or Jinja block: `text[start:end]`.

    `closed` is False when the text ended before the segment did.
    """

    kind: SegmentKind
    start: int
    end: int
    closed: bool = True

    @property
    def body_start(self) -> int:
        """The offset behind the comment opener."""
        return self.start + 2

    @property
    def body_end(self) -> int:
        """The offset before the comment closer."""
        block = self.kind is SegmentKind.BLOCK_COMMENT and self.closed
        return max(self.body_start, self.end - 2) if block else self.end


def is_commented_out(text: str, comment: Segment, offset: int) -> bool:
    """Whether what is at an offset in a comment belonged to a line that is now a comment.

    As in `-- name, -- @unique` and `-- -- @unique`. Behind code, dashes separate prose.
    """
    line = text.rfind("\n", 0, offset) + 1
    start = max(line, comment.body_start)
    is_behind_code = start == comment.body_start and text[line : comment.start].strip() != ""
    before = text[start:offset].partition("@")[0]
    return not is_behind_code and _DASHES.search(before) is not None


@dataclass(frozen=True, slots=True)
class ScannedText:
    """What the scanner found.

    `unclosed_quote` is the offset of a quote that is never closed. `jinja` holds every Jinja
    block, also those inside strings and comments.
    """

    segments: tuple[Segment, ...] = ()
    jinja: tuple[Segment, ...] = ()
    unclosed_quote: int | None = None

    @property
    def hidden(self) -> tuple[Segment, ...]:
        """What SQL does not read, and hints."""
        return tuple(s for s in self.segments if s.kind is not SegmentKind.JINJA)

    @property
    def comments(self) -> tuple[Segment, ...]:
        """The comments in order."""
        kinds = (SegmentKind.LINE_COMMENT, SegmentKind.BLOCK_COMMENT)
        return tuple(s for s in self.segments if s.kind in kinds)


_JINJA_OPEN = ("{{", "{%", "{#")
_INTERESTING = re.compile(r"--|/\*|['\"`]|\{[{%#]")
_RAW_TAG = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}")
_END_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_IN_STRING = re.compile(r"\\|['\"`]|\{[{%#]")
_IN_LINE_COMMENT = re.compile(r"\\?\n|\r|\{[{%#]")
_IN_BLOCK_COMMENT = re.compile(r"/\*|\*/|\{[{%#]")
_IN_JINJA = re.compile(r"['\"{]|%?\}")


@dataclass(slots=True)
class _Scanner:
    text: str
    with_jinja: bool
    segments: list[Segment] = field(default_factory=list)
    jinja: list[Segment] = field(default_factory=list)
    unclosed_quote: int | None = None
    # Inside {% raw %} braces are plain text; the end of that region.
    raw_until: int = 0

    def scan(self) -> ScannedText:
        position = 0
        while match := _INTERESTING.search(self.text, position):
            position = self._handle(match)
        return ScannedText(tuple(self.segments), tuple(self.jinja), self.unclosed_quote)

    def _handle(self, match: re.Match[str]) -> int:
        opener, start = match.group(), match.start()
        if opener == "--":
            return self._line_comment(start)
        if opener == "/*":
            return self._block_comment(start)
        if opener[0] == "{":
            end = self._jinja_block(start)
            if end is None:
                return start + 2
            self.segments.append(self.jinja[-1])
            return end
        return self._quoted(start)

    def _jinja_block(self, start: int) -> int | None:
        """The end of the Jinja block at `start`, or None when braces are plain text here."""
        if not self.with_jinja:
            return None
        if start < self.raw_until:
            if _END_RAW.match(self.text, start) is None:
                return None
        elif raw := _RAW_TAG.match(self.text, start):
            ending = _END_RAW.search(self.text, raw.end())
            self.raw_until = ending.end() if ending else len(self.text)
        end = self._jinja_end(start)
        closed = end >= 0
        end = end if closed else len(self.text)
        self.jinja.append(Segment(SegmentKind.JINJA, start, end, closed))
        return end

    def _jinja_end(self, start: int) -> int:
        opener = self.text[start : start + 2]
        if opener == "{#":
            comment_end = self.text.find("#}", start + 2)
            return comment_end + 2 if comment_end >= 0 else -1
        # As in Jinja's own lexer, `}}` and `%}` close a block only outside of a dict literal.
        position, depth = start + 2, 0
        while match := _IN_JINJA.search(self.text, position):
            token: str = match.group()
            position = match.end()
            if token in "'\"":
                position = self._jinja_string_end(match.start())
            elif token == "{":
                depth += 1
            elif depth == 0 and token == "%}" and opener == "{%":
                return position
            elif depth == 0 and opener == "{{" and self.text.startswith("}}", match.start()):
                return match.start() + 2
            elif token == "}":
                depth = max(0, depth - 1)
        return -1

    def _jinja_string_end(self, start: int) -> int:
        quote = self.text[start]
        position = start + 1
        while position < len(self.text):
            if self.text[position] == "\\":
                position += 2
            elif self.text[position] == quote:
                return position + 1
            else:
                position += 1
        return len(self.text)

    def _line_comment(self, start: int) -> int:
        position = start + 2
        while match := _IN_LINE_COMMENT.search(self.text, position):
            if match.group() in _JINJA_OPEN:
                position = self._jinja_block(match.start()) or match.end()
            elif match.group()[0] == "\\":
                position = match.end()
            else:
                self.segments.append(Segment(SegmentKind.LINE_COMMENT, start, match.start()))
                return match.start()
        self.segments.append(Segment(SegmentKind.LINE_COMMENT, start, len(self.text)))
        return len(self.text)

    def _block_comment(self, start: int) -> int:
        is_hint = self.text.startswith("/*+", start)
        kind = SegmentKind.HINT if is_hint else SegmentKind.BLOCK_COMMENT
        depth, position = 1, start + 2
        while match := _IN_BLOCK_COMMENT.search(self.text, position):
            position = match.end()
            if match.group() in _JINJA_OPEN:
                position = self._jinja_block(match.start()) or match.end()
            elif match.group() == "*/":
                depth -= 1
            elif not is_hint and not self.text.startswith("+", match.end()):
                depth += 1
            if depth == 0:
                self.segments.append(Segment(kind, start, position))
                return position
        self.segments.append(Segment(kind, start, len(self.text), closed=False))
        return len(self.text)

    def _quoted(self, start: int) -> int:
        quote = self.text[start]
        is_raw = quote != "`" and self._has_raw_prefix(start)
        position = start + 1
        while match := _IN_STRING.search(self.text, position):
            token = match.group()
            position = match.end()
            if token in _JINJA_OPEN:
                position = self._jinja_block(match.start()) or match.end()
            elif token == "\\":
                position += 0 if is_raw or quote == "`" else 1
            elif token == quote:
                if is_raw or not self.text.startswith(quote, position):
                    return position
                position += 1
        if self.unclosed_quote is None:
            self.unclosed_quote = start
        return len(self.text)

    def _has_raw_prefix(self, start: int) -> bool:
        if start == 0 or self.text[start - 1] not in "rR":
            return False
        before = self.text[start - 2] if start > 1 else " "
        return not (before.isalnum() or before == "_")


def scan(text: str, *, jinja: bool = True) -> ScannedText:
    """Find comments, hints and Jinja blocks in `text`.

    `jinja` False treats braces as plain text (for text that Jinja has already rendered).
    """
    return _Scanner(text, with_jinja=jinja).scan()


def blank(text: str, segments: tuple[Segment, ...]) -> str:
    """`text` with the given segments replaced by spaces; offsets and line breaks stay."""
    parts: list[str] = []
    position = 0
    for segment in segments:
        parts.append(text[position : segment.start])
        parts.append(re.sub(r"[^\n]", " ", text[segment.start : segment.end]))
        position = segment.end
    parts.append(text[position:])
    return "".join(parts)


@lru_cache(maxsize=16)
def line_starts(text: str) -> tuple[int, ...]:
    """The offset of the first character of every line."""
    return (0, *(match.end() for match in re.finditer("\n", text)))
