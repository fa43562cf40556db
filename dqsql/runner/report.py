"""The report of a project: what is stored of its newest batches, on one page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dqsql.decisions.lifecycle import heeded
from dqsql.decisions.reviews import newest_rows, waiting_batches
from dqsql.engine.history import stored_metrics, stored_of_model, stored_rows
from dqsql.engine.rows import RESULT_COLUMNS, result_of_row
from dqsql.model.batches import batch_order, has_begun, wall_time_of
from dqsql.model.by_key import by_key
from dqsql.model.project import Project, models_read_anew
from dqsql.model.results import BatchStatus, Result, Status
from dqsql.model.table import Table
from dqsql.model.tables import (
    BATCHES,
    CHECKS,
    COLUMNS,
    FAILURES,
    FINDINGS,
    MODEL_RUNS,
    MODELS,
    PROGRAMS,
    RESULTS,
    REVIEWS,
)
from dqsql.model.wording import plural
from dqsql.monitors.grouping import grouped
from dqsql.report.artefacts import write_atomically
from dqsql.report.html import REPORT, render
from dqsql.report.page import ModelFacts, Page, open_findings
from dqsql.report.profile import ProfileTable, saved_profiles
from dqsql.report.series import MetricValues, SeriesKey, series_key, wanted_series
from dqsql.runner.tables import with_watched_tables
from dqsql.runner.warehouse import Access, Step, open_tables, opened, silent
from dqsql.selection.choosing import chosen_names
from dqsql.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.engine.storage import Store

DAYS = 90
# More columns of pixels than this say nothing.
_MAX_BATCHES = 400
# Samples of failing rows are shown of the newest batches of each finding.
_FAILURE_BATCHES = 30


@dataclass(frozen=True)
class Report:
    """Where the report was written, and what it covers.

    `findings` are those that are not resolved, `waiting` the batches that wait for a review.
    """

    path: Path
    models: int
    batches: int
    findings: int
    waiting: int = 0


def write_report(
    project_dir: str | PathLike[str] = ".",
    *,
    days: int = DAYS,
    output_file: str | PathLike[str] | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    **at: Unpack[Access],
) -> Report:
    """Write a report of a project's newest batches as one HTML file. No data is scanned.

    Args:
        project_dir: folder of the project.
        days: days before the newest batch of each model, at least 1; if the batches of a model are
            not dates, the number of batches.
        output_file: the file; `target/report.html` of the project by default.
        select: models, in dbt's selection syntax; all when empty.
        exclude: models to leave out.
        **at: `target`, `profile`, `profiles_dir`, `vars`, `spark` (an existing session) and `step`
            (called with what is being done).

    Raises:
        DqsqlError: the project is wrong, the tables cannot be read, or the file cannot be written.
    """
    where, spark, step = opened({**at, "project_dir": project_dir})
    project = where.stored_project()
    page = read_page(project, days, select, exclude, spark=spark, step=step)
    path = project.target_dir / REPORT if output_file is None else Path(output_file)
    write_atomically(path, render(page))
    return Report(
        path,
        len(page.models),
        sum(len(f.batches) for f in page.models),
        open_findings(page),
        sum(len(f.waiting) for f in page.models),
    )


def read_page(
    project: Project,
    days: int = DAYS,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    spark: SparkSession | None = None,
    step: Step = silent,
) -> Page:
    """What `write_report` writes, as data. Raises DqsqlError."""
    with open_tables(project, spark, step) as store:
        step("Reading verdicts")
        project = with_watched_tables(project, store)
        names = chosen_names(project, select, exclude)
        left_out = {m.name for m in project.models} - set(names)
        profiles = {n: p for n, p in saved_profiles(project).items() if n not in left_out}
        facts = read_facts(store, project, names, days)
    return make_page(project, facts, days, dt.datetime.now(dt.UTC), profiles)


def make_page(
    project: Project,
    facts: Sequence[ModelFacts],
    days: int,
    made_at: dt.datetime,
    profiles: Mapping[str, ProfileTable],
) -> Page:
    """The report of what is stored, with the profiles that were kept, by relation.

    Those of check models that are in the report stand with them.
    """
    shown = {f.name for f in facts}
    is_cut = any(len(f.batches) == _MAX_BATCHES for f in facts)
    most = f", at most {_MAX_BATCHES} batches" if is_cut else ""
    return Page(
        project=project.name,
        target=project.target.name,
        made_at=made_at,
        version=VERSION,
        period=f"the newest {plural(days, 'day')} of each model{most}",
        models=tuple(replace(f, profile=profiles.get(f.name)) for f in facts),
        profiles=tuple(p for name, p in profiles.items() if name not in shown),
    )


def read_facts(
    store: Store, project: Project, names: Sequence[str], days: int = DAYS
) -> list[ModelFacts]:
    """What is stored of those of the named models that runs have begun. Raises StorageError."""
    now = dt.datetime.now(dt.UTC)
    reader = _ReportReader(store, project, newest_rows(store.rows(REVIEWS)), now)
    ledger = {
        name: kept
        for name, rows in reader.by_model(BATCHES).items()
        if (kept := [r for r in rows if r["status"] != BatchStatus.RETIRED.value])
    }
    replaced = models_read_anew(project.models)
    tables = {t: reader.by_model(t) for t in (MODELS, CHECKS, COLUMNS, FINDINGS, MODEL_RUNS)}
    failed = {name for name, rows in tables[MODEL_RUNS].items() if any(r["error"] for r in rows)}
    return [
        reader.model(
            name,
            newest(ledger.get(name, []), days, now),
            waiting_batches(ledger.get(name, []), replaced=name in replaced),
            {t: r.get(name, []) for t, r in tables.items()},
        )
        for name in names
        if name in ledger or name in failed
    ]


@dataclass(frozen=True)
class _ReportReader:
    store: Store
    project: Project
    reviews: Mapping[str, Mapping[str, Mapping[str, Any]]]
    now: dt.datetime

    def by_model(self, table: Table) -> dict[str, list[Mapping[str, Any]]]:
        """The rows of a small table by model."""
        return by_key((row["model"], row) for row in self.store.rows(table))

    def model(
        self,
        name: str,
        batches: Sequence[Mapping[str, Any]],
        flagged: Sequence[str],
        rows: Mapping[Table, Sequence[Mapping[str, Any]]],
    ) -> ModelFacts:
        """What is stored of a model; `rows` are those of its small tables."""
        names = [str(r["batch"]) for r in batches]
        wanted = list(dict.fromkeys((*names, *flagged)))
        rows_of_results = stored_rows(self.store, RESULTS, name, wanted, columns=RESULT_COLUMNS)
        stored = [result_of_row(r) for r in rows_of_results]
        stored.sort(key=lambda r: (r.check_id, r.segment or "", batch_order(r.batch or "")))
        shown = set(names)
        results = [r for r in stored if r.batch in shown]
        failed = [r for r in stored if r.status in (Status.FAIL, Status.ERROR)]
        programs = stored_of_model(self.store, PROGRAMS, name)
        checks = _in_force(rows[CHECKS])
        in_force = {r["check_id"] for r in checks}
        model = next((m for m in self.project.models if m.name == name), None)
        facts = ModelFacts(
            name=name,
            batches=batches,
            results=results,
            groups=grouped(results),
            values=self._values(name, names, results),
            programs=_in_force(programs),
            reviews=self.reviews.get(name, {}),
            dimension=next(iter(_in_force(rows[MODELS])), {}),
            checks=checks,
            removed={r["check_id"] for r in rows[CHECKS]} - in_force,
            columns=_in_force(rows[COLUMNS]),
            findings=sorted(
                (heeded(r, self.now) for r in rows[FINDINGS]),
                key=lambda r: batch_order(r["first_batch"]),
            ),
            costs=sorted(rows[MODEL_RUNS], key=lambda r: r["started_at"]),
            waiting={b: [r for r in failed if r.batch == b] for b in flagged},
            sql="" if model is None else model.raw_sql or model.sql,
            file=model.path if model is not None and model.raw_sql else "",
        )
        found = {b for r in facts.shown_findings for b in r["batches"][-_FAILURE_BATCHES:]}
        return replace(facts, failures=stored_rows(self.store, FAILURES, name, sorted(found)))

    def _values(
        self, model: str, batches: Sequence[str], results: Sequence[Result]
    ) -> MetricValues:
        wanted = wanted_series(results)
        if not wanted:
            return {}
        values: dict[SeriesKey, dict[str, float | None]] = {}
        metrics = {key[1] for key in wanted}
        rows = stored_metrics(self.store, model, batches, metrics, segments=False)
        for row in rows.to_pylist():
            key = series_key(row["column_name"], row["metric"], row["parameters"], row["scope"])
            if key in wanted:
                values.setdefault(key, {})[row["batch"]] = row["value"]
        return values


def _in_force(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a dimension that are valid now."""
    return [r for r in rows if r["valid_to"] is None]


def newest(
    rows: Sequence[Mapping[str, Any]], days: int, now: dt.datetime
) -> list[Mapping[str, Any]]:
    """The rows of the newest batches, oldest first: of so many days, or so many that are no dates.

    Days are counted from the newest batch that has begun by `now`. At most MAX_BATCHES.
    """
    ordered = sorted(rows, key=lambda r: batch_order(r["batch"]))
    times = [wall_time_of(r["batch"]) for r in ordered]
    known = [t for t in times if t is not None]
    if len(known) < len(ordered) or not known:
        return ordered[-min(days, _MAX_BATCHES) :]
    begun = [t for r, t in zip(ordered, known, strict=True) if has_begun(r["batch"], now)]
    since = max(begun or known) - dt.timedelta(days=days)
    kept = [r for r, t in zip(ordered, known, strict=True) if t > since]
    return kept[-_MAX_BATCHES:]
