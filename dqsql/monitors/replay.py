"""What learning a monitor and replaying it over stored batches yields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dqsql.model.plan import Monitor
from dqsql.model.results import Status
from dqsql.monitors.programs import StoredProgram

# The false-positive rates that are tried unless others are asked for.
RATES = (0.001, 0.01, 0.05)


@dataclass(frozen=True)
class Learned:
    """What one monitor has learned.

    `stored` is None where nothing could be; `note` then says why. `fpr_bound` is the bound on the
    false-positive rate of a whole program, `caught` of `issues` injected ones it flags.
    """

    monitor: Monitor
    stored: StoredProgram | None = None
    fpr_bound: float | None = None
    issues: int | None = None
    caught: int | None = None
    note: str | None = None


@dataclass(frozen=True)
class Replayed:
    """One monitor on stored batches, at one false-positive rate, or as runs decided.

    Attributes:
        monitor: the monitor.
        fpr: the rate, in (0, 1); None for what runs decided, of kinds that cannot be replayed.
        accepted: how many accepted batches it decided on.
        alarms: those of them that it would have flagged, oldest first.
        others: the other batches (with findings, or rejected by a review) that it decided on.
        found: those of them that it would have flagged, too.
        learning: batches that it had too short a history for.
        issues: by variant, how many of the issues injected into the accepted batches it flags, and
            how many there were; held out: none of them chose the bounds that it is counted by.
        clauses: mean number of bounds.
        note: why it could not be replayed, if so.
        aside: what to know of the figures.
        in_use: whether runs decide by this rate.
    """

    monitor: Monitor
    fpr: float | None
    accepted: int = 0
    alarms: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    learning: int = 0
    issues: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clauses: float | None = None
    note: str | None = None
    aside: str | None = None
    in_use: bool = False

    @property
    def flagged(self) -> int:
        """On how many of the other batches it decided."""
        return len(self.others)

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """`issues` by type: the part of a variant's name before its parameters."""
        counts: dict[str, tuple[int, int]] = {}
        for name, (caught, total) in self.issues.items():
            kind = name.split("_")[0]
            before = counts.get(kind, (0, 0))
            counts[kind] = (before[0] + caught, before[1] + total)
        return counts

    @property
    def recall(self) -> float | None:
        """Share of the injected issues that it flags, in [0, 1]; None without any."""
        total = sum(n for _, n in self.issues.values())
        return sum(caught for caught, _ in self.issues.values()) / total if total else None

    @property
    def alarm_rate(self) -> float | None:
        """Share of the accepted batches that it would have flagged; None without any."""
        return len(self.alarms) / self.accepted if self.accepted else None


@dataclass
class Tally:
    """Counts what a monitor would have done at one rate."""

    monitor: Monitor
    fpr: float | None
    flagged: Collection[str]
    decided: dict[str, bool] = field(default_factory=dict)
    learning: int = 0
    issues: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add_issue(self, batch: str, issue: str, caught: bool) -> None:
        """Count whether an issue that an accepted batch might have had would have been flagged."""
        if batch not in self.flagged:
            before = self.issues.get(issue, (0, 0))
            self.issues[issue] = (before[0] + caught, before[1] + 1)

    def add(self, batch: str, alarm: bool | None) -> None:
        """Count one batch; None where the history was too short to decide."""
        if alarm is None:
            self.learning += 1
        else:
            self.decided[batch] = alarm

    def result(self, note: str | None = None) -> Replayed:
        """The counts; `note` says what to know of them."""
        others = tuple(b for b in self.decided if b in self.flagged)
        alarms = [b for b, alarm in self.decided.items() if alarm]
        return Replayed(
            monitor=self.monitor,
            fpr=self.fpr,
            accepted=len(self.decided) - len(others),
            alarms=tuple(b for b in alarms if b not in self.flagged),
            others=others,
            found=tuple(b for b in alarms if b in self.flagged),
            learning=self.learning,
            issues=self.issues,
            note=note or (None if self.decided else "too short a history"),
        )


_DECIDED = {Status.PASS: False, Status.WARN: True, Status.FAIL: True}


def as_decided(
    monitors: Sequence[Monitor],
    results: Iterable[Mapping[str, Any]],
    batches: Sequence[str],
    flagged: Collection[str],
) -> list[Replayed]:
    """What runs decided (rows of dq_results) of monitors that cannot be replayed.

    Batches are oldest first; `flagged` are those with findings, or rejected by a review.
    """
    alarms: dict[tuple[str, str], bool] = {}
    for row in results:
        alarm = _DECIDED.get(row["status"])
        if alarm is not None:
            key = row["check_id"], row["batch"]
            # Of the verdicts on segments one is enough.
            alarms[key] = alarms.get(key, False) or alarm
    tallies = [Tally(monitor, None, flagged) for monitor in monitors]
    for tally in tallies:
        for batch in batches:
            tally.add(batch, alarms.get((tally.monitor.id, batch)))
    return [tally.result() for tally in tallies]


class Replayer(Protocol):
    """Replays all monitors of one kind of one model."""

    def rates_in_use(self) -> Mapping[str, float]:
        """The false-positive rates that runs decide by, in (0, 1), by the monitors' ids.

        Without those whose bounds hang on no rate.
        """

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches, each from the accepted ones before it; reads no data.

        Args:
            batches: batches whose metrics are in the context's history, oldest first.
            flagged: those of them that are no part of the history.
            rates: false-positive rates to try.
        """


def replays_of(
    replayer: Replayer,
    batches: Sequence[str],
    flagged: Collection[str],
    rates: Sequence[float] | None,
) -> list[Replayed]:
    """What the monitors of a kind do at some rates; None: at `RATES`, and each at its own.

    Each monitor's from the lowest rate to the highest; see `Replayer.replay`.
    """
    in_use = replayer.rates_in_use()
    replays = replayer.replay(batches, flagged, rates or RATES)
    for rate in () if rates else {*in_use.values()}.difference(RATES):
        at_rate = replayer.replay(batches, flagged, (rate,))
        replays += [one for one in at_rate if in_use.get(one.monitor.id) == rate]
    place = {check_id: n for n, check_id in enumerate(dict.fromkeys(r.monitor.id for r in replays))}
    replays.sort(key=lambda one: (place[one.monitor.id], one.fpr or 0.0))
    return [replace(one, in_use=in_use.get(one.monitor.id) == one.fpr) for one in replays]


class Learner(Replayer, Protocol):
    """Learns, too."""

    def learn(self) -> list[Learned]:
        """Learn from all accepted batches, and put what was learned into the context's programs.

        Raises EngineError.
        """
