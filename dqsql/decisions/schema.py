"""What changed between two lists of columns: the verdict of `@schema`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dqsql.model.project import Severity
from dqsql.model.results import Status

ADDED, DROPPED, RETYPED = "added", "dropped", "retyped"
CHANGES = (ADDED, DROPPED, RETYPED)
Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Columns added, dropped and retyped, in words; `reordered` is whether the others moved.

    Names are compared without regard to case, as Spark does.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    reordered: bool = False

    def of(self, kind: str) -> tuple[str, ...]:
        """The changes of one kind."""
        return {ADDED: self.added, DROPPED: self.dropped, RETYPED: self.retyped}[kind]

    def words(self, kinds: Collection[str]) -> str:
        """The changes of some kinds in one line."""
        return "; ".join(f"{k} {', '.join(self.of(k))}" for k in CHANGES if k in kinds)


@dataclass(frozen=True, slots=True)
class SchemaVerdict:
    """Status and message of `@schema`."""

    status: Status
    message: str
    changes: SchemaChanges | None = None


def compare(before: Columns, now: Columns) -> SchemaChanges:
    """What changed from `before` to `now`; both map names to types, in order."""
    old = {name.casefold(): (name, kind) for name, kind in before.items()}
    new = {name.casefold(): (name, kind) for name, kind in now.items()}
    both = [key for key in new if key in old]
    return SchemaChanges(
        added=tuple(f"{n} ({t})" for key, (n, t) in new.items() if key not in old),
        dropped=tuple(f"{n} ({t})" for key, (n, t) in old.items() if key not in new),
        retyped=tuple(
            f"{new[key][0]} ({old[key][1]} -> {new[key][1]})"
            for key in both
            if old[key][1] != new[key][1]
        ),
        reordered=both != [key for key in old if key in new],
    )


def decide_schema(
    now: Columns, before: Columns | None, *, allow: Collection[str], severity: Severity
) -> SchemaVerdict:
    """The verdict on the columns `now` against those of the last accepted batch.

    `allow` names kinds of change that pass. A new order of the same columns is only noted.
    """
    count = f"{len(now):,} column{'s' if len(now) != 1 else ''}"
    if before is None:
        return SchemaVerdict(Status.PASS, f"{count}; nothing to compare with")
    changes = compare(before, now)
    kinds = [k for k in CHANGES if changes.of(k)]
    moved = "; in another order" if changes.reordered else ""
    if not kinds:
        return SchemaVerdict(Status.PASS, f"{count}, as before{moved}", changes)
    words = changes.words(kinds)
    if all(k in allow for k in kinds):
        return SchemaVerdict(Status.PASS, f"{words} (allowed){moved}", changes)
    status = Status.FAIL if severity is Severity.ERROR else Status.WARN
    return SchemaVerdict(status, f"{words}{moved}", changes)
