"""`@avh` beside runs: learned from all that is stored, replayed over it, verdicts decided again."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dqsql.decisions import completeness
from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.avh import evaluate
from dqsql.decisions.avh_series import never_changed, resolution
from dqsql.decisions.candidates import refit
from dqsql.decisions.magnitudes import usable, without_outliers
from dqsql.decisions.program import COUNTED, ROWS, Clause, Program, breaks, of_usual_rows
from dqsql.decisions.stationarity import Transform
from dqsql.model.batches import with_missing_days
from dqsql.model.metric_traits import DISTANCE_METRICS
from dqsql.model.plan import Monitor
from dqsql.model.wording import still_learning
from dqsql.monitors.history import NEXT
from dqsql.monitors.kinds.avh.detector import AvhDetector
from dqsql.monitors.kinds.avh.evidence import IssueEvidence
from dqsql.monitors.kinds.avh.unit import Unit
from dqsql.monitors.recompute import Compared, Recomputed, StoredVerdict, stored_key
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
        units, unasked = self._units()
        outcomes = [Learned(m, note=text) for m, text in unasked]
        ready: list[Unit] = []
        for unit in units:
            past = self.detector.past(unit, NEXT)
            need = unit.settings.config.min_history
            if len(past) < need:
                note = still_learning(len(past), need)
                outcomes.append(Learned(unit.monitor, note=note))
            else:
                ready.append(unit)
        notes = self._renew(ready)
        for unit, program in self.detector.fit(ready, NEXT):
            self.detector.store(unit, program, NEXT)
            outcomes.append(
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
        return sorted(outcomes, key=lambda learned: order[learned.monitor.id])

    def _units(self) -> tuple[list[Unit], list[tuple[Monitor, str]]]:
        """The columns that are learned of, and the monitors that cannot be asked, with why."""
        every, refused = self.detector.units, self.detector.refused
        unasked = [(u.monitor, why) for u in every if (why := refused(u)) is not None]
        return [u for u in every if refused(u) is None], [*self.detector.broken, *unasked]

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
        before = self.detector.before(unit, NEXT)
        newest = unit.newest_whole(self.detector.context.history, before)
        text = f"the model has no rows of batch {newest} to inject issues into"
        return f"{text}; those of {kept.batch} are used" if kept else text

    def rates_in_use(self) -> dict[str, float]:
        """The rates of the columns' programs; see `Replayer`."""
        return {u.monitor.id: u.settings.config.fpr for u in self.detector.units}

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Decide on stored batches by their stored metrics; injected issues are the stored ones.

        What an injected issue changed in the sample is carried over to accepted batches, and held
        against bounds learned from the batches before by other issues: of each kind, bounds that
        every second magnitude chose are tried by the others.
        """
        units, unasked = self._units()
        outcomes = [Replayed(m, rate, note=text) for rate in rates for m, text in unasked]
        for rate in rates:
            replays = [_Replay(_at_rate(u, rate), Tally(u.monitor, rate, flagged)) for u in units]
            every = max(1, len(batches) // _HELD_OUT)
            for place, batch in enumerate(batches):
                self._replay_batch(replays, batch, held_out=place % every == 0)
            outcomes += [replay.result() for replay in replays]
        order = {m.id: place for place, m in enumerate(self.detector.context.plan.monitors)}
        return sorted(outcomes, key=lambda replayed: order[replayed.monitor.id])

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
            warned = self.detector.warned(unit, batch)
            verdict = evaluate(program, series, new, warned)
            is_news = verdict.status != "pass" and not self.detector.says_the_date(
                unit, verdict, batch
            )
            ready[id(unit)].add(batch, program, anomalous=is_news)
            for part, half in enumerate(halves):
                about = half[place][1], series, new, warned
                ready[id(unit)].add_issues(batch, *about, 1 - part)


def _at_rate(unit: Unit, rate: float) -> Unit:
    settings = unit.settings
    return replace(unit, settings=replace(settings, config=replace(settings.config, fpr=rate)))


@dataclass
class _Replay:
    """One monitor at a rate, and what it would have done."""

    unit: Unit
    tally: Tally
    clauses: int = 0

    def add(self, batch: str, program: Program, *, anomalous: bool) -> None:
        """Count the verdict of a program on a batch."""
        self.tally.add(batch, anomalous)
        self.clauses += len(program.clauses)

    def add_issues(
        self,
        batch: str,
        program: Program,
        series: Mapping[str, FloatArray],
        new: Mapping[str, float],
        warned: BoolArray,
        part: int,
    ) -> None:
        """Count the verdicts on what issues of one part would make of a batch."""
        evidence = self.unit.evidence
        if evidence is None or batch in self.tally.flagged:
            return
        evidence = evidence.part(part)
        newest = np.array([new[name] for name in self.unit.names], dtype=float)
        variants = evidence.onto(self.unit.names, newest)
        columns = {name: variants[:, place] for place, name in enumerate(self.unit.names)}
        broken = breaks(program, series, columns, len(evidence.issues), warned)
        for issue, hit in zip(evidence.issues, broken, strict=True):
            self.tally.add_issue(batch, issue, bool(hit))

    def result(self) -> Replayed:
        """The counts so far."""
        missing = self.unit.evidence is None
        note = "no injected issues are stored: `dqsql fit` measures them" if missing else None
        replayed = self.tally.result(note)
        decided = replayed.accepted + replayed.flagged
        return replace(replayed, clauses=self.clauses / decided if decided else None)


# A spread needs two values.
_FEWEST = 2
_LABELS = {"center": "mean of history", "spread": "spread of history"}


def recomputed(stored: StoredVerdict) -> Recomputed:
    """Decide again by the bounds as learned, whose numbers are computed again."""
    details, history = stored.details, stored.history
    clauses = details.get("clauses")
    if details.get("date_label"):
        return Recomputed(note="its values say the date of the batch, and are not compared")
    if not clauses:
        return Recomputed(note="no bounds had been learned")
    keys = {c["metric"]: stored_key(c["series"]) for c in clauses}
    for name, also in ((ROWS, "rows"), ("mean", "means")):
        if details.get(also):
            keys = {name: stored_key(details[also]), **keys}
    steps = with_missing_days(tuple(stored.steps), stored.batch)
    values = history.in_step(list(keys.values()), stored.past, steps)
    series = dict(zip(keys, values.T, strict=True))
    new = {name: history.value(key, stored.batch) for name, key in keys.items()}
    program = Program(
        str(stored.row["column_name"]),
        tuple(_again(c, series[c["metric"]], series.get(ROWS), stored) for c in clauses),
        details["fpr"],
        details["bounds"],
        details["issues"],
        details["caught"],
    )
    known = details.get("warned")
    warned = None if known is None else np.array([s in known for s in steps], dtype=np.bool_)
    verdict = evaluate(program, series, new, warned)
    # Two clauses may be about one metric.
    now = {id(v.clause): v for v in verdict.clauses}
    compared: tuple[Compared, ...] = ()
    for one, clause in zip(clauses, program.clauses, strict=True):
        again = now[id(clause)]
        clause_values = {
            "status": again.status,
            "observed": again.observed,
            "lower": again.lower,
            "upper": again.upper,
            "score": again.score,
            "center": clause.center,
            "spread": clause.spread,
            "fpr": clause.fpr,
            "history": clause.history_size,
        }
        for name, value in clause_values.items():
            label = f"{clause.metric}: {_LABELS.get(name, name)}"
            compared += (Compared(label, one[name], value),)
    return Recomputed(compared, series=keys[clauses[0]["metric"]])


def _again(
    data: Mapping[str, Any], values: FloatArray, rows: FloatArray | None, stored: StoredVerdict
) -> Clause:
    """A bound as stored, with its numbers computed again from the metric's stored values."""
    clause = _clause(data, stored.past)
    if clause.method == COUNTED:
        return _counted(clause, stored)
    values = np.where(usable(values), values, np.nan)
    steady = never_changed(clause.metric, values)
    if stored.details["bounds"] == "calibrated":
        if rows is not None:
            values = of_usual_rows(clause.metric, values, rows)
        values = without_outliers(values, clause.metric in DISTANCE_METRICS)
    past = clause.transform.series(values)
    past = past[np.isfinite(past)]
    details = stored.details
    if past.size < _FEWEST:
        center = float(past.mean()) if past.size else math.nan
        return replace(clause, center=center, history_size=int(past.size))
    ranges: FloatArray = np.array([])
    if details["ranges"]:
        ranges = stored.history.series(stored_key(details["ranges"]), stored.past)
    elif details.get("days"):
        first, last = (stored.history.series(stored_key(k), stored.past) for k in details["days"])
        ranges = last - first
    floor = resolution(clause.metric, clause.transform, values, ranges)
    return refit(clause, past, details["bounds"], floor, steady=steady)


