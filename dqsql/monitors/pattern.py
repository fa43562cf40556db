"""`@pattern`: a data pattern learned from a column's values, then counted in every scan.

A pattern is learned before the scan, from a sample of accepted batches, or of the oldest batches of
the run where there are none yet. If one of these fails another check of the same run, the pattern
judges nothing, and is learned again by the next run. Its matches are a state like any other. A
batch is judged by comparing its share of values that do not match with that of the training batches
(Song & He, "Auto-Validate", SIGMOD 2021, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dqsql.compiler.keys import model_view
from dqsql.compiler.monitors import with_matches
from dqsql.compiler.privacy import hides_values
from dqsql.compiler.scan import BatchFilter
from dqsql.engine.history import batches_where
from dqsql.engine.value_samples import sample_values
from dqsql.model.batches import batch_order
from dqsql.model.plan import Monitor, Plan
from dqsql.model.results import Result, Status
from dqsql.model.types import is_textless, type_of
from dqsql.monitors import pattern_rules as patterns
from dqsql.monitors.context import (
    MonitorContext,
    failed_status,
    result_of,
    with_details,
)
from dqsql.monitors.exclusions import Exclusions
from dqsql.monitors.history import RECURS, key_of
from dqsql.monitors.index_place import lake_index, open_place
from dqsql.monitors.programs import ProgramBook, StoredProgram
from dqsql.monitors.settings import PATTERN_SETTINGS, read_settings
from dqsql.patterns import (
    InferenceSettings,
    LearnedPattern,
    NoPattern,
    PatternDecision,
    PatternIndex,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.model.project import Project

KIND = "pattern"
# Batches to learn from; where none was accepted yet, at most half of those of the run.
TRAINING_BATCHES = 7
# How many batches later a column without a pattern is looked at again.
RETRY_AFTER = 30
_SHOWN_VALUES = 5
# Values that do not match are fetched for so many findings of a run.
_SAMPLED_FINDINGS = 5

Found = LearnedPattern | NoPattern


@dataclass(frozen=True)
class Source:
    """Where the values of a model's batches can be sampled."""

    spark: SparkSession
    project: Project
    plan: Plan
    types: Mapping[str, str]
    batch_type: str

    def sample(
        self,
        columns: Sequence[str],
        batches: Sequence[str],
        where: str | None,
        not_matching: Mapping[str, str] | None = None,
        limit: int = 1_000,
    ) -> dict[str, list[str]]:
        """At most `limit` values of each column of some batches. Raises EngineError."""
        model = self.plan.model
        batch_filter = BatchFilter(tuple(batches), self.batch_type, self.types)
        condition = batch_filter.condition(model, where)
        view = model_view(model)
        found = sample_values(
            self.spark,
            model.name,
            view,
            columns,
            condition,
            limit=limit,
            not_matching=not_matching,
        )
        return {name: sample.spread(limit) for name, sample in found.items()}


