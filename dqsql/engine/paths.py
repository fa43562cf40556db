"""Paths for Spark, which takes what it reads for patterns: `[x]` is the folder `x` to it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path

from dqsql.errors import ConfigError
from dqsql.folders import files_below, is_hidden

_EITHER = re.compile(r"\{([^{}]*)\}")
_PATTERN = re.compile(r"([][{}*?])")


def escaped(path: str) -> str:
    """The path such that Spark reads this very file or folder."""
    return _PATTERN.sub(r"\\\1", path)


def file_or_pattern(path: str) -> str:
    """The path of a file or folder of this machine as `escaped`; any other as it is, a pattern."""
    return escaped(path) if _PATTERN.search(path) and Path(path).exists() else path


def _alternatives(pattern: str) -> list[str]:
    """The patterns of Python that one of Spark's stands for."""
    match = _EITHER.search(pattern)
    if match is None:
        return [pattern.replace("[^", "[!")]
    start, end = match.span()
    return [
        rest
        for each in match[1].split(",")
        for rest in _alternatives(pattern[:start] + each + pattern[end:])
    ]


def files_at(path: Path) -> list[Path] | None:
    """The files at a path of this machine, or of a pattern of such; None of others."""
    if path.is_file():
        return [path]
    if path.is_dir():
        return list(files_below(path))
    places = dict.fromkeys(Path(p) for one in _alternatives(str(path)) for p in sorted(glob(one)))
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            files += files_below(place)
        elif place.is_file() and not is_hidden(place.name):
            files.append(place)
    return files or None


def chosen_files(path: str, options: Mapping[str, str]) -> list[Path]:
    """The files at a path of this machine that Spark reads by their names; none of other places."""
    given = {name.lower(): value for name, value in options.items()}
    pattern = given.get("pathglobfilter", "*")
    files = files_at(Path(path)) or []
    if "\\" in pattern:
        # What it escapes, Python's patterns cannot.
        return files
    names = _alternatives(pattern)
    return [f for f in files if any(fnmatchcase(f.name, name) for name in names)]


def named_in(file: Path, root: Path) -> Path:
    """A file as it is named in the folder `root`, where it lies in it."""
    return file.relative_to(root) if file.is_relative_to(root) else file


def named_in_paths(root: str, files: Iterable[Path], options: Mapping[str, str]) -> set[str]:
    """The columns, in lower case, of which folders below `root` say the value: `day=2024-01-01`.

    None below a pattern, or where the options of Spark say that it is not to look.
    """
    given = {name.lower(): value for name, value in options.items()}
    if not Path(root).is_dir() or given.get("recursivefilelookup", "").lower() == "true":
        return set()
    below = (f.relative_to(root).parts[:-1] for f in files)
    return {part.partition("=")[0].lower() for parts in below for part in parts if "=" in part}


def refuse_unreadable(folder: Path) -> None:
    """Refuse a folder of tables that may not be read: it would be taken for an empty one.

    Raises ConfigError.
    """
    try:
        # The one takes that it may be listed, the other that it may be entered.
        with os.scandir(folder), suppress(FileNotFoundError):
            (folder / "_").stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ConfigError(
            f"the warehouse {folder} cannot be read: {error.strerror}",
            hint="ask who owns it for the right to read and enter it, or set another `warehouse`",
        ) from error
