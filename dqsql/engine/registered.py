"""What a session has been told of, so that it is told once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock


class Registered:
    """The sources and check models that a session has as views; threads of a run share it.

    `notes` are what a person should know of the files of sources; `missing` are the columns that
    the newest file of a source lacks.
    """

    def __init__(self) -> None:
        self._turns: dict[str, Lock] = {}
        self._done: set[str] = set()
        self.notes: list[str] = []
        self.missing: dict[str, Sequence[str]] = {}

    def once(self, unique_id: str, register: Callable[[], None]) -> None:
        """Register one thing, unless that was done; others who need it wait for it.

        What fails is tried again, so that each who needs it gets its error.
        """
        with self._turns.setdefault(unique_id, Lock()):
            if unique_id not in self._done:
                register()
                self._done.add(unique_id)
