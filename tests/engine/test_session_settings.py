"""Settings of a session that a user hands over, while dqsql works with it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.logger import PySparkLogger

from dqsql.engine.session_settings import configured
from dqsql.engine.statements import many_aggregates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE = "spark.sql.session.timeZone"
UTC = {ZONE: "UTC"}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of a user."""
    new = spark.newSession()
    new.conf.set(ZONE, "Asia/Kolkata")
    return new


def test_loggers_are_as_they_were(session: SparkSession) -> None:
    """PySpark's own log of failed queries is silent while dqsql tells of them."""
    loggers = [PySparkLogger.getLogger(f"{k}QueryContextLogger") for k in ("SQL", "DataFrame")]
    before = [(logger.disabled, logger.filters[:]) for logger in loggers]
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "failed", (), None)
    with configured(session, UTC), configured(session, UTC):
        assert [bool(logger.filter(record)) for logger in loggers] == [False, False]
    assert [(logger.disabled, logger.filters) for logger in loggers] == before


def test_threads_that_share_a_session_keep_its_settings_until_the_last_is_done(
    session: SparkSession,
) -> None:
    before = dict(session.conf.getAll)
    # As two threads whose works overlap, through two objects of the same session.
    first, second = configured(session, UTC), configured(session.range(1).sparkSession, UTC)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert session.conf.get(ZONE) == "UTC"
    second.__exit__(None, None, None)
    assert dict(session.conf.getAll) == before


def test_statements_of_many_aggregates_leave_no_setting_behind(session: SparkSession) -> None:
    """Statements of several threads overlap: the last to end is not the first that began."""
    key = "spark.sql.codegen.wholeStage"
    session.conf.set(key, "true")
    first, second = many_aggregates(session, 1_000), many_aggregates(session, 1_000)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert session.conf.get(key) == "false"
    second.__exit__(None, None, None)
    assert session.conf.get(key) == "true"


def test_what_is_wanted_inside_ends_before_what_is_wanted_outside(session: SparkSession) -> None:
    before = dict(session.conf.getAll)
    with configured(session, UTC):
        with configured(session, {ZONE: "Asia/Tokyo", "spark.sql.shuffle.partitions": "9"}):
            assert session.conf.get(ZONE) == "Asia/Tokyo"
        assert session.conf.get(ZONE) == "UTC"
        assert session.conf.get("spark.sql.shuffle.partitions") == before.get(
            "spark.sql.shuffle.partitions", "200"
        )
    assert dict(session.conf.getAll) == before


def test_sessions_are_told_apart(session: SparkSession) -> None:
    other = session.newSession()
    other.conf.set(ZONE, "Asia/Tokyo")
    with configured(session, UTC):
        with configured(other, UTC):
            assert other.conf.get(ZONE) == "UTC"
        assert (session.conf.get(ZONE), other.conf.get(ZONE)) == ("UTC", "Asia/Tokyo")
    assert session.conf.get(ZONE) == "Asia/Kolkata"
