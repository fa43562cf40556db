"""OpenLineage events: what a run read and what its checks found, for catalogs of lineage.

One event a check model, of type COMPLETE, or FAIL where the model could not be checked. The tables
that the model reads are input datasets; the one that is checked, which stands in its FROM, has the
facets `dataQualityAssertions` and `dataQualityMetrics`
(https://openlineage.io/docs/spec/facets/dataset-facets).
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urljoin, urlsplit

from sqlglot import exp

from dqsql.dialect import parse_statement, quoted, tables_read
from dqsql.json_text import jsonable, timestamp, to_json
from dqsql.model.plan import Check, Plan, Relation
from dqsql.model.project import CheckModel, Project, Scope, Source, view_name
from dqsql.model.results import ModelResult, Result, RunResult, Status
from dqsql.report.artefacts import write_atomically
from dqsql.version import VERSION

_PRODUCER = f"urn:dqsql:{VERSION}"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
_ASSERTIONS = f"{_FACETS}/1-0-1/DataQualityAssertionsDatasetFacet.json"
_METRICS = f"{_FACETS}/1-0-2/DataQualityMetricsInputDatasetFacet.json"
_ERROR = f"{_FACETS}/1-0-1/ErrorMessageRunFacet.json"
_TIMEOUT = 10
# OpenLineage's name of a metric, and how those of several batches become one.
_NAMES: Mapping[str, tuple[str, Callable[[Iterable[float]], float]]] = {
    "null_count": ("nullCount", sum),
    "sum": ("sum", sum),
    "min": ("min", min),
    "max": ("max", max),
}


@dataclass(frozen=True)
class Receiver:
    """Where events go: the URL of a server that speaks OpenLineage, and its API key."""

    url: str
    endpoint: str = "api/v1/lineage"
    api_key: str | None = None

    def send(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Send the events one by one, also behind one that the server does not take.

        Raises OSError: it did not take one, or does not answer.
        """
        # Imported here: most runs send nothing.
        from http.client import HTTPException
        from urllib.error import HTTPError

        from dqsql.report.posting import post

        target = urljoin(self.url.rstrip("/") + "/", self.endpoint)
        if urlsplit(target).scheme not in ("http", "https"):
            raise OSError(f"{self.url!r} is not an http address")
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        refused: HTTPError | None = None
        for event in events:
            try:
                post(target, json.dumps(jsonable(event)).encode(), headers, _TIMEOUT)
            except HTTPError as error:
                refused = refused or error
            except (HTTPException, ValueError) as error:
                # What answers is no HTTP server, or the address is none.
                raise OSError(f"{type(error).__name__}: {error}") from error
        if refused is not None:
            raise refused


def events(
    result: RunResult, plans: Sequence[Plan], namespace: str, project: Project | None = None
) -> list[dict[str, Any]]:
    """The events of a run in the order of its models.

    `namespace` is that of jobs and datasets, for example of the warehouse; the project's sources
    say which tables and files models read.
    """
    by_name = {plan.model.name: plan for plan in plans}
    datasets = None if project is None else Datasets(project)

    def read(model: ModelResult) -> tuple[Dataset, ...]:
        plan = by_name.get(model.model)
        if plan is None or datasets is None:
            return (Dataset(model.model),)
        compared = (d for r in plan.relations for d in datasets.of_relation(r))
        return (*(datasets.of(plan.model) or (Dataset(model.model),)), *compared)

    return [
        _event(result, m, namespace, _inputs(m, by_name.get(m.model), read(m), namespace))
        for m in result.models
    ]


def _event(
    result: RunResult, model: ModelResult, namespace: str, inputs: list[dict[str, Any]]
) -> dict[str, Any]:
    # The same run and model give the same id, so that sending twice is sending once.
    run_id = uuid.uuid5(uuid.NAMESPACE_URL, f"dqsql:{result.run_id}:{model.model}")
    facets: dict[str, Any] = {}
    if model.error is not None:
        facets["errorMessage"] = {
            "_producer": _PRODUCER,
            "_schemaURL": _ERROR,
            "message": str(model.error),
            "programmingLanguage": "SQL",
        }
    return {
        "eventType": "COMPLETE" if model.error is None else "FAIL",
        "eventTime": timestamp(result.finished_at),
        "run": {"runId": str(run_id), "facets": facets},
        "job": {"namespace": namespace, "name": f"dqsql.{result.project}.{model.model}"},
        "inputs": inputs,
        "outputs": [],
        "producer": _PRODUCER,
        "schemaURL": _SPEC,
    }


