"""`@avh` beside runs: learned anew from all that is stored, and replayed over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dqsql.decisions.arrays import FloatArray
from dqsql.decisions.avh import evaluate
from dqsql.decisions.program import Program, breaks
from dqsql.monitors.history import NEXT
from dqsql.monitors.kinds.avh.detector import AvhDetector, Unit
from dqsql.monitors.kinds.avh.evidence import IssueEvidence
from dqsql.monitors.replay import Learned, Replayed, Tally

# On about so many of the replayed batches issues are tried: each takes two programs more.
_HELD_OUT = 20


@dataclass(frozen=True)
class AvhLearner:
    """Learns and replays all `@avh` of one model.

    The history of the detector's context ends behind the newest accepted batch.
    """

    detector: AvhDetector

    def learn(self) -> list[Learned]:
        """Learn programs for the batch that will come next, with fresh evidence.

        Raises EngineError.
        """
        found = [Learned(m, note=text) for m, text in self.detector.broken]
        ready: list[Unit] = []
        for unit in self.detector.units:
            refused = self.detector.refused(unit)
            if refused is not None:
                found.append(Learned(unit.monitor, note=refused))
                continue
            past = self.detector.past(unit, NEXT)
            need = unit.settings.config.min_history
            if len(past) < need:
                text = f"still learning: {len(past)} of {need} accepted batches"
                found.append(Learned(unit.monitor, note=text))
            else:
                ready.append(unit)
        notes = self._renew(ready)
        for unit, program in self.detector.fit(ready, NEXT):
            self.detector.store(unit, program, NEXT)
            found.append(
                Learned(
                    unit.monitor,
                    self.detector.context.programs.current(unit.monitor.id),
                    program.fpr_bound,
                    program.issues,
                    program.caught,
                    notes.get(unit.monitor.id),
                )
            )
        order = {m.id: place for place, m in enumerate(self.detector.context.plan.monitors)}
        return sorted(found, key=lambda learned: order[learned.monitor.id])

    def _renew(self, units: Sequence[Unit]) -> dict[str, str]:
        """Inject issues into the newest batch; notes on units for which that cannot be done."""
        before = {unit.monitor.id: unit.evidence for unit in units}
        for unit in units:
            unit.evidence = None
        self.detector.refresh(units, NEXT)
        notes: dict[str, str] = {}
        for unit in units:
            if unit.evidence is None:
                unit.evidence = before[unit.monitor.id]
                notes[unit.monitor.id] = self._stale(unit, unit.evidence)
        return notes

    def _stale(self, unit: Unit, kept: IssueEvidence | None) -> str:
        newest = self.detector.newest_whole(unit, self.detector.before(unit, NEXT))
        text = f"the model has no rows of batch {newest} to inject issues into"
        return f"{text}; those of {kept.batch} are used" if kept else text

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches by their stored metrics; injected issues are the stored ones.

        What an injected issue changed in the sample is carried over to accepted batches, and held
        against bounds learned from the batches before by other issues: of each kind, bounds that
        every second magnitude chose are tried by the others.
        """
        found: list[Replayed] = []
        for rate in rates:
            found += [Replayed(m, rate, note=text) for m, text in self.detector.broken]
            replays: list[_Replay] = []
            for unit in self.detector.units:
                refused = self.detector.refused(unit)
                if refused is not None:
                    found.append(Replayed(unit.monitor, rate, note=refused))
                else:
                    tally = Tally(unit.monitor, rate, flagged)
                    replays.append(_Replay(_at_rate(unit, rate), tally))
            every = max(1, len(batches) // _HELD_OUT)
            for place, batch in enumerate(batches):
                self._replay_batch(replays, batch, held_out=place % every == 0)
            found += [replay.result() for replay in replays]
        order = {m.id: place for place, m in enumerate(self.detector.context.plan.monitors)}
        return sorted(found, key=lambda replayed: order[replayed.monitor.id])

    def _replay_batch(self, replays: Sequence[_Replay], batch: str, held_out: bool) -> None:
        history = self.detector.context.history
        ready: dict[int, _Replay] = {}
        for replay in replays:
            unit = replay.unit
            if unit.evidence is None or not history.measured(self.detector.anchor(unit), batch):
                continue
            if batch in self.detector.left_out(unit):
                continue
            if len(self.detector.past(unit, batch)) >= unit.settings.config.min_history:
                ready[id(unit)] = replay
            else:
                replay.tally.add(batch, None)
        units = [r.unit for r in ready.values()]
        fitted = self.detector.fit(units, batch)
        halves = [self.detector.fit(units, batch, part) for part in (0, 1)] if held_out else []
        for place, (unit, program) in enumerate(fitted):
            series = self.detector.series(unit, batch)
            new = {n: history.value(unit.keys[n], batch) for n in unit.names}
            ready[id(unit)].add(batch, program, series, new)
            for part, half in enumerate(halves):
                ready[id(unit)].add_issues(batch, half[place][1], series, new, 1 - part)


def _at_rate(unit: Unit, rate: float) -> Unit:
    settings = unit.settings
    return replace(unit, settings=replace(settings, config=replace(settings.config, fpr=rate)))


@dataclass
class _Replay:
    """One monitor at a rate, and what it would have done."""

    unit: Unit
    tally: Tally
    clauses: int = 0

    def add(
        self,
        batch: str,
        program: Program,
        series: Mapping[str, FloatArray],
        new: Mapping[str, float],
    ) -> None:
        """Count the verdict of a program on a batch."""
        self.tally.add(batch, evaluate(program, series, new).status != "pass")
        self.clauses += len(program.clauses)

    def add_issues(
        self,
        batch: str,
        program: Program,
        series: Mapping[str, FloatArray],
        new: Mapping[str, float],
        part: int,
    ) -> None:
        """Count the verdicts on what issues of one part would make of a batch."""
        evidence = self.unit.evidence
        if evidence is None or batch in self.tally.flagged:
            return
        evidence = evidence.part(part)
        variants = evidence.onto(self.unit.names, _vector(self.unit.names, new))
        columns = {name: variants[:, place] for place, name in enumerate(self.unit.names)}
        broken = breaks(program, series, columns, len(evidence.issues))
        for issue, hit in zip(evidence.issues, broken, strict=True):
            self.tally.add_issue(batch, issue, bool(hit))

    def result(self) -> Replayed:
        """The counts so far."""
        missing = self.unit.evidence is None
        note = "no injected issues are stored: `dqsql fit` measures them" if missing else None
        found = self.tally.result(note)
        decided = found.accepted + found.flagged
        return replace(found, clauses=self.clauses / decided if decided else None)


def _vector(names: Sequence[str], values: Mapping[str, float]) -> FloatArray:
    return np.array([values[name] for name in names], dtype=float)
