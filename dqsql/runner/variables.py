"""What is kept of the values of `--vars`: their names and hashes, unless the project says more."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from dqsql.engine.project_key import project_key
from dqsql.loading import parse_vars
from dqsql.model.project import Project
from dqsql.report.jsonable import to_json
from dqsql.runner.compilation import Variables

SETTING = "store_vars"
_HASH = re.compile(r"hmac-sha256:[0-9a-f]{16}")


def kept_variables(given: Variables, project: Project) -> dict[str, Any] | None:
    """What dq_runs and run_results.json say of the variables that a run was given.

    A hash with the project's key by name; the values themselves with `store_vars: true`.
    """
    values = parse_vars(given) if isinstance(given, str) else given
    if not values:
        return None
    if project.settings.get(SETTING) is True:
        return dict(values)
    key = project_key(project.root).encode()
    return {name: _hash(key, value) for name, value in sorted(values.items())}


def _hash(key: bytes, value: object) -> str:
    digest = hmac.new(key, to_json(value).encode(), hashlib.sha256).hexdigest()
    return f"hmac-sha256:{digest[:16]}"


def is_kept_hash(value: object) -> bool:
    """Whether this is what `kept_variables` keeps in place of a value."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None
