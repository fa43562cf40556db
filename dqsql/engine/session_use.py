"""Who uses a Spark session of this process: when it is stopped, and when its views are dropped.

Views have names made of those of models and sources. Runs of several projects that share a session
wait for each other, so that none reads what another one has put under the same name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dqsql.dialect import quoted, write_for
from dqsql.engine.failures import SPARK_FAILURES
from dqsql.errors import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class _SessionUse:
    """The runs that use a session, as their projects and threads, and the views that they made.

    What has no project waits for nobody, and nobody for it: a run may wait for checks beside it.
    """

    users: list[tuple[Path | None, int]] = field(default_factory=list)
    views: set[str] = field(default_factory=set)

    def is_free_for(self, user: tuple[Path | None, int]) -> bool:
        """Whether nobody else works there for another project; a thread never waits for itself."""
        project, thread = user
        return project is None or all(p in (None, project) or t == thread for p, t in self.users)


_USES: WeakKeyDictionary[SparkSession, _SessionUse] = WeakKeyDictionary()
_CHANGED = threading.Condition()
_STARTING = threading.Lock()
_STARTED: dict[SparkSession, int] = {}


@contextmanager
def shared_session(start: Callable[[], SparkSession], *, foreign: bool) -> Iterator[SparkSession]:
    """The session that `start` gives, which the last one who got it from here stops.

    One that is `foreign`, made by somebody else, is left to them.
    """
    with _STARTING:
        # PySpark gives the same session to all who ask meanwhile.
        kept = foreign and not _STARTED
        session = start()
        if not kept:
            _STARTED[session] = _STARTED.get(session, 0) + 1
    try:
        yield session
    finally:
        with _STARTING:
            if not kept:
                _STARTED[session] -= 1
                if not _STARTED[session]:
                    del _STARTED[session]
                    # It may have died, which whoever used it has been told.
                    with suppress(*SPARK_FAILURES, OSError):
                        session.stop()


@contextmanager
def using_session(spark: SparkSession, project: Path | None) -> Iterator[None]:
    """Work for a project, of which `project` is a folder; without one, whoever else works there.

    Views of its models are dropped at the end, or are gone with a session that ends then. Raises
    SessionError where it has been stopped.
    """
    require_running(spark)
    user = (project, threading.get_ident())
    with _CHANGED:
        use = _USES.setdefault(spark, _SessionUse())
        _CHANGED.wait_for(lambda: use.is_free_for(user))
        if not use.users:
            _drop(spark, use)
        write_for(str(spark.version))
        use.users.append(user)
    try:
        yield
    finally:
        with _CHANGED:
            use.users.remove(user)
            # Each takes a server a while. Where the session does not end after all, since somebody
            # else began to use it meanwhile, they are dropped then.
            if not use.users and spark not in _STARTED:
                _drop(spark, use)
            _CHANGED.notify_all()


def was_started_here(spark: SparkSession) -> bool:
    """Whether dqsql started the session, so that it has seen nothing before this run."""
    return spark in _STARTED


def require_running(spark: SparkSession) -> None:
    """Raise SessionError for a session of this process that somebody has stopped."""
    context: Any = getattr(spark, "_sc", None)
    if context is not None and context._jsc is None:
        raise SessionError(
            "the Spark session has been stopped",
            hint="make another one: SparkSession.builder.getOrCreate()",
        )


def put_view(frame: DataFrame, name: str) -> None:
    """Make a frame a temporary view until its session is used no more by dqsql."""
    with _CHANGED:
        use = _USES.get(frame.sparkSession)
        if use is not None:
            use.views.add(name)
    frame.createOrReplaceTempView(quoted(name))


def drop_view(spark: SparkSession, name: str) -> None:
    """Forget a temporary view.

    Spark's `dropTempView` also drops what a user has cached of a frame with the plan of the view.
    """
    try:
        spark.sql(f"drop view if exists {quoted(name)}")
    except SPARK_FAILURES:
        # It is gone, and the current catalog has no views of its own.
        spark.catalog.dropTempView(name)


def _drop(spark: SparkSession, use: _SessionUse) -> None:
    # The session may be gone, and its views with it.
    for name in use.views:
        with suppress(*SPARK_FAILURES, OSError):
            drop_view(spark, name)
    use.views.clear()
