"""Writes what runs write, in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dqsql.engine.storage_delta import DeltaFolderStore
from dqsql.engine.upkeep import Upkeep
from tests.tables import DAYS, StoredRuns


def main(root: Path, command: str, count: int) -> None:
    """Do one of the things that change tables, `count` times."""
    tables = StoredRuns(root)
    for number in range(count):
        if command == "run":
            tables.run(f"2024-02-{number + 1:02d}")
            tables.store.tidy()
        elif command == "again":
            tables.reopen(*DAYS)
            tables.run(*DAYS)
        elif command == "review":
            tables.review(DAYS[number % len(DAYS)])
        elif command == "repair":
            tables.doctor(repair=True)
        elif command == "compact":
            assert isinstance(tables.store, DeltaFolderStore)
            upkeep = Upkeep(tables.store)
            for name in upkeep.tables(()):
                upkeep.compact(name)
        print(number, flush=True)
    # As a crash ends: no handler runs.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
