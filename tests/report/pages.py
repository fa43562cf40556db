"""Reports of made-up verdicts, and what a browser draws of them."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dqsql.decisions.lifecycle import updated_findings
from dqsql.model.results import Result, Status
from dqsql.monitors.grouping import grouped
from dqsql.report.html import render
from dqsql.report.page import ModelFacts, Page
from dqsql.report.profile import ProfileTable

MADE = dt.datetime(2025, 3, 1, tzinfo=dt.UTC)
EVIL = "<script>alert('x')</script>\"><img src=x onerror=console.error(1)>"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")


def page_of(*facts: ModelFacts, profiles: Sequence[ProfileTable] = ()) -> Page:
    period = "the newest 90 days of each model"
    return Page("nyc", "local", MADE, "0.1.0", period, facts, tuple(profiles))


def facts(*results: Result, statuses: dict[str, str] | None = None, **more: Any) -> ModelFacts:
    batches = sorted({r.batch for r in results if r.batch})
    flagged = [b for b in batches if (statuses or {}).get(b) == "flagged"]
    given: dict[str, Any] = {
        "name": "flights",
        "batches": [
            {"batch": b, "status": (statuses or {}).get(b, "accepted"), "rows": 1000}
            for b in batches
        ],
        "results": results,
        "groups": grouped(results),
        "values": {},
        "programs": [],
        "waiting": {
            b: [r for r in results if r.batch == b and r.status is Status.FAIL] for b in flagged
        },
        "reviews": {},
        "dimension": {},
        "findings": updated_findings([], results, MADE) or (),
    }
    return ModelFacts(**{**given, **more})


def month(make_result: Callable[..., Result], odd: float, **more: Any) -> list[Result]:
    """Thirty days of means from 60 to 100, of which the last is odd."""
    return [
        make_result(
            f"2025-01-{day:02d}",
            Status.FAIL if day == 30 else Status.PASS,
            observed=odd if day == 30 else 70.0 + day % 7,
            lower=60.0,
            upper=100.0,
            **more,
        )
        for day in range(1, 31)
    ]


def drawn(folder: Path, page: Page, place: str = "#/", width: int = 1280, then: str = "") -> str:
    """The document that a browser makes of a report; it must not complain.

    `then` is a script that is run first with the page on screen; `pause()` waits in it.
    """
    file = folder / "report.html"
    # Charts are drawn when they come into sight, which a browser without a screen may never tell;
    # before printing all of them are.
    # How far the page is wider than the window is told, on a phone (some browsers' windows
    # have at least 500 pixels).
    draw = f"""<script>
        const pause = () => new Promise(done => setTimeout(done, 300));
        setTimeout(async () => {{
            {then}
            dispatchEvent(new Event('beforeprint'));
            await pause();
            const page = document.documentElement;
            page.setAttribute('data-beyond', page.scrollWidth - page.clientWidth);
        }}, 1000)
    </script>"""
    file.write_text(render(page) + draw, encoding="utf-8")
    options = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--window-size={width},6000", f"--user-data-dir={folder / 'browser'}"),
        *("--virtual-time-budget=5000", "--dump-dom"),
    )
    done = subprocess.run(
        [str(BROWSER), *options, f"{file.as_uri()}{place}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    # What it was made of stands there, too: styles before, data and the script behind.
    head, _, rest = done.stdout.partition("<style>")
    return head + rest.partition("</style>")[2].partition('<script type="application')[0]
