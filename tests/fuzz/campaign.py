"""Feeds mutated texts to all readers and prints what became of them.

`python -m tests.fuzz.campaign 100000` runs so many inputs (minutes) and ends with 1 where a reader
raised anything but an error of dqsql, or took more than 5 s of CPU. An input is found again by its
target and seed: `python -m tests.fuzz.campaign --show TARGET SEED`.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dqsql.errors import DqsqlError
from tests.fuzz.mutator import mutated
from tests.fuzz.targets import FuzzTarget, Refused, Workshop, targets

SLOW = 5.0  # seconds of CPU


@dataclass
class Tally:
    """What became of the inputs of one target. `crashes` and `slow` are by seed."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    crashes: dict[int, str] = field(default_factory=dict)
    slow: dict[int, float] = field(default_factory=dict)


def text_of(target: FuzzTarget, seed: int) -> str:
    """The input of a target for a seed."""
    return mutated(target.seeds, random.Random(f"{target.name} {seed}"))


def feed(target: FuzzTarget, seed: int, tally: Tally) -> None:
    """Feed one input and tell the tally."""
    text = text_of(target, seed)
    tally.inputs += 1
    started = time.process_time()
    try:
        target.read(text)
        tally.accepted += 1
    except (DqsqlError, Refused):
        tally.refused += 1
    except (Exception, RecursionError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in frames if "dqsql" in f.filename
        ]
        tally.crashes[seed] = (
            f"{type(error).__name__}: {str(error)[:100]!r} at {' '.join(own[-3:])}"
        )
    spent = time.process_time() - started
    tally.slowest = max(tally.slowest, spent)
    if spent > SLOW:
        tally.slow[seed] = spent


def shares(all_targets: dict[str, FuzzTarget], inputs: int) -> Iterator[tuple[FuzzTarget, int]]:
    """How many inputs each target gets: fewer where one costs more."""
    weights = {name: t.cost**-0.6 for name, t in all_targets.items()}
    total = sum(weights.values())
    for name, weight in weights.items():
        yield all_targets[name], max(10, round(inputs * weight / total))


def campaign(
    inputs: int, first: int = 0, tell: Callable[[str], object] = lambda row: None
) -> dict[str, Tally]:
    """Run so many inputs, from the seed `first` on; `tell` is told of each target that is done."""
    found: dict[str, Tally] = {}
    for target, share in shares(dict(targets(Workshop())), inputs):
        tally = found[target.name] = Tally()
        for seed in range(first, first + share):
            feed(target, seed, tally)
        tell(row(target.name, tally))
    return found


HEAD = f"{'target':14}{'inputs':>8}{'accepted':>10}{'refused':>9}{'crashed':>9}{'slowest':>9}"


def row(name: str, *tallies: Tally) -> str:
    """A row of the table: the sum of some tallies."""
    inputs, accepted = sum(t.inputs for t in tallies), sum(t.accepted for t in tallies)
    refused, crashed = sum(t.refused for t in tallies), sum(len(t.crashes) for t in tallies)
    slowest = max(t.slowest for t in tallies)
    return f"{name:14}{inputs:8}{accepted:10}{refused:9}{crashed:9}{slowest:8.2f}s"


def faults(found: dict[str, Tally]) -> list[str]:
    """What went wrong, with target and seed."""
    return [
        *(
            f"{name} {seed}: {what}"
            for name, t in found.items()
            for seed, what in t.crashes.items()
        ),
        *(
            f"{name} {seed}: {spent:.1f} s"
            for name, t in found.items()
            for seed, spent in t.slow.items()
        ),
    ]


def main(args: list[str]) -> int:
    """Run from the command line."""
    if args and args[0] == "--show":
        target = targets(Workshop())[args[1]]
        sys.stdout.write(text_of(target, int(args[2])) + "\n")
        return 0

    def tell(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    tell(HEAD)
    found = campaign(int(args[0]) if args else 1000, int(args[1]) if len(args) > 1 else 0, tell)
    tell(row("all", *found.values()))
    for fault in faults(found):
        tell(f"  {fault}")
    return int(bool(faults(found)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
