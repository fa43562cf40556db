"""Every page of the report opens: run by Node.js, where it is there."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dqsql.decisions.lifecycle import updated_findings
from dqsql.model.results import Result, Status
from dqsql.report.html import render
from dqsql.report.page import Page
from tests.report.pages import EVIL, MADE, facts, page_of

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js here")


def texts_of(folder: Path, page: Page, *more: str) -> dict[str, str]:
    """The text of each page that can be reached by links, and of `more`, by its address."""
    file, script = folder / "report.html", Path(__file__).parent / "every_page.js"
    file.write_text(render(page), encoding="utf-8")
    command = ["node", str(script), str(file), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


@needs_node
def test_each_link_opens_a_page(make_result: Callable[..., Result], tmp_path: Path) -> None:
    """Also where a check has no verdict any more, and where a model was never checked."""

    def of_model(name: str, *results: Result, **more: Any) -> Any:
        return facts(*results, name=name, **more)

    evil = of_model(EVIL, make_result("2026-01-01", Status.FAIL, model=EVIL, check_id=EVIL))
    failed = make_result("2026-01-02", Status.FAIL, model="mended", check_id="mended.x.old")
    mended = make_result("2026-01-02", model="mended", check_id="mended.x.new")
    row = {**(updated_findings([], [failed], MADE) or ())[0], "state": "resolved"}
    rows = [{"check_id": failed.check_id, "batch": "2026-01-02", "row": '{"x": null}'}]
    kept = of_model("mended", mended, findings=[row], failures=rows)
    cost = {"error": "no such source", "batches": 0, "started_at": MADE}
    page = page_of(evil, kept, of_model("never", costs=[cost]))
    finding = f"#/finding/{quote(row['finding_id'], '')}"
    texts = texts_of(tmp_path, page, finding)
    bad = {a: t for a, t in texts.items() if t.startswith("ERROR") or "Not in this report" in t}
    assert bad == {}
    assert {"#/model/mended", "#/model/never", "#/check/mended/mended.x.new"} <= texts.keys()
    assert "never could not be checked since 2025-03-01 00:00 UTC:no such source" in texts["#/"]
    assert "Failing rowsxnull" in texts[finding]
