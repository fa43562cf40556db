"""Whether Spark can be reached, found out before anything is started that would wait for minutes.

A Connect client repeats its first call for ten minutes, a standalone master that is not there costs
one, and a Derby metastore that another process holds ends after 75 s with thousands of lines.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dqsql.errors import SessionError

_TIMEOUT = 5.0
_CONNECT_PORT = 15002
_DERBY_URL = "javax.jdo.option.ConnectionURL"
_DERBY_FOLDER = re.compile(r"jdbc:derby:.*databaseName=([^;]+)")
# What Derby's JVM holds locked as long as it has the database open.
_LOCK_FILE = "dbex.lck"


def refuse_unreachable(url: str) -> None:
    """Raise SessionError unless a server listens at `sc://host:port` or `spark://a:1,b:2`."""
    servers = _servers(url)
    reasons = [_refusal(host, port) for host, port in servers]
    if servers and all(reasons):
        what = "Spark Connect server" if url.startswith("sc://") else "Spark master"
        shown = ", ".join(f"{host}:{port}" for host, port in servers)
        raise SessionError(
            f"no {what} answers at {shown}: {reasons[0]}",
            hint="start it, or correct the address in profiles.yml",
        )


def _servers(url: str) -> list[tuple[str, int]]:
    if url.startswith("sc://"):
        parts = urlsplit(url)
        return [(parts.hostname or "localhost", parts.port or _CONNECT_PORT)]
    if not url.startswith("spark://"):
        return []
    found = [part.rpartition(":") for part in url.removeprefix("spark://").split(",")]
    return [(host, int(port)) for host, _, port in found if port.isdigit()]


def _refusal(host: str, port: int) -> str | None:
    """Why nothing answers at an address, or None."""
    try:
        socket.create_connection((host, port), _TIMEOUT).close()
    except OSError as error:
        return error.strerror or str(error) or "it does not answer"
    return None


def refuse_locked_metastore(conf: Mapping[str, str]) -> None:
    """Raise SessionError where another process has the Derby metastore of the settings open."""
    url = next((value for key, value in conf.items() if key.endswith(_DERBY_URL)), "")
    found = _DERBY_FOLDER.search(url)
    if found is None or not _is_locked(Path(found.group(1)) / _LOCK_FILE):
        return
    raise SessionError(
        f"another process has the metastore {found.group(1)} open (Derby serves one at a time)",
        hint="wait until it ends (dbt? a notebook?), or run both against one Spark server:"
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
