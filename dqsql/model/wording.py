"""Numbers and nouns in texts for people."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return `1 batch`, `2 batches`: the count with the right form of the noun."""
    if count == 1:
        return f"1 {noun}"
    default = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    return f"{count:,} {nouns or default}"
