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
    return name.startswith(".") or (name.startswith("_") and not is_partition)


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and in folders below, without hidden ones and what they hold.

    What goes away meanwhile is passed over.
    """
    for place, inner, names in os.walk(folder, followlinks=True):
        inner[:] = sorted(name for name in inner if not is_hidden(name))
        files = (Path(place, name) for name in sorted(names) if not is_hidden(name))
        yield from (file for file in files if file.is_file())
