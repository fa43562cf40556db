"""The program `dqsql`: commands run in a copy of a preloaded process where there is one.

`dqsql session start` leaves one beside the warm session (`preload_server`). It has imported what
commands need, which takes longer than most of their work. `main` hands it the command line, the
environment and the open files of this process; it forks, and the copy runs the command as if it
had been started here. Without it, or where it differs from what this process would be, the command
runs here. Linux only: elsewhere a process with such libraries cannot be forked.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from dqsql.cli.interrupts import KILLED, heed_sigterm, signal_of
from dqsql.resources import is_private, is_switched_off, package_files, sessions_dir

TAKEN, REFUSED = b"y", b"n"
LENGTH = struct.Struct("!I")
VARIABLE = "DQSQL_PRELOAD"
SECONDS = 5.0
# What Python and libraries read when they are imported, by the beginnings of names.
_READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "OMP_", "MKL_", "NPY_", "SCIPY_"),
    *("ARROW_", "GRPC_", "SPARK_", "PYSPARK_"),
)


def main() -> None:
    """Run the program."""
    try:
        heed_sigterm()
        code = run_preloaded()
        if code is None:
            from dqsql.cli.main import main as run
    except KeyboardInterrupt as error:
        code = KILLED + signal_of(error)
    if code is None:
        run()
    sys.exit(code)


def run_preloaded() -> int | None:
    """Run this process's command in a preloaded one; its exit code, or None if there is none."""
    if sys.platform != "linux" or is_switched_off(VARIABLE):
        return None
    try:
        server = connected(sessions_dir())
    except OSError:
        return None
    with server:
        try:
            order = json.dumps(_order()).encode()
            socket.send_fds(server, [LENGTH.pack(len(order))], [0, 1, 2])
            server.sendall(order)
            if server.recv(1) != TAKEN:
                return None
        except OSError:
            return None
        server.settimeout(None)
        return _outcome(server)


def socket_name() -> str:
    """The name of the socket in that folder: each installation has its own."""
    return f"preloaded-{hashlib.sha256(os.fsencode(sys.prefix)).hexdigest()[:16]}.sock"


def address_in(directory: int) -> str:
    """The socket's address by its open folder, of which the path may be longer than one may be."""
    return f"/proc/self/fd/{directory}/{socket_name()}"


def stamp() -> str:
    """What a preloaded process must have in common with one that uses it, as a hash.

    The files of dqsql and the packages that are installed, by when they changed, and variables that
    are read when modules are imported.
    """
    # The first place is that of the program, which differs.
    places = [(place, _changed(place)) for place in sys.path[1:]]
    variables = sorted(i for i in os.environ.items() if i[0].startswith(_READ_AT_START))
    text = repr((sys.version, package_files(), places, variables))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _changed(place: str) -> int:
    try:
        return os.stat(place).st_mtime_ns if place.endswith("-packages") else 0
    except OSError:
        return 0


def connected(folder: Path) -> socket.socket:
    """Raises OSError: no preloaded process answers, or others could have put it there."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not is_private(folder):
            raise PermissionError(f"others may write to {folder}")
        server = socket.socket(socket.AF_UNIX)
        try:
            server.settimeout(SECONDS)
            server.connect(address_in(directory))
        except OSError:
            server.close()
            raise
        return server
    finally:
        os.close(directory)


def answers(folder: Path) -> bool:
    """Whether a preloaded process answers there."""
    try:
        connected(folder).close()
    except OSError:
        return False
    return True


def _order() -> dict[str, Any]:
    mask = os.umask(0o077)
    os.umask(mask)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return {
        "stamp": stamp(),
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "mask": mask,
        "streams": [(s.encoding, s.errors) if s is not None else None for s in streams],
    }


def _outcome(server: socket.socket) -> int:
    """Wait for the command, which gets the user's interrupts; its exit code."""
    while True:
        try:
            answer = server.recv(1)
        except KeyboardInterrupt as error:
            server.send(bytes([signal_of(error)]))
            continue
        except ConnectionError:
            answer = b""
        # Without an answer, the process that waits for the command was killed.
        return answer[0] if answer else KILLED + 9
