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
