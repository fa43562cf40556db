"""Small pieces of text: safe, short, and the same everywhere."""

from __future__ import annotations

import math
import unicodedata

_ELLIPSIS = "..."
# Characters that reorder what a terminal shows.
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# A copy of ASCII that nothing shows.
_TAGS = ("\U000e0000", "\U000e007f")
# Control characters, and what begins another line or paragraph.
_CONTROLS = frozenset({"Cc", "Zl", "Zp"})


def printable(text: str) -> str:
    """Return `text` on one line and without control characters; spaces before it stay.

    Batch names, messages and file contents come from data: an escape sequence in them must not
    reach the terminal, and a line break must not tear a line apart.
    """
    if text.isascii() and text.isprintable():
        return text
    flat = text.replace("\t", " ")
    if "\n" in text or "\r" in text:
        indent = text[: len(text) - len(text.lstrip(" "))]
        flat = indent + " ".join(text.split())
    return "".join("?" if _is_control(c) else c for c in flat)


def _is_control(character: str) -> bool:
    is_hidden = character in _BIDIRECTIONAL or _TAGS[0] <= character <= _TAGS[1]
    return is_hidden or unicodedata.category(character) in _CONTROLS


def shorten(text: str, width: int) -> str:
    """Return `text` cut to `width` characters, with dots where something is missing."""
    return text if len(text) <= width else text[: max(width - len(_ELLIPSIS), 0)] + _ELLIPSIS


def display_width(text: str) -> int:
    """Return how many terminal cells `text` takes: two for wide characters, none for combining."""
    return sum(_cells(c) for c in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def padded(text: str, width: int, fill: str = " ") -> str:
    """Return `text` filled up to `width` terminal cells."""
    return text + fill * max(width - display_width(text), 0)


def number(value: float) -> str:
    """Return a number as people write it: 82.1, 14, 0.00123, 1,234,567."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def file_size(count: float) -> str:
    """Return bytes for people: `512 B`, `1.5 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def duration(seconds: float) -> str:
    """Return `6.1s`, `2m 05s` or `1h 02m`."""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"
