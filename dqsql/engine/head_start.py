"""Starts Java while the project is still being read, where it is all but sure to be needed.

Reading and compiling a project take a second, and so does the start of the JVM that a session is
made in. A run therefore leaves behind, in the user's cache, how it started Java and what its files
looked like; the next one starts Java in the same way as its first step if a file has changed, and
makes Spark's context in it. If the session then asks for other settings, that JVM is ended and
everything goes the ordinary way.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from dqsql.redaction import secret_values
from dqsql.resources import cache_dir, is_private, is_switched_off, write_private
from dqsql.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE_SWITCH = "DQSQL_CLASS_ARCHIVE"
_SWITCH = "DQSQL_HEAD_START"
# More files than these take longer to look at than Spark takes to start.
_MOST_FILES = 50_000
_POLL = 0.02
# Path, size in bytes, and time of change in nanoseconds.
File = tuple[str, int, int]
# What decides, besides Spark's settings, which Java starts and how.
_ENVIRONMENT = (
    *("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "PATH"),
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
)
# With these PySpark starts Java in another way, or not at all.
_OTHER_WAYS = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS")
_ARCHIVE = re.compile(r"-XX:SharedArchiveFile=(\S+)")
# The options of the command line that say which project and target is meant.
_NAMES = ("project_dir", "target", "profile", "profiles_dir")
_SECRET = ("secret", "password", "token", "key", "credential")


@dataclass(frozen=True)
class Launch:
    """How Java was started: the command, where it writes, and what the session asked for.

    `warm` is the record of a warm session with the same settings, which would be used instead.
    `variables` are those that Spark's scripts set in the environment of Java.
    """

    command: tuple[str, ...]
    log: str
    wanted: str
    warm: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchedFiles:
    """Files and folders that tell by a change that there is something to do, and their files."""

    places: frozenset[str] = frozenset()
    files: frozenset[File] = frozenset()

    def __or__(self, other: WatchedFiles) -> WatchedFiles:
        return WatchedFiles(self.places | other.places, self.files | other.files)

    @property
    def digest(self) -> str:
        """A short name for how the files look."""
        return digest_of(sorted(self.files))


@dataclass(frozen=True)
class _Recipe:
    """What the next run knows. `places` are None where files do not tell whether data is new."""

    launch: Launch
    places: tuple[str, ...] | None
    seen: str | None


class _EndsWithPipe(subprocess.Popen[bytes]):
    """A process that ends soon after the pipe to it is closed, which nobody waits for.

    It deletes its files meanwhile, for a third of a second. Without this, Python would warn that it
    is still running.
    """

    def __del__(self) -> None:
        """Leave it alone."""


class Found(Enum):
    """What a session finds that asks for a JVM."""

    NOTHING = "nothing"
    JAVA = "java"
    CONTEXT = "context"
    """A JVM with Spark's context in it."""


@dataclass
class _Java:
    """A JVM that has been started and is not in use yet.

    `found` is what there is, once `thread` has ended.
    """

    process: _EndsWithPipe
    folder: Path
    launch: Launch
    found: Found = Found.NOTHING

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._prepare, daemon=True)
        self.thread.start()

    def _prepare(self) -> None:
        """Make Spark's context as soon as the JVM answers."""
        while self.process.poll() is None and not self._answer.exists():
            time.sleep(_POLL)
        try:
            from py4j.protocol import Py4JError

            port, secret = self.connection()
            try:
                made = make_context(port, secret)
            except Py4JError:
                return  # the ordinary start tells what is wrong
        except (ImportError, OSError):
            return
        self.found = Found.CONTEXT if made else Found.JAVA

    @property
    def _answer(self) -> Path:
        """Where the JVM writes its port and secret, as PySpark's own start has it."""
        return self.folder / "connection"

    def connection(self) -> tuple[int, str]:
        """Port and secret as `PythonGatewayServer` writes them. Raises OSError."""
        answer = self._answer.read_bytes()
        port, length = struct.unpack(">ii", answer[:8])
        return port, answer[8 : 8 + length].decode()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.let_go()
        self.thread.join()
        self.forget()

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


_waiting: list[_Java] = []
_used: list[_Java] = []
_launches: list[Launch] = []


def watched(paths: Sequence[Path]) -> WatchedFiles | None:
    """Files and folders as they are now; None where there are too many to look at."""
    files: list[File] = []
    try:
        for path in paths:
            for file in _files(path):
                stat = file.stat()
                # Who copies a file may set the first time back, but not the second one.
                files.append((str(file), stat.st_size, stat.st_mtime_ns + stat.st_ctime_ns))
                if len(files) > _MOST_FILES:
                    return None
    except OSError:
        # A file that goes away meanwhile: Spark will see.
        return None
    return WatchedFiles(frozenset(map(str, paths)), frozenset(files))


def has_session() -> bool:
    """Whether this process has a session of its own, beside which no other can be started."""
    context = sys.modules.get("pyspark.core.context")
    return bool(context and context.SparkContext._active_spark_context)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, _, names in os.walk(path, followlinks=True):
        for name in names:
            yield Path(folder) / name


