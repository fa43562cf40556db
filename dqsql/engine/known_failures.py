"""Failures of Spark's surroundings in one line each, instead of pages of Java."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A failure that is recognised by a pattern.

    After one that is `final` Spark does nothing more.
    """

    pattern: re.Pattern[str]
    message: str
    hint: str
    final: bool = False


_KNOWN = (
    Known(
        re.compile(r"XSDB6|Another instance of Derby"),
        "another process has the Derby metastore open (Derby serves one at a time)",
        "wait until it ends (it may be dbt or a notebook), or run both against one Spark server",
    ),
    Known(
        re.compile(r"UNAUTHENTICATED|Invalid authentication token|Unauthenticated"),
        "the Spark server refuses the credentials",
        "check `token` (or the url) in profiles.yml",
    ),
    Known(
        re.compile(r"StatusCode\.PERMISSION_DENIED"),
        "the Spark server denies access",
        "check the rights of the user or token in profiles.yml",
    ),
    Known(
        re.compile(r"[Ss]sl handshake failed|WRONG_VERSION_NUMBER"),
        "the Spark server does not speak TLS, which PySpark's client uses for a token",
        "call a local server `localhost` in the url, which needs no TLS, or give the"
        " server a certificate",
    ),
    Known(
        re.compile(
            r"StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|failed to connect to all addresses"
            r"|SparkContext (?:was|has been) shut ?down|stopped SparkContext"
            r"|Answer from Java side is empty|obtaining a new communication channel"
            r"|\[Errno \d+\] Connection refused"
        ),
        "the connection to Spark is lost",
        "see whether the server is up; batches not finished are checked in the next run",
        final=True,
    ),
    Known(
        re.compile(r"ModuleNotFoundError: No module named '(dqsql|numpy|scipy|pandas|pyarrow)"),
        "Spark's Python workers lack dqsql or a library that it needs",
        "install it where they run (PYSPARK_PYTHON names the Python), or set `sample_size` above"
        " the rows of a batch",
    ),
    Known(
        re.compile(r"FAILED_READ_FILE\.FILE_NOT_EXIST"),
        "a file was replaced or removed while it was read",
        "something else writes there; run again when it is done",
    ),
    Known(
        re.compile(r"Illegal Parquet type: \w+ \(TIMESTAMP\(NANOS"),
        "it has times in nanoseconds, which Spark does not read from Parquet",
        "write microseconds; with pandas: df.to_parquet(.., coerce_timestamps='us',"
        " allow_truncated_timestamps=True)",
    ),
    Known(
        re.compile(r"ExecutorLostFailure \((executor [^)]*?)\)|Slave lost|Worker lost"),
        "Spark lost executors again and again",
        "see the executors' logs; more memory may help (spark.executor.memory)",
    ),
)


def known_failure(text: str) -> Known | None:
    """What is behind the text of one of Spark's exceptions, where that is known."""
    return next((known for known in _KNOWN if known.pattern.search(text)), None)
