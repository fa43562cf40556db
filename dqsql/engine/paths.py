"""Paths for Spark, which takes what it reads for patterns: `[x]` is the folder `x` to it."""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path

_EITHER = re.compile(r"\{([^{}]*)\}")
_PATTERN = re.compile(r"([][{}*?])")


def escaped(path: str) -> str:
    """The path such that Spark reads this very file or folder."""
    return _PATTERN.sub(r"\\\1", path)


def file_or_pattern(path: str) -> str:
    """The path of a file or folder of this machine as `escaped`; any other as it is, a pattern."""
    return escaped(path) if _PATTERN.search(path) and Path(path).exists() else path


def _alternatives(pattern: str) -> list[str]:
    """The patterns that one with `{a,b}` stands for, which Python does not know."""
    found = _EITHER.search(pattern)
    if found is None:
        return [pattern]
    start, end = found.span()
    return [
        rest
        for each in found[1].split(",")
        for rest in _alternatives(pattern[:start] + each + pattern[end:])
    ]


def files_at(path: Path) -> list[Path] | None:
    """The files at a path of this machine, or of a pattern of such; None of others."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        places = [Path(p) for one in _alternatives(str(path)) for p in sorted(glob(one))]
        found = [file for place in dict.fromkeys(places) for file in files_at(place) or ()]
        return found or None
    hidden = ("_", ".")
    return [
        f
        for f in path.rglob("*")
        if f.is_file() and not any(p.startswith(hidden) for p in f.relative_to(path).parts)
    ]
