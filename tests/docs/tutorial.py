"""The steps of the tutorial, as a reader takes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .blocks import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
_STEP = re.compile(
    r"(?:(save|Save|Add) this (?:as|to)\s+`([^`]+)`[^`]*?)?```(console|python|yaml|sql)\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Step:
    """Commands to type, or the text of a file to write (`append`: to add to it)."""

    text: str
    file: str | None = None
    append: bool = False


def steps() -> Iterator[Step]:
    """All steps in their order."""
    for word, file, language, text in _STEP.findall(PAGE.read_text(encoding="utf-8")):
        if language == "console":
            yield from (Step(line) for line in text.splitlines() if line.strip())
        elif file:
            yield Step(text, file, word == "Add")


@dataclass
class Reader:
    """Somebody who follows the tutorial in a folder."""

    folder: Path

    def __post_init__(self) -> None:
        tools = self.folder / "bin"
        tools.mkdir(parents=True)
        command = tools / "dqsql"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dqsql "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DQSQL_", "DBT_"))}
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), kept["PATH"]])
        python = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
        self._environment = {**kept, "PATH": path, "PYTHONPATH": python, "HOME": str(self.folder)}
        self._here = self.folder / "work"
        self._here.mkdir()

    def take(self, step: Step) -> subprocess.CompletedProcess[str] | None:
        """Take a step; what a command said, None for a file."""
        if step.file is not None:
            mode = "a" if step.append else "w"
            with (self._here / step.file).open(mode, encoding="utf-8") as file:
                file.write(step.text)
            return None
        if step.text.startswith("cd "):
            self._here /= step.text.removeprefix("cd ")
            assert self._here.is_dir()
            return None
        return subprocess.run(
            step.text,
            shell=True,
            cwd=self._here,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
