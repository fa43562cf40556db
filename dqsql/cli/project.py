"""Compiling a project and writing what comes of it: shared by `run`, `retry`, `compile`, `ls`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.cli import group
from dqsql.cli.session import Session, github_prefix
from dqsql.errors import DqsqlError, UsageError
from dqsql.resources import expanded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dqsql.model.events import RunListener
    from dqsql.model.results import RunResult
    from dqsql.report.terminal import Progress
    from dqsql.runner.api import CompileResult


def compile_project(**where: Any) -> CompileResult:
    """Load and compile the project; `where` is what its options say."""
    from dqsql.runner import api

    if not group.ends_with_command:
        return api.compile_project(default_selector=True, **where)
    # The trees live as long as the process: the collector need not walk them, not even once.
    gc.disable()
    try:
        return api.compile_project(default_selector=True, **where)
    finally:
        gc.freeze()
        gc.enable()


def listener_of(
    session: Session,
    progress: Progress,
    compiled: CompileResult,
    asked: Mapping[str, Collection[str]] | None = None,
) -> RunListener:
    """What reports the progress of a run. Of one that dies, `dqsql retry` checks all models.

    `asked` has the batches that the run is to check again, by model.
    """
    from dqsql.report.artefacts import RUN_RESULTS, write_json
    from dqsql.report.run_results import run_results

    listener = session.listener(progress, compiled)
    file = compiled.project.target_dir / RUN_RESULTS
    listener.begun = lambda left: write_json(file, run_results(left, asked=asked))
    return listener


def forget_junit(project_dir: Path, variables: str | None) -> None:
    """Remove junit.xml: of a run that cannot begin, a CI server must not show the one before."""
    from dqsql.loading.config import parse_vars
    from dqsql.loading.project import read_target_path
    from dqsql.report.ci import JUNIT

    root = expanded(project_dir).resolve()
    with suppress(DqsqlError, OSError):
        overrides = parse_vars(variables) if variables else {}
        (root / read_target_path(root, overrides) / JUNIT).unlink(missing_ok=True)


def refuse_batch_by(batch_by: str | None, auto: Sequence[str]) -> None:
    """Raise UsageError for `--batch-by` without tables that it is about."""
    if batch_by is not None and not auto:
        raise UsageError(
            "--batch-by is about tables without check files",
            hint="name them with --auto, or set batch_by in the check model",
        )


@contextmanager
def watched_tables(
    names: Sequence[str],
    batch_by: str | None,
    step: Callable[[str], None],
    where: Mapping[str, Any],
) -> Iterator[tuple[CompileResult, SparkSession]]:
    """What is watched of tables that have no check files, and the session that knows them.

    `where` is what the options of the project say.
    """
    from dqsql.runner.compilation import Where
    from dqsql.runner.tables import compile_tables
    from dqsql.runner.warehouse import open_spark

    with open_spark(Where(**where).project(), None, step) as spark:
        yield compile_tables(names=names, spark=spark, batch_by=batch_by, **where), spark


def all_errors(compiled: CompileResult) -> tuple[DqsqlError, ...]:
    """The errors of the project and of single annotations, each once."""
    rejected = (error for plan in compiled.plans for error in plan.rejected)
    return tuple({(str(e.span), e.message): e for e in (*compiled.errors, *rejected)}.values())


def write_project_artefacts(compiled: CompileResult) -> tuple[tuple[str, Path], ...]:
    """Write `manifest.json` and `compiled/`; return models and the files of their statements."""
    from dqsql.compiler.adoption import is_checked
    from dqsql.json_text import read_json
    from dqsql.report.artefacts import MANIFEST, write_compiled, write_json
    from dqsql.report.manifest import KEPT_SHAPE, manifest
    from dqsql.version import VERSION

    folder = compiled.project.target_dir
    before = None
    planned = {plan.model.name for plan in compiled.plans}
    if any(is_checked(m) and m.name not in planned for m in compiled.project.models):
        # Without one that can be read, the manifest is of the selection.
        with suppress(OSError, ValueError):
            before = read_json(folder / MANIFEST, KEPT_SHAPE)
    content = manifest(
        compiled.project,
        compiled.plans,
        generated_at=datetime.now(UTC),
        dqsql_version=VERSION,
        before=before,
    )
    # One line, as dbt writes it: of thousands of checks, indenting takes longer than compiling.
    write_json(folder / MANIFEST, content, indent=None)
    return write_compiled(folder, compiled.queries)


def write_run_artefacts(
    session: Session,
    compiled: CompileResult,
    result: RunResult,
    asked: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Write the artefacts of a run, and print what `--output` asks for.

    `asked` has the batches that the run was to check again, by model.
    """
    from dqsql.report.artefacts import RUN_RESULTS, write_atomically, write_json
    from dqsql.report.ci import JUNIT, finding_annotations, junit_xml
    from dqsql.report.run_results import SOURCES, run_record, run_results, sources_record

    folder = compiled.project.target_dir
    write_project_artefacts(compiled)
    write_json(folder / RUN_RESULTS, run_results(result, compiled.plans, asked))
    write_atomically(folder / JUNIT, junit_xml(result, compiled.plans))
    sources = sources_record(result, compiled.plans)
    if sources["results"]:
        write_json(folder / SOURCES, sources)
    if session.json:
        session.print_json(run_record(result, compiled.plans))
    if session.github:
        prefix = github_prefix(compiled.project.root)
        for line in finding_annotations(result, compiled.plans, prefix):
            session.out.line(line)
