"""A warm session: a Spark Connect server of this machine that commands find by themselves.

`dqsql session start` leaves a server running behind a process that watches it (`warm_server`). What
is known of it stands in a record that only its user can read: the port, the token and the versions.
Whoever uses the server holds a shared lock on the record's lock file meanwhile, which the system
releases for a process that dies; the watching process stops the server once nobody has held the
lock for the idle time.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import pyspark

from dqsql.errors import SessionError
from dqsql.model.project import Target
from dqsql.resources import sessions_dir, write_private
from dqsql.version import VERSION

_START_SECONDS = 180.0
_STOP_SECONDS = 30.0
_POLL = 0.1
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class WarmSession:
    """The record of a running server. `pid` is the process of the server."""

    port: int
    token: str
    pid: int
    idle: float
    started: float
    dqsql: str = VERSION
    spark: str = pyspark.__version__

    @property
    def url(self) -> str:
        """Where Spark Connect's client reaches it: a token goes without TLS to `localhost` only."""
        return f"sc://localhost:{self.port}/;token={self.token}"


@dataclass(frozen=True)
class WarmPlace:
    """Where the record of a target's warm session lies.

    Targets whose embedded sessions would start with the same settings share one.
    """

    record: Path

    @property
    def lock(self) -> Path:
        """The file that is locked while the session is used; its time is that of the last use."""
        return self.record.with_suffix(".lock")

    @property
    def log(self) -> Path:
        """What the server prints."""
        return self.record.with_suffix(".log")

    def read(self) -> WarmSession | None:
        """The record; None where there is none, or none that can be read."""
        try:
            return WarmSession(**json.loads(self.record.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, session: WarmSession) -> None:
        """Write the record, readable by its user only, in one step."""
        write_private(self.record, json.dumps(asdict(session)).encode())

    def open_lock(self) -> IO[bytes]:
        """The lock file, made where it is missing."""
        self.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self.lock.open("ab")


def place_of(settings: Mapping[str, str]) -> WarmPlace:
    """Where the record of the session with these settings lies."""
    digest = hashlib.sha256(json.dumps(sorted(settings.items())).encode()).hexdigest()[:16]
    return WarmPlace(sessions_dir() / f"{digest}.json")


def running_session(place: WarmPlace) -> WarmSession | None:
    """The session of a place, if it answers."""
    session = place.read()
    return session if session is not None and answers(session.port) else None


@contextmanager
def warm_target(target: Target, settings: Mapping[str, str]) -> Iterator[Target | None]:
    """The target with the address of its warm session, in use for as long as the context lasts.

    None where there is no warm session. Raises SessionError: it is of another version.
    """
    place = place_of(settings)
    if sys.platform == "win32" or not place.record.exists():
        yield None
        return
    import fcntl

    with place.open_lock() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        session = running_session(place)
        if session is None:
            yield None
            return
        _refuse_other_version(session)
        os.utime(place.lock)
        try:
            yield replace(target, method="connect", url=session.url, spark_conf={})
        finally:
            os.utime(place.lock)


def _refuse_other_version(session: WarmSession) -> None:
    ours, theirs = (VERSION, pyspark.__version__), (session.dqsql, session.spark)
    if ours != theirs:
        raise SessionError(
            f"the warm session belongs to dqsql {theirs[0]} with Spark {theirs[1]}, and this is"
            f" dqsql {ours[0]} with Spark {ours[1]}",
            hint="dqsql session stop",
        )


def present_session(settings: Mapping[str, str]) -> WarmSession | None:
    """The warm session of some settings, if it runs.

    Raises SessionError: this system or this installation cannot run one, or it is of another
    version.
    """
    if sys.platform == "win32":
        raise SessionError("warm sessions need a system with flock, which Windows lacks")
    _require_connect()
    there = running_session(place_of(settings))
    if there is not None:
        _refuse_other_version(there)
    return there


def start_session(
    settings: Mapping[str, str], launched: Mapping[str, str], idle: float
) -> WarmSession:
    """Start the warm session of some settings, and wait until it answers.

    It is found by `settings`, started with `launched`, and stops after `idle` seconds without use.
    Raises SessionError.
    """
    place = place_of(settings)
    place.record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.record.unlink(missing_ok=True)
    order = json.dumps({"record": str(place.record), "idle": idle, "settings": dict(launched)})
    with place.log.open("wb") as log:
        watcher = subprocess.Popen(
            [sys.executable, "-m", "dqsql.engine.warm_server"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=place.record.parent,
            start_new_session=True,
        )
    assert watcher.stdin is not None
    watcher.stdin.write(order.encode())
    watcher.stdin.close()
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and watcher.poll() is None:
        if (session := running_session(place)) is not None:
            return session
        time.sleep(_POLL)
    if watcher.poll() is None:
        watcher.terminate()
    raise SessionError("the warm session did not start", hint=f"see {place.log}")


def stop_session(settings: Mapping[str, str]) -> WarmSession | None:
    """Stop the warm session of some settings; returns what was stopped, if anything.

    Raises SessionError: it does not stop.
    """
    place = place_of(settings)
    session = place.read()
    if session is None:
        return None
    alive = answers(session.port)
    if alive:
        with suppress(ProcessLookupError):
            os.kill(session.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while answers(session.port):
        if time.monotonic() > deadline:
            raise SessionError(
                f"the warm session does not stop: its process is {session.pid}",
                hint=f"see {place.log}",
            )
        time.sleep(_POLL)
    place.record.unlink(missing_ok=True)
    # It no longer listens, and is about to give its memory back.
    while alive and runs(session.pid) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return session if alive else None


def idle_seconds(place: WarmPlace) -> float:
    """Seconds since somebody last began or ended to use the session of a place."""
    try:
        return max(0.0, time.time() - place.lock.stat().st_mtime)
    except FileNotFoundError:
        return 0.0


def runs(pid: int) -> bool:
    """Whether a process runs, as far as the system tells: Linux does."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2]
    except OSError:
        return False
    # One that has ended, and that its parent has not asked about, is a zombie.
    return not state.strip().startswith(("Z", "X"))


def answers(port: int) -> bool:
    """Whether a server listens to a port of this machine."""
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex((_HOST, port)) == 0


def _require_connect() -> None:
    from importlib.util import find_spec

    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise SessionError(
            "a warm session is a Spark Connect server, and its client is not installed",
            hint="pip install 'dqsql[connect]'",
        )
