"""Where a setting stands in the project's file."""

from __future__ import annotations

import re

from dqsql.errors import Span
from dqsql.model.project import Project

_FILES = ("dqsql_project.yml", "dbt_project.yml")


def place_of(project: Project, key: str) -> Span:
    """The line of a key of the project file; the file itself where the key is not found."""
    words = "[-_]".join(re.escape(word) for word in key.split("_"))
    pattern = re.compile(rf"\s*['\"]?{words}['\"]?\s*:")
    for name in _FILES:
        file = project.root / name
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        for number, line in enumerate(lines, start=1):
            if pattern.match(line):
                return Span(name, number, len(line) - len(line.lstrip()) + 1, line.strip())
    return Span(_FILES[0])
