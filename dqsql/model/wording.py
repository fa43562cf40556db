"""Numbers and nouns in texts for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return the count with the right form of the noun.

    >>> plural(1, "batch"), plural(2000, "batch")
    ('1 batch', '2,000 batches')
    """
    if count == 1:
        return f"1 {noun}"
    default = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{count:,} {nouns or default}"


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
