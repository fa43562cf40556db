"""`@pattern` decides: the share of values that do not match, against that in training."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dqsql.compiler.privacy import hides_values
from dqsql.model.batches import batch_order
from dqsql.model.plan import Monitor
from dqsql.model.results import Result, Status
from dqsql.monitors import pattern_rules as patterns
from dqsql.monitors.context import (
    MonitorByMonitor,
    failed_status,
    result_of,
    with_details,
    with_numbers,
)
from dqsql.monitors.kinds.pattern.training import (
    NAME,
    pattern_settings,
    training_batches,
    warned_batches,
)
from dqsql.monitors.programs import StoredProgram
from dqsql.monitors.recompute import (
    NOT_DECIDED,
    Compared,
    Recomputed,
    StoredVerdict,
    shown_key,
    stored_key,
)
from dqsql.monitors.replay import Replayed, Tally
from dqsql.patterns.infer import LearnedPattern, NoPattern
from dqsql.patterns.validate import PatternDecision, decide

_SHOWN_VALUES = 5
# Values that do not match are fetched for so many findings of a run.
_SAMPLED_FINDINGS = 5


@dataclass
class PatternDetector(MonitorByMonitor):
    """Decides on all `@pattern` of one model."""

    kind: ClassVar[str] = NAME
    _sampled: int = 0

    def given(self, monitor: Monitor) -> dict[str, Any]:
        """The settings of a monitor."""
        return pattern_settings(monitor, self.context.defaults(NAME))

    def verdict(self, monitor: Monitor, batch: str) -> Result:
        """The verdict of one monitor on one batch."""
        kept_out = self.context.excluded.verdict(
            monitor, batch, self.given(monitor).get("exclude_where")
        )
        if kept_out is not None:
            return kept_out
        program = self.context.programs.current(monitor.id)
        if program is None:
            return result_of(monitor, batch, Status.ERROR, f"{monitor.span}: nothing was learned")
        learned = patterns.from_record(program.program)
        if isinstance(learned, NoPattern):
            text = f"no pattern could be learned for {monitor.column}: {learned.reason}"
            return result_of(monitor, batch, Status.SKIPPED, text)
        counts = self.counts(monitor, batch)
        if counts is None:
            text = self.context.unmeasured(monitor, "values that match could not be counted")
            return result_of(monitor, batch, Status.ERROR, text)
        training = training_batches(program)
        if batch in training:
            if len(training) == 1:
                self._count_exactly(program, learned, *counts)
            text = f"learned {learned.pattern} from this batch"
            return result_of(monitor, batch, Status.SKIPPED, text)
        refused = next((b for b in training if b in self.context.history.refused), None)
        if refused is not None:
            text = f"the pattern will be learned again: batch {refused} failed other checks"
            return result_of(monitor, batch, Status.SKIPPED, text)
        result = self._judged(monitor, batch, learned, *counts, training)
        self._note_warning(monitor, result)
        return result

    def _note_warning(self, monitor: Monitor, result: Result) -> None:
        """Remember a batch that was warned of: it is accepted, but must not train what comes."""
        program = self.context.programs.current(monitor.id)
        if program is None or result.batch is None:
            return
        warned = warned_batches(program)
        if (result.status is Status.WARN) == (result.batch in warned):
            return
        # It is one of them now, or no longer.
        now = sorted({*warned} ^ {result.batch}, key=batch_order)
        evidence = {**(program.evidence or {}), "warned": now}
        self.context.programs.put(replace(program, evidence=evidence), new_version=False)

    def counts(self, monitor: Monitor, batch: str) -> tuple[int, int] | None:
        """Values and matching values of a batch, or None where they were not counted."""
        keys = self.context.keys(monitor)
        if "count" not in keys or "matches" not in keys:
            return None
        history = self.context.history
        rows, matching = history.value(keys["count"], batch), history.value(keys["matches"], batch)
        return None if math.isnan(rows) or math.isnan(matching) else (int(rows), int(matching))

    def _count_exactly(
        self, program: StoredProgram, learned: LearnedPattern, rows: int, matching: int
    ) -> None:
        """Keep the counts of the batch that a pattern was learned from instead of its sample's."""
        exact = patterns.to_record(replace(learned, rows=rows, nonconforming=rows - matching))
        self.context.programs.put(replace(program, program=exact), new_version=False)

    def significance(self, monitor: Monitor) -> float:
        """The significance of its test, in (0, 1)."""
        return float(self.given(monitor).get("fpr", self.context.fpr(monitor)))

    def _judged(
        self,
        monitor: Monitor,
        batch: str,
        learned: LearnedPattern,
        rows: int,
        matching: int,
        training: Sequence[str],
    ) -> Result:
        keys, significance = self.context.keys(monitor), self.significance(monitor)
        test = self.given(monitor).get("test", "fisher")
        pii = hides_values(self.context.plan.model, monitor.column, monitor.settings)
        decision = patterns.judge(learned, rows, matching, significance, test)
        if decision.status == "fail" and not pii:
            samples = self._odd_values(monitor, batch, learned)
            decision = patterns.judge(learned, rows, matching, significance, test, samples)
        result = result_of(monitor, batch, _status(monitor, decision), decision.message)
        share, limit = decision.nonconforming_share, decision.largest_passing_share
        # 1 where one value more than may be does not match.
        score = None if share is None or limit is None else share / (limit + 1 / rows)
        return with_details(
            with_numbers(result, share, 0.0, limit, score),
            pattern=learned.pattern,
            p_value=decision.p_value,
            significance=significance,
            test=test,
            rows=rows,
            nonconforming=rows - matching,
            training_rows=learned.rows,
            training_nonconforming=learned.nonconforming,
            series=[shown_key(keys[name]) for name in ("count", "matches")],
            history=[training[0], training[-1], len(training)] if training else None,
        )

    def _odd_values(self, monitor: Monitor, batch: str, learned: LearnedPattern) -> list[str]:
        if self._sampled >= _SAMPLED_FINDINGS or monitor.column is None:
            return []
        self._sampled += 1
        column = monitor.column
        regexes = {column: learned.spark_regex}
        where = monitor.settings.where
        values = self.place.sample([column], [batch], where, regexes, limit=_SHOWN_VALUES)
        return list(dict.fromkeys(values[column]))


