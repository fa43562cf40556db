"""The steps of `dqsql debug`."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata

from dqsql.errors import DqsqlError
from dqsql.model.project import Project
from dqsql.model.wording import plural
from dqsql.runner.where import Where
from dqsql.version import VERSION

Step = tuple[str, bool, str]


def diagnose(where: Where) -> Iterator[Step]:
    """Yield each step as (what, whether it worked, details); stops where going on is idle."""
    yield "dqsql", True, VERSION
    yield "python", True, platform.python_version()
    yield "pyspark", True, metadata.version("pyspark")
    try:
        compiled = where.compile()
    except DqsqlError as error:
        yield "project", False, str(error)
        return
    project = compiled.project
    models = plural(len(compiled.plans), "check model")
    yield "project", True, f"{project.name} at {project.root}: {models}"
    for problem in compiled.errors:
        yield "checks", False, str(problem)
    chosen = project.target
    yield "target", True, f"{chosen.profile}.{chosen.name}, method {chosen.method}"
    if chosen.method == "session":
        yield from _java()
    yield from _connection(project)


def _java() -> Iterator[Step]:
    from dqsql.engine.archive import archive_state
    from dqsql.engine.java import find_java

    try:
        java = find_java()
    except DqsqlError as error:
        yield "java", False, str(error)
        return
    yield "java", True, f"{java.major} at {java.path}"
    state, usable = archive_state(java)
    yield "class archive", usable, state


def _warehouse(project: Project, known: int) -> Step:
    """Whether the warehouse can be written; one that is no folder here is not tried."""
    from dqsql.runner.folders import ensure_warehouse

    root = f"{project.target.warehouse}/{project.target.schema}"
    try:
        tried = ensure_warehouse(project.target)
    except DqsqlError as error:
        return "warehouse", False, str(error)
    how = "can be written" if tried else "writing was not tried"
    return "warehouse", True, f"{root}: {how}, {plural(known, 'batch')} checked so far"


def _connection(project: Project) -> Iterator[Step]:
    from dqsql.engine.session import open_session
    from dqsql.engine.storage import open_store
    from dqsql.model.tables import BATCHES

    target = project.target
    try:
        with open_session(target, project.log_dir) as spark:
            yield "connection", True, f"Spark {spark.version}"
            known = len(open_store(spark, target).rows(BATCHES))
            yield _warehouse(project, known)
    except DqsqlError as error:
        yield "connection", False, str(error)
