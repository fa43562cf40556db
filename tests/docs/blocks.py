"""The code in the documentation: fenced blocks, and commands in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
        *(ROOT / name for name in ("macros/README.md", "example_project/data/README.md")),
    ]
)
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(dqsql [^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block; `language` is empty where the fence names none."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in some languages."""
    return [b for page in PAGES for b in _blocks(page) if b.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        indent = len(match.group(1))
        body = "\n".join(line[indent:] for line in match.group(3).split("\n"))
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page.relative_to(ROOT).as_posix(), line, match.group(2), body)


def commands() -> list[tuple[str, str]]:
    """All commands of dqsql in blocks and in backticks, with their places."""
    found = []
    for block in blocks("console", "bash", "sh", ""):
        for number, line in enumerate(block.text.split("\n"), start=block.line + 1):
            for part in re.split(r"&&|\||;", line.partition(" #")[0]):
                words = part.strip().removeprefix("$ ").removeprefix(".venv/bin/")
                if words.startswith("dqsql "):
                    found.append((f"{block.page}:{number}", words))
    for page in PAGES:
        text = _FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), page.read_text("utf-8"))
        for match in _INLINE.finditer(text):
            place = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            found.append((place, " ".join(match.group(1).split())))
    return found
