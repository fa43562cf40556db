"""The files in folders of this machine, as Spark finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of that name.

    >>> [is_hidden(name) for name in ("_temporary", ".part.crc", "_day=2026-01-01", "a.csv")]
    [True, True, False, False]
    """
    is_partition = "=" in name
    is_private = name.startswith("_") and not is_partition
    return is_private or name.startswith(".") or name.endswith("._COPYING_")


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and in folders below, without hidden ones and what they hold.

    What goes away meanwhile is passed over, and a link to a folder around it.
    """
    for place, inner, names in os.walk(folder, followlinks=True):
        kept = (name for name in inner if not is_hidden(name))
        inner[:] = sorted(name for name in kept if not _leads_up(Path(place, name), folder))
        files = (Path(place, name) for name in sorted(names) if not is_hidden(name))
        yield from (file for file in files if file.is_file())


def _leads_up(link: Path, root: Path) -> bool:
    """Whether it is a link to one of the folders that were entered on the way to it."""
    if not link.is_symlink():
        return False
    target = link.resolve()
    entered = (p for p in link.parents if p.is_relative_to(root))
    return any(p.resolve().is_relative_to(target) for p in entered)
