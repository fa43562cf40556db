"""Paths for Spark, which takes what it reads for patterns: `[x]` is the folder `x` to it."""

from __future__ import annotations

import re
from pathlib import Path

_PATTERN = re.compile(r"([][{}*?])")


def escaped(path: str) -> str:
    """The path such that Spark reads this very file or folder."""
    return _PATTERN.sub(r"\\\1", path)


def file_or_pattern(path: str) -> str:
    """The path of a file or folder of this machine as `escaped`; any other as it is, a pattern."""
    return escaped(path) if _PATTERN.search(path) and Path(path).exists() else path


def files_at(path: Path) -> list[Path] | None:
    """The files at a path of this machine; None of others, and of patterns."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        return None
    hidden = ("_", ".")
    return [
        f
        for f in path.rglob("*")
        if f.is_file() and not any(p.startswith(hidden) for p in f.relative_to(path).parts)
    ]
