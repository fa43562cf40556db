"""Models of a run that read the same rows: begun and scanned by the first of them, then one by one.

What is wrong with one of them is told when it is its turn, and does not concern the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from dqsql.compiler.sharing import SharedRows
from dqsql.engine.common_scan import ModelScan, scan_together
from dqsql.engine.discovery import FoundBatches
from dqsql.engine.registered import Registered
from dqsql.engine.relations import register_model
from dqsql.errors import ConnectionLostError, DqsqlError, EngineError
from dqsql.model.events import SCAN
from dqsql.model.plan import Plan
from dqsql.runner.model_run import ModelRun


@dataclass
class Together:
    """Models that read the same rows; threads of a run share it. `discovered` are the batches."""

    shared: SharedRows
    registered: Registered
    discovered: dict[str, FoundBatches] = field(default_factory=dict)
    _runs: dict[str, ModelRun | DqsqlError] = field(default_factory=dict)
    _begun: bool = False
    _turn: Lock = field(default_factory=Lock)

    def run_of(self, plan: Plan, prepare: Callable[[Plan], ModelRun]) -> ModelRun:
        """The run of a model, begun, and scanned where that was possible.

        `prepare` makes the run of any of them. Raises DqsqlError: this one cannot begin, or the
        connection is lost.
        """
        with self._turn:
            if not self._begun:
                self._begun = True
                self._begin(plan, prepare)
            run = self._runs.pop(plan.model.name, None)
        if isinstance(run, DqsqlError):
            raise run
        return run or prepare(plan)

    def _begin(self, first: Plan, prepare: Callable[[Plan], ModelRun]) -> None:
        # What is read once counts for the one whose turn it is.
        for plan in (first, *(p for p in self.shared.plans if p is not first)):
            name = plan.model.name
            try:
                self._runs[name] = run = prepare(plan)
                run.discovered = self.discovered
                run.begin()
            except DqsqlError as error:
                self._runs[name] = error
        runs = [run for run in self._runs.values() if isinstance(run, ModelRun) and run.tested]
        if len(runs) > 1:
            self._scan(runs)

    def _scan(self, runs: Sequence[ModelRun]) -> None:
        reader, first = self.shared.reader, runs[0]
        names = [run.plan.model.name for run in runs]
        first.on_step(names[0], f"scanning it with {', '.join(names[1:])}")
        first.phases.resume()
        first.phases.enter(SCAN)
        try:
            register_model(first.spark, first.project, reader, self.registered)
        except ConnectionLostError:
            raise
        except EngineError:
            return
        tested = (run.tested for run in runs if run.tested is not None)
        scan_together([ModelScan(t.execution, t.part) for t in tested], reader)
        first.phases.until_now()
