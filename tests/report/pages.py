"""Reports of made-up verdicts, and what a browser draws of them."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


class Sheet(NamedTuple):
    """A page of a report that a browser shall draw.

    `then` is a script that is run first with the page on screen; `pause()` waits in it.
    """

    page: Page
    place: str = "#/"
    then: str = ""
    width: int = 1280


def drawn(folder: Path, page: Page, place: str = "#/", width: int = 1280, then: str = "") -> str:
    """The document that a browser makes of a report; it must not complain."""
    sheet = Sheet(page, place, then, width)
    return _without_sources(_dumped(folder, _written(folder, "report", sheet), width))


def drawn_together(folder: Path, *sheets: Sheet) -> list[str]:
    """The documents that one browser makes of pages, each in a frame as wide as `width` says.

    To start a browser takes longer than to draw. What goes back, or has the focus, needs its own.
    """
    frames = "".join(
        f'<iframe src="{_written(folder, f"report{i}", sheet)}" style="width: {sheet.width}px">'
        "</iframe>"
        for i, sheet in enumerate(sheets)
    )
    host = folder / "frames.html"
    host.write_text(
        f"""<style>
            iframe {{ position: absolute; left: 0; top: 0; height: 6000px; border: 0 }}
        </style>
        {frames}
        <script>setTimeout(async () => {{
            const frames = [...document.querySelectorAll('iframe')];
            const pages = () => frames.map(frame => frame.contentDocument.documentElement);
            while (!pages().every(page => page.hasAttribute('data-beyond')))
                await new Promise(done => setTimeout(done, 300));
            const told = document.createElement('script');
            told.type = 'application/json';
            const documents = JSON.stringify(pages().map(page => page.outerHTML));
            told.textContent = documents.replaceAll('<', '\\\\u003c');
            document.body.replaceChildren(told);
        }}, 1000)</script>""",
        encoding="utf-8",
    )
    dumped = _dumped(folder, host.as_uri(), max(sheet.width for sheet in sheets))
    told = re.search(r'<script type="application/json">(.*?)</script>', dumped, re.DOTALL)
    assert told is not None, "the pages were not drawn in time"
    documents = [_without_sources(document) for document in json.loads(told[1])]
    assert len(documents) == len(sheets)
    return documents


def _written(folder: Path, name: str, sheet: Sheet) -> str:
    """The address of the sheet in a new file."""
    # Charts are drawn when they come into sight, which a browser without a screen may never tell;
    # before printing all of them are.
    # How far the page is wider than the window is told, on a phone (some browsers' windows
    # have at least 500 pixels).
    draw = f"""<script>
        const pause = () => new Promise(done => setTimeout(done, 300));
        setTimeout(async () => {{
            {sheet.then}
            dispatchEvent(new Event('beforeprint'));
            await pause();
            const page = document.documentElement;
            page.setAttribute('data-beyond', page.scrollWidth - page.clientWidth);
        }}, 1000)
    </script>"""
    file = folder / f"{name}.html"
    file.write_text(render(sheet.page) + draw, encoding="utf-8")
    return f"{file.as_uri()}{sheet.place}"


def _dumped(folder: Path, address: str, width: int) -> str:
    options = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--window-size={width},6000", f"--user-data-dir={folder / 'browser'}"),
        *("--virtual-time-budget=5000", "--dump-dom", "--allow-file-access-from-files"),
    )
    command = [str(BROWSER), *options, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def _without_sources(document: str) -> str:
    # What it was made of stands there, too: styles before, data and the script behind.
    head, _, rest = document.partition("<style>")
    return head + rest.partition("</style>")[2].partition('<script type="application')[0]
