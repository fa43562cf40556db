"""Starts, configures and stops Spark sessions."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dqsql.engine import launching
from dqsql.engine.archive import archive_options, remove_archive
from dqsql.engine.failures import SPARK_FAILURES, first_sentence, known_failure
from dqsql.engine.head_start import (
    APP_NAME,
    Found,
    Launch,
    bound_session,
    has_session,
    note_launch,
    taken,
)
from dqsql.engine.java import find_java
from dqsql.engine.late_pandas import find_pandas
from dqsql.engine.session_settings import EXCLUDED_RULES, FAULTY_RULE, configured
from dqsql.engine.session_use import shared_session, using_session
from dqsql.engine.small import Scale
from dqsql.engine.warm import WarmSession, place_of, present_session, start_session, warm_target
from dqsql.errors import SessionError
from dqsql.model.batches import TIME_ZONE
from dqsql.model.project import Target
from dqsql.redaction import redact_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What dqsql needs of every session, whoever made it; put back when it is done.
_RUNTIME_CONF = {
    TIME_ZONE: "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # What Delta tables hold; Spark's own default is a format that Parquet has given up.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Hive would keep escaped backslashes twice, and take a quoted name for a regular expression.
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    # What `timestamp` means in the tables of a catalog, and in files: a moment.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
# Of a call to a Connect server that does not answer; they are 0.05 s to 13 s apart.
_RETRIES = 6
_START_FAILURES: tuple[type[Exception], ...] = (*SPARK_FAILURES, OSError, RuntimeError)


@contextmanager
def open_session(
    target: Target, log_dir: Path, spark: SparkSession | None = None, scale: Scale = Scale.ANY
) -> Iterator[SparkSession]:
    """A configured session: the given one, a Connect client, or an embedded one.

    A session that dqsql started is stopped at the end, by the last run that uses it; one that was
    there before gets its settings back and loses the views that dqsql made.
    `scale` is how much will be read.
    """
    find_pandas()
    settings = runtime_conf(target, scale)
    if spark is not None:
        with using_session(spark, log_dir), configured(spark, settings):
            yield spark
        return
    # A process has either sessions of its own or those of Connect.
    lone = target.method == "session" and not has_session()
    reach = warm_target(target, launching.embedded_settings(target)) if lone else nullcontext()
    with reach as warm:
        used = warm or target
        # A process has one session that is not of Connect: that of the user, where there is one.
        foreign = used.method == "session" and has_session()
        start = _adopted if foreign else partial(_start, used, log_dir, scale)
        try:
            with (
                shared_session(start, foreign=foreign) as started,
                using_session(started, log_dir),
                configured(started, (_of_target(target, started) if foreign else {}) | settings),
            ):
                yield started
        finally:
            redact_file(log_dir / "spark.log")


def _adopted() -> SparkSession:
    """The session that this process has, as it is."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _of_target(target: Target, spark: SparkSession) -> dict[str, str]:
    """The settings of a target that a session takes while it runs."""
    sql = {k: v for k, v in target.spark_conf.items() if k.startswith("spark.sql.")}
    catalogs = ("spark.sql.catalog.",)
    return {k: v for k, v in sql.items() if k.startswith(catalogs) or spark.conf.isModifiable(k)}


def runtime_conf(target: Target, scale: Scale = Scale.ANY) -> dict[str, str]:
    """The SQL settings under which dqsql's statements run."""
    # What the user sets for the target was applied when the session started.
    sized = {k: v for k, v in scale.conf.items() if k not in target.spark_conf}
    excluded = filter(None, (target.spark_conf.get(EXCLUDED_RULES), FAULTY_RULE))
    return {
        **_RUNTIME_CONF,
        **sized,
        "spark.sql.ansi.enabled": str(target.ansi).lower(),
        EXCLUDED_RULES: ",".join(excluded),
    }


