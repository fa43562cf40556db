"""Things put together by what they have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, keys and values in the order in which they come.

    >>> by_key([("b", 1), ("a", 2), ("b", 3)])
    {'b': [1, 3], 'a': [2]}
    """
    lists: dict[K, list[V]] = {}
    for key, value in pairs:
        lists.setdefault(key, []).append(value)
    return lists
