"""Who is told of the findings of runs: once when they are opened, once when they are resolved."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dqsql.errors import ConfigError, UsageError
from dqsql.runner.finding import acknowledge
from dqsql.runner.notify import AfterRun, notify
from tests.report.test_notifications import Webhook, serving

from .conftest import NewProject, Project

MODEL = """\
{{ config(batch_by = 'day') }}
select
    day,
    x -- @not_null
from {{ source('raw', 't') }}
"""


def fed(project: Project, *values: int | None) -> Project:
    """With one row for each day from the first of January on."""
    days = [dt.date(2024, 1, number) for number in range(1, len(values) + 1)]
    columns = {"day": days, "x": pa.array(values, pa.int32())}
    (project.root / "data" / "t").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), project.root / "data" / "t" / "rows.parquet")
    return project


def routed(project: Project, setting: str) -> Project:
    file = project.root / "dqsql_project.yml"
    file.write_text(f"{file.read_text('utf-8')}\n{setting}\n", encoding="utf-8")
    return project


def events(server: Webhook) -> list[tuple[str, int]]:
    return [(f["event"], f["batches"]) for sent in server.taken for f in sent["findings"]]


def test_a_dry_run_says_what_is_missing(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "on_finding: [{slack: NOT_SET}, {webhook: HOOK}, {email: a@example.com}]"
    project = routed(fed(new_project(MODEL), 1), setting)
    monkeypatch.setenv("HOOK", "http://127.0.0.1:1")
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.delenv("DQSQL_SMTP_URL", raising=False)
    found = notify(project.root, spark=project.spark, dry_run=True)
    assert found.sent == ()
    assert found.problems == (
        "messages could not be sent: the environment variable NOT_SET is not set (slack)",
        "messages could not be sent: the environment variable DQSQL_SMTP_URL is not set (email)",
    )


def test_who_was_told_of_a_check_is_told_that_it_is_gone(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagged = MODEL.replace("@not_null", "@not_null {tags: [late]}")
    setting = "on_finding: [{webhook: HOOK, tags: [late]}]"
    project = routed(fed(new_project(tagged), 1, None), setting)
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        project.write({"checks/m.sql": MODEL.replace("-- @not_null", "")})
        project.run()
        assert events(server) == [("opened", 1), ("resolved", 1)]


def test_each_finding_is_told_once(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "on_finding: [{webhook: HOOK}]\nreport_url: https://dq.example.com/report.html"
    project = routed(fed(new_project(MODEL), 1, None), setting)
    options: dict[str, Any] = {"project_dir": project.root, "spark": project.spark}
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        server.status = 500
        assert any("did not take" in w for w in project.run().warnings)
        server.status, server.taken = 200, []
        ((_, notices),) = notify(**options, dry_run=True).sent
        assert [n.label for n in notices] == ["not_null on x"]
        assert notices[0].place == "checks/m.sql:4"
        page = "#/finding/m.x.not_null%402024-01-02"
        assert notices[0].url == f"https://dq.example.com/report.html{page}"
        assert events(server) == []
        # What was not taken is told by the next run, and what was told is not told again.
        fed(project, 1, None, None)
        project.run()
        assert events(server) == [("opened", 2)]
        assert notify(**options).sent == ()
        fed(project, 1, None, None, 4)
        project.run()
        assert events(server) == [("opened", 2), ("resolved", 2)]
        # Somebody works on the next one.
        monkeypatch.delenv("HOOK")
        fed(project, 1, None, None, 4, None)
        assert any("HOOK is not set" in w for w in project.run().warnings)
        monkeypatch.setenv("HOOK", server.url)
        (row,) = (r for r in project.rows("dq_findings") if r["state"] == "open")
        (found,) = acknowledge([row["check_id"]], "ticket 1", author="ann", **options)
        assert (found.finding_id, found.state) == (row["finding_id"], "acknowledged")
        assert notify(**options).sent == ()
        with pytest.raises(UsageError, match=r"no open finding of 'm\.y"):
            acknowledge(["m.y.not_null"], "why", **options)


def test_a_failure_between_batches_that_pass_is_told_once(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = routed(fed(new_project(MODEL), 1, None, 3), "on_finding: [{webhook: HOOK}]")
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        assert events(server) == [], "the past of a model that is new"
        fed(project, 1, None, 3, None, 5)
        project.run()
        assert events(server) == [("opened", 1)]
        (found,) = server.taken[0]["findings"]
        assert "(2024-01-05 passes again; it waits for a review)" in found["message"]
        fed(project, 1, None, 3, None, 5, 6)
        project.run()
        assert events(server) == [("opened", 1)]


def test_a_batch_that_fails_again_after_it_was_repaired_is_told_again(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = routed(fed(new_project(MODEL), 1, None), "on_finding: [{webhook: HOOK}]")
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        fed(project, 1, 2)
        project.run(batches=["2024-01-02"])
        fed(project, 1, None)
        project.run(batches=["2024-01-02"])
        assert [e for e, _ in events(server)] == ["opened", "resolved", "opened"]
        (row,) = project.rows("dq_findings")
        assert row["state"] == "open"


def test_a_wrong_route_stops_the_run_before_it_begins(new_project: NewProject) -> None:
    setting = "on_finding: [{slack: 'https://hooks.example.com/x'}]"
    project = routed(fed(new_project(MODEL), 1), setting)
    with pytest.raises(ConfigError, match="environment variable"):
        project.run()
    assert not (project.root / "warehouse").exists()


def test_what_a_killed_run_found_is_told_though_the_next_batch_passes(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = routed(fed(new_project(MODEL), 1), "on_finding: [{webhook: HOOK}]")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        fed(project, 1, None)
        with monkeypatch.context() as patch:
            # Behind the ledger, before anybody is told.
            patch.setattr("dqsql.runner.project_run.store_dimensions", killed)
            with pytest.raises(KeyboardInterrupt):
                project.run()
        assert events(server) == []
        fed(project, 1, None, 3)
        after = project.run()
        assert (after.exit_code, after.models[0].waiting) == (1, ("2024-01-02",))
        assert events(server) == [("opened", 1)]
        assert project.run().exit_code == 0
        assert len(server.taken) == 1


def test_a_warning_that_becomes_a_failure_is_told_even_if_it_is_over(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODEL.replace("@not_null", "@mean < 3 {after: 2}")
    project = routed(fed(new_project(model), 1, 5), "on_finding: [{webhook: HOOK}]")
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        assert events(server) == [("opened", 1)]
        fed(project, 1, 5, 5, 1)
        assert project.run().exit_code == 1
        assert events(server) == [("opened", 1), ("opened", 2)]
        # Who was told that it is open is told of its end, once.
        project.run()
        assert events(server)[2:] == [("resolved", 2)]
        project.run()
        assert len(server.taken) == 3


def test_findings_of_what_is_gone_are_resolved(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check, then the model; with nothing new, and whatever is selected."""
    model = MODEL.replace("@not_null", "@not_null @max < 3")
    project = routed(fed(new_project(model), 1, 5), "on_finding: [{webhook: HOOK}]")
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        assert events(server) == [("opened", 1)]
        project.write({"checks/m.sql": MODEL})
        project.run()
        states = {r["finding_id"]: r["reason"] for r in project.rows("dq_findings")}
        assert states["m.x.max_lt_3@2024-01-02"] == "the model no longer has this check"
        assert events(server)[1:] == [("resolved", 1)]
        fed(project, 1, 5, None)
        project.run()
        assert events(server)[2:] == [("opened", 1)]
        (project.root / "checks" / "m.sql").rename(project.root / "checks" / "n.sql")
        project.run(select=["n"])
        found = {r["finding_id"]: r["state"] for r in project.rows("dq_findings")}
        assert {s for f, s in found.items() if f.startswith("m.")} == {"resolved"}
        assert ("resolved", 1) in events(server)[3:]
    for table in ("dq_models", "dq_checks", "dq_columns"):
        assert {r["model"] for r in project.rows(table) if r["valid_to"] is None} == {"n"}, table