def _start(target: Target, log_dir: Path, scale: Scale) -> SparkSession:
    if target.method == "connect":
        return _connect(target)
    if target.method != "session":
        # A method of dbt's: fine as long as somebody hands a session over.
        raise SessionError(
            f"dqsql cannot reach Spark by the method {target.method!r}",
            hint="add `dqsql: {method: connect, url: 'sc://host:15002'}` to the target",
        )
    return _embedded(target, log_dir, scale)


def _connect(target: Target) -> SparkSession:
    from pyspark.sql import SparkSession

    url = target.url or "sc://localhost"
    refuse_unreachable(url)
    try:
        builder = SparkSession.builder.remote(url)
        for key, value in target.spark_conf.items():
            builder = builder.config(key, value)
        return _impatient(builder.create(), url)
    except ImportError as error:
        raise SessionError(
            f"Spark Connect needs more packages: {first_sentence(error)}",
            hint="pip install 'dqsql[connect]'",
        ) from error
    except SPARK_FAILURES as error:
        known = known_failure(str(error))
        raise SessionError(
            # What follows are parameters, the token among them.
            f"cannot reach Spark Connect at {url.partition('/;')[0]}:"
            f" {known.message if known else first_sentence(error)}",
            hint=known.hint if known else "check url in profiles.yml and that the server is up",
        ) from error


