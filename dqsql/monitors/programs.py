"""What monitors have learned, as dq_programs keeps it: one row a check and version."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class StoredProgram:
    """One version of what a monitor learned.

    `program` and `evidence` are JSON-serialisable; evidence is what bounds are fitted with again
    (the metrics of injected issues, training counts) and is kept for the version in force only.
    `valid_from_batch` is the first batch it decided on, None while there was none.
    `batches` is how many batches it was learned from, the first and last of which are named.
    """

    check_id: str
    column: str | None
    detector: str
    version: int
    valid_from_batch: str | None
    learned_from: str
    learned_to: str
    batches: int
    fpr: float | None
    program: Mapping[str, Any]
    description: str
    evidence: Mapping[str, Any] | None


class ProgramBook:
    """The programs of one model: those in force, and the rows of all versions."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._rows: dict[tuple[str, int], Row] = {
            (r["check_id"], r["version"]): dict(r) for r in rows
        }
        self._changed: dict[tuple[str, int], StoredProgram] = {}
        self._current: dict[str, StoredProgram] = {}
        for row in self._rows.values():
            if row["valid_to"] is None:
                self._current[row["check_id"]] = _from_row(row)

    def copy(self) -> ProgramBook:
        """A book with the same programs, to which others are added."""
        book = ProgramBook()
        book._rows, book._changed = self._rows, dict(self._changed)
        book._current = dict(self._current)
        return book

    def current(self, check_id: str) -> StoredProgram | None:
        """The version in force, or None when nothing was learned yet."""
        return self._current.get(check_id)

    def put(self, program: StoredProgram, *, new_version: bool) -> None:
        """Keep what was learned: as a new version, or in place of the version in force."""
        before = self._current.get(program.check_id)
        version = (before.version if before else 0) + (1 if new_version or before is None else 0)
        stored = replace(program, version=version)
        self._changed[(stored.check_id, version)] = stored
        self._current[stored.check_id] = stored

    def rows(self, model: str, known: Iterable[str], run_id: str, now: dt.datetime) -> list[Row]:
        """All rows of the model's part of dq_programs, or none when nothing changed.

        Programs of checks that are not among `known` any more are closed.
        """
        alive = set(known)
        gone = [k for k in self._current if k not in alive]
        if not self._changed and not gone:
            return []
        rows = dict(self._rows)
        for key, program in self._changed.items():
            began = rows.get(key, {}).get("valid_from", now)
            rows[key] = _to_row(model, program, run_id, began)
        newest = {check: p.version for check, p in self._current.items()}
        for (check, version), row in rows.items():
            if row["valid_to"] is None and (version < newest.get(check, 0) or check not in alive):
                row.update(valid_to=now, evidence=None)
        return [rows[key] for key in sorted(rows)]


_PLAIN = tuple(
    f.name for f in fields(StoredProgram) if f.name not in ("column", "program", "evidence")
)


def _from_row(row: Mapping[str, Any]) -> StoredProgram:
    return StoredProgram(
        **{name: row[name] for name in _PLAIN},
        column=row["column_name"],
        program=json.loads(row["program"]),
        evidence=json.loads(row["evidence"]) if row["evidence"] else None,
    )


def _to_row(model: str, program: StoredProgram, run_id: str, began: dt.datetime) -> Row:
    return {
        **{name: getattr(program, name) for name in _PLAIN},
        "model": model,
        "column_name": program.column,
        "program": json.dumps(program.program, sort_keys=True),
        "evidence": json.dumps(program.evidence) if program.evidence is not None else None,
        "run_id": run_id,
        "valid_from": began,
        "valid_to": None,
    }
