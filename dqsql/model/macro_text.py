"""What the text of a macro file says of its macros: their names, parameters and documentation.

For listing and for hints only: Jinja itself reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

# A macro with the comment right above it.
MACRO = re.compile(
    r"(?:\{#-?(?P<comment>(?:(?!#\}).)*?)-?#\}\s*)?"
    r"\{%[-+]?\s*macro\s+(?P<name>\w+)\s*\((?P<arguments>.*?)\)\s*[-+]?%\}",
    re.DOTALL,
)


@lru_cache(maxsize=512)
def documentation(text: str) -> Mapping[str, str]:
    """The comment above each macro of a file, by the macro's name; empty where there is none."""
    return {m["name"]: " ".join((m["comment"] or "").split()) for m in MACRO.finditer(text)}