def _impatient(session: SparkSession, url: str) -> SparkSession:
    """Let the client give a silent server up after half a minute instead of ten.

    One that refuses connections is given up at once: the session ended with its process.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class WhileListening(DefaultPolicy):
        def can_retry(self, e: BaseException) -> bool:
            refusals = (_refusal(*server) for server in _servers(url))
            gone = (isinstance(refusal, ConnectionRefusedError) for refusal in refusals)
            return super().can_retry(e) and not any(gone)

    session.client.set_retry_policies([WhileListening(max_retries=_RETRIES)])
    # The first call: a wrong token is found here.
    session.version  # noqa: B018
    return session


def _embedded(target: Target, log_dir: Path, scale: Scale) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    # The JVM's Python workers must be this interpreter, not the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = launching.embedded_settings(target)
    refuse_unreachable(target.master or "")
    # The JVM of an earlier session of this process may keep it open, and shares it with this one.
    if SparkContext._gateway is None:
        refuse_locked_metastore(settings)
    small = launching.sized_options(settings, scale)
    wanted = launching.wanted_by(settings, small)
    log = log_dir / "spark.log"
    try:
        with _own_interrupts(), taken(wanted) as (jvm_state, process):
            if jvm_state is Found.CONTEXT:
                session = bound_session()
            elif jvm_state is Found.JAVA:
                session = _built(settings)
        if process is None:
            java = find_java()
            with _own_interrupts(), _output_to(log):
                try:
                    session = _built(
                        launching.java_options(settings, [*archive_options(java), *small])
                    )
                except PySparkRuntimeError:
                    # Nothing of Spark's was reached. A JVM dies of an archive that it cannot use.
                    if not remove_archive(java):
                        raise
                    return _built(launching.java_options(settings, small))
        # SQL settings are read by the first statement that asks for one.
        session.conf.get("spark.sql.ansi.enabled")
    except _START_FAILURES as error:
        message = first_sentence(error)
        wrong = next((key for key in target.spark_conf if key in message), None)
        raise SessionError(
            f"Spark did not start: {message}",
            hint=f"see {log}" if wrong is None else f"correct {wrong} in spark_conf",
        ) from error
    # Without one that was waiting, it is the JVM that PySpark has started.
    process = process or getattr(SparkContext._gateway, "proc", None)
    if (started := launching.command_of_process(process)) is not None:
        command, variables = started
        record = str(place_of(settings).record)
        note_launch(Launch(command, str(log.absolute()), wanted, record, variables))
    return session


def _built(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(APP_NAME)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_warm_session(
    target: Target, idle: float, scale: Scale = Scale.ANY
) -> tuple[WarmSession, bool]:
    """Start the warm session of a target, unless it is there; whether it was started.

    `idle` are the seconds without use after which it stops. The JVM suits a `scale`: the second
    compiler would take half of two cores for code that few rows never repay. Raises DqsqlError.
    """
    settings = launching.embedded_settings(target)
    if (there := present_session(settings)) is not None:
        return there, False
    refuse_unreachable(target.master or "")
    refuse_locked_metastore(settings)
    java = find_java()
    small = launching.sized_options(settings, scale)
    options = launching.java_options(settings, [*archive_options(java), *small])
    try:
        return start_session(settings, options, idle), True
    except SessionError:
        # A server that does not come up may have died of the archive.
        if not remove_archive(java):
            raise
        return start_session(settings, launching.java_options(settings, small), idle), True


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep Python's handler of Ctrl-C.

    PySpark installs one that calls the JVM, which must not be entered from within another call.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and before is not None:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Let processes started inside the block write their stdout and stderr to a file.

    The JVM announces itself in ways that no setting silences, and stdout is for dqsql's own
    answer; the JVM inherits the descriptors and goes on writing to the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {fd: os.dup(fd) for fd in (1, 2)}
    with path.open("wb") as log:
        for fd in saved:
            os.dup2(log.fileno(), fd)
        try:
            yield
        finally:
            for fd, copy in saved.items():
                os.dup2(copy, fd)
                os.close(copy)


# --- whether Spark can be reached, before anything is started that would wait for minutes ------
# A Connect client repeats its first call for ten minutes, a standalone master that is not there
# costs one, and a Derby metastore that another process holds ends after 75 s.

_TIMEOUT = 5.0
_CONNECT_PORT = 15002
_DERBY_URL = "javax.jdo.option.ConnectionURL"
_DERBY_FOLDER = re.compile(r"jdbc:derby:.*databaseName=([^;]+)")
# What Derby's JVM holds locked as long as it has the database open.
_LOCK_FILE = "dbex.lck"


def refuse_unreachable(url: str) -> None:
    """Raise SessionError unless a server listens at `sc://host:port` or `spark://a:1,b:2`."""
    servers = _servers(url)
    refusals = [refusal for server in servers if (refusal := _refusal(*server)) is not None]
    if refusals and len(refusals) == len(servers):
        reason = refusals[0].strerror or str(refusals[0]) or "it does not answer"
        what = "Spark Connect server" if url.startswith("sc://") else "Spark master"
        shown = ", ".join(f"{host}:{port}" for host, port in servers)
        raise SessionError(
            f"no {what} answers at {shown}: {reason}",
            hint="start it, or correct the address in profiles.yml",
        )


def _servers(url: str) -> list[tuple[str, int]]:
    if url.startswith("sc://"):
        parts = urlsplit(url)
        return [(parts.hostname or "localhost", parts.port or _CONNECT_PORT)]
    if not url.startswith("spark://"):
        return []
    addresses = [part.rpartition(":") for part in url.removeprefix("spark://").split(",")]
    return [(host, int(port)) for host, _, port in addresses if port.isdigit()]


def _refusal(host: str, port: int) -> OSError | None:
    """Why nothing answers at an address, or None."""
    try:
        socket.create_connection((host, port), _TIMEOUT).close()
    except OSError as error:
        return error
    return None


def refuse_locked_metastore(conf: Mapping[str, str]) -> None:
    """Raise SessionError where another process has the Derby metastore of the settings open."""
    url = next((value for key, value in conf.items() if key.endswith(_DERBY_URL)), "")
    match = _DERBY_FOLDER.search(url)
    if match is None or not _is_locked(Path(match.group(1)) / _LOCK_FILE):
        return
    raise SessionError(
        f"another process has the metastore {match.group(1)} open (Derby serves one at a time)",
        hint="wait until it ends (dbt, a notebook?), or run both against one Spark server:"
        " see docs/spark-clusters.md",
    )


def _is_locked(file: Path) -> bool:
    """Whether another process holds a lock on the file."""
    if sys.platform == "win32" or not file.is_file():
        return False
    import fcntl

    try:
        with file.open("r+b") as handle:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(handle, fcntl.LOCK_UN)
    except OSError:
        return True
    return False
