"""Keeps secrets of the environment out of all that dqsql says and writes, as dbt does.

The values of variables whose names begin with `DBT_ENV_SECRET_` or `DQSQL_ENV_SECRET_` are shown
as `*****`, wherever they come from.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

PREFIXES = ("DBT_ENV_SECRET_", "DQSQL_ENV_SECRET_")
_STARS = "*****"


def secret_values() -> list[str]:
    """The secrets, longest first, since one may hold another."""
    # Names first: this is asked for each line, and reading all values takes as long again.
    values = {os.environ[name] for name in os.environ if name.startswith(PREFIXES)}
    return sorted((value for value in values if value.strip()), key=len, reverse=True)


def redact_file(path: Path) -> None:
    """Cross secrets out of a file that another process may still be writing to.

    Each is replaced by as many stars as it has bytes, so that nothing behind it moves.
    """
    try:
        content = path.read_bytes()
        with path.open("r+b") as file:
            for value in secret_values():
                secret = value.encode()
                start = content.find(secret)
                while start >= 0:
                    file.seek(start)
                    file.write(b"*" * len(secret))
                    start = content.find(secret, start + len(secret))
    except OSError:
        return  # no such file, or not ours


def redact(text: str) -> str:
    """The text without secrets, also where JSON wrote them with escapes."""
    for value in secret_values():
        for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
            text = text.replace(form, _STARS)
    return text
