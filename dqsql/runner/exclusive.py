"""Keeps two runs from writing of the same models at the same time.

Parquet tables know no commits: of two runs that replace the batches of one model, the last wins,
table by table, and may leave a ledger that names batches whose metrics the other one replaced.
Delta and Iceberg tell the second one by themselves.
"""

from __future__ import annotations

import errno
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dqsql.errors import StorageError
from dqsql.model.project import Target, local_folder

_HELD = (errno.EACCES, errno.EAGAIN)


@dataclass(frozen=True)
class Locks:
    """The locks of this process on the tables of one warehouse; none where it needs none."""

    _handle: int | None = None

    @contextmanager
    def turn(self, table: str) -> Iterator[None]:
        """Wait until no other process appends to a table that models share, and keep them waiting.

        Spark gathers what it appends in a folder of the table by a fixed name, and the first of two
        writers that is done takes it away from the other.
        """
        if self._handle is None:
            yield
            return
        import fcntl

        byte = _byte(f"table {table}")
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX, 1, byte)
        except OSError:
            # Some file systems have no locks.
            yield
            return
        try:
            yield
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, byte)


@contextmanager
def alone(target: Target, models: Iterable[str]) -> Iterator[Locks]:
    """Let no other process of this machine write of these models for as long as this lasts.

    That is so where tables are Parquet files in a folder of this machine. The system gives a lock
    back when the process ends, however it ends. A process does not lock itself out.

    Raises StorageError: another process has one of the models.
    """
    folder = local_folder(target)
    if folder is None or target.table_format != "parquet" or sys.platform == "win32":
        yield Locks()
        return
    try:
        handle = os.open(lock_file(folder), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        # A folder that may be read only: what is written will say so.
        yield Locks()
        return
    try:
        for model in sorted(set(models)):
            _lock(handle, model)
        yield Locks(handle)
    finally:
        os.close(handle)


def lock_file(folder: Path) -> Path:
    """The file whose bytes are locked, one a model, for the tables in a folder."""
    return folder.with_name(f".{folder.name}.lock")


def _lock(handle: int, model: str) -> None:
    import fcntl

    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(model))
    except OSError as error:
        # Some file systems have no locks.
        if error.errno in _HELD:
            raise StorageError(
                f"another dqsql is at work on the model {model}",
                hint="wait until it ends; Delta and Iceberg tables can be written by several"
                " (see docs/storage.md)",
            ) from error


def _byte(name: str) -> int:
    return zlib.crc32(name.encode())
