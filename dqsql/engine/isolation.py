"""Finds the members of a group that make a joint statement fail, by halving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dqsql.errors import ConnectionLostError, EngineError

T = TypeVar("T")


def find_failing(
    items: Sequence[T], attempt: Callable[[Sequence[T]], object]
) -> list[tuple[T, EngineError]]:
    """Return the items with which `attempt` raises EngineError, each with its error.

    One call when nothing fails; about 2 k log2(n) calls for k failing ones among n. Raises
    ConnectionLostError: no member's fault.
    """
    if not items:
        return []
    try:
        attempt(items)
    except ConnectionLostError:
        raise
    except EngineError as error:
        if len(items) == 1:
            return [(items[0], error)]
        middle = len(items) // 2
        return [
            *find_failing(items[:middle], attempt),
            *find_failing(items[middle:], attempt),
        ]
    return []
