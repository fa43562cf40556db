"""Which batches a run is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dqsql.model.results import BatchRecord, BatchStatus


@dataclass(frozen=True)
class BatchRequest:
    """What the user asked for: named batches, a half-open range, everything, or what is new."""

    batches: tuple[str, ...] = ()
    start: str | None = None
    end: str | None = None
    full_refresh: bool = False

    @property
    def reruns(self) -> bool:
        """Whether batches that were checked before are checked again."""
        return bool(self.batches or self.start or self.end or self.full_refresh)


@dataclass(frozen=True)
class BatchChoice:
    """The batches to check, those among them without any row, and what to tell the user."""

    batches: tuple[str, ...]
    empty: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def choose_batches(
    request: BatchRequest,
    found: Mapping[str | None, int],
    ledger: Mapping[str, BatchRecord],
) -> BatchChoice:
    """Choose among the batches `found` in the data (with row counts) by request and ledger."""
    present = [b for b in found if b is not None]
    notes = _null_note(found.get(None, 0))
    if request.batches:
        empty = tuple(b for b in request.batches if b not in found)
        return BatchChoice(request.batches, empty, notes)
    if request.start or request.end:
        start, end = request.start or "", request.end
        chosen = [b for b in present if b >= start and (end is None or b < end)]
        return BatchChoice(tuple(chosen), (), notes)
    if request.full_refresh:
        return BatchChoice(tuple(present), (), notes)
    done = {b for b, r in ledger.items() if r.status is not BatchStatus.INCOMPLETE}
    new = tuple(b for b in present if b not in done)
    return BatchChoice(new, (), (*notes, *_changed_note(found, ledger, done)))


def _null_note(rows: int) -> tuple[str, ...]:
    if not rows:
        return ()
    return (f"{rows:,} rows belong to no batch: their batch_by value is null",)


def _changed_note(
    found: Mapping[str | None, int], ledger: Mapping[str, BatchRecord], done: set[str]
) -> tuple[str, ...]:
    changed = sorted(b for b in done if b in found and found[b] != ledger[b].rows)
    if not changed:
        return ()
    names = ", ".join(_flags(changed))
    return (f"{len(changed)} checked batches have other rows now; check them again with {names}",)


def _flags(batches: Sequence[str]) -> list[str]:
    shown = [f"--batch {b!r}" if " " in b else f"--batch {b}" for b in batches[:3]]
    return [*shown, "..."] if len(batches) > 3 else shown
