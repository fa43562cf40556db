"""dqsql: data quality for SQL teams on Spark.

The Python API is `dqsql.run(project_dir, spark=None, select=..)`, and `fit`, `backtest`, `review`,
`waiting`, `explain` and `write_report` around it; `acknowledge`, `assign`, `resolve`, `reopen`,
`unmute` and `open_findings` are about findings. `dqsql.check(df, ["@not_null(id)"])` needs no
project.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dqsql.sqlglot_build import use_source

if TYPE_CHECKING:
    from dqsql.errors import CheckFailedError, DqsqlError
    from dqsql.runner.api import compile_project, run
    from dqsql.runner.backtest import backtest
    from dqsql.runner.explain import explain
    from dqsql.runner.finding import acknowledge, assign, open_findings, reopen, resolve, unmute
    from dqsql.runner.fit import fit
    from dqsql.runner.frames import check
    from dqsql.runner.notify import notify
    from dqsql.runner.report import write_report
    from dqsql.runner.review import review, waiting
    from dqsql.runner.stream import stream, stream_checker

__all__ = [
    "CheckFailedError",
    "DqsqlError",
    "acknowledge",
    "assign",
    "backtest",
    "check",
    "compile_project",
    "explain",
    "fit",
    "notify",
    "open_findings",
    "reopen",
    "resolve",
    "review",
    "run",
    "stream",
    "stream_checker",
    "unmute",
    "waiting",
    "write_report",
]

# Before any module of dqsql imports sqlglot.
use_source()

_MODULES = {
    **dict.fromkeys(("CheckFailedError", "DqsqlError"), "dqsql.errors"),
    **dict.fromkeys(
        ("acknowledge", "assign", "open_findings", "reopen", "resolve", "unmute"),
        "dqsql.runner.finding",
    ),
    "backtest": "dqsql.runner.backtest",
    "check": "dqsql.runner.frames",
    "explain": "dqsql.runner.explain",
    "fit": "dqsql.runner.fit",
    "notify": "dqsql.runner.notify",
    "review": "dqsql.runner.review",
    "stream": "dqsql.runner.stream",
    "stream_checker": "dqsql.runner.stream",
    "waiting": "dqsql.runner.review",
    "write_report": "dqsql.runner.report",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Loaded when first used: `import dqsql` stays fast.
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, "dqsql.runner.api")), name)
    raise AttributeError(f"module 'dqsql' has no attribute {name!r}")