def _inputs(
    model: ModelResult, plan: Plan | None, read: Sequence[Dataset], namespace: str
) -> list[dict[str, Any]]:
    """What was checked, with what was found; what else was read or compared with."""
    checked, *others = read
    checks = {c.id: c for c in plan.checks} if plan else {}
    named = [(d.namespace or namespace, d.name) for d in others]
    first: dict[str, Any] = {"namespace": checked.namespace or namespace, "name": checked.name}
    if model.batches:
        # Of what was not measured, nothing is known: it is not empty.
        first["inputFacets"] = {
            "dataQualityMetrics": _metrics(model, checks),
            "dataQualityAssertions": {
                "_producer": _PRODUCER,
                "_schemaURL": _ASSERTIONS,
                "assertions": _assertions(model.results, checks),
            },
        }
    rest = [n for n in dict.fromkeys(named) if n != (first["namespace"], first["name"])]
    return [first, *({"namespace": where, "name": name} for where, name in rest)]


def _assertions(verdicts: Iterable[Result], checks: Mapping[str, Check]) -> list[dict[str, Any]]:
    """One assertion for each check: it holds if it does in all batches and segments."""
    assertions: dict[str, dict[str, Any]] = {}
    for verdict in verdicts:
        check = checks.get(verdict.check_id)
        record: dict[str, Any] = {
            "assertion": verdict.check_name if check is None else _assertion(check),
            "success": True,
            "severity": verdict.severity.value,
        }
        if verdict.column:
            record["column"] = verdict.column
        known = assertions.setdefault(verdict.check_id, record)
        known["success"] &= verdict.status in (Status.PASS, Status.SKIPPED)
    return list(assertions.values())


def _assertion(check: Check) -> str:
    """A check as text, with the rows and the batches that it is about."""
    where = f" where {check.settings.where}" if check.settings.where else ""
    scope = ", of all batches so far" if check.settings.scope is Scope.CUMULATIVE else ""
    return f"{check.expression}{where}{scope}"


