"""The preloaded process: has imported what commands need, and runs each in a copy of itself.

It is left running by `dqsql session start`, and ends with the last warm session. For each command
it forks twice: the first copy keeps the connection, hands on interrupts and answers with the exit
code; the second becomes the command.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import dqsql
from dqsql.cli import preloaded
from dqsql.cli.interrupts import KILLED
from dqsql.engine.warm import WarmPlace, runs
from dqsql.loading.config import shipped_macros
from dqsql.resources import is_switched_off, sessions_dir
from dqsql.templating import MacroLibrary

_TICK = 1.0
_LIBRARIES = (
    *("pyspark.sql.connect.session", "pyspark.sql.connect.functions"),
    *("scipy.special", "scipy.spatial"),
)
_PRIVATE = 0o077


@dataclass(frozen=True)
class _Order:
    """A command to run: what a process gave that wants it run, with its three open files."""

    given: dict[str, Any]
    files: list[int]


def start(*, anew: bool = True) -> subprocess.Popen[bytes] | None:
    """Leave the process running; None where there cannot be one.

    It takes the place of one that there is; without `anew` it does not start if that answers.
    """
    if sys.platform != "linux" or is_switched_off(preloaded.VARIABLE):
        return None
    folder = sessions_dir()
    if not anew and preloaded.answers(folder):
        return None
    with (folder / "preloaded.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dqsql.cli.preload_server"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )


def main() -> None:
    """Serve until there is no warm session; in a copy, run the command that was handed over."""
    # Before modules are imported that set variables.
    stamp = preloaded.stamp()
    _preload()
    order = _serve(sessions_dir(), stamp)
    if order is not None:
        _become(order)
        from dqsql.cli.main import main as run

        run()


def _preload() -> None:
    # As the command line sets it, before numpy is imported.
    importlib.import_module("dqsql.cli.main")
    for module in pkgutil.walk_packages(dqsql.__path__, "dqsql."):
        importlib.import_module(module.name)
    for name in _LIBRARIES:
        # Of an extra that is not installed, no command can make use.
        with suppress(ImportError):
            importlib.import_module(name)
    # Parses them, and keeps what it found.
    MacroLibrary(shipped_macros(), {})
    # So that copies share the memory of all that is there.
    gc.collect()
    gc.freeze()


def _serve(folder: Path, stamp: str) -> _Order | None:
    """Serve; returns in copies alone what they should run, and None at the end."""
    # Threads of numpy's and Arrow's, which wait for work that copies never give them.
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    name = folder / preloaded.socket_name()
    server = socket.socket(socket.AF_UNIX)
    name.unlink(missing_ok=True)
    os.umask(_PRIVATE)
    server.bind(preloaded.address_in(directory))
    mine = name.stat().st_ino
    server.listen()
    server.settimeout(_TICK)
    while _is_wanted(folder, name, mine):
        _reap()
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            server.close()
            os.close(directory)
            return _keep(connection, stamp)
        connection.close()
    if _inode(name) == mine:
        name.unlink(missing_ok=True)
    return None


def _is_wanted(folder: Path, name: Path, mine: int) -> bool:
    """Whether there is a warm session, and no later process has taken this one's place."""
    records = folder.glob("*.json")
    return _inode(name) == mine and any(_has_session(WarmPlace(path)) for path in records)


def _has_session(place: WarmPlace) -> bool:
    """Whether the process of a session's record runs."""
    session = place.read()
    return session is not None and runs(session.pid)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _reap() -> None:
    """Forget the copies that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


# --- a copy that keeps the connection ----------------------------------------------------------


def _keep(connection: socket.socket, stamp: str) -> _Order:
    """Fork the command, and wait for it; returns in that copy alone."""
    order = _received(connection)
    alike = order is not None and order.given["stamp"] == stamp
    try:
        connection.send(preloaded.TAKEN if alike else preloaded.REFUSED)
    except OSError:
        # Who asked no longer waits, and has run its command by itself.
        os._exit(0)
    if order is None or not alike:
        os._exit(0)
    ended, notice = os.pipe()
    os.set_blocking(notice, False)
    signal.set_wakeup_fd(notice)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    command = os.fork()
    if command == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.close()
        os.close(ended)
        os.close(notice)
        return order
    for file in order.files:
        os.close(file)
    connection.settimeout(None)
    _answer(connection, _code(connection, command, ended))


def _received(connection: socket.socket) -> _Order | None:
    """The order of a process of the same user; None from others, or where it is not whole."""
    try:
        connection.settimeout(preloaded.SECONDS)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) != os.geteuid():
            return None
        head, files, _, _ = socket.recv_fds(connection, preloaded.LENGTH.size, 3)
        (length,) = preloaded.LENGTH.unpack(head)
        text = b""
        while len(text) < length:
            if not (more := connection.recv(length - len(text))):
                return None
            text += more
        return _Order(json.loads(text), files) if len(files) == 3 else None
    except (OSError, ValueError, struct.error):
        return None


def _code(connection: socket.socket, command: int, ended: int) -> int:
    """Wait for the command, hand interrupts on meanwhile; its exit code."""
    while True:
        if connection.fileno() in select.select([connection.fileno(), ended], [], [])[0]:
            number = connection.recv(1)
            # Who asked for it may have been killed: so is the command, as if it were the same.
            os.kill(command, number[0] if number else signal.SIGKILL)
            if not number:
                os._exit(0)
        pid, status = os.waitpid(command, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else KILLED - code


def _answer(connection: socket.socket, code: int) -> NoReturn:
    try:
        connection.send(bytes([code]))
    finally:
        os._exit(0)


# --- a copy that becomes the command -----------------------------------------------------------


def _become(order: _Order) -> None:
    """Make this process what that of the command would be."""
    os.setsid()
    for number, file in enumerate(order.files):
        os.dup2(file, number)
        os.close(file)
    given = order.given
    os.environ.clear()
    os.environ.update(given["environment"])
    os.chdir(given["folder"])
    os.umask(given["mask"])
    time.tzset()
    random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = given["arguments"]
    stdin, stdout, stderr = given["streams"]
    sys.stdin = _stream(0, "r", stdin)
    sys.stdout = _stream(1, "w", stdout)
    sys.stderr = _stream(2, "w", stderr)


def _stream(number: int, mode: str, how: list[str] | None) -> Any:
    """An open file as Python would have it at its start; None where it is closed."""
    if how is None:
        return None
    encoding, errors = how
    lines = number == 2 or os.isatty(number)
    buffering = 1 if lines else -1
    return open(number, mode, buffering, encoding=encoding, errors=errors, closefd=False)


if __name__ == "__main__":
    main()