def test_what_explains_the_others_of_a_batch_comes_first(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "select * from values (date'2024-01-01', 9), (date'2024-01-01', 9) as t(day, x)"
    more = rows.replace("2024-01-01", "2024-01-02").replace("9)", "1)", 1).replace("9)", "null)")
    model = MODEL.replace("@not_null", "@mean > 5 @not_null")
    project = routed(new_project(model, rows), "on_finding: [{webhook: HOOK}]")
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        project.data(f"{rows} union all {more}")
        project.run()
    (sent,) = server.taken
    assert [(f["label"], f["cause"]) for f in sent["findings"]] == [
        ("not_null on x", ""),
        ("mean > 5 on x", "not_null on x"),
    ]
    assert sent["title"].endswith("1 new finding and 1 that follows")


def test_failures_come_before_warnings(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = routed(
        fed(new_project(MODEL.replace("@not_null", "@not_null {severity: warn}")), 1),
        "on_finding: [{webhook: HOOK}]",
    )
    project.write({"checks/z.sql": MODEL})
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        fed(project, 1, None)
        project.run()
    (sent,) = server.taken
    assert [(f["model"], f["status"]) for f in sent["findings"]] == [("z", "fail"), ("m", "warn")]


def test_a_finding_names_the_models_upstream_that_it_may_follow_from(
    new_project: NewProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = routed(fed(new_project(MODEL), 1), "on_finding: [{webhook: HOOK}]")
    reads = MODEL.replace("source('raw', 't')", "ref('m')")
    project.write({"checks/a.sql": reads, "checks/b.sql": reads.replace("ref('m')", "ref('a')")})
    with serving(Webhook()) as server:
        monkeypatch.setenv("HOOK", server.url)
        project.run()
        fed(project, 1, None)
        project.run()
        fed(project, 1, 2)
        project.run(full_refresh=True)
    opened, resolved = server.taken
    found = [(f["model"], f["upstream"]) for f in opened["findings"]]
    assert found == [("m", ""), ("a", "m"), ("b", "m")]
    assert {(f["event"], f["upstream"]) for f in resolved["findings"]} == {("resolved", "")}


@pytest.mark.parametrize(("minutes", "told"), [(-1, False), (0, True), (90, False)])
def test_what_a_faster_clock_opened_is_not_of_this_run(minutes: int, told: bool) -> None:
    """A run on a machine whose clock is behind does not tell the past of a first run."""
    started = dt.datetime.now(dt.UTC)
    after, now = AfterRun(started, {"m"}), started + dt.timedelta(minutes=2)
    row = {"model": "m", "opened_at": started + dt.timedelta(minutes=minutes)}
    assert after.opened(row, now) is told
    assert not after.opened({**row, "model": "other"}, now)