def _status(monitor: Monitor, decision: PatternDecision) -> Status:
    if decision.status == "fail":
        return failed_status(monitor.severity)
    return Status.PASS if decision.status == "pass" else Status.NO_DATA


@dataclass(frozen=True)
class PatternReplay:
    """Replays all `@pattern` of one model by the counts that runs have stored.

    The plan of the detector's context is one that `with_known_patterns` made.
    """

    detector: PatternDetector

    def rates_in_use(self) -> dict[str, float]:
        """The significances; see `Replayer`."""
        return {m.id: self.detector.significance(m) for m in self.detector.monitors}

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Judge stored counts by the pattern in force, with the rate as significance.

        Batches that the pattern was learned from count as learning, as do excluded ones; those that
        were checked while another pattern was in force have no counts, and are left out.
        """
        results: list[Replayed] = []
        for monitor in self.detector.monitors:
            results += self._of_monitor(monitor, batches, flagged, rates)
        return results

    def _of_monitor(
        self,
        monitor: Monitor,
        batches: Sequence[str],
        flagged: Collection[str],
        rates: Sequence[float],
    ) -> list[Replayed]:
        given = self.detector.given(monitor)
        where = given.get("exclude_where")
        refused = self.detector.context.excluded.error(where)
        if refused is not None:
            return [Replayed(monitor, rate, note=refused.message) for rate in rates]
        program = self.detector.context.programs.current(monitor.id)
        if program is None:
            why = "no pattern was learned yet: `dqsql run` learns it"
            return [Replayed(monitor, rate, note=why) for rate in rates]
        learned = patterns.from_record(program.program)
        if not isinstance(learned, LearnedPattern):
            why = f"no pattern could be learned: {learned.reason}"
            return [Replayed(monitor, rate, note=why) for rate in rates]
        training = training_batches(program)
        undecided = {*training, *self.detector.context.excluded.batches(where)}
        test = given.get("test", "fisher")
        counted = [(b, c) for b in batches if (c := self.detector.counts(monitor, b)) is not None]
        results = []
        for rate in rates:
            tally = Tally(monitor, rate, flagged)
            for batch, (rows, matching) in counted:
                if batch in undecided:
                    tally.add(batch, None)
                    continue
                decision = patterns.judge(learned, rows, matching, rate, test)
                if decision.status != "empty":
                    tally.add(batch, decision.status == "fail")
            results.append(tally.result())
        return results


def recomputed(stored: StoredVerdict) -> Recomputed:
    """Decide on a stored verdict again, by its counts."""
    details, row = stored.details, stored.row
    if "pattern" not in details:
        return NOT_DECIDED
    keys = [stored_key(series) for series in details["series"]]
    rows, matching = (stored.history.value(key, stored.batch) for key in keys)
    if math.isnan(rows) or math.isnan(matching):
        return Recomputed(note="the counts of its values are not stored any more")
    decision = decide(
        details["pattern"],
        training_rows=details["training_rows"],
        training_nonconforming=details["training_nonconforming"],
        rows=int(rows),
        nonconforming=int(rows - matching),
        significance=details["significance"],
        test=details["test"],
    )
    failed = {"pass": ("pass",), "fail": ("fail", "warn"), "empty": ("no_data",)}[decision.status]
    return Recomputed(
        (
            Compared("status", row["status"], row["status"] if row["status"] in failed else failed),
            Compared("values", details["rows"], int(rows)),
            Compared("not matching", details["nonconforming"], int(rows - matching)),
            Compared("share not matching", row["observed"], decision.nonconforming_share),
            Compared("limit", row["upper_bound"], decision.largest_passing_share),
            Compared("p_value", details["p_value"], decision.p_value),
        )
    )