def _counted(clause: Clause, stored: StoredVerdict) -> Clause:
    """A bound on counted rows, learned again from the batches that have any."""
    series = {c["metric"]: c["series"] for c in stored.details["clauses"]}
    keys = stored_key(series[clause.metric]), stored_key(stored.details["rows"])
    # As many as it was learned from: those of other times of day are among them, or not.
    for batches in (stored.past, [*stored.beside, *stored.past]):
        shares, rows = (stored.history.series(key, batches) for key in keys)
        known = np.isfinite(shares) & (rows > 0)
        if known.sum() >= clause.history_size:
            break
    again = completeness.refit(clause, shares[known], rows[known])
    return replace(clause, shape=None, history_size=0) if again is None else again


def _clause(data: Mapping[str, Any], past: Sequence[str]) -> Clause:
    lower, upper = data["bounds"]
    return Clause(
        metric=data["metric"],
        transform=Transform("log" in data["transform"], data["lag"]),
        lower=-math.inf if lower is None else lower,
        upper=math.inf if upper is None else upper,
        center=data["center"],
        spread=data["spread"],
        fpr=data["fpr"],
        method=data["method"],
        catches=tuple(data["catches"]),
        history_size=data["history"],
        first_batch=past[0] if past else "",
        last_batch=past[-1] if past else "",
        null_rate=data.get("null_rate", 0.0),
        shape=tuple(data["shape"]) if data.get("shape") else None,
    )
