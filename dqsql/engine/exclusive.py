"""Keeps two runs from writing of the same models at the same time.

Each write of a table is one commit, but a run is many: of two that check the same batches the
tables could end up with some rows of one and some of the other.
"""

from __future__ import annotations

import errno
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dqsql.errors import StorageError
from dqsql.model.project import Target, local_folder

_HELD = (errno.EACCES, errno.EAGAIN)


@contextmanager
def locked(target: Target, models: Iterable[str]) -> Iterator[None]:
    """Let no other process of this machine write of these models for as long as this lasts.

    That is so where the tables are in a folder of this machine. The system gives a lock back when
    the process ends, however it ends. A process does not lock itself out.

    Raises StorageError: another process has one of the models.
    """
    folder = local_folder(target)
    if folder is None or sys.platform == "win32":
        yield
        return
    try:
        handle = os.open(lock_file(folder), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        # A folder that may be read only: what is written will say so.
        yield
        return
    try:
        for model in sorted(set(models)):
            _lock(handle, model)
        yield
    finally:
        os.close(handle)


def lock_file(folder: Path) -> Path:
    """The file whose bytes are locked, one a model, for the tables in a folder."""
    return folder.with_name(f".{folder.name}.lock")


def _lock(handle: int, model: str) -> None:
    import fcntl

    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, zlib.crc32(model.encode()))
    except OSError as error:
        # Some file systems have no locks.
        if error.errno in _HELD:
            raise StorageError(
                f"another dqsql is working on the model {model}",
                hint="wait until it ends (see docs/storage.md)",
            ) from error
