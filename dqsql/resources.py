"""Files that are not a project's: those shipped with dqsql, its folder in the cache, data."""

from __future__ import annotations

import os
import platform
import stat
from functools import cache
from os import PathLike
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir
from typing import BinaryIO, cast

from dqsql.errors import LoadError

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """Return the folder of shipped resources called `name` (`macros` or `templates`).

    In a wheel the folders lie inside the package; in a source checkout (also an editable install)
    they lie beside it, where `pyproject.toml` stands.
    """
    inside = _PACKAGE / name
    if inside.is_dir():
        return inside
    beside = _PACKAGE.parent / name
    if beside.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file():
        return beside
    raise LoadError(
        f"the installation of dqsql is incomplete: no folder {name!r}", hint="reinstall dqsql"
    )


def cache_dir() -> Path:
    """Dqsql's folder in the user's cache (XDG_CACHE_HOME, or the platform's custom)."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "dqsql"
    if platform.system() == "Darwin":
        return Path.home() / "Library" / "Caches" / "dqsql"
    if local := os.environ.get("LOCALAPPDATA"):
        return Path(local) / "dqsql" / "Cache"
    try:
        return Path.home() / ".cache" / "dqsql"
    except RuntimeError:
        # A container's user without a home.
        return Path(gettempdir()) / f"dqsql-{os.getuid()}"


def sessions_dir() -> Path:
    """The folder of warm sessions: their records, and the socket of the preloaded process."""
    return cache_dir() / "sessions"


@cache
def package_files() -> tuple[tuple[str, int, int], ...]:
    """The package's modules with sizes and times: they tell an edited installation from another."""
    files = ((os.path.relpath(p, _PACKAGE), p.stat()) for p in sorted(_PACKAGE.rglob("*.py")))
    return tuple((name, info.st_size, info.st_mtime_ns) for name, info in files)


def is_private(folder: Path) -> bool:
    """Whether nobody else could have put a file there: what is read back is trusted."""
    if os.name != "posix":
        return True
    info = folder.stat()
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def write_private(path: Path, content: bytes) -> None:
    """Write a file in one step, readable by its user only. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with NamedTemporaryFile(dir=path.parent, delete=False) as draft:
        try:
            draft.write(content)
            draft.close()
            os.replace(draft.name, path)
        except OSError:
            os.unlink(draft.name)
            raise


def is_switched_off(variable: str) -> bool:
    """Whether an environment variable switches off what is on by default."""
    return os.environ.get(variable, "1").lower() in ("0", "false", "no")


def expanded(path: str | PathLike[str]) -> Path:
    """A path with `~` as the user's home; `~somebody` whom nobody knows stays as it is."""
    return Path(os.path.expanduser(path))


def unpacked(file: Path) -> BinaryIO:
    """Open a file of this machine; a `.gz` or `.bz2` is unpacked while it is read."""
    import bz2
    import gzip

    ending = file.suffix.lower()
    if ending == ".gz":
        return cast("BinaryIO", gzip.open(file))
    return cast("BinaryIO", bz2.open(file)) if ending == ".bz2" else file.open("rb")
