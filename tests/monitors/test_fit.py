"""`dqsql fit` learns from what is stored, and shows it."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow.compute as pc
import pytest

from dqsql import fit, review
from dqsql.engine import session
from tests.runner.conftest import Project

from .conftest import (
    DAYS,
    FIRST,
    SALES,
    TENFOLD,
    TOO_HEAVY,
    DqSql,
    ledger,
    programs,
    sales,
    write_data,
)

LAST = str(FIRST + dt.timedelta(days=DAYS - 1))
ACCEPTED = DAYS - 2


def test_the_history_is_as_the_tests_need_it(checked: Project) -> None:
    assert {b: s for b, (s, _) in ledger(checked).items() if s != "accepted"} == {
        TENFOLD: "flagged",
        TOO_HEAVY: "flagged",
    }


def test_programs_are_learned_from_all_accepted_batches(copy: Project, dqsql: DqSql) -> None:
    before = programs(copy)
    result = dqsql(copy, "fit", "--output", "json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    records = {r["column"]: r for r in answer["programs"]}
    after = programs(copy)
    for column in ("amount", "code"):
        row, record = after[column], records[column]
        assert (row["learned_from"], row["learned_to"]) == (str(FIRST), LAST)
        assert row["batches"] == record["batches"] == ACCEPTED
        # The issues are those of the newest batch now, so it is a version of its own.
        assert row["version"] == before[column]["version"] + 1
        assert json.loads(row["evidence"])["batch"] == LAST
        assert row["valid_from_batch"] is None
        assert 0 < record["fpr_bound"] <= record["fpr"]
        # One value in a hundred that is missing or changed is none of 50.
        assert record["issues"] * 0.55 < record["caught"] <= record["issues"]
        assert record["bounds"] == row["description"]
    assert {r["metric"] for r in _clauses(after["code"])} <= {
        *("str_len", "char_len", "digit_len", "punc_len", "row_count"),
        *("unique_ratio", "complete_ratio", "dist_val_count"),
        *("upper_ratio", "lower_ratio", "empty_ratio"),
    }
    old = [r for r in copy.rows("dq_programs") if r["valid_to"] is not None]
    assert {r["evidence"] for r in old} == {None}
    _again(copy, dqsql)


def test_what_runs_have_learned_is_shown_without_spark(
    checked: Project, dqsql: DqSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "open_session", None)
    before = checked.tables()["dq_programs"]
    result = dqsql(checked, "fit", "--show", "--output", "json")
    assert result.exit_code == 0, result.output
    shown = {r["column"]: r["bounds"] for r in json.loads(result.stdout)["programs"]}
    stored = programs(checked)
    assert shown["amount"] == stored["amount"]["description"]
    assert shown["code"] == stored["code"]["description"]
    assert checked.tables()["dq_programs"] == before


def _again(copy: Project, dqsql: DqSql) -> None:
    """Learning the same twice changes nothing, and the text says the same as the JSON."""
    before = copy.tables()["dq_programs"]
    result = dqsql(copy, "fit")
    assert copy.tables()["dq_programs"] == before
    assert f"amount @avh: {ACCEPTED} batches {FIRST} to {LAST}; version 3" in result.output
    assert "false positives at most" in result.output


def _clauses(row: dict[str, str]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(row["program"])["clauses"]
    return found


def test_reviews_decide_what_is_learned_from(copy: Project) -> None:
    where = {"project_dir": copy.root, "spark": copy.spark}
    review("sales", [TENFOLD], "accept", "a sale", **where)
    review("sales", [LAST], "reject", "doubtful", **where)
    # Only the history differs: rows of the batch that is sampled now are not there any more.
    data = sales()
    gone = pc.not_equal(pc.cast(data["day"], "string"), str(FIRST + dt.timedelta(days=DAYS - 2)))
    write_data(copy.root, data.filter(gone))
    (model,) = fit(copy.root, spark=copy.spark)
    assert model.error is None
    for learned in model.learned:
        assert learned.stored is not None
        assert learned.stored.batches == ACCEPTED
        assert learned.stored.learned_to == "2024-01-15"
        assert learned.note is not None
        assert learned.note.startswith("the model has no rows of batch 2024-01-15")
        assert learned.note.endswith("are used")


def test_too_short_a_history_is_said(copy: Project, dqsql: DqSql) -> None:
    text = SALES.replace("-- @avh\n", "-- @avh(min_history => 30)\n")
    copy.write({"checks/sales.sql": text.replace("-- @avh(fpr => 0.05, two_d", "-- @nul(two_d")})
    assert dqsql(copy, "fit").exit_code == 2
    copy.write({"checks/sales.sql": "\n".join(x for x in text.split("\n") if "code," not in x)})
    before = len(copy.rows("dq_programs"))
    result = dqsql(copy, "fit")
    assert result.exit_code == 0, result.output
    assert f"amount @avh: still learning: {ACCEPTED} of 30 accepted batches" in result.output
    assert len(copy.rows("dq_programs")) == before


def test_without_learned_monitors_there_is_nothing_to_do(copy: Project, dqsql: DqSql) -> None:
    copy.write({"checks/sales.sql": "select day -- @not_null\nfrom {{ source('raw', 't') }}"})
    for command in ("fit", "backtest"):
        result = dqsql(copy, command)
        assert result.exit_code == 0
        assert "no selected model has a monitor" in result.output
        fitted = "that is fitted (@avh); others learn in every run" in result.output
        assert fitted is (command == "fit")


def test_a_model_that_cannot_be_read_is_an_error(copy: Project, dqsql: DqSql) -> None:
    (copy.root / "data" / "t" / "rows.parquet").unlink()
    result = dqsql(copy, "fit", "--output", "json")
    assert result.exit_code == 2
    (error,) = json.loads(result.stdout)["errors"]
    assert "has no files" in error["message"]


@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_what_is_wrong_stops_only_itself(
    command: str, copy: Project, dqsql: DqSql, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.write(
        {
            "checks/sales.sql": SALES.replace("-- @avh\n", "-- @avh(fpr => 2)\n"),
            "checks/wrong.sql": "select day -- @nul\nfrom {{ source('raw', 't') }}",
        }
    )
    result = dqsql(copy, command)
    assert result.exit_code == 2
    assert "checks/sales.sql:4:25" in result.output
    assert "code @avh" in result.output
    assert "amount @avh" not in result.output
    assert "checks/wrong.sql:1:16" in result.output
    records = json.loads(dqsql(copy, command, "--output", "json").stdout)
    assert len(records["errors"]) == 2
    # Where nothing is left, Spark is not started for the message.
    monkeypatch.setattr(session, "open_session", None)
    result = dqsql(copy, command, "--select", "wrong")
    assert result.exit_code == 2
    assert "checks/wrong.sql:1:16" in result.output
