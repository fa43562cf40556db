"""What a run leaves behind for CI: files, and annotations for GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dqsql.cli.project import target_dir, write_project_artefacts
from dqsql.cli.session import Session, github_prefix

if TYPE_CHECKING:
    from dqsql.model.results import RunResult
    from dqsql.runner.api import CompileResult


def write_run_artefacts(session: Session, compiled: CompileResult, result: RunResult) -> None:
    """Write the artefacts of a run, and print what `--output` asks for."""
    from dqsql.report.artefacts import RUN_RESULTS, write_atomically, write_json
    from dqsql.report.junit import JUNIT, junit_xml
    from dqsql.report.run_results import run_record, run_results
    from dqsql.report.sources import SOURCES, sources_record

    folder = target_dir(compiled)
    write_project_artefacts(compiled)
    write_json(folder / RUN_RESULTS, run_results(result, compiled.plans))
    write_atomically(folder / JUNIT, junit_xml(result, compiled.plans))
    sources = sources_record(result, compiled.plans)
    if sources["results"]:
        write_json(folder / SOURCES, sources)
    if session.json:
        session.print_json(run_record(result, compiled.plans))
    if session.github:
        print_github(session, compiled, result)


def print_github(session: Session, compiled: CompileResult, result: RunResult) -> None:
    """Print the findings as annotations of the lines of the project's files."""
    from dqsql.report.github import finding_annotations

    prefix = github_prefix(compiled.project.root)
    for line in finding_annotations(result, compiled.plans, prefix):
        session.out.line(line)
