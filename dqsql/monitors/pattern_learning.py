"""`@pattern` replayed over stored batches: by the counts that runs have stored."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dqsql.model.plan import Monitor
from dqsql.monitors import pattern_rules as patterns
from dqsql.monitors.pattern import KIND, PatternDetector, pattern_settings
from dqsql.monitors.replay import Replayed, Tally
from dqsql.patterns import LearnedPattern


class PatternLearner(PatternDetector):
    """All `@pattern` of one model, of a plan that `with_known_patterns` made."""

    def replay(
        self, batches: Sequence[str], flagged: Collection[str], rates: Sequence[float]
    ) -> list[Replayed]:
        """Judge stored counts by the pattern in force, with the rate as significance.

        Batches that the pattern was learned from count as learning, as do excluded ones; those that
        were checked while another pattern was in force have no counts, and are left out.
        """
        self.prepare(batches)
        found: list[Replayed] = []
        for monitor in self.context.plan.monitors:
            if monitor.kind == KIND:
                found += self._of_monitor(monitor, batches, flagged, rates)
        return found

    def _of_monitor(
        self,
        monitor: Monitor,
        batches: Sequence[str],
        flagged: Collection[str],
        rates: Sequence[float],
    ) -> list[Replayed]:
        where = self._exclude_where(monitor)
        refused = self.excluded.error(where)
        if refused is not None:
            return [Replayed(monitor, rate, note=refused.message) for rate in rates]
        program = self.context.programs.current(monitor.id)
        if program is None:
            why = "no pattern was learned yet: `dqsql run` learns it"
            return [Replayed(monitor, rate, note=why) for rate in rates]
        learned = patterns.from_record(program.program)
        if not isinstance(learned, LearnedPattern):
            why = f"no pattern could be learned: {learned.reason}"
            return [Replayed(monitor, rate, note=why) for rate in rates]
        training = list((program.evidence or {}).get("batches", ()))
        undecided = {*training, *self.excluded.batches(where)}
        learned = self._with_exact_counts(monitor, program, learned, training)
        test = pattern_settings(monitor, self.context.defaults(KIND)).get("test", "fisher")
        counted = [(b, c) for b in batches if (c := self._counts(monitor, b)) is not None]
        found = []
        for rate in rates:
            tally = Tally(monitor, rate, flagged)
            for batch, (rows, matching) in counted:
                if batch in undecided:
                    tally.add(batch, None)
                    continue
                decision = patterns.judge(
                    learned, rows=rows, matching=matching, significance=rate, test=test
                )
                if decision.status != "empty":
                    tally.add(batch, decision.status == "fail")
            found.append(tally.result())
        return found
