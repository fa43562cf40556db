"""A class-data archive of the JVM, which halves the start of the embedded session.

The first run of a Java and Spark version lets the JVM write the archive when it exits; later runs
map it. The archive lies in the user's cache, is never needed, and may be deleted at any time. A
JVM dies of one that is cut off, so it is tried when it is taken over, and what it then was (size
and SHA-256) is kept beside it and compared before each start.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from dqsql.engine.head_start import ARCHIVE_SWITCH
from dqsql.engine.java import Java
from dqsql.resources import cache_dir, is_switched_off

_SETTLED = 10.0  # seconds since the last write
# A JVM writes its archive behind the run that it served. Another that recorded its classes
# meanwhile took twice as long to start, for nothing; after so many seconds the first is taken for
# dead.
_CLAIMED = 600.0
# The JVM writes a line to stdout for each class that it cannot archive.
_QUIET = "-Xlog:disable"
_TRIAL_SECONDS = 60.0


def archive_options(java: Java) -> list[str]:
    """JVM options that use the archive, or that make it; none when switched off."""
    if is_switched_off(ARCHIVE_SWITCH):
        return []
    path = archive_path(java)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not _is_whole(path):
            remove_archive(java)
        ready = path.exists() or _adopt(path, java)
        if not ready and not _claim(path):
            return []
    except OSError:
        return []  # no cache to write to: start without
    if ready:
        return [_QUIET, *_use(path)]
    return [_QUIET, f"-XX:ArchiveClassesAtExit={path.with_suffix(f'.{os.getpid()}.tmp')}"]


def remove_archive(java: Java) -> bool:
    """Remove the archive, with what is kept beside it; returns whether there was one."""
    path = archive_path(java)
    try:
        existed = path.exists()
        path.unlink(missing_ok=True)
        _seal(path).unlink(missing_ok=True)
    except OSError:
        return False
    return existed


def archive_state(java: Java) -> tuple[str, bool]:
    """What there is to say of the archive, and whether it can be used, for `dqsql debug`."""
    path = archive_path(java)
    if is_switched_off(ARCHIVE_SWITCH):
        return f"switched off by {ARCHIVE_SWITCH}", True
    try:
        if not path.exists():
            return f"none yet at {path}; a run makes it", True
        if _is_whole(path):
            return str(path), True
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}", True
    return f"{path} is damaged; the next start removes it", False


def _use(path: Path) -> list[str]:
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]


def _seal(path: Path) -> Path:
    """The file beside an archive that holds its size and hash."""
    return path.with_suffix(".sha256")


def _is_whole(path: Path) -> bool:
    seal = _seal(path)
    if not seal.exists():
        return False
    # The text of another version or of a disk that was full compares unequal.
    size, _, rest = seal.read_text(encoding="utf-8", errors="replace").partition(" ")
    written, _, digest = rest.partition(" ")
    file_stat = path.stat()
    if size != str(file_stat.st_size):
        return False
    # Hashing 150 MB takes up to a second: only of a file that was written since.
    return written == str(file_stat.st_mtime_ns) or digest == _digest(path)


def _sealed(path: Path) -> str:
    file_stat = path.stat()
    return f"{file_stat.st_size} {file_stat.st_mtime_ns} {_digest(path)}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _adopt(path: Path, java: Java) -> bool:
    """Take over an archive that an earlier run's JVM wrote when it exited, if a JVM can use it."""
    adopted = False
    for candidate in sorted(path.parent.glob(f"{path.stem}.*.tmp")):
        age = time.time() - candidate.stat().st_mtime
        if not adopted and age > _SETTLED and _starts_with(java, candidate):
            _seal(path).write_text(_sealed(candidate), encoding="utf-8")
            candidate.replace(path)
            adopted = True
        elif adopted or age > _SETTLED:
            candidate.unlink(missing_ok=True)
    return adopted


def _starts_with(java: Java, archive: Path) -> bool:
    """Whether a JVM that maps the archive lives to say its version."""
    if archive.stat().st_size == 0:
        return False  # a JVM does without, and would for ever
    with TemporaryDirectory() as folder:
        try:
            answer = subprocess.run(
                [java.path, *_use(archive), "-XX:-CreateCoredumpOnCrash", "-version"],
                cwd=folder,  # a JVM that dies leaves a log where it ran
                capture_output=True,
                check=False,
                timeout=_TRIAL_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return answer.returncode == 0


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
