"""Where a target's pattern index lies, and how it is changed: whole or not at all.

In a warehouse that is a folder of this machine, the index is a folder of Parquet files there (see
`dqsql.patterns.store`). Elsewhere its files are the rows of the warehouse table
`dq_pattern_index`, and are fetched to a temporary folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dqsql.errors import PatternError, StorageError
from dqsql.model.project import Target, local_folder
from dqsql.model.table import Column, Table
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.store import general_index, load_index, with_general

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

INDEX_NAME = "dq_pattern_index"

# Read and replaced as a whole; no partitions, so that one write exchanges all rows.
_FILES = Table(
    INDEX_NAME,
    "The index of a lake's patterns, as the files that it consists of.",
    (
        Column("file", "string", "Name of the file."),
        Column("content", "binary", "Its bytes."),
    ),
    keys=("file",),
)


@dataclass(frozen=True)
class FolderPlace:
    """An index in a folder of this machine, or none yet.

    `reading` gives a folder with the index, or None; with the contributions of the tables if
    wanted. `writing` gives one with a copy of the index, or an empty one, which becomes the index
    when the block ends; an error in it leaves the old one as it was. Both raise StorageError.
    """

    folder: Path

    @property
    def location(self) -> str:
        """The folder."""
        return str(self.folder)

    @contextmanager
    def reading(self, *, contributions: bool) -> Iterator[Path | None]:
        """The folder itself."""
        yield self._newest()

    @contextmanager
    def writing(self, *, afresh: bool) -> Iterator[Path]:
        """A copy beside the folder, which takes its place."""
        staged = self.folder.with_name(f".{self.folder.name}.{os.getpid()}.new")
        try:
            with self._storing():
                shutil.rmtree(staged, ignore_errors=True)
                newest = None if afresh else self._newest()
                if newest is not None:
                    shutil.copytree(newest, staged)
                else:
                    staged.mkdir(parents=True)
            yield staged
            with self._storing():
                self._publish(staged)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _publish(self, staged: Path) -> None:
        old = staged.with_suffix(".old")
        if self.folder.exists():
            self.folder.rename(old)
        staged.rename(self.folder)
        for replaced in self._replaced():
            shutil.rmtree(replaced, ignore_errors=True)

    def _newest(self) -> Path | None:
        """The index, or what a process that died before it put the new one there has set aside."""
        places = (self.folder, *self._replaced())
        return next((p for p in places if (p / "index.json").exists()), None)

    def _replaced(self) -> list[Path]:
        return sorted(self.folder.parent.glob(f".{self.folder.name}.*.old"))

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the pattern index {self.folder} cannot be written: {error.strerror or error}"
            ) from error


@dataclass(frozen=True)
class TablePlace:
    """An index whose files are rows of a warehouse table; as `FolderPlace`."""

    store: Store

    @property
    def location(self) -> str:
        """The table and where it lives."""
        return f"{INDEX_NAME} in {self.store.location}"

    @contextmanager
    def reading(self, *, contributions: bool) -> Iterator[Path | None]:
        """A temporary folder with the files."""
        with TemporaryDirectory(prefix="dqsql-index-") as name:
            yield Path(name) if self._fetch(Path(name), contributions) else None

    @contextmanager
    def writing(self, *, afresh: bool) -> Iterator[Path]:
        """A temporary folder whose files replace the rows of the table."""
        with TemporaryDirectory(prefix="dqsql-index-") as name:
            folder = Path(name)
            if not afresh:
                self._fetch(folder, contributions=True)
            yield folder
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            rows = [
                {"file": path.relative_to(folder).as_posix(), "content": path.read_bytes()}
                for path in files
            ]
            self.store.replace_partition(_FILES, rows)

    def _fetch(self, folder: Path, contributions: bool) -> bool:
        wanted = {} if contributions else {"file": ("index.json", "patterns.parquet")}
        rows = self.store.select(_FILES, where=wanted)
        for row in rows:
            path = folder / row["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(row["content"])
        return bool(rows)


IndexPlace = FolderPlace | TablePlace


def needs_session(target: Target) -> bool:
    """Whether reading the index of a target needs Spark."""
    return local_folder(target) is None


def index_place(target: Target, store: Store | None = None) -> IndexPlace:
    """The place of a target's index; `store` is needed where `needs_session` says so."""
    folder = local_folder(target)
    if folder is not None:
        return FolderPlace(folder / INDEX_NAME)
    if store is None:
        raise StorageError("the pattern index of this target can only be reached with Spark")
    return TablePlace(store)


def open_place(spark: SparkSession, target: Target) -> IndexPlace:
    """The place of a target's index, for a session."""
    from dqsql.engine.storage import open_store

    return index_place(target, open_store(spark, target) if needs_session(target) else None)


def lake_index(place: IndexPlace) -> PatternIndex:
    """The index that patterns are learned with: the lake's with the shipped one, or that alone.

    Held in memory, so that look-ups need no query; load it once a run.

    Raises:
        PatternError: the index is damaged.
        StorageError: it cannot be read.
    """
    with place.reading(contributions=False) as folder:
        return general_index() if folder is None else with_general(load_index(folder))


def no_index(place: IndexPlace) -> PatternError:
    """The error for a command that needs the lake's index."""
    return PatternError(
        f"there is no pattern index yet (it would be {place.location})",
        hint="build one with `dqsql index build`",
    )
