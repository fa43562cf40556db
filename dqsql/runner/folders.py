"""The folders that a run writes to, tried before anything starts."""

from __future__ import annotations

from dqsql.errors import ConfigError
from dqsql.model.project import Project, Target, local_folder
from dqsql.report.artefacts import ensure_writable, try_writing


def ensure_target(project: Project) -> None:
    """Try to write to the target folder and the warehouse. Raises ConfigError."""
    ensure_writable(project.target_dir)
    ensure_warehouse(project.target)


def ensure_warehouse(target: Target) -> bool:
    """Try to write to the warehouse where it is a folder of this machine; whether it is one.

    Raises ConfigError.
    """
    folder = local_folder(target)
    if folder is None:
        return False
    try:
        try_writing(folder)
    except OSError as error:
        raise ConfigError(
            f"the warehouse {folder} cannot be written: {error.strerror or error}",
            hint="set `warehouse` in dqsql_project.yml or profiles.yml to a folder that you may"
            " write",
        ) from error
    return True
