"""SQL settings of a session while dqsql works there, and what they are for the user meanwhile."""

from __future__ import annotations

import logging
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dqsql.engine.failures import SPARK_FAILURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
# It fails on `exists(..)` over the rows of a UNION ALL: "key not found" (seen in Spark 4.2.0).
FAULTY_RULE = "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion"
# Spark warns of a setting for old programs, even where it is set to what it is anyway.
_DEFAULTS = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
_GONE: tuple[type[Exception], ...] = (*SPARK_FAILURES, OSError)


class _Use:
    """A setting in use: its value before, and the values that are wanted, by who wants them."""

    def __init__(self, before: str | None) -> None:
        self.before = before
        self.wanted: dict[object, str] = {}

    @property
    def value(self) -> str | None:
        """What it is to be: what the last one wants who is still there, else as it was before."""
        return next(reversed(self.wanted.values()), self.before)


_USES: dict[tuple[str, str], _Use] = {}
_USES_LOCK = threading.Lock()
# A session of Spark's has several objects in Python; this setting tells which they are of.
_MARK = "dqsql.settings"


@contextmanager
def configured(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply SQL settings to a session and put the old values back afterwards.

    Threads that share a session keep them until the last one is done.
    """
    user = object()
    with _USES_LOCK:
        session, used = _apply(spark, settings, user)
    try:
        with _silent_loggers():
            yield
    finally:
        with _USES_LOCK:
            for key in used:
                use = _USES[session, key]
                del use.wanted[user]
                if not use.wanted:
                    del _USES[session, key]
                if use.value != settings[key]:
                    _restore(spark, key, use.value)
            if used and all(name != session for name, _ in _USES):
                _restore(spark, _MARK, None)


def users_setting(spark: SparkSession, key: str) -> str | None:
    """A setting as the user has it, also while dqsql works in the session."""
    with _USES_LOCK:
        use = _USES.get((spark.conf.get(_MARK, None) or "", key))
        return spark.conf.get(key, None) if use is None else use.before


def _apply(spark: SparkSession, settings: Mapping[str, str], user: object) -> tuple[str, list[str]]:
    """The session's mark, and which of the settings are `user`'s to give back."""
    session, used = spark.conf.get(_MARK, None) or "", []
    for key, wanted in settings.items():
        before, value = spark.conf.get(key, None), wanted
        if key == EXCLUDED_RULES and before:
            # What the session itself excludes stays so.
            value = before if FAULTY_RULE in before else f"{before},{wanted}"
        is_so = before == value or (before is None and _DEFAULTS.get(key) == value)
        if is_so and (session, key) not in _USES:
            continue
        if not session:
            session = uuid.uuid4().hex
            spark.conf.set(_MARK, session)
        _USES.setdefault((session, key), _Use(before)).wanted[user] = value
        used.append(key)
        if before != value:
            with _without_warnings():
                spark.conf.set(key, value)
    return session, used


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without what a client of Connect warns of: that a setting is there for old programs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The SQL config .* has been deprecated", UserWarning)
        yield


def _restore(spark: SparkSession, key: str, value: str | None) -> None:
    try:
        with _without_warnings():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
    except _GONE:
        # The session is gone (the server died); its settings went with it.
        logging.getLogger(__name__).debug("could not put %s back", key)


@contextmanager
def _silent_loggers() -> Iterator[None]:
    # PySpark logs every failed query as JSON on stderr; dqsql reports failures itself.
    from pyspark.logger import PySparkLogger

    kinds = ("SQL", "DataFrame")
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in kinds]

    def nothing(record: logging.LogRecord) -> bool:
        return False

    for logger in loggers:
        logger.addFilter(nothing)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(nothing)
