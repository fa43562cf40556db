"""Findings in the tables of a folder: told, acknowledged and reported without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from click.testing import CliRunner
from deltalake import DeltaTable

from dqsql.cli.main import cli
from dqsql.engine.storage import open_tables
from dqsql.errors import StorageError, UsageError
from dqsql.loading import load_project
from dqsql.model.tables import FINDINGS, MODELS
from dqsql.runner.finding import acknowledge, assign, open_findings, reopen, resolve, unmute
from dqsql.runner.notify import notify
from dqsql.runner.review import heed_people
from tests.report.test_notifications import Webhook, serving

from .test_lifecycle import NOW, of, rows

PROFILES = """\
test:
  target: t
  outputs:
    t: {type: spark, method: session, schema: dq, warehouse: warehouse, table_format: delta}
"""
PROJECT = "name: shop\nprofile: test\non_finding: [{webhook: HOOK, owners: [ann]}]\n"


@pytest.fixture
def root(make_project: Callable[..., Path]) -> Path:
    """A project with an open finding."""
    folder = make_project(
        {"dqsql_project.yml": PROJECT, "profiles.yml": PROFILES, "checks/m.sql": "select 1 as c"}
    )
    store = open_tables(load_project(folder).target)
    store.replace_partition(MODELS, [{"model": "m", "owner": "ann", "valid_from": NOW}])
    store.replace_partition(FINDINGS, rows([], of("ff")))
    return folder


def routed(root: Path, routes: str) -> None:
    """Let the project tell of findings on these routes."""
    text = f"name: shop\nprofile: test\non_finding: [{routes}]\n"
    (root / "dqsql_project.yml").write_text(text)


def stored(root: Path) -> list[dict[str, Any]]:
    return open_tables(load_project(root).target).rows(FINDINGS)


def test_once_opened_and_once_resolved(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        ((_, (notice,)),) = notify(root, dry_run=True).sent
        assert (notice.label, notice.batches, notice.event) == ("not_null on c", 2, "opened")
        assert server.taken == []
        server.status = 500
        assert len(notify(root).problems) == 1
        server.status, server.taken = 200, []
        assert len(notify(root).sent) == 1
        assert notify(root).sent == ()
        passed = rows(stored(root), of("ffp"), NOW + dt.timedelta(days=1))
        open_tables(load_project(root).target).replace_partition(FINDINGS, passed)
        ((_, (notice,)),) = notify(root).sent
        assert notice.event == "resolved"
        assert notify(root).sent == ()
        assert len(server.taken) == 2


def test_what_somebody_took_note_of_is_not_told(root: Path) -> None:
    (found,) = acknowledge(["m.c.not_null"], "ticket 1", author="bob", project_dir=root)
    assert found.state == "acknowledged"
    assert notify(root, dry_run=True).sent == ()
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=2)
    acknowledge(["m.c.not_null"], "later", project_dir=root, mute_until=tomorrow)
    assert notify(root, dry_run=True).sent == ()
    acknowledge(["m.c.not_null"], "over", project_dir=root, mute_until=dt.date(2025, 1, 1))
    assert len(notify(root, dry_run=True).sent) == 1
    (row,) = stored(root)
    assert (row["state"], row["reason"]) == ("muted", "over")


def test_what_is_no_longer_muted_is_told(root: Path) -> None:
    day = dt.date(2999, 1, 1)
    with pytest.raises(UsageError, match="no muted finding"):
        unmute([CHECK], project_dir=root)
    acknowledge([CHECK], "later", project_dir=root, mute_until=day)
    assert notify(root, dry_run=True).sent == ()
    (found,) = unmute([CHECK], author="ann", project_dir=root)
    assert (found.state, found.muted_until) == ("open", None)
    (row,) = stored(root)
    assert (row["state"], row["author"], row["reason"]) == ("open", "ann", None)
    assert len(notify(root, dry_run=True).sent) == 1
    # What was acknowledged is not what was muted.
    acknowledge([CHECK], "seen", project_dir=root)
    with pytest.raises(UsageError, match="no muted finding"):
        unmute([CHECK], project_dir=root)


def test_descriptions_are_comments_of_the_tables(root: Path) -> None:
    fields = DeltaTable(str(root / "warehouse" / "dq" / FINDINGS.name)).schema().fields
    comments = {field.name: field.metadata.get("comment") for field in fields}
    assert {f.name: f.description for f in FINDINGS.fields}.items() <= comments.items()


CHECK = "m.c.not_null"


def test_who_looks_after_it_and_how_it_ends(root: Path) -> None:
    assign([CHECK], "ann", project_dir=root)
    (row,) = open_findings(root, assigned_to="ann")
    assert (row["state"], row["assigned_to"]) == ("open", "ann")
    assert open_findings(root, assigned_to="bob") == ()
    (found,) = resolve([CHECK], "sent again", author="ann", project_dir=root)
    assert (found.state, found.assigned_to) == ("resolved", "ann")
    (row,) = stored(root)
    assert (row["author"], row["reason"]) == ("ann", "sent again")
    assert row["resolved_at"] is not None
    with pytest.raises(UsageError, match="no open finding"):
        assign([CHECK], "bob", project_dir=root)
    (found,) = reopen([CHECK], project_dir=root)
    assert found.state == "open"
    # Nobody had heard of it; from now on they do.
    assert len(notify(root, dry_run=True).sent) == 1
    with pytest.raises(UsageError, match="needs a reason"):
        resolve([CHECK], " ", project_dir=root)


def test_commands_about_findings(root: Path) -> None:
    def call(*words: str) -> str:
        result = CliRunner().invoke(
            cli, ["finding", *words, "--project-dir", str(root)], standalone_mode=False
        )
        assert result.exception is None, result.output
        return result.output

    assert "FAIL m: not_null on c (2 batches, 2025-03-01 to 2025-03-02)" in call("list")
    past = call("mute", CHECK, "--until", "2025-01-01", "--reason", "known")
    assert "--until 2025-01-01 is not in the future" in past
    told = call("mute", CHECK, "--until", "2999-01-01", "--reason", "known")
    assert told.strip() == f"{CHECK}@2025-03-01: muted until 2999-01-01"
    assert "assigned to bob" in call("assign", CHECK, "--to", "bob")
    assert "muted until 2999-01-01, assigned to bob: known" in call("list")
    assert call("unmute", CHECK).strip() == f"{CHECK}@2025-03-01: open, assigned to bob"
    assert "assigned" not in call("assign", CHECK, "--to", "")
    assert ": acknowledged" in call("acknowledge", CHECK, "--reason", "seen")
    assert '"state": "acknowledged"' in call("list", "--output", "json")
    assert "acknowledging a finding needs a reason" in call("acknowledge", CHECK, "--reason", " ")
    call("resolve", CHECK, "--reason", "over")
    # Only findings were stored here.
    assert call("list").startswith("No finding is open. No run has been in ")


def test_what_notify_says(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*words: str) -> str:
        options = ("--project-dir", str(root))
        return CliRunner().invoke(cli, ["notify", *words, *options], standalone_mode=False).output

    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        assert "Would send to" in call("--dry-run")
        assert "Sent to" in call()
        assert call().strip() == "Nothing to send."


@pytest.mark.parametrize(
    ("changes", "state", "is_told"),
    [
        ({"state": "'acknowledged'"}, "acknowledged", False),
        ({"acknowledged_at": "timestamp '2025-04-01 00:00:00'"}, "acknowledged", False),
        ({"muted_until": "timestamp '2199-01-01 00:00:00'"}, "muted", False),
        ({"muted_until": "timestamp '2025-04-01 00:00:00'", "state": "'muted'"}, "open", True),
        ({"state": "'resolved'", "reason": "'over'"}, "resolved", False),
        ({"assigned_to": "'ann'"}, "open", True),
    ],
)
def test_one_column_changed_by_sql_is_enough(
    root: Path, changes: dict[str, str], state: str, is_told: bool
) -> None:
    DeltaTable(str(root / "warehouse" / "dq" / FINDINGS.name)).update(
        updates=changes, predicate=f"check_id = '{CHECK}'"
    )
    assert bool(notify(root, dry_run=True).sent) == is_told
    row = next(iter(open_findings(root)), None)
    assert (row["state"] if row else "resolved") == state


def test_whoever_muted_what_was_told_is_told_again(root: Path) -> None:
    table = DeltaTable(str(root / "warehouse" / "dq" / FINDINGS.name))
    told = {"notified_at": "timestamp '2025-03-10 00:00:00'"}
    table.update(updates=told)
    assert notify(root, dry_run=True).sent == ()
    table.update(updates={"muted_until": "timestamp '2025-03-20 00:00:00'"})
    assert len(notify(root, dry_run=True).sent) == 1


def test_the_sql_of_the_documentation(root: Path) -> None:
    """The update in docs/incidents.md, on a finding of its check."""
    docs = (Path(__file__).parents[2] / "docs" / "incidents.md").read_text("utf-8")
    update = sqlglot.parse_one(docs.split("```sql\n")[1].split("```")[0])
    table = DeltaTable(str(root / "warehouse" / "dq" / update.this.name))
    table.update(updates={"check_id": "'orders.price.not_null'"})
    changes = {e.this.name: e.expression.sql() for e in update.expressions}
    table.update(updates=changes, predicate=update.args["where"].this.sql())
    (row,) = open_findings(root)
    assert (row["assigned_to"], row["state"], row["author"]) == ("ann", "acknowledged", "ann")
    assert row["acknowledged_at"] is not None
    assert row["acknowledged_by"] == "ann"


def test_a_route_that_lacks_its_variable_lets_others_tell_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(root, "{webhook: HOOK}, {email: [a@b.example]}")
    # Nobody was told: it is due as long as that is so.
    for _ in range(2):
        assert (notify(root).sent, len(notify(root).problems)) == ((), 2)
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        first = notify(root)
        assert (len(first.sent), len(first.problems)) == (1, 1)
        assert "DQSQL_SMTP_URL is not set" in first.problems[0]
        assert notify(root).sent == ()
        assert len(server.taken) == 1


def test_a_route_that_is_down_has_no_other_one_told_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(root, "{webhook: HOOK}, {webhook: DOWN}")
    monkeypatch.setenv("DOWN", "http://127.0.0.1:9/nobody")
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        for _ in range(3):
            assert len(notify(root).problems) == 1
        (row,) = stored(root)
        assert (row["undelivered_to"], len(server.taken)) == (["opened webhook DOWN"], 1)
        # The route that was down hears of it as soon as it can be reached, the other one no more.
        monkeypatch.setenv("DOWN", server.url)
        ((route, (notice,)),) = notify(root).sent
        assert (route.name, notice.event, notify(root).sent) == ("webhook DOWN", "opened", ())
        passed = rows(stored(root), of("ffp"), NOW + dt.timedelta(days=1))
        open_tables(load_project(root).target).replace_partition(FINDINGS, passed)
        assert [n.event for _, told in notify(root).sent for n in told] == ["resolved"] * 2
        assert (notify(root).sent, len(server.taken)) == ((), 4)
        # A route that is no more is owed nothing.
        monkeypatch.setenv("DOWN", "http://127.0.0.1:9/nobody")
        failing = rows([], of("ff"))
        open_tables(load_project(root).target).replace_partition(FINDINGS, failing)
        assert len(notify(root).problems) == 1
        routed(root, "{webhook: HOOK}")
        assert (notify(root).sent, notify(root).problems) == ((), ())


def test_a_message_that_was_not_delivered_is_sent_even_if_the_check_passes_by_then(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "http://127.0.0.1:9/nobody")
    assert len(notify(root).problems) == 1
    store = open_tables(load_project(root).target)
    passed = rows(store.rows(FINDINGS), of("ffp"))
    assert [r["state"] for r in passed] == ["resolved"]
    store.replace_partition(FINDINGS, passed)
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        ((_, sent),) = notify(root).sent
        assert [n.event for n in sent] == ["opened"]
        assert notify(root).sent == ()
    (row,) = stored(root)
    assert row["undelivered_at"] is None and row["notified_at"] is not None


def test_a_state_that_there_is_not_is_an_error_of_the_next_run(root: Path) -> None:
    DeltaTable(str(root / "warehouse" / "dq" / FINDINGS.name)).update(
        updates={"state": "'ack'"}, predicate=f"check_id = '{CHECK}'"
    )
    store = open_tables(load_project(root).target)
    with pytest.raises(StorageError, match="dq_findings has the state 'ack'") as caught:
        heed_people(store, {}, ["m"], NOW)
    assert caught.value.hint == "the state is one of open, acknowledged, muted, resolved"


def test_a_route_that_was_down_hears_of_the_failure_though_it_is_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(root, "{webhook: HOOK}, {webhook: DOWN}")
    down = "http://127.0.0.1:9/nobody"
    monkeypatch.setenv("DOWN", down)
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        assert len(notify(root).problems) == 1
        passed = rows(stored(root), of("ffp"), NOW + dt.timedelta(days=1))
        open_tables(load_project(root).target).replace_partition(FINDINGS, passed)
        # The one hears that it is over, and the other is still owed that it began.
        assert [n.event for _, told in notify(root).sent for n in told] == ["resolved"]
        (row,) = stored(root)
        assert row["undelivered_to"] == ["opened webhook DOWN"]
        monkeypatch.setenv("DOWN", server.url)
        ((route, (notice,)),) = notify(root).sent
        assert (route.name, notice.event, notify(root).sent) == ("webhook DOWN", "opened", ())
        # A route whose variable is not set for once is owed what it was owed.
        open_tables(load_project(root).target).replace_partition(FINDINGS, rows([], of("ff")))
        monkeypatch.setenv("DOWN", down)
        assert len(notify(root).problems) == 1
        monkeypatch.delenv("DOWN")
        assert (notify(root).sent, stored(root)[0]["undelivered_to"]) == (
            (),
            ["opened webhook DOWN"],
        )
