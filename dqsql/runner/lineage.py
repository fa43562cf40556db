"""OpenLineage events of a run: written or sent where the project or the environment asks for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from dqsql.model.plan import Plan
from dqsql.model.project import Project
from dqsql.model.results import RunResult
from dqsql.report.artefacts import write_atomically
from dqsql.report.jsonable import to_json

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
    from dqsql.report.openlineage import Receiver, events

    namespace = str(settings.get("namespace") or _NAMESPACE)
    found = events(result, plans, namespace, project)
    problems = []
    if file := settings.get("file"):
        path = project.target_dir / _FILE if file is True else project.root / str(file)
        try:
            write_atomically(path, "".join(f"{to_json(event)}\n" for event in found))
        except OSError as error:
            problems.append(f"the OpenLineage events were not written to {path}: {error}")
    if settings.get("url"):
        endpoint = str(settings.get("endpoint") or "api/v1/lineage")
        receiver = Receiver(str(settings["url"]), endpoint, settings.get("api_key"))
        try:
            receiver.send(found)
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
