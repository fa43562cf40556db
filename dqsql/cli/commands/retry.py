"""`dqsql retry`: check again what failed in the last run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dqsql.cli.group import Command
from dqsql.cli.options import PROJECT, STATE, options
from dqsql.cli.project import compile_project, forget_junit, listener_of, write_run_artefacts
from dqsql.cli.session import Session, with_session
from dqsql.errors import UsageError
from dqsql.model.wording import first_of, plural
from dqsql.resources import expanded


@click.command("retry", cls=Command)
@options(*STATE, *PROJECT, "threads", "run_output")
@with_session
def command(
    session: Session,
    *,
    project_dir: Path,
    state: Path | None,
    threads: int | None,
    target: str | None,
    **where: Any,
) -> int:
    """Check again the models and batches that failed in the last run, or that it did not reach.

    Reads run_results.json in the folder that --state names, else in the target folder. The options
    of that run (--vars, --profile, --full-refresh ..) apply again unless you change them.
    """
    from dqsql.loading.config import parse_vars
    from dqsql.loading.project import read_target_path
    from dqsql.report.artefacts import RUN_RESULTS, ensure_writable
    from dqsql.runner import api
    from dqsql.runner.request import is_kept_hash, read_retry, refuse_other_variables
    from dqsql.runner.review import waiting

    root = expanded(project_dir).resolve()
    asked = where.get("vars")
    overrides = parse_vars(asked) if asked else {}
    folder = state or root / read_target_path(root, overrides)
    retry = read_retry(folder / RUN_RESULTS)
    arguments = dict(retry.arguments)
    # A model that fails for good would keep those after it from ever being checked.
    arguments.pop("fail_fast", None)
    where["target"] = target
    earlier = arguments.pop("vars", None)
    for name in ("target", "profile", "profiles_dir", "dbt_tests"):
        before = arguments.pop(name, None)
        where[name] = before if where.get(name) is None else where[name]
    select = tuple(f"name:{model}" for model in retry.batches)
    if not where.get("vars") and not any(map(is_kept_hash, (earlier or {}).values())):
        where["vars"] = earlier
    if not retry.batches:
        # That nobody has reviewed what a run flagged is no success; somebody may have since.
        place: dict[str, Any] = {
            name: where.get(name) for name in ("target", "profile", "profiles_dir", "vars")
        }
        batches = waiting(project_dir, **place) if retry.has_unreviewed else ()
        code = int(bool(batches))
        session.print_outcome(code, results=[])
        session.say("Nothing to retry: no check failed in the last run.")
        if batches:
            waiting_ones = plural(len(batches), "batch waits", "batches wait")
            session.say(f"{waiting_ones} for a review: `dqsql review list`.")
        return code
    forget_junit(project_dir, asked)
    compiled = compile_project(project_dir=project_dir, select=select, **where)
    known = {model.name for model in compiled.project.models}
    missing = [model for model in retry.batches if model not in known]
    if missing:
        raise UsageError(
            f"{first_of(missing, 3)}, which the last run could not pass, is not in the project",
            hint="tables that `dqsql run --auto` watched are checked again by the same command; a"
            " model that was removed needs no retry: run `dqsql run`",
        )
    refuse_other_variables(earlier, where.get("vars"), compiled.project)
    ensure_writable(compiled.project.target_dir)
    with session.progress() as progress:
        result = api.run(
            project_dir,
            select=select,
            batches_of=retry.batches,
            threads=threads,
            listener=listener_of(session, progress, compiled, retry.batches),
            compiled=compiled,
            **arguments,
            **where,
        )
    write_run_artefacts(session, compiled, result, retry.batches)
    return result.exit_code
