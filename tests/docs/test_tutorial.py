"""The tutorial, as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .tutorial import PAGE, Reader, steps

# Commands that need no Spark, and files.
CHEAP = re.compile(r"dqsql (init|compile)|python3|cd ")


def test_the_steps_that_need_no_spark(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    said = []
    for step in steps():
        if step.file or CHEAP.match(step.text):
            done = reader.take(step)
            assert done is None or done.returncode == 0, done.stdout + done.stderr
            said.append(done.stdout if done else "")
    compiled = [line for text in said for line in text.splitlines() if line.startswith("visits (")]
    assert len(compiled) == 1
    assert compiled[0] in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_step(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    codes = {}
    runs, explained = [], ""
    for step in steps():
        done = reader.take(step)
        if done is not None:
            assert "Traceback" not in done.stderr, done.stderr
            codes[step.text] = done.returncode
            if step.text.startswith("dqsql run"):
                runs.append(done)
            if step.text.startswith("dqsql explain"):
                explained = done.stdout
    # The day that breaks is the one failure.
    assert [r.returncode for r in runs] == [0, 0, 1, 0]
    assert {code for text, code in codes.items() if not text.startswith("dqsql run")} == {0}
    assert "FAIL visits 2025-04-10" in runs[2].stdout
    shown = PAGE.read_text(encoding="utf-8")
    for line in re.findall(r"FAIL visits 2025-04-10.*", runs[2].stdout):
        assert line.rstrip()[:60] in shown
    told = [line for line in explained.splitlines() if "decided by" in line or "computed" in line]
    assert len(told) == 2 and [line for line in told if line not in shown] == []
