"""Measures metrics of a relation outside a run, by the compiler's own machinery.

A check model is made up whose annotations are the metrics; its plan is scanned like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dqsql.compiler.catalog import Catalog
from dqsql.compiler.plan import compile_model
from dqsql.compiler.scan import Scan, scan_groups
from dqsql.dialect import aliased, column
from dqsql.engine.statements import rows_of
from dqsql.errors import Span, error_of
from dqsql.model.plan import Plan
from dqsql.model.project import Annotation, CheckModel, CheckSettings, ModelConfig, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made_up_model(
    name: str, metrics: Mapping[str, str], batch_by: str | None = None, path: str = ""
) -> CheckModel:
    """A check model over the view of `name` whose annotations are metrics, by a key of theirs."""
    place = Span(path or name)
    annotations = tuple(
        Annotation(f"({text}) is not null", CheckSettings(name=key), place)
        for key, text in metrics.items()
    )
    return CheckModel(
        name=name,
        path=place.file,
        raw_sql="",
        sql="",
        config=ModelConfig(batch_by=batch_by),
        projections=(),
        annotations=annotations,
        line_map=(),
    )


@dataclass(frozen=True)
class Measurer:
    """Measures metrics of one relation, whose view is registered under `name`."""

    spark: SparkSession
    project: Project
    catalog: Catalog
    name: str

    def measure(self, metrics: Mapping[str, str], sketches: bool = False) -> dict[str, Any]:
        """The values of metrics over all rows, in one pass over the relation.

        `metrics` are SQL, by keys of the caller's; with `sketches`, the sketch behind each comes as
        `sketch:<key>`. Raises DqsqlError: one does not compile, or Spark refuses the statement.
        """
        if not metrics:
            return {}
        model = made_up_model(self.name, metrics)
        plan = compile_model(model, self.project, self.catalog)
        if plan.rejected:
            raise error_of(plan.rejected)
        query = _in_one_pass(plan, sketches)
        row = rows_of(self.spark, query, f"cannot profile {self.name}", len(plan.states))[0]
        values = {check.name: row[check.metrics[0]] for check in plan.checks}
        if sketches:
            for check in plan.checks:
                states = plan.metric(check.metrics[0]).states
                values |= {f"sketch:{check.name}": row[f"state:{s}"] for s in states[:1]}
        return values


def _in_one_pass(plan: Plan, sketches: bool) -> exp.Select:
    """The metrics of all states in one statement."""
    types = {s.name: "double" for s in plan.states}
    scan = Scan(plan.model, scan_groups(plan.states, types), label="all").query()
    query = exp.select(*(aliased(m.finish, m.alias) for m in plan.metrics))
    if sketches:
        wanted = dict.fromkeys(s for m in plan.metrics for s in m.states)
        query = query.select(*(aliased(column(s), f"state:{s}") for s in wanted))
    return query.from_(scan.subquery("scanned"))
