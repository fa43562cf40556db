"""Findings in the tables of a folder: told, acknowledged and reported without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from dqsql.engine.storage import open_tables
from dqsql.loading import load_project
from dqsql.model.tables import FINDINGS, MODELS
from dqsql.runner.acknowledge import acknowledge
from dqsql.runner.notify import notify
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


def test_descriptions_are_comments_of_the_tables(root: Path) -> None:
    fields = DeltaTable(str(root / "warehouse" / "dq" / FINDINGS.name)).schema().fields
    comments = {field.name: field.metadata.get("comment") for field in fields}
    assert {f.name: f.description for f in FINDINGS.fields}.items() <= comments.items()
