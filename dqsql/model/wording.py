"""Numbers and nouns in texts for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

# How the message of a monitor begins whose history is too short.
LEARNING = "still learning"
# How a monitor says that it needs times and has none.
NO_TIME = "batches are not named by a time"
_DIGITS, _MOST_DIGITS = 6, 12
_NAMED_SEGMENTS = 3


def still_learning(have: int, need: int, what: str = "accepted batches") -> str:
    """The message of a monitor whose history is too short.

    >>> still_learning(3, 8)
    'still learning: 3 of 8 accepted batches'
    """
    return f"{LEARNING}: {have} of {need} {what}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return the count with the right form of the noun.

    >>> plural(1, "batch"), plural(2000, "batch")
    ('1 batch', '2,000 batches')
    """
    if count == 1:
        return f"1 {noun}"
    default = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{count:,} {nouns or default}"


def range_words(
    lower: float | None, upper: float | None, formatter: Callable[[float], str], same: str = "{}"
) -> str | None:
    """Return an interval in words; None where it is open on both sides, by None or infinity.

    `formatter` writes a bound, `same` stands around the bound of an interval of one value.

    >>> range_words(3, None, str), range_words(3, 5, str), range_words(3, 3, str, "exactly {}")
    ('at least 3', '3 to 5', 'exactly 3')
    """
    low = None if lower is None or lower == -math.inf else formatter(lower)
    high = None if upper is None or upper == math.inf else formatter(upper)
    if low is None:
        return None if high is None else f"at most {high}"
    if high is None:
        return f"at least {low}"
    return same.format(low) if lower == upper else f"{low} to {high}"


def scalar_text(value: object) -> str:
    """Return a value as YAML and SQL write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def texts_of(texts: Iterable[str]) -> tuple[str, ...]:
    """A list of texts that somebody handed over; a text alone is a list of one, not of letters."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` of some texts, and how many there are beside.

    >>> first_of(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    shown = separator.join(texts[:most])
    return f"{shown} and {len(texts) - most:,} more" if len(texts) > most else shown


def in_segments(segment: str | None, segments: Iterable[str | None]) -> str:
    """Which segments a text is about, behind it: it is `segment` of one of them, or of all rows.

    >>> in_segments(None, [None, "shop=b", "shop=a"]), in_segments("k=3", ["k=3"])
    (' (also in shop=a, shop=b)', ' (in k=3)')
    >>> in_segments("k=3", (f"k={i}" for i in range(6)))
    ' (in k=3; also in k=0, k=1, k=2 and 2 more segments)'
    """
    others = sorted({s for s in segments if s is not None and s != segment})
    more = plural(len(others) - _NAMED_SEGMENTS, "more segment")
    shown = ", ".join(others[:_NAMED_SEGMENTS])
    shown += f" and {more}" if len(others) > _NAMED_SEGMENTS else ""
    parts = ([] if segment is None else [f"in {segment}"]) + (
        [f"also in {shown}"] if others else []
    )
    return f" ({'; '.join(parts)})" if parts else ""


def number_text(value: float, apart: float | None = None) -> str:
    """A number for people: up to six significant digits, whole numbers whole.

    More where numbers that are told together are no further `apart` than that, so that they differ.

    >>> number_text(1234567.8), number_text(48.09532), number_text(48.09532, 0.0001)
    ('1,234,568', '48.0953', '48.09532')
    """
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e15:
        return f"{value:.6g}"
    size = math.floor(math.log10(abs(value)))
    digits = max(_DIGITS, size + 1)
    if apart and math.isfinite(apart):
        digits = max(digits, min(_MOST_DIGITS, size - math.floor(math.log10(apart)) + 2))
    text = f"{value:,.{digits}g}"
    # What is rounded up may have one digit more: 1,000,000 and not 1e+06.
    return f"{value:,.0f}" if "e+" in text else text


def all_digits(value: float) -> str:
    """A number with all of its digits.

    >>> all_digits(4812345678901.24), all_digits(1e17), all_digits(0.25)
    ('4,812,345,678,901.24', '100,000,000,000,000,000', '0.25')
    """
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e22 else f"{value:,}"


def gone_rows(batches: int) -> str:
    """What is told of a model without rows, of which so many batches were checked before."""
    if not batches:
        return "no rows, so nothing was checked"
    return f"no rows any more; {plural(batches, 'batch was', 'batches were')} checked before"
