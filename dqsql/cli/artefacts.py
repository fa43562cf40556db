"""What a run leaves behind: files for CI and catalogs of lineage, annotations for GitHub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.cli.project import target_dir, write_project_artefacts
from dqsql.cli.session import Session, github_prefix

if TYPE_CHECKING:
    from dqsql.model.results import RunResult
    from dqsql.runner.api import CompileResult

_LINEAGE = "openlineage.ndjson"
_DEFAULT_NAMESPACE = "dqsql"


def write_run_artefacts(session: Session, compiled: CompileResult, result: RunResult) -> None:
    """Write the artefacts of a run, print what `--output` asks for, and send lineage events."""
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
    for problem in send_lineage(compiled, result, folder):
        session.warn(problem)


def print_github(session: Session, compiled: CompileResult, result: RunResult) -> None:
    """Print the findings as annotations of the lines of the project's files."""
    from dqsql.report.github import finding_annotations

    prefix = github_prefix(compiled.project.root)
    for line in finding_annotations(result, compiled.plans, prefix):
        session.out.line(line)


def send_lineage(compiled: CompileResult, result: RunResult, folder: Path) -> list[str]:
    """Write or send OpenLineage events where the project or the environment asks for it.

    Returns what went wrong, in words: lineage never fails a run.
    """
    settings = _lineage_settings(compiled.project.settings.get("openlineage"))
    if not settings or not result.models:
        return []
    from dqsql.report.artefacts import write_atomically
    from dqsql.report.jsonable import to_json
    from dqsql.report.openlineage import Receiver, events

    namespace = str(settings.get("namespace") or _DEFAULT_NAMESPACE)
    found = events(result, compiled.plans, namespace)
    if settings.get("file"):
        file = settings["file"]
        path = folder / _LINEAGE if file is True else compiled.project.root / str(file)
        write_atomically(path, "".join(f"{to_json(event)}\n" for event in found))
    if not settings.get("url"):
        return []
    endpoint = str(settings.get("endpoint") or "api/v1/lineage")
    receiver = Receiver(str(settings["url"]), endpoint, settings.get("api_key"))
    try:
        receiver.send(found)
    except OSError as error:
        return [f"the OpenLineage events were not sent to {receiver.url}: {error}"]
    return []


def _lineage_settings(project: object) -> dict[str, Any]:
    """The project's `openlineage:` under the environment variables that all its clients read."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return {}
    settings: dict[str, Any] = dict(project) if isinstance(project, Mapping) else {}
    for key in ("url", "endpoint", "api_key", "namespace"):
        if value := os.environ.get(f"OPENLINEAGE_{key.upper()}"):
            settings[key] = value
    return settings