def digest_of(*parts: object) -> str:
    """A short name for what something is made of."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def begin(place: Mapping[str, object], *, surely: bool) -> None:
    """Start Java if the last run of this place tells that this one will need it.

    `place` is the project and target by the options of the command line, among others. With
    `surely` a session is needed even if no file has changed.
    """
    recipe = _read(place)
    if recipe is None or _waiting or has_session():
        return
    launch = recipe.launch
    if Path(launch.warm).exists() or not _is_lasting(launch.command):
        return
    if surely or _has_news(recipe):
        start(launch)


def start(launch: Launch) -> None:
    """Start Java for a session that will ask for it, unless there is one."""
    if _waiting or has_session() or not _is_possible():
        return
    try:
        started = _start(launch)
    except OSError:
        return  # the ordinary start says what is wrong
    _waiting.append(started)
    atexit.register(end_all)


def _is_possible() -> bool:
    if sys.platform == "win32" or is_switched_off(_SWITCH):
        return False
    return not any(name in os.environ for name in _OTHER_WAYS)


def end_all() -> None:
    """End the JVMs that this process has started, as at its end."""
    end_unused()
    for java in _used:
        java.let_go()


def end_unused() -> None:
    """End the JVM that nothing has asked for."""
    while _waiting:
        _waiting.pop().end()


@contextmanager
def taken(wanted: str) -> Iterator[tuple[Found, subprocess.Popen[bytes] | None]]:
    """What there is of a JVM as wanted, and its process; inside the block PySpark uses it."""
    if _waiting and _waiting[-1].launch.wanted != wanted:
        end_unused()
    if not _waiting:
        yield Found.NOTHING, None
        return
    # An interrupt until here ends it as one that nothing has asked for.
    _waiting[-1].thread.join()
    java = _waiting.pop()
    if java.found is Found.NOTHING:
        java.end()
        yield Found.NOTHING, None
        return
    port, secret = java.connection()
    java.forget()
    _used.append(java)
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        yield java.found, java.process
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def note_launch(launch: Launch) -> None:
    """Keep how this process started Java, for `remember`."""
    _launches.append(launch)


def remember(place: Mapping[str, object], seen: WatchedFiles | None) -> None:
    """Leave behind what the next run of a place needs to start Java early.

    `seen` are the files as they were before the run; None where files do not tell what is new.
    """
    before = _read(place)
    launch = _launches[-1] if _launches else None if before is None else before.launch
    if launch is None or not _is_lasting(launch.command) or _holds_secrets(launch.command):
        return
    recipe = _Recipe(launch, None, None)
    if seen is not None:
        recipe = _Recipe(launch, tuple(sorted(seen.places)), seen.digest)
    if recipe == before:
        return
    try:
        write_private(_path(place), json.dumps(asdict(recipe)).encode())
    except OSError:
        return  # no cache to write to: the next run starts as this one did


def _read(place: Mapping[str, object]) -> _Recipe | None:
    if not _is_possible():
        return None
    path = _path(place)
    try:
        # A command is read that will be run.
        if not is_private(path.parent):
            return None
        document = json.loads(path.read_text("utf-8"))
        launch = Launch(**{**document["launch"], "command": tuple(document["launch"]["command"])})
        places = None if document["places"] is None else tuple(document["places"])
        return _Recipe(launch, places, document["seen"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _path(place: Mapping[str, object]) -> Path:
    where = {name: str(place[name]) for name in _NAMES}
    where["project_dir"] = str(Path(where["project_dir"]).absolute())
    around = [os.environ.get(name) for name in _ENVIRONMENT]
    name = digest_of(sorted(where.items()), around, sys.prefix, VERSION)
    return cache_dir() / "starts" / f"{name}.json"


def _has_news(recipe: _Recipe) -> bool:
    if recipe.places is None:
        return True
    now = watched([Path(place) for place in recipe.places])
    return now is not None and now.digest != recipe.seen


def _is_lasting(command: Sequence[str]) -> bool:
    """Whether Java is to be started in this way again: not where it writes its class archive."""
    match = _ARCHIVE.search(" ".join(command))
    return is_switched_off(ARCHIVE_SWITCH) if match is None else Path(match.group(1)).exists()


def _holds_secrets(command: Sequence[str]) -> bool:
    text = " ".join(command)
    settings = (part.partition("=")[0].lower() for part in command)
    named = any(word in setting for setting in settings for word in _SECRET)
    return named or any(value in text for value in secret_values())


def _start(launch: Launch) -> _Java:
    folder = Path(mkdtemp(prefix="dqsql-start-"))
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        **launch.variables,
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "connection"),
    }
    log = Path(launch.log)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = _EndsWithPipe(
                launch.command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                # Ctrl-C is for the command, which ends its session in order.
                process_group=0,
            )
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return _Java(process, folder, launch)


# --- Spark's context ----------------------------------------------------------------------------


APP_NAME = "dqsql"
# What PySpark sets of every context, unless it is set; see DEFAULT_CONFIGS in its context.py.
_PYSPARK_CONF = {"spark.serializer.objectStreamReset": "100", "spark.rdd.compress": "true"}


def make_context(port: int, secret: str) -> bool:
    """Make a context and a session of the settings that the JVM was started with.

    Returns False where the JVM does not answer: then nothing has been made. Raises Py4JError.
    """
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
    from py4j.protocol import Py4JNetworkError

    # The JVM may be ended meanwhile, since nothing needs it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    client = ClientServer(
        JavaParameters(port=port, auth_token=secret), PythonParameters(port=0, eager_load=False)
    )
    try:
        spark: Any = client.jvm.org.apache.spark
        conf = spark.SparkConf()
    except (Py4JNetworkError, OSError):
        return False
    for key, value in {"spark.app.name": APP_NAME, **_PYSPARK_CONF}.items():
        conf.setIfMissing(key, value)
    spark.api.java.JavaSparkContext(conf)
    spark.sql.classic.SparkSession.builder().getOrCreate().sessionState()
    return True


def bound_session() -> SparkSession:
    """The session of the context that the JVM has, which PySpark reaches by its environment."""
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    launched: Callable[[], Any] = launch_gateway
    gateway = launched()
    spark = gateway.jvm.org.apache.spark
    java = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
    SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
    return SparkSession.builder.getOrCreate()
