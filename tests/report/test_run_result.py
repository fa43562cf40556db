"""What a run's result is in a notebook and in a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dqsql.errors import CheckFailedError, SourceNotFoundError
from dqsql.model.project import NoData
from dqsql.model.results import ModelResult, Result, RunResult, Status


def test_a_failed_run(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    bad = make_result("2025-03-02", Status.FAIL, observed=82.0, message="<b>too high</b>")
    run = make_run(make_model(make_result(), bad))
    assert repr(run) == "RunResult(fail: 1 model, 2 batches, 2 verdicts, 1 fail)"
    shown = run._repr_html_()
    assert "&lt;b&gt;too high&lt;/b&gt;" in shown
    assert "<b>too" not in shown
    frame = run.to_pandas()
    assert list(frame["status"]) == ["pass", "fail"]
    assert list(frame["observed"]) == [20.0, 82.0]
    assert not (frame["observed"] < frame["warn_lower"]).any()
    with pytest.raises(CheckFailedError, match="too high") as raised:
        run.raise_for_status()
    assert bad.id in str(raised.value)


def test_a_run_that_passed(
    make_result: Callable[..., Result],
    make_model: Callable[..., ModelResult],
    make_run: Callable[..., RunResult],
) -> None:
    run = make_run(make_model(make_result(), make_result("b", Status.WARN)))
    assert repr(run).startswith("RunResult(pass: ")
    run.raise_for_status()
    assert make_run().to_pandas().empty


def test_a_model_that_could_not_be_checked(
    make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    run = make_run(make_model(error=SourceNotFoundError("no table t")))
    assert "1 model could not be checked" in repr(run)
    assert "no table t" in run._repr_html_()
    with pytest.raises(CheckFailedError, match="no table t"):
        run.raise_for_status()


def test_what_no_verdict_tells(
    make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    bare = replace(make_model(), gone=0, no_data=NoData.ERROR)
    with pytest.raises(CheckFailedError, match="no rows, so nothing was checked"):
        make_run(bare).raise_for_status()
    run = replace(make_run(make_model()), warnings=("no check model matches '<x>'",))
    assert repr(run).endswith("; no check model matches '<x>')")
    assert "matches &#x27;&lt;x&gt;&#x27;" in run._repr_html_()


def test_a_run_that_only_waits_for_a_review_says_so(
    make_model: Callable[..., ModelResult], make_run: Callable[..., RunResult]
) -> None:
    run = make_run(make_model(waiting=("2025-03-01", "<2>")))
    assert repr(run).endswith("0 verdicts, 2 batches not reviewed yet)")
    assert "2025-03-01, &lt;2&gt;, which an earlier run flagged" in run._repr_html_()
    with pytest.raises(CheckFailedError, match="nobody has reviewed 2025-03-01, <2>"):
        run.raise_for_status()
