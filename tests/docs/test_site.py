"""The documentation builds as a site: every page has its place, every link its target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .blocks import ROOT

pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
pytest.importorskip("material", reason="the site needs the extra `docs`")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Is today" in page
    # The page loads nothing from elsewhere.
    assert "fonts.googleapis" not in page
