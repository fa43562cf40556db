"""Hooks of mkdocs: pages that lie outside of this folder become pages of the site.

In the repository README.md links to docs/models.md, and a page here to ../ARCHITECTURE.md. Both are
rewritten to where the pages lie on the site; files that are no pages there lose their link.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# Files of the repository -> pages of the site.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "macros/README.md": "macros.md",
}
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie elsewhere."""
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page."""
    at = page.file.src_uri
    written = next((path for path, name in PAGES.items() if name == at), f"docs/{at}")

    def rewritten(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return match.group(0)
        found = posixpath.normpath(posixpath.join(posixpath.dirname(written), path))
        on_site = PAGES.get(found) or found.removeprefix("docs/")
        if found not in PAGES and not found.startswith("docs/"):
            return text if (ROOT / found).exists() else match.group(0)
        relative = posixpath.relpath(on_site, posixpath.dirname(at) or ".")
        return f"{mark}[{text}]({relative}{hash_}{anchor})"

    return _LINK.sub(rewritten, markdown)
