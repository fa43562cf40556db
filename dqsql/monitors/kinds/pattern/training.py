"""Learns the patterns of `@pattern` before the scan, and puts their counts into the plan."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dqsql.compiler.monitors import with_matches
from dqsql.compiler.privacy import hides_values
from dqsql.decisions.stationarity import RECURS
from dqsql.model.batches import batch_order
from dqsql.model.plan import Monitor, Plan
from dqsql.model.settings import Reader, as_bool, as_rate, as_text, at_least, one_of
from dqsql.model.types import is_textless, type_of
from dqsql.monitors import pattern_rules as patterns
from dqsql.monitors.context import Exclusions, Workplace, defaults_of
from dqsql.monitors.history import place_of
from dqsql.monitors.kind import BeforeScan
from dqsql.monitors.lake_index import learning_index
from dqsql.monitors.programs import ProgramBook, StoredProgram
from dqsql.monitors.settings import read_settings
from dqsql.patterns.index import PatternIndex
from dqsql.patterns.infer import InferenceSettings, LearnedPattern, NoPattern, infer_pattern
from dqsql.patterns.validate import ENOUGH_VALUES

NAME = "pattern"
# Accepted batches to learn from.
_TRAINING_BATCHES = 7
# Of the evidence: up to which batch it was looked for more values, and at how many batches.
_LOOKED_TO, _LOOKED_AT = "looked_to", "looked_at"
# How many batches later a column without a pattern is looked at again.
RETRY_AFTER = 30
SETTINGS: Mapping[str, Reader] = {
    "fpr": as_rate,
    "test": one_of("fisher", "chi_squared"),
    "evidence": one_of("rehearsal", "impurity"),
    "r": as_rate,
    "m": at_least(1),
    "theta": as_rate,
    "vertical": as_bool,
    "horizontal": as_bool,
    "exclude_where": as_text,
}

Found = LearnedPattern | NoPattern


def pattern_settings(monitor: Monitor, context: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a monitor. Raises AnnotationError."""
    return read_settings(monitor, SETTINGS, context)


def with_known_patterns(plan: Plan, book: ProgramBook) -> Plan:
    """The plan with the counts of matching values of all patterns that were learned."""
    for monitor in plan.monitors_of(NAME):
        pattern = _pattern(book, monitor)
        if pattern is not None and monitor.column is not None:
            matching = patterns.matching_count(monitor.column, pattern)
            plan = with_matches(plan, monitor, pattern, matching)
    return plan


def _pattern(book: ProgramBook, monitor: Monitor) -> str | None:
    """What is counted of a monitor; None while no pattern was learned."""
    program = book.current(monitor.id)
    learned = None if program is None else _learned(program)
    return learned.pattern if isinstance(learned, LearnedPattern) else None


def learn_before_scan(place: Workplace, before: BeforeScan) -> bool:
    """Learn the patterns that are due: whether one of them is another than before.

    Raises DqsqlError.
    """
    return _Training(place, before).learn()