def _metrics(model: ModelResult, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Rows, and what the checks measured of each column under OpenLineage's own names.

    They are about all rows of the run: those of its batches are put together, those of segments are
    left out, and so is a number that is not finite, which JSON cannot hold.
    """
    metrics: dict[tuple[str, str], dict[str | None, float]] = {}
    for verdict in model.results:
        check = checks.get(verdict.check_id)
        cumulative = check is not None and check.settings.scope is Scope.CUMULATIVE
        if verdict.column is None or verdict.segment is not None or cumulative:
            continue
        for text, value in (verdict.details.get("metrics") or {}).items():
            metric, _, arguments = str(text).partition("(")
            plain = arguments in (f"{verdict.column})", f"{quoted(verdict.column)})")
            if metric in _NAMES and plain and isinstance(value, int | float):
                metrics.setdefault((verdict.column, metric), {})[verdict.batch] = value
    columns: dict[str, dict[str, float]] = {}
    for (column, metric), by_batch in metrics.items():
        name, together = _NAMES[metric]
        if all(map(math.isfinite, by_batch.values())):
            columns.setdefault(column, {})[name] = together(by_batch.values())
    return {
        "_producer": _PRODUCER,
        "_schemaURL": _METRICS,
        "rowCount": model.rows,
        "columnMetrics": columns,
    }


# --- datasets ------------------------------------------------------------------------------------

# In a catalog of lineage a check is about a table, not about the query that looks at it.
_FILES = "file"


@dataclass(frozen=True)
class Dataset:
    """A table, or a file; `namespace` is None for that of the warehouse.

    Files are named as OpenLineage does: https://openlineage.io/docs/spec/naming.
    """

    name: str
    namespace: str | None = None

    @classmethod
    def from_source(cls, source: Source) -> Dataset:
        """The dataset behind a source."""
        if source.path is None:
            return cls(_plain(source.relation))
        scheme, separator, rest = source.path.partition("://")
        if not separator:
            return cls(source.path.removeprefix("file:"), _FILES)
        bucket, _, key = rest.partition("/")
        return cls(key or "/", f"{scheme}://{bucket}")


@dataclass
class Datasets:
    """Finds the datasets of the check models of one project."""

    project: Project
    _found: dict[str, tuple[Dataset, ...]] = field(default_factory=dict)

    def of(self, model: CheckModel) -> tuple[Dataset, ...]:
        """What a model reads; the table behind its outermost FROM, which is checked, comes first.

        Empty where the SELECT cannot be read, or reads no table.
        """
        if model.name not in self._found:
            # A model that leads to itself is refused before it runs.
            self._found[model.name] = ()
            self._found[model.name] = tuple(dict.fromkeys(self._read(model)))
        return self._found[model.name]

    def of_relation(self, relation: Relation) -> tuple[Dataset, ...]:
        """What lies behind a relation that checks compare a model with."""
        for source in self.project.sources:
            if source.unique_id == relation.unique_id:
                return (Dataset.from_source(source),)
        for model in self.project.models:
            if model.unique_id == relation.unique_id:
                return self.of(model)
        return (Dataset(relation.name),)

    def _read(self, model: CheckModel) -> Iterator[Dataset]:
        if model.relation is not None:
            yield Dataset(_plain(model.relation))
            return
        query = parse_statement(model.sql)
        if query is None:
            return
        main = _main(query)
        tables = [t for t in tables_read(query) if t is not main]
        for table in ([main] if main is not None else []) + tables:
            name = ".".join(part.name for part in table.parts)
            if name in self._views:
                yield from self.of(self._views[name])
            else:
                yield self._sources.get(name) or Dataset(name)

    @cached_property
    def _views(self) -> Mapping[str, CheckModel]:
        return {view_name(m): m for m in self.project.models}

    @cached_property
    def _sources(self) -> Mapping[str, Dataset]:
        return {_plain(s.relation): Dataset.from_source(s) for s in self.project.sources}


def _plain(relation: str) -> str:
    return relation.replace("`", "")


def _main(query: exp.Expr) -> exp.Table | None:
    """The table in the FROM of a query, through CTEs, subqueries and unions."""
    ctes, seen = {cte.alias.lower(): cte for cte in query.find_all(exp.CTE)}, set[str]()
    node: exp.Expr | None = query
    while node is not None:
        if isinstance(node, exp.Table):
            name = node.name.lower()
            if len(node.parts) > 1 or name not in ctes or name in seen:
                return node
            seen.add(name)
            node = ctes[name].this
        elif isinstance(node, exp.Select):
            clause = node.args.get("from") or node.args.get("from_")
            node = clause.this if clause is not None else None
        else:
            # A parenthesis, or one side of a set operation.
            node = node.this if isinstance(node.this, exp.Expr) else None
    return None


SETTING = "openlineage"
_FILE = "openlineage.ndjson"
_NAMESPACE = "dqsql"


def send_lineage(project: Project, plans: Sequence[Plan], result: RunResult) -> tuple[str, ...]:
    """Write or send the events of a run.

    Returns what went wrong, in words: lineage never fails a run.
    """
    settings = _settings(project.settings.get(SETTING))
    if not settings or not result.models:
        return ()
    namespace = str(settings.get("namespace") or _NAMESPACE)
    run_events = events(result, plans, namespace, project)
    problems = []
    if file := settings.get("file"):
        path = project.target_dir / _FILE if file is True else project.root / str(file)
        try:
            write_atomically(path, "".join(f"{to_json(event)}\n" for event in run_events))
        except OSError as error:
            problems.append(f"the OpenLineage events were not written to {path}: {error}")
    if settings.get("url"):
        endpoint = str(settings.get("endpoint") or "api/v1/lineage")
        receiver = Receiver(str(settings["url"]), endpoint, settings.get("api_key"))
        try:
            receiver.send(run_events)
        except OSError as error:
            problems.append(f"the OpenLineage events were not sent to {receiver.url}: {error}")
    return tuple(problems)


def _settings(project: object) -> dict[str, Any]:
    """The project's `openlineage:` under the environment variables that all its clients read."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return {}
    settings: dict[str, Any] = dict(project) if isinstance(project, Mapping) else {}
    for key in ("url", "endpoint", "api_key", "namespace"):
        if value := os.environ.get(f"OPENLINEAGE_{key.upper()}"):
            settings[key] = value
    return settings
