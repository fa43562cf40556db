"""A Spark session that is opened when something needs it: a run that finds nothing new does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.engine.small import Scale
from dqsql.model.project import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LazySession:
    """The session of a target, opened when it is first asked for; see `session.open_session`.

    `starting` is called before one is started, and `tasks` every few seconds with how many tasks
    Spark has done of those that it is at. Use it as a context: what was opened is closed at the
    end. It may be asked from several threads.
    """

    def __init__(
        self,
        target: Target,
        log_dir: Path,
        spark: SparkSession | None = None,
        starting: Callable[[], None] = lambda: None,
        tasks: Callable[[int, int], None] | None = None,
    ) -> None:
        self._target, self._log_dir, self._given = target, log_dir, spark
        self._starting, self._tasks = starting, tasks
        self._stack = ExitStack()
        self._opening = threading.Lock()
        self._open: SparkSession | None = None
        self.scale = Scale.ANY
        """How much will be read; set before it is opened."""
        self.version: str | None = None
        """The version of Spark, once a session is open; one that dies later cannot be asked."""
        self.seconds = 0.0
        """How long opening it took."""

    def __call__(self) -> SparkSession:
        """The open session. Raises DqsqlError."""
        with self._opening:
            if self._open is None:
                if self._given is None:
                    self._starting()
                # Imported here because it starts with pyspark, which takes half a second.
                from dqsql.engine.consumption import watched_tasks
                from dqsql.engine.session import open_session

                began = time.monotonic()
                opened = open_session(self._target, self._log_dir, self._given, self.scale)
                self._open = self._stack.enter_context(opened)
                self.version = str(self._open.version)
                if self._tasks is not None:
                    self._stack.enter_context(watched_tasks(self._open, self._tasks))
                self.seconds = time.monotonic() - began
            return self._open

    def __enter__(self) -> LazySession:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.close()
