"""A class-data archive of the JVM, which halves the start of the embedded session.

The first run of a Java and Spark version lets the JVM write the archive when it exits; later runs
map it. The archive lies in the user's cache, is never needed, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import pyspark

from dqsql.engine.java import Java

_SWITCH = "DQSQL_CLASS_ARCHIVE"


def archive_options(java: Java) -> list[str]:
    """JVM options that use the archive, or that make it; none when switched off."""
    if os.environ.get(_SWITCH, "1").lower() in ("0", "false", "no"):
        return []
    path = archive_path(java)
    if path.exists():
        return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]
    return []


def archive_path(java: Java) -> Path:
    """Where the archive for this Java and this installation of Spark lies."""
    identity = "|".join([java.path, java.description, pyspark.__version__, pyspark.__file__])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return cache_dir() / f"spark-{pyspark.__version__}-java{java.major}-{digest}.jsa"


def cache_dir() -> Path:
    """dqsql's folder in the user's cache (XDG_CACHE_HOME, or the platform's custom)."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "dqsql"
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "dqsql"
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "dqsql" / "Cache"
    return Path.home() / ".cache" / "dqsql"


def _claim(path: Path) -> bool:
    """Finish an archive that an earlier JVM wrote, or take the right to write one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return True
