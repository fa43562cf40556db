"""A class-data archive of the JVM, which halves the start of the embedded session.

The first run of a Java and Spark version lets the JVM write the archive when it exits; later runs
map it. The archive lies in the user's cache, is never needed, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from pathlib import Path

import pyspark

from dqsql.engine.java import Java

_SWITCH = "DQSQL_CLASS_ARCHIVE"
_SETTLED = 10.0  # seconds since the last write
# A JVM writes its archive behind the run that it served. Another that recorded its classes
# meanwhile took twice as long to start, for nothing; after so many seconds the first is taken for
# dead.
_CLAIMED = 600.0
# The JVM writes a line to stdout for each class that it cannot archive.
_QUIET = "-Xlog:disable"


def archive_options(java: Java) -> list[str]:
    """JVM options that use the archive, or that make it; none when switched off."""
    if os.environ.get(_SWITCH, "1").lower() in ("0", "false", "no"):
        return []
    path = archive_path(java)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ready = path.exists() or _adopt(path)
        if not ready and not _claim(path):
            return []
    except OSError:
        return []  # no cache to write to: start without
    if ready:
        return [_QUIET, f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]
    return [_QUIET, f"-XX:ArchiveClassesAtExit={path.with_suffix(f'.{os.getpid()}.tmp')}"]


def _adopt(path: Path) -> bool:
    """Take over an archive that an earlier run's JVM wrote when it exited.

    The JVM writes it in the background, after the run, and refuses a file that is not whole
    (`-Xshare:auto` then starts without it).
    """
    adopted = False
    for candidate in sorted(path.parent.glob(f"{path.stem}.*.tmp")):
        age = time.time() - candidate.stat().st_mtime
        if not adopted and age > _SETTLED:
            candidate.replace(path)
            adopted = True
        elif adopted:
            candidate.unlink(missing_ok=True)
    return adopted


def _claim(path: Path) -> bool:
    """Whether this run is to make the archive: no other began to a short time ago."""
    claim = path.with_suffix(".claim")
    if claim.exists() and time.time() - claim.stat().st_mtime < _CLAIMED:
        return False
    claim.touch()
    return True


def archive_path(java: Java) -> Path:
    """Where the archive for this Java and this installation of Spark lies."""
    identity = "|".join([java.path, java.description, pyspark.__version__, pyspark.__file__])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return cache_dir() / f"spark-{pyspark.__version__}-java{java.major}-{digest}.jsa"


def cache_dir() -> Path:
    """Dqsql's folder in the user's cache (XDG_CACHE_HOME, or the platform's custom)."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "dqsql"
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "dqsql"
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "dqsql" / "Cache"
    return Path.home() / ".cache" / "dqsql"
