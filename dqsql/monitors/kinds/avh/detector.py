"""`@avh`: Auto-Validate by History on the stored metrics of a model.

Bounds are fitted anew for every batch from the accepted batches before it. The metrics of injected
issues, which say what each bound would catch, come from a sample of the newest accepted batch and
serve a period of `refit_every` batches. Both depend on nothing but the batches before, so that a
backfill, day-by-day runs and a batch that is checked again decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress

import numpy as np

from dqsql.compiler.issues import CLEAN
from dqsql.compiler.privacy import hides_values
from dqsql.decisions.arrays import BoolArray, FloatArray
from dqsql.decisions.avh import ColumnHistory, evaluate, fit_programs
from dqsql.decisions.distances import without_drift
from dqsql.decisions.program import Program, ProgramVerdict
from dqsql.decisions.running_on import is_furthest, is_repeat
from dqsql.model.batches import batch_order, same_weekdays, with_missing_days
from dqsql.model.by_key import by_key
from dqsql.model.metric_traits import COMPLETENESS_METRICS, NUMERIC_DISTANCES
from dqsql.model.plan import PROFILES, Family, Monitor
from dqsql.model.results import MetricValue, Result, Status
from dqsql.monitors.context import (
    MonitorContext,
    failed_status,
    finite,
    learning,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.date_labels import says_the_date
from dqsql.monitors.history import NEXT, SPAN, History, MetricKey
from dqsql.monitors.injection import Injector, Variant
from dqsql.monitors.kinds.avh.evidence import TEXT_DISTANCES, IssueEvidence, distances, origin_of
from dqsql.monitors.kinds.avh.settings import NAME, AvhSettings, avh_settings
from dqsql.monitors.kinds.avh.unit import DISTANCES, Unit, without_still_by_chance
from dqsql.monitors.kinds.avh.words import clause_details, describe_program, message, moved, shifted
from dqsql.monitors.programs import StoredProgram
from dqsql.monitors.recompute import rests_on

# What does not change with the values of a column.
_NOT_OF_VALUES = frozenset({"row_count", "unique_ratio", *COMPLETENESS_METRICS})
# What is measured for the distances only.
_HELPERS = frozenset({"count", "stddev"})


@dataclass
class AvhDetector:
    """Decides on all `@avh` of one model.

    `accepted` says of a batch of before the run whether it was accepted.
    """

    context: MonitorContext
    injector: Injector
    accepted: Callable[[str], bool] = lambda batch: False
    units: list[Unit] = field(default_factory=list)
    broken: list[tuple[Monitor, str]] = field(default_factory=list)
    _measured: dict[tuple[str, str], Mapping[str, Variant]] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _tested: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        defaults = self.context.defaults(NAME)
        for monitor in self.context.plan.monitors_of(NAME):
            self._add(monitor, avh_settings(monitor, defaults, self.context.fpr(monitor)))

    def _add(self, monitor: Monitor, settings: AvhSettings) -> None:
        keys = self.context.keys(monitor)
        numeric = any(w.family is Family.NUMERIC for w in monitor.watched)
        singles = tuple(n for n in keys if n not in _HELPERS and n not in PROFILES)
        # The number of rows is not the column's.
        if not any(keys[n].column for n in singles):
            self.broken.append((monitor, self.context.unmeasured(monitor)))
            return
        names = singles
        if settings.config.two_distribution and any(n in PROFILES for n in keys):
            parameters = keys["row_count"].parameters if "row_count" in keys else ""
            two = NUMERIC_DISTANCES if numeric else TEXT_DISTANCES
            names += two
            keys |= {n: MetricKey(monitor.column or "", n, parameters, "delta") for n in two}
        unit = Unit(monitor, settings, numeric, keys, names)
        stored = self.context.programs.current(monitor.id)
        if stored is not None and stored.evidence:
            unit.evidence = IssueEvidence.from_dict(stored.evidence)
        self.units.append(unit)

    # --- deciding ------------------------------------------------------------------------------

    def prepare(self, batches: Sequence[str]) -> None:
        """Measure injected issues of all batches that will be sampled, in one job."""
        self._tested = frozenset(batches)
        wanted: set[str] = set()
        for unit in self.units:
            evidence_batch = self._sampled(unit)
            excluded = self.left_out(unit)
            before: list[str] = []
            for batch in (b for b in batches if b not in excluded):
                newest = self._to_sample(unit, evidence_batch, batch, before)
                if newest is not None:
                    wanted.add(newest)
                    evidence_batch = newest
                before.append(batch)
        self._inject(sorted(wanted - self._asked))

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        results = [result_of(m, batch, Status.ERROR, text) for m, text in self.broken]
        ready: list[Unit] = []
        compared: dict[str, list[MetricValue]] = {}
        for unit in self.units:
            compared[unit.monitor.id] = self._compare(unit, batch, self.before(unit, batch))
            past = self.past(unit, batch)
            need = unit.settings.config.min_history
            where = unit.settings.exclude_where
            kept_out = self.context.excluded.verdict(unit.monitor, batch, where)
            if kept_out is not None:
                results.append(kept_out)
            elif len(past) < need:
                unmeasured = max(0, len(self.before(unit, batch)[-need:]) - len(past))
                time = self.context.history.time_of(batch)
                results.append(learning(unit.monitor, batch, len(past), need, unmeasured, time))
            else:
                ready.append(unit)
        self.refresh(ready, batch)
        for unit, program in self.fit(ready, batch):
            verdict, further = self._evaluated(unit, program, batch)
            compared[unit.monitor.id] = further or compared[unit.monitor.id]
            results.append(self._verdict(unit, program, verdict, batch))
        self.context.derived.extend(chain.from_iterable(compared.values()))
        return results

    def left_out(self, unit: Unit) -> Collection[str]:
        """The batches that are neither judged nor learned from; they are asked for once."""
        return self.context.excluded.batches(unit.settings.exclude_where)

    def refused(self, unit: Unit) -> str | None:
        """What Spark says against the unit's `exclude_where`, if so."""
        return self.context.excluded.refusal(unit.monitor, unit.settings.exclude_where)

    def before(self, unit: Unit, batch: str) -> list[str]:
        """The accepted batches of its time of day before a batch, oldest first, to learn from.

        Without those that are excluded or far out (see `History.usual`).
        """
        history = self.context.history.alike(batch)
        return unit.usual(history, self._accepted(unit, batch, history))

    def _accepted(self, unit: Unit, batch: str, history: History) -> list[str]:
        before, excluded = history.before(batch), self.left_out(unit)
        return [b for b in before if b not in excluded] if excluded else before

    def past(self, unit: Unit, batch: str) -> list[str]:
        """The batches to learn from, oldest first: those that the metrics were measured on."""
        measured = self.context.history.measured_of(self.anchor(unit), self.before(unit, batch))
        return measured[-unit.settings.window :]

    def series(self, unit: Unit, batch: str) -> dict[str, FloatArray]:
        """The metrics of the batches before, in step: NaN for a batch that is not learned from."""
        return dict(zip(unit.names, self._in_step(unit, batch)[1].T, strict=True))

    def _in_step(self, unit: Unit, batch: str) -> tuple[Sequence[str], FloatArray]:
        """The batches that were checked before, from the first to learn from, and their metrics."""
        past = self.past(unit, batch)
        steps = self._steps(past, batch)
        keys = [unit.keys[n] for n in unit.names]
        return steps, self.context.history.in_step(keys, past, steps)

    def _steps(self, past: Sequence[str], batch: str) -> tuple[str, ...]:
        """The batches since the first of `past`, with days that have none: a week has seven."""
        return with_missing_days(tuple(self.context.history.alike(batch).steps(past, batch)), batch)

    def warned(self, unit: Unit, batch: str) -> BoolArray:
        """Which of the batches before, in step, the monitor warned of."""
        steps = self._steps(self.past(unit, batch), batch)
        return self.context.history.was_warned(unit.monitor.id, steps)

    @staticmethod
    def anchor(unit: Unit) -> MetricKey:
        """A metric of the column: it was measured where that was, be it null."""
        return next(unit.keys[n] for n in unit.names if n in unit.keys and unit.keys[n].column)

    def fit(
        self, units: Sequence[Unit], batch: str, part: int | None = None
    ) -> list[tuple[Unit, Program]]:
        """The programs of some units for a batch, bounds chosen by all issues or by a part."""
        by_config = by_key((unit.settings.config, unit) for unit in units)
        fitted: list[tuple[Unit, Program]] = []
        for config, alike in by_config.items():
            histories = [self._column_history(u, batch, part) for u in alike]
            fitted += list(zip(alike, fit_programs(histories, config), strict=True))
        order = {id(u): i for i, u in enumerate(units)}
        return sorted(fitted, key=lambda pair: order[id(pair[0])])

    def _column_history(self, unit: Unit, batch: str, part: int | None = None) -> ColumnHistory:
        steps, values = self._in_step(unit, batch)
        beside, others = self._beside(unit, batch, steps), None
        if beside:
            others = self.context.history.matrix([unit.keys[n] for n in unit.names], beside)
            values = without_still_by_chance(unit.names, values, others)
        # Of a batch without values nothing can be said that an issue would change.
        known = np.isfinite(values).sum(axis=1)
        changed = int(np.flatnonzero(known == known.max())[-1])
        issues: tuple[str, ...] = ()
        variants = np.zeros((0, len(unit.names)))
        if unit.evidence is not None:
            evidence = unit.evidence if part is None else unit.evidence.part(part)
            if unit.settings.config.bounds == "paper":
                evidence = evidence.of_paper()
            issues = evidence.issues
            variants = evidence.onto(unit.names, values[changed])
        return ColumnHistory(
            unit.column, unit.names, values, issues, variants, tuple(steps), changed, others
        )

    def _beside(self, unit: Unit, batch: str, steps: Sequence[str]) -> list[str]:
        """The newest batches of other times of day, where several come a day."""
        history = self.context.history
        if history.time_of(batch) is None:
            return []
        newest, same = history.before(batch, unit.settings.window + SPAN), frozenset(steps)
        return [b for b in newest if b not in same]

    # --- distances -----------------------------------------------------------------------------

    def _compare(self, unit: Unit, batch: str, before: Sequence[str]) -> list[MetricValue]:
        """Compare the batch with the last measured one `before`; the values become metrics.

        Where others are missing between, what it usually moves from one to the next is taken off.
        """
        before = self.context.history.measured_of(self.anchor(unit), before)
        if len(unit.singles) == len(unit.names) or not before:
            return []
        return self._keep(unit, batch, self._distances(unit, batch, before))

    def _distances(self, unit: Unit, batch: str, before: Sequence[str]) -> Mapping[str, float]:
        by_name = self._apart(unit, before[-1], batch)
        steps = self._steps(before[-unit.settings.window :], batch)
        between = len(steps) - 1 - steps.index(before[-1])
        if between:
            past = {name: self.context.history.series(unit.keys[name], before) for name in by_name}
            by_name = {n: without_drift(d, past[n], between) for n, d in by_name.items()}
        return by_name

    def _apart(self, unit: Unit, first: str, second: str) -> Mapping[str, float]:
        history = self.context.history
        return distances(unit.distribution(history, first), unit.distribution(history, second))

    def _keep(self, unit: Unit, batch: str, by_name: Mapping[str, float]) -> list[MetricValue]:
        values = unit.metric_values(batch, by_name, self.context.rows.get(batch))
        self.context.history.add(values)
        return values

    # --- evidence ------------------------------------------------------------------------------

    @staticmethod
    def _sampled(unit: Unit) -> str | None:
        """The batch that the evidence is of, None without evidence of today's set of issues."""
        return None if unit.evidence is None or unit.evidence.outdated else unit.evidence.batch

    def _to_sample(
        self, unit: Unit, evidence_batch: str | None, batch: str, more: Sequence[str] = ()
    ) -> str | None:
        """The batch to inject issues into now, or None while what is there still serves.

        The calendar says which one (see `period_start`), or else its age in batches, accepted or
        not, so that it is known beforehand. `more` are those of a run before this one.
        """
        history, need = self.context.history, unit.settings.config.min_history
        accepted = [*self._accepted(unit, batch, history), *more]
        if (chosen := unit.of_period(history, accepted, batch)) is not None:
            return None if chosen == evidence_batch else chosen
        # A batch that was rejected since, or that comes later, is no evidence.
        if evidence_batch is not None and (
            evidence_batch in more or self._is_evidence(unit, evidence_batch, batch)
        ):
            age = history.between(evidence_batch, batch)
            if age < unit.settings.refit_every * history.a_day(batch):
                return None
        same = [*self.before(unit, batch), *history.of_its_time(batch, more)]
        return unit.newest_whole(history, same) if len(same) >= max(1, need) else None

    def _is_evidence(self, unit: Unit, evidence_batch: str, batch: str) -> bool:
        history = self.context.history
        if history.time_of(batch) is None:
            return evidence_batch in unit.usual(history, self._accepted(unit, batch, history))
        # That of another time of day may be older than all that were read.
        stored = self.accepted(evidence_batch) and evidence_batch not in self._tested
        is_before = batch == NEXT or batch_order(evidence_batch) < batch_order(batch)
        return evidence_batch in history.before(batch) or (stored and is_before)

    def refresh(self, units: Sequence[Unit], batch: str) -> None:
        """Renew the evidence that is missing or old."""
        for unit in units:
            newest = self._to_sample(unit, self._sampled(unit), batch)
            if newest is None:
                continue
            # A batch whose rows are gone cannot be sampled: the one under test then stands in.
            for source in (newest,) if batch == NEXT else (newest, batch):
                self._inject([] if source in self._asked else [source])
                made = self._measured.get((source, unit.column))
                if made is not None:
                    unit.evidence = self._evidence(unit, newest, made)
                    break

    def _inject(self, batches: Sequence[str]) -> None:
        if not batches or not self.units:
            return
        self._asked.update(batches)
        size = max(u.settings.sample_size for u in self.units)
        self._measured |= self.injector.measure([u.monitor for u in self.units], batches, size)

    def _evidence(self, unit: Unit, batch: str, made: Mapping[str, Variant]) -> IssueEvidence:
        """The metrics of the variants of a batch, distances against the accepted one before it."""
        history, before = self.context.history, self.before(unit, batch)
        last = unit.newest_whole(history, before) if before else None
        baseline = None if last is None else unit.distribution(history, last)
        kept = unit.stored(history, batch)

        def metrics(variant: Variant) -> FloatArray:
            values = {n: v for n, v in variant.values.items() if n in kept}
            if baseline is not None and len(unit.singles) < len(unit.names):
                values |= distances(baseline, unit.distribution(history, batch, variant))
            return np.array([values.get(n, math.nan) for n in unit.names], dtype=float)

        issues = tuple(sorted(n for n in made if n != CLEAN))
        variants = np.array([metrics(made[n]) for n in issues]).reshape(-1, len(unit.names))
        evidence = IssueEvidence(batch, unit.names, issues, metrics(made[CLEAN]), variants)
        # As later runs will read it: digits and infinities must not decide between two bounds.
        return IssueEvidence.from_dict(evidence.to_dict())

    # --- verdicts ------------------------------------------------------------------------------

    def _evaluated(
        self, unit: Unit, program: Program, batch: str
    ) -> tuple[ProgramVerdict, list[MetricValue]]:
        """A program on a batch, and its distances where the batch before is not what it is like.

        What is far from that one alone, and is as usual beside the one before it, is no news: the
        odd one is the batch before, further from its own than any, or its own delivered again, or
        one that monitors of the column warned of. Nor is what comes each week: Saturdays are unlike
        Fridays, and like each other.
        """
        history, series = self.context.history, self.series(unit, batch)
        warned = self.warned(unit, batch)
        values = {n: history.value(unit.keys[n], batch) for n in unit.names}
        first_verdict = evaluate(program, series, values, warned)
        broken = [c.clause.metric for c in first_verdict.clauses if c.status != "pass"]
        if not broken or not DISTANCES.issuperset(broken):
            return first_verdict, []

        def judged(instead: Mapping[str, float]) -> ProgramVerdict | None:
            """The verdict by other distances, if there are any of those that are unusual."""
            known = all(math.isfinite(instead[name]) for name in broken)
            return evaluate(program, series, {**values, **instead}, warned) if known else None

        before = history.measured_of(self.anchor(unit), self.before(unit, batch))
        own = [history.series(unit.keys[name], before) for name in broken]
        others: list[Mapping[str, float]] = []
        ids = [m.id for m in self.context.plan.monitors if m.column == unit.monitor.column]
        if len(before) > 1 and (
            any(map(is_furthest, own))
            or all(map(is_repeat, own))
            or history.was_told(before[-1], ids)
        ):
            others.append(self._distances(unit, batch, before[:-1]))
        for other in (*others, *self._weekly(unit, batch, before, judged)):
            verdict = judged(other)
            if verdict is not None and verdict.status == "pass":
                return verdict, self._keep(unit, batch, other)
        return first_verdict, []

    def _weekly(
        self,
        unit: Unit,
        batch: str,
        before: Sequence[str],
        judged: Callable[[Mapping[str, float]], ProgramVerdict | None],
    ) -> list[Mapping[str, float]]:
        """The distances to the same day of weeks that had such a step, if most of the last had."""
        weeks, weekly = same_weekdays(before, batch), []
        for day_before, same_day in weeks:
            step = judged(self._apart(unit, day_before, same_day))
            if step is not None and step.status != "pass":
                weekly.append(self._apart(unit, same_day, batch))
        return weekly if 2 * len(weekly) > len(weeks) else []

    def _verdict(self, unit: Unit, program: Program, verdict: ProgramVerdict, batch: str) -> Result:
        self.store(unit, program, batch)
        history, past = self.context.history, self.past(unit, batch)
        status = Status.PASS if verdict.status == "pass" else failed_status(unit.monitor.severity)
        if status is not Status.PASS and self.says_the_date(unit, verdict, batch):
            text = f"{unit.column} says the date of its batch, as before: it is not compared"
            return with_details(result_of(unit.monitor, batch, Status.PASS, text), date_label=True)
        if status is Status.WARN and batch not in self.context.accepted_by_review:
            history.warn(unit.monitor.id, batch, finite(verdict.score))
        worst = verdict.clauses[0] if verdict.clauses else None
        steps = self._steps(past, batch)
        text = message(unit.column, program, verdict, self._moved(unit, verdict, batch))
        result = result_of(unit.monitor, batch, status, text)
        observed = worst.observed if worst else None
        lower, upper = (worst.lower, worst.upper) if worst else (None, None)
        return with_details(
            with_numbers(result, observed, lower, upper, verdict.score),
            metric=worst.clause.metric if worst else None,
            explanation=verdict.explanation,
            fpr=program.fpr,
            fpr_bound=program.fpr_bound,
            bounds=program.bounds,
            **rests_on(history.alike(batch), past, batch),
            **unit.also_read(),
            warned=list(compress(steps, self.warned(unit, batch))),
            beside=rests_on(history, self._beside(unit, batch, steps)),
            sampled=unit.evidence.batch if unit.evidence else None,
            issues=program.issues,
            caught=program.caught,
            clauses=[clause_details(c, unit.keys[c.clause.metric]) for c in verdict.clauses],
        )

    def says_the_date(self, unit: Unit, verdict: ProgramVerdict, batch: str) -> bool:
        """Whether nothing is odd but values that move with the date of their batch."""
        past = self.past(unit, batch)
        broken = {c.clause.metric for c in verdict.clauses if c.status != "pass"}
        about_values = broken.isdisjoint(_NOT_OF_VALUES)
        return about_values and says_the_date(self.context.history, unit.keys, batch, past)

    def _moved(self, unit: Unit, verdict: ProgramVerdict, batch: str) -> Sequence[str]:
        """What is otherwise than before in values, where distances say that something is."""
        history = self.context.history
        before = self.before(unit, batch) if verdict.status != "pass" else []
        if not before or hides_values(self.context.plan.model, unit.column, unit.monitor.settings):
            return ()
        if unit.numeric:
            new = {n: history.value(unit.keys[n], batch) for n in unit.names}
            return shifted(verdict, self.series(unit, batch), new)
        return moved(verdict, *(unit.distribution(history, b).texts for b in (before[-1], batch)))

    def store(self, unit: Unit, program: Program, batch: str) -> None:
        """Keep what was learned for a batch, as a new version where the evidence is another."""
        past = self.past(unit, batch)
        book = self.context.programs
        before = book.current(unit.monitor.id)
        if before is not None and batch_order(past[-1]) < batch_order(before.learned_to):
            # An old batch is judged again: what was learned since stays in force.
            return
        evidence = unit.evidence.to_dict() if unit.evidence else None
        fresh = before is None or origin_of(before.evidence) != origin_of(evidence)
        first = None if fresh or before is None else before.valid_from_batch
        book.put(
            StoredProgram(
                check_id=unit.monitor.id,
                column=unit.column,
                detector=NAME,
                version=0,
                valid_from_batch=first or (None if batch == NEXT else batch),
                learned_from=past[0],
                learned_to=past[-1],
                batches=len(past),
                fpr=program.fpr,
                program=program.to_dict(),
                description=describe_program(program),
                evidence=evidence,
            ),
            new_version=fresh,
        )
