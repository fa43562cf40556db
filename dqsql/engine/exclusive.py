"""Keeps two runs from writing of the same models at the same time.

Each write of a table is one commit, but a run is many: of two that check the same batches the
tables could end up with some rows of one and some of the other.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from dqsql.errors import StorageError
from dqsql.model.project import Target, local_folder

_HELD = (errno.EACCES, errno.EAGAIN)


@contextmanager
def locked(target: Target, models: Iterable[str]) -> Iterator[None]:
    """Let nobody else on this machine write of these models for as long as this lasts.

    That is so where the tables are in a folder of this machine. The system gives a lock back when
    the process ends, however it ends. A thread waits for others, such as those of streams, and does
    not lock itself out.

    Raises StorageError: another process has one of the models.
    """
    folder = local_folder(target)
    if folder is None or sys.platform == "win32":
        yield
        return
    wanted = sorted(set(models))
    with _Held.changes:
        taken = _take(lock_file(folder.resolve()), wanted)
    try:
        yield
    finally:
        if taken is not None:
            with _Held.changes:
                _give_back(taken, wanted)
                _Held.changes.notify_all()


def lock_file(folder: Path) -> Path:
    """The file whose bytes are locked, one a model, for the tables in a folder."""
    return folder.with_name(f".{folder.name}.lock")


@dataclass
class _LockFile:
    """An open file of locks: which thread of this process has each of its bytes, how many times.

    All share it: when a process closes a file, the system gives back all of its locks there.
    """

    path: Path
    handle: int
    users: dict[int, list[int]] = field(default_factory=dict)


class _Held:
    """The lock files that are open in this process; `changes` guards them."""

    files: ClassVar[dict[Path, _LockFile]] = {}
    changes: ClassVar[threading.Condition] = threading.Condition()


def _forget() -> None:
    """A copy of the process has none of its locks, nor the threads that would give them back."""
    _Held.files, _Held.changes = {}, threading.Condition()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _take(path: Path, models: Sequence[str]) -> _LockFile | None:
    """The file in which models are locked now; None where there can be none."""
    own_thread = threading.get_ident()
    while (busy := _held_by_others(path, models, own_thread)) is not None:
        if any(
            own_thread in users for file in _Held.files.values() for users in file.users.values()
        ):
            # Each might wait for what the other one has.
            raise _taken(busy)
        _Held.changes.wait()
    if path not in _Held.files:
        try:
            _Held.files[path] = _LockFile(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o666))
        except OSError:
            # A folder that may be read only: what is written will say so.
            return None
    held_file = _Held.files[path]
    done: list[str] = []
    try:
        for model in models:
            users = held_file.users.setdefault(_place(model), [])
            if not users:
                _lock(held_file.handle, model)
            users.append(own_thread)
            done.append(model)
    except StorageError:
        _give_back(held_file, done)
        raise
    return held_file


def _held_by_others(path: Path, models: Sequence[str], own_thread: int) -> str | None:
    """A model that another thread of this process is working on."""
    users = _Held.files[path].users if path in _Held.files else {}
    return next((m for m in models if (u := users.get(_place(m))) and own_thread not in u), None)


def _give_back(file: _LockFile, models: Sequence[str]) -> None:
    import fcntl

    for model in models:
        users = file.users[_place(model)]
        users.pop()
        if not users:
            with suppress(OSError):
                fcntl.lockf(file.handle, fcntl.LOCK_UN, 1, _place(model))
    if not any(file.users.values()):
        os.close(file.handle)
        del _Held.files[file.path]


def _place(model: str) -> int:
    """The byte that is locked for a model."""
    return zlib.crc32(model.encode())


def _lock(handle: int, model: str) -> None:
    import fcntl

    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(model))
    except OSError as error:
        # Some file systems have no locks.
        if error.errno in _HELD:
            raise _taken(model) from error


def _taken(model: str) -> StorageError:
    return StorageError(
        f"another dqsql is working on the model {model}",
        hint="wait until it ends (see docs/storage.md)",
    )
