"""What is new to a run, as far as files tell, and how much there is of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from dqsql.engine.batches import BatchRequest
from dqsql.engine.head_start import WatchedFiles
from dqsql.engine.inputs import FileInputs, inputs_of, scale_of, watched_by
from dqsql.engine.open_batches import waits
from dqsql.engine.small import Scale
from dqsql.model.plan import Plan
from dqsql.model.results import BatchRecord, BatchStatus
from dqsql.monitors.registry import is_due
from dqsql.monitors.uncomputed import lacks_checks
from dqsql.runner.compilation import CompileResult
from dqsql.runner.request import RunRequest


@dataclass(frozen=True)
class Changes:
    """What models read, by files alone.

    Nothing is new in the `unchanged` ones. `changed` are the inputs that are not as they were,
    `rewritten` the models of which it is known how they were, `sizes` the bytes that are read of
    models, and `watched` is what tells by a change that something is new.
    """

    unchanged: frozenset[str] = frozenset()
    changed: Mapping[str, FileInputs] = field(default_factory=dict)
    rewritten: frozenset[str] = frozenset()
    watched: WatchedFiles | None = None
    scale: Scale = Scale.ANY
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangeFinder:
    """Finds what is new since models were last checked.

    `before` are the inputs that they had then; `reviews` are by model and batch.
    """

    compiled: CompileResult
    request: RunRequest
    ledgers: Mapping[str, Mapping[str, BatchRecord]]
    reviews: Mapping[str, Mapping[str, str]]
    before: Mapping[str, FileInputs]
    started: dt.datetime

    def find(self) -> Changes:
        """Look at the files, before anything is read: what changes meanwhile is new to the next."""
        plans, project = self.compiled.plans, self.compiled.project
        all_inputs = {p.model.name: inputs_of(p, project) for p in plans}
        inputs = {n: known for n, known in all_inputs.items() if known and known.fingerprint}
        same = frozenset(p.model.name for p in plans if self._is_unchanged(p, inputs))
        changed = {name: now for name, now in inputs.items() if self.before.get(name) != now}
        return Changes(
            same,
            changed,
            frozenset(
                name
                for name, now in changed.items()
                if name in self.before and now.rewrites(self.before[name])
            ),
            watched_by(all_inputs.values(), project),
            self._scale({n: i for n, i in all_inputs.items() if n not in same}),
            {n: 0 if n in same else i.size for n, i in all_inputs.items() if i},
        )

    def _is_unchanged(self, plan: Plan, inputs: Mapping[str, FileInputs]) -> bool:
        """Whether nothing can be new since the model was last checked, as its files tell."""
        model = plan.model.name
        now, ledger = inputs.get(model), self.ledgers.get(model, {})
        if now is None or now != self.before.get(model) or not ledger:
            return False
        if self.request.batches_for(model) != BatchRequest():
            return False
        if is_due(plan, ledger, self.started) or lacks_checks(ledger, self.reviews.get(model, {})):
            return False
        if any(record.status is BatchStatus.INCOMPLETE for record in ledger.values()):
            return False
        return not waits(ledger.values(), self.started)

    def _scale(self, inputs_by_model: Mapping[str, FileInputs | None]) -> Scale:
        """How much is to be read, of models in which something may be new."""
        models = []
        for name, now in inputs_by_model.items():
            known, asked = self.before.get(name), self.request.batches_for(name)
            rows = {b: record.rows for b, record in self.ledgers.get(name, {}).items()}
            total = sum(rows.values())
            # Of a time that is asked for, at most all.
            again = 0 if asked == BatchRequest() else total
            if asked.batches:
                again = sum(rows.get(b, total) for b in asked.batches)
            models.append((now, None if known is None else known.size, total, again))
        return scale_of(models)
