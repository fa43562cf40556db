"""Compiling a project and writing what comes of it: shared by `run`, `compile` and `ls`."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dqsql.cli import process
from dqsql.errors import DqsqlError

if TYPE_CHECKING:
    from dqsql.runner.api import CompileResult


def compile_project(**where: Any) -> CompileResult:
    """Load and compile the project; `where` is what its options say."""
    from dqsql.runner import api

    compiled = api.compile_project(default_selector=True, **where)
    if process.ends_with_command:
        # The trees live as long as the process: the collector need not walk them again and again.
        gc.freeze()
    return compiled


def target_dir(compiled: CompileResult) -> Path:
    """The folder of artefacts."""
    return compiled.project.target_dir


def all_errors(compiled: CompileResult) -> tuple[DqsqlError, ...]:
    """The errors of the project and of single annotations, each once."""
    rejected = (error for plan in compiled.plans for error in plan.rejected)
    return tuple({(str(e.span), e.message): e for e in (*compiled.errors, *rejected)}.values())


def write_project_artefacts(compiled: CompileResult) -> tuple[tuple[str, Path], ...]:
    """Write `manifest.json` and `compiled/`; return models and the files of their statements."""
    from dqsql.report.artefacts import MANIFEST, write_compiled, write_json
    from dqsql.report.manifest import manifest
    from dqsql.version import VERSION

    folder = target_dir(compiled)
    content = manifest(
        compiled.project,
        compiled.plans,
        generated_at=datetime.now(UTC),
        dqsql_version=VERSION,
    )
    write_json(folder / MANIFEST, content)
    return write_compiled(folder, compiled.queries)
