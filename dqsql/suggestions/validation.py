"""Validates candidates: every check on every accepted batch, coverage on the held-out rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dqsql.compiler.catalog import Catalog
from dqsql.compiler.plan import compile_model
from dqsql.compiler.scan import BatchFilter, Scan
from dqsql.dialect import to_spark
from dqsql.engine.execution import ModelExecution
from dqsql.engine.failures import translated
from dqsql.engine.measuring import made_up_model
from dqsql.engine.preparation import prepare, relation_ids
from dqsql.engine.statements import many_aggregates
from dqsql.errors import Span
from dqsql.model.by_key import by_key
from dqsql.model.plan import Plan
from dqsql.model.project import Annotation, CheckSettings, ModelConfig, Project
from dqsql.model.results import CheckOutcome
from dqsql.monitors.subjects import Subject
from dqsql.suggestions.outcomes import Outcome, coverage_of
from dqsql.suggestions.suggestion import Suggestion, SuggestionVerdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

_COVERAGE, _VALUE = "coverage", "value"
# What is refused by its name alone is measured only where counting its values is cheap.
_FEW_ROWS = 200_000


@dataclass(frozen=True)
class Rows:
    """The rows that checks are validated on.

    `view` names the view; `batches` are the accepted batches (empty without `batch_by`) of the
    Spark type `batch_type`; `total` and `learned` count the rows and those that the candidates were
    learned from; `held_out` is the condition of the others, None where there are none.
    """

    view: str
    batches: tuple[str, ...]
    batch_type: str
    total: int
    learned: int
    held_out: str | None


@dataclass
class Validator:
    """Validates candidates on the rows of one subject."""

    spark: SparkSession
    store: Store
    project: Project
    catalog: Catalog
    subject: Subject
    rows: Rows
    now: dt.datetime

    def outcomes(self, candidates: Mapping[str, Suggestion]) -> dict[str, Outcome]:
        """What was measured of each candidate that compiles and that Spark accepts.

        Weaker forms are measured along, under the key with a `w` behind it. Raises DqsqlError.
        """
        flat = {k: c for k, c in _with_weaker(candidates) if self._worthwhile(c)}
        annotations = [a for key, c in flat.items() for a in self._annotations(key, c)]
        model = replace(
            made_up_model(self.rows.view, {}, path=self.subject.name),
            annotations=tuple(annotations),
            config=ModelConfig(
                batch_by=self.subject.config.batch_by, segment_by=self.subject.config.segment_by
            ),
        )
        plan = compile_model(model, self.project, self.catalog)
        self._register_relations(plan)
        by_name = by_key((o.check.name, o) for o in self._measured(plan))
        outcomes: dict[str, Outcome] = {}
        for key, candidate in flat.items():
            checked = by_name.get(key)
            if checked is None:
                continue
            covered = by_name.get(f"{key}.{_COVERAGE}", [])
            whole = [o for o in covered if o.segment is None]
            values = [o.observed[0].value for o in by_name.get(f"{key}.{_VALUE}", [])]
            outcomes[key] = Outcome(
                tuple(o.holds for o in checked),
                self._coverage(candidate, whole),
                tuple(values),
                len({o.batch for o in checked}),
                len({o.batch for o in checked if o.holds is False}),
            )
        return outcomes

    def _worthwhile(self, candidate: Suggestion) -> bool:
        return candidate.verdict is SuggestionVerdict.SUGGESTED or self.rows.total <= _FEW_ROWS

    def _annotations(self, key: str, candidate: Suggestion) -> Iterator[Annotation]:
        place = Span(self.subject.name)
        yield Annotation(candidate.expression(inside=False), CheckSettings(name=key), place)
        if candidate.coverage is not None:
            unique = candidate.promise == "unique"
            where = self.rows.held_out if unique else None
            settings = CheckSettings(name=f"{key}.{_COVERAGE}", where=where)
            yield Annotation(f"({candidate.coverage}) is not null", settings, place)
        if candidate.envelope is not None:
            settings = CheckSettings(name=f"{key}.{_VALUE}")
            yield Annotation(f"({candidate.envelope.metric}) is not null", settings, place)

    def _measured(self, plan: Plan) -> Sequence[CheckOutcome]:
        prepared = prepare(plan, self.spark, self.now, self.subject.types)
        chosen = BatchFilter(self.rows.batches, self.rows.batch_type, self.subject.types)
        scan = Scan(plan.model, (), chosen, label="all", columns=self.subject.types)
        execution = ModelExecution(self.spark, self.store, plan, scan)
        part = execution.analyse(prepared.states, prepared.broken)
        with (
            translated(f"cannot validate suggestions for {self.subject.name}"),
            many_aggregates(self.spark, len(part.states)),
        ):
            frame = self.spark.sql(to_spark(execution.statement(part.states, part.types)))
            return execution.measure_rows(part, frame).outcomes

    def _register_relations(self, plan: Plan) -> None:
        from dqsql.engine.relations import register_dependencies

        reader = replace(plan.model, depends_on=relation_ids(plan.relations))
        register_dependencies(self.spark, self.project, reader)

    def _coverage(self, candidate: Suggestion, measured: Sequence[CheckOutcome]) -> float | None:
        held_out = self.rows.total - self.rows.learned
        if candidate.coverage is None or not measured or held_out <= 0:
            return None
        shares = [o.observed[0].value for o in measured]
        sizes = [o.observed[0].sample_size or 0 for o in measured]
        if candidate.promise == "unique":
            known = [(s, n) for s, n in zip(shares, sizes, strict=True) if s is not None]
            total = sum(n for _, n in known)
            return sum(s * n for s, n in known) / total if total else None
        return coverage_of(shares, sizes, held_out)


def _with_weaker(candidates: Mapping[str, Suggestion]) -> Iterator[tuple[str, Suggestion]]:
    for key, candidate in candidates.items():
        yield key, candidate
        if candidate.weaker is not None and candidate.verdict is SuggestionVerdict.SUGGESTED:
            yield from _with_weaker({f"{key}w": candidate.weaker})