def pattern_settings(monitor: Monitor, context: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a monitor. Raises AnnotationError."""
    return read_settings(monitor, PATTERN_SETTINGS, context)


def with_known_patterns(plan: Plan, book: ProgramBook) -> Plan:
    """The plan with the counts of matching values of all patterns that were learned."""
    for monitor in plan.monitors:
        program = book.current(monitor.id) if monitor.kind == KIND else None
        found = None if program is None else patterns.from_record(program.program)
        if isinstance(found, LearnedPattern) and monitor.column is not None:
            matching = patterns.matching_count(monitor.column, found.pattern)
            plan = with_matches(plan, monitor, found.pattern, matching)
    return plan


@dataclass
class PatternPreparation:
    """Learns the patterns that are missing, and puts their counts into the plan.

    `accepted` are the accepted batches of before the run, `batches` those of the run, oldest first;
    `refused` those of before the run that were not accepted.
    """

    source: Source
    book: ProgramBook
    accepted: Sequence[str]
    batches: Sequence[str]
    reviewed: Collection[str] = ()
    refused: Collection[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def plan(self) -> Plan:
        """The plan with the counts of matching values. Raises DqsqlError."""
        plan = self.source.plan
        self._learn([m for m in plan.monitors if m.kind == KIND and self._due(m)])
        return with_known_patterns(plan, self.book)

    def _due(self, monitor: Monitor) -> bool:
        """Whether a pattern is to be learned now.

        One that was learned stays, until a person accepts a batch that it flagged, a batch that it
        was learned from is refused, or its warnings recur in so many batches that they are no news.
        """
        program = self.book.current(monitor.id)
        if program is None:
            return True
        last = batch_order(program.learned_to)
        if any(batch_order(b) > last for b in self.reviewed):
            return True
        if not set(self.refused).isdisjoint(_training_batches(program)) or self._recurs(program):
            return True
        if "no_pattern" not in program.program:
            return False
        return sum(batch_order(b) > last for b in (*self.accepted, *self.batches)) >= RETRY_AFTER

    def _recurs(self, program: StoredProgram) -> bool:
        last = self.accepted[-RECURS:]
        return len(last) == RECURS and set(last) <= set(_warned_batches(program))

    def _warned(self, monitor: Monitor) -> set[str]:
        """The batches that the pattern in force warned of, and that therefore do not train."""
        program = self.book.current(monitor.id)
        if program is None or self._recurs(program):
            return set()
        return set(_warned_batches(program))

    def _training(self, odd: Collection[str]) -> list[str]:
        accepted = [b for b in self.accepted if b not in odd]
        if accepted:
            return accepted[-TRAINING_BATCHES:]
        batches = [b for b in self.batches if b not in odd]
        return batches[: max(1, min(TRAINING_BATCHES, len(batches) // 2))]

    def _learn(self, monitors: Sequence[Monitor]) -> None:
        if not monitors:
            return
        index = lake_index(open_place(self.source.spark, self.source.project.target))
        known = [*self.accepted, *self.batches]
        excluded = Exclusions(partial(batches_where, self.source.spark), known)
        together: dict[tuple[str | None, str | None, tuple[str, ...]], list[Monitor]] = {}
        for monitor in monitors:
            exclude_where = pattern_settings(monitor, self.defaults).get("exclude_where")
            excluded.ask([exclude_where])
            warned = tuple(sorted(self._warned(monitor)))
            key = (monitor.settings.where, exclude_where, warned)
            together.setdefault(key, []).append(monitor)
        for (where, exclude_where, warned), alike in together.items():
            training = self._training({*excluded.batches(exclude_where), *warned})
            if excluded.error(exclude_where) is not None or not training:
                # The verdicts say so.
                continue
            values = self._values(alike, training, where)
            for monitor in alike:
                self._keep(monitor, self._found(monitor, values, index), training)

    def _values(
        self, monitors: Sequence[Monitor], training: Sequence[str], where: str | None
    ) -> Mapping[str, Sequence[str]]:
        """A sample of each column of monitors that look at the same rows; textless ones have none.

        Raises EngineError.
        """
        named = dict.fromkeys(m.column for m in monitors if m.column is not None)
        columns = [n for n in named if not is_textless(type_of(n, self.source.types))]
        return self.source.sample(columns, training, where) if columns else {}

    def _found(
        self, monitor: Monitor, values: Mapping[str, Sequence[str]], index: PatternIndex
    ) -> Found:
        name = monitor.column or ""
        if name not in values:
            kind = type_of(name, self.source.types)
            return NoPattern("no_values", f"values of type {kind} have no text")
        settings = inference_settings(pattern_settings(monitor, self.defaults))
        if hides_values(self.source.plan.model, monitor.column, monitor.settings):
            # A word that all values have is a part of private values.
            settings = replace(settings, constants=False)
        return patterns.learn({name: values[name]}, index, settings)[name]

    def _keep(self, monitor: Monitor, found: Found, training: Sequence[str]) -> None:
        learned = isinstance(found, LearnedPattern)
        self.book.put(
            StoredProgram(
                check_id=monitor.id,
                column=monitor.column,
                detector=KIND,
                version=0,
                valid_from_batch=training[-1],
                learned_from=training[0],
                learned_to=training[-1],
                batches=len(training),
                fpr=found.fpr if isinstance(found, LearnedPattern) else None,
                program=patterns.to_record(found),
                description=found.pattern if isinstance(found, LearnedPattern) else found.reason,
                evidence={"batches": list(training)} if learned else None,
            ),
            new_version=True,
        )


def _training_batches(program: StoredProgram) -> list[str]:
    return list((program.evidence or {}).get("batches", ()))


def _warned_batches(program: StoredProgram) -> list[str]:
    return list((program.evidence or {}).get("warned", ()))


def inference_settings(given: Mapping[str, Any]) -> InferenceSettings:
    """What the settings of a monitor say of learning."""
    names = ("evidence", "r", "m", "theta", "vertical", "horizontal")
    return InferenceSettings(**{n: given[n] for n in names if n in given})


@dataclass
class PatternDetector:
    """Decides on all `@pattern` of one model."""

    context: MonitorContext
    source: Source
    excluded: Exclusions = field(init=False)
    _sampled: int = 0

    def __post_init__(self) -> None:
        matching = partial(batches_where, self.source.spark)
        self.excluded = Exclusions(matching, self.context.history.known)

    def prepare(self, batches: Sequence[str]) -> None:
        """Ask once for each condition which batches it excludes."""
        monitors = [m for m in self.context.plan.monitors if m.kind == KIND]
        self.excluded.ask(self._exclude_where(m) for m in monitors)

    def _exclude_where(self, monitor: Monitor) -> str | None:
        given = pattern_settings(monitor, self.context.defaults(KIND))
        where: str | None = given.get("exclude_where")
        return where

    def judge(self, batch: str) -> list[Result]:
        """The verdicts on one batch."""
        monitors = [m for m in self.context.plan.monitors if m.kind == KIND]
        return [self._verdict(m, batch) for m in monitors]

    def _verdict(self, monitor: Monitor, batch: str) -> Result:
        where = self._exclude_where(monitor)
        kept_out = self.excluded.verdict(monitor, batch, where)
        if kept_out is not None:
            return kept_out
        program = self.context.programs.current(monitor.id)
        if program is None:
            return result_of(monitor, batch, Status.ERROR, f"{monitor.span}: nothing was learned")
        found = patterns.from_record(program.program)
        if isinstance(found, NoPattern):
            text = f"no pattern could be learned for {monitor.column}: {found.reason}"
            return result_of(monitor, batch, Status.SKIPPED, text)
        counts = self._counts(monitor, batch)
        if counts is None:
            text = self.context.unmeasured(monitor, "values that match could not be counted")
            return result_of(monitor, batch, Status.ERROR, text)
        training = _training_batches(program)
        if batch in training:
            text = f"learned {found.pattern} from this batch"
            return result_of(monitor, batch, Status.SKIPPED, text)
        refused = self.context.history.refused.intersection(training)
        if refused:
            text = f"the pattern will be learned again: batch {min(refused)} failed other checks"
            return result_of(monitor, batch, Status.SKIPPED, text)
        found = self._with_exact_counts(monitor, program, found, training)
        result = self._judged(monitor, batch, found, *counts, training)
        self._note_warning(monitor, result)
        return result

    def _note_warning(self, monitor: Monitor, result: Result) -> None:
        """Remember a batch that was warned of: it is accepted, but must not train what comes."""
        program = self.context.programs.current(monitor.id)
        if program is None or result.batch is None:
            return
        warned = _warned_batches(program)
        if (result.status is Status.WARN) == (result.batch in warned):
            return
        now = (
            {*warned, result.batch} if result.status is Status.WARN else {*warned} - {result.batch}
        )
        evidence = {**(program.evidence or {}), "warned": sorted(now, key=batch_order)}
        self.context.programs.put(replace(program, evidence=evidence), new_version=False)

    def _counts(self, monitor: Monitor, batch: str) -> tuple[int, int] | None:
        """Values and matching values of a batch, or None where they were not counted."""
        numbers: list[int] = []
        for name in ("count", "matches"):
            metric = self.context.metric(monitor, name)
            value = math.nan
            if metric is not None:
                value = self.context.history.value(key_of(metric), batch)
            if math.isnan(value):
                return None
            numbers.append(int(value))
        return numbers[0], numbers[1]

    def _series(self, monitor: Monitor) -> list[list[str | None]]:
        """What the counts of values and of matching values are stored as."""
        found = (self.context.metric(monitor, name) for name in ("count", "matches"))
        return [list(key_of(metric)[:4]) for metric in found if metric is not None]

    def _with_exact_counts(
        self,
        monitor: Monitor,
        program: StoredProgram,
        found: LearnedPattern,
        training: Sequence[str],
    ) -> LearnedPattern:
        """The training counts of whole batches instead of the sample's, where they were scanned."""
        if program.program.get("rows") is None or (program.evidence or {}).get("exact"):
            return found
        counts = [self._counts(monitor, b) for b in training]
        if not counts or any(c is None for c in counts):
            return found
        rows = sum(c[0] for c in counts if c)
        matching = sum(c[1] for c in counts if c)
        exact = replace(found, rows=rows, nonconforming=rows - matching)
        evidence = {**(program.evidence or {}), "exact": True}
        record = patterns.to_record(exact)
        self.context.programs.put(
            replace(program, program=record, evidence=evidence), new_version=False
        )
        return exact

    def _judged(
        self,
        monitor: Monitor,
        batch: str,
        found: LearnedPattern,
        rows: int,
        matching: int,
        training: Sequence[str],
    ) -> Result:
        given = pattern_settings(monitor, self.context.defaults(KIND))
        significance = given.get("fpr", self.context.fpr)
        test = given.get("test", "fisher")
        pii = hides_values(self.context.plan.model, monitor.column, monitor.settings)

        judge = partial(
            patterns.judge,
            found,
            rows=rows,
            matching=matching,
            significance=significance,
            test=test,
            pii=pii,
        )
        decision = judge()
        if decision.status == "fail" and not pii:
            decision = judge(samples=self._odd_values(monitor, batch, found))
        result = result_of(monitor, batch, _status(monitor, decision), decision.message)
        share, limit = decision.nonconforming_share, decision.threshold_share
        result = replace(
            result,
            observed=share,
            lower=0.0,
            upper=limit,
            score=share / limit if share is not None and limit else None,
        )
        return with_details(
            result,
            pattern=found.pattern,
            p_value=decision.p_value,
            significance=significance,
            test=test,
            rows=rows,
            nonconforming=rows - matching,
            training_rows=found.rows,
            training_nonconforming=found.nonconforming,
            series=self._series(monitor),
            history=[training[0], training[-1], len(training)] if training else None,
        )

    def _odd_values(self, monitor: Monitor, batch: str, found: LearnedPattern) -> list[str]:
        if self._sampled >= _SAMPLED_FINDINGS or monitor.column is None:
            return []
        self._sampled += 1
        column = monitor.column
        regexes = {column: found.spark_regex}
        where = monitor.settings.where
        values = self.source.sample([column], [batch], where, regexes, limit=_SHOWN_VALUES)
        return list(dict.fromkeys(values[column]))


def _status(monitor: Monitor, decision: PatternDecision) -> Status:
    if decision.status == "fail":
        return failed_status(monitor.severity)
    return Status.PASS if decision.status == "pass" else Status.NO_DATA
