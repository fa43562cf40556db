"""dqsql: data quality for SQL teams on Spark.

The Python API is `dqsql.run(project_dir, spark=None, select=..)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dqsql.runner.api import compile_project, run

__all__ = ["compile_project", "run"]


def __getattr__(name: str) -> Any:
    # Loaded when first used: `import dqsql` stays fast.
    if name in __all__:
        from dqsql.runner import api

        return getattr(api, name)
    raise AttributeError(f"module 'dqsql' has no attribute {name!r}")