@dataclass(frozen=True)
class _Training:
    place: Workplace
    before: BeforeScan

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The settings of the project and of the model."""
        return defaults_of(NAME, self.before.settings, self.place.plan)

    def learn(self) -> bool:
        """Learn what is due: whether a pattern is another than before. Raises DqsqlError."""
        due = [m for m in self.place.plan.monitors_of(NAME) if self._due(m)]
        before = [_pattern(self.before.book, m) for m in due]
        self._learn(due)
        return before != [_pattern(self.before.book, m) for m in due]

    def _due(self, monitor: Monitor) -> bool:
        """Whether a pattern is to be learned now.

        One that was learned stays, until a person accepts a batch that it flagged, a batch that it
        was learned from is refused and there is a better one, or its warnings recur in so many
        batches that they are no news. One of few values is learned again while batches come that it
        does not warn of. Of the batches of a run the oldest alone counts: the others get their turn
        (`MonitorRun.judge`).
        """
        program = self.before.book.current(monitor.id)
        if program is None:
            return not self.before.scanned
        return self._must_be_learned(monitor, program) or self._rests_on_few(monitor, program)

    def _must_be_learned(self, monitor: Monitor, program: StoredProgram) -> bool:
        """Whether what was learned is no longer in force, or nothing was for long enough."""
        last, accepted = batch_order(program.learned_to), self.before.accepted
        told = warned_batches(program)
        if any(
            b in accepted and (batch_order(b) > last or b in told) for b in self.before.reviewed
        ):
            return True
        training = training_batches(program)
        if not training:
            newest = (*accepted[-RETRY_AFTER:], *self.before.batches[:1])
            return sum(batch_order(b) > last for b in newest) >= self._retry_after(monitor, program)
        if self._recurs(program):
            return True
        refused = any(b in self.before.refused for b in training)
        return refused and (bool(accepted) or self.before.batches[0] in training)

    def _rests_on_few(self, monitor: Monitor, program: StoredProgram) -> bool:
        """Whether a pattern was learned of few values, and as many batches have come since.

        Since it was learned, or since there was found no reason to learn it again (`_wait`).
        """
        training, evidence = training_batches(program), program.evidence or {}
        if not training or not _is_of_few(program):
            return False
        last, accepted = evidence.get(_LOOKED_TO, program.learned_to), self.before.accepted
        warned, end = self._warned(monitor), batch_order(last)
        # Asked before each batch: a look at all of a long history would add up.
        since = accepted[place_of(last, accepted) :]
        newer = [b for b in since if batch_order(b) > end and b not in warned]
        return len(newer) >= int(evidence.get(_LOOKED_AT, len(training)))

    def _wait(self, program: StoredProgram, training: Sequence[str]) -> None:
        """Look again when so many more batches have come."""
        newest = (*training, *self.before.accepted)[-1]
        looked = {_LOOKED_TO: newest, _LOOKED_AT: len(training)}
        evidence = {**(program.evidence or {}), **looked}
        self.before.book.put(replace(program, evidence=evidence), new_version=False)

    def _in_force(self, monitor: Monitor) -> StoredProgram | None:
        """What is learned again for more values alone, and else stays."""
        program = self.before.book.current(monitor.id)
        return None if program is None or self._must_be_learned(monitor, program) else program

    def _retry_after(self, monitor: Monitor, program: StoredProgram) -> int:
        """After how many batches a pattern is looked for again where none was found.

        A column that was empty is looked at again when there are twice as many batches: it is often
        filled soon, and its values are not asked for in each batch meanwhile.
        """
        learned = _learned(program)
        kind = type_of(monitor.column or "", self.place.types)
        if not isinstance(learned, NoPattern) or learned.code != "no_values" or is_textless(kind):
            return RETRY_AFTER
        last = batch_order(program.learned_to)
        seen = sum(batch_order(b) <= last for b in self.before.accepted)
        return min(max(seen, 1), RETRY_AFTER)

    def _recurs(self, program: StoredProgram) -> bool:
        """Whether its warnings are no news. One of few values may not have seen all that there is.

        Mornings and evenings take turns.
        """
        last = self.before.accepted[-RECURS * (2 if _is_of_few(program) else 1) :]
        return len(set(last).intersection(warned_batches(program))) >= RECURS

    def _warned(self, monitor: Monitor) -> set[str]:
        """The batches that the pattern in force warned of, and that therefore do not train.

        Unless a person accepted them.
        """
        program = self.before.book.current(monitor.id)
        if program is None or self._recurs(program):
            return set()
        return set(warned_batches(program)).difference(self.before.reviewed)

    def _training(self, excluded: Collection[str]) -> tuple[str, ...]:
        accepted = tuple(b for b in self.before.accepted if b not in excluded)
        if accepted:
            # What a person accepted is remembered, however long ago.
            older = accepted[:-_TRAINING_BATCHES]
            reviewed = tuple(b for b in older if b in self.before.reviewed)
            return (*reviewed[-_TRAINING_BATCHES:], *accepted[-_TRAINING_BATCHES:])
        # Of a backfill the first alone, as of daily runs: both store the same.
        return tuple(b for b in self.before.batches if b not in excluded)[:1]

    def _learn(self, monitors: Sequence[Monitor]) -> None:
        if not monitors:
            return
        index = learning_index(self.place.store)
        known = [*self.before.accepted, *self.before.batches]
        excluded = Exclusions(self.place.matching, known)
        together: dict[tuple[str | None, tuple[str, ...]], list[Monitor]] = {}
        for monitor in monitors:
            exclude_where = pattern_settings(monitor, self.defaults).get("exclude_where")
            if excluded.error(exclude_where) is not None:
                # The verdicts say so.
                continue
            training = self._training({*excluded.batches(exclude_where), *self._warned(monitor)})
            before = self._in_force(monitor)
            if before is not None and training_batches(before) == list(training):
                # All since are excluded.
                self._wait(before, training)
            elif training:
                together.setdefault((monitor.settings.where, training), []).append(monitor)
        for (where, training), alike in together.items():
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
        columns = [n for n in named if not is_textless(type_of(n, self.place.types))]
        return self.place.sample(columns, training, where) if columns else {}

    def _found(
        self, monitor: Monitor, values: Mapping[str, Sequence[str]], index: PatternIndex
    ) -> Found:
        name = monitor.column or ""
        if name not in values:
            kind = type_of(name, self.place.types)
            return NoPattern("no_values", f"values of type {kind} have no text")
        settings = inference_settings(pattern_settings(monitor, self.defaults))
        if hides_values(self.place.plan.model, monitor.column, monitor.settings):
            # A word that all values have is a part of private values.
            settings = replace(settings, constants=False)
        return infer_pattern(values[name], index, settings)

    def _keep(self, monitor: Monitor, outcome: Found, training: Sequence[str]) -> None:
        before, first = self._in_force(monitor), batch_order(training[0])
        if before is not None and 2 * _values_of(outcome) < _values_of(_learned(before)):
            # A column that is empty for a while has less to tell than before.
            self._wait(before, training)
            return
        # What was warned of before does not train the next pattern either.
        warned = sorted(self._warned(monitor), key=batch_order)
        warned = [b for b in warned if batch_order(b) >= first]
        learned = isinstance(outcome, LearnedPattern)
        self.before.book.put(
            StoredProgram(
                check_id=monitor.id,
                column=monitor.column,
                detector=NAME,
                version=0,
                valid_from_batch=training[-1],
                learned_from=training[0],
                learned_to=training[-1],
                batches=len(training),
                fpr=outcome.fpr if isinstance(outcome, LearnedPattern) else None,
                program=patterns.to_record(outcome),
                description=outcome.pattern
                if isinstance(outcome, LearnedPattern)
                else outcome.reason,
                evidence={"batches": list(training), "warned": warned} if learned else None,
            ),
            new_version=True,
        )


def _is_of_few(program: StoredProgram) -> bool:
    """Whether a pattern was learned of few values."""
    return _values_of(_learned(program)) < ENOUGH_VALUES


def _learned(program: StoredProgram) -> Found:
    return patterns.from_record(program.program)


def _values_of(outcome: Found) -> float:
    """How many values a pattern was learned of; values with none in common count more than all."""
    if isinstance(outcome, LearnedPattern):
        return outcome.rows
    return 0 if outcome.code == "no_values" else math.inf


def training_batches(program: StoredProgram) -> list[str]:
    """The batches that a pattern was learned from."""
    return list((program.evidence or {}).get("batches", ()))


def warned_batches(program: StoredProgram) -> list[str]:
    """The batches that a pattern has warned of."""
    return list((program.evidence or {}).get("warned", ()))


def inference_settings(given: Mapping[str, Any]) -> InferenceSettings:
    """What the settings of a monitor say of learning."""
    names = ("evidence", "r", "m", "theta", "vertical", "horizontal")
    return InferenceSettings(**{n: given[n] for n in names if n in given})
