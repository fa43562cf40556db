"""One scan for several models: their states by one statement over a SELECT that has all columns.

It is tried once. Where it fails, whichever model it is that does not work, each is scanned by
itself, which finds the cause; so a model is never worse off than alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dqsql.compiler.trees import renamed
from dqsql.engine.execution import ModelExecution
from dqsql.engine.feasible import Feasible
from dqsql.model.by_key import by_key
from dqsql.model.plan import Check, Metric, StateColumn
from dqsql.model.project import CheckModel, Scope


@dataclass(frozen=True)
class ModelScan:
    """What is to be scanned of a model: its execution, and what Spark can compute."""

    execution: ModelExecution
    part: Feasible

    @property
    def rows(self) -> tuple[object, ...]:
        """What says which rows are scanned, and how; equal for equal rows of equal SELECTs."""
        scan = self.execution.scan
        if scan.model.config.batch_by is None:
            return (scan.label, scan.empty)
        sizes = tuple(scan.sizes.get(batch) for batch in scan.listed or ())
        return (scan.listed, scan.batch_type, scan.empty, sizes)

    def names(self, number: int) -> dict[str, str]:
        """What metrics and checks are called in a statement for several models, by aliases."""
        delta = self.part.of_scope(Scope.DELTA)
        aliases = [m.alias for m in delta.metrics]
        for check in delta.checks:
            second = [] if check.warning is None else [check.warning.alias]
            aliases += [check.alias, *second]
        return {alias: f"{number}: {alias}" for alias in aliases}


def scan_together(scans: Sequence[ModelScan], reader: CheckModel) -> None:
    """Scan models that are about the same batches by one statement, if that works.

    `reader` is a registered model that has the columns of all. The others are left as they are, to
    be scanned by themselves. Raises ConnectionLostError.
    """
    alike = by_key((scan.rows, scan) for scan in scans if scan.execution.are_few(scan.part))
    for group in alike.values():
        if len(group) > 1:
            _CommonScan(group, reader).run()


@dataclass
class _CommonScan:
    """One scan of several models. States are those of all, by their names in the statement."""

    scans: Sequence[ModelScan]
    reader: CheckModel
    states: dict[str, StateColumn] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Scan, and let each model hold what is its own."""
        states = [self._add_states(number, scan) for number, scan in enumerate(self.scans)]
        values = [self._add_values(n, scan, states[n]) for n, scan in enumerate(self.scans)]
        part = Feasible([*self.states.values()], self.metrics, self.checks, self.types)
        execution = self._execution()
        if not execution.scan_at_once(part):
            return
        reads = execution.source_scans(part)
        for scan, here, scan_values in zip(self.scans, states, values, strict=True):
            scan.execution.take(execution, here, scan_values, reads)
            # What is read once is counted once.
            reads = 0

    def _add_states(self, number: int, scan: ModelScan) -> dict[str, str]:
        """Add a model's states; returns their names by those in the model."""
        names: dict[str, str] = {}
        for state in scan.part.scanned:
            name = state.name
            if self.states.get(name, state) != state:
                # Facts about a model have the same names in all.
                name = f"{number}: {name}"
            names[state.name] = name
            self.states[name] = replace(state, name=name)
            if state.name in scan.part.types:
                self.types[name] = scan.part.types[state.name]
        return names

    def _add_values(self, number: int, scan: ModelScan, states: dict[str, str]) -> dict[str, str]:
        """Add a model's metrics and checks; returns their aliases by those in the model."""
        names, delta = scan.names(number), scan.part.of_scope(Scope.DELTA)
        for metric in delta.metrics:
            finish = renamed(metric.finish, states)
            self.metrics.append(replace(metric, alias=names[metric.alias], finish=finish))
        self.checks += [_renamed(check, names) for check in delta.checks]
        return names

    def _execution(self) -> ModelExecution:
        first = self.scans[0].execution
        columns = {n: kind for s in self.scans for n, kind in s.execution.scan.columns.items()}
        scan = replace(first.scan, model=self.reader, columns=columns)
        if scan.batches is not None:
            scan = replace(scan, batches=replace(scan.batches, types=columns))
        plan = replace(first.plan, model=self.reader)
        return ModelExecution(first.spark, first.store, plan, scan, first.key)


def _renamed(check: Check, names: Mapping[str, str]) -> Check:
    warning = check.warning
    if warning is not None:
        stricter = renamed(warning.predicate, names)
        warning = replace(warning, alias=names[warning.alias], predicate=stricter)
    predicate = renamed(check.predicate, names)
    return replace(check, alias=names[check.alias], predicate=predicate, warning=warning)
