"""Kinds of monitors that other packages bring, by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dqsql
from dqsql.errors import ConfigError
from dqsql.monitors import registry

from .conftest import write_project
from .test_new_kind import MODEL, THE_FILE

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package `toy_monitors` with a file and an entry point of the group."""
    site = tmp_path / "site"
    before = {k.name for k in registry.all_kinds()}

    def make(text: str, target: str) -> None:
        info = site / "toy_monitors-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-monitors\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dqsql.monitors]\ntoy = {target}\n")
        (site / "toy_monitors.py").write_text(text)
        monkeypatch.syspath_prepend(str(site))

    yield make
    sys.modules.pop("toy_monitors", None)
    for name in {k.name for k in registry.all_kinds()} - before:
        registry.forget(name)


def test_a_kind_of_another_package(install: Install, tmp_path: Path) -> None:
    install(THE_FILE, "toy_monitors:KIND")
    registry.load_kinds()
    root = tmp_path / "project"
    root.mkdir()
    write_project(root, {"checks/m.sql": MODEL})
    plan = dqsql.compile_project(root, profiles_dir=root).plans[0]
    assert [(m.kind, m.column) for m in plan.monitors] == [("steady", "price")]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("KIND = 3", "toy_monitors:KIND", "is a int, and an entry point .* names a MonitorKind"),
        ("", "toy_monitors:KIND", "cannot be loaded: .*KIND"),
        ("import no_such_package", "toy_monitors:KIND", "cannot be loaded: .*no_such_package"),
        (
            "from dqsql.monitors.kinds.novelty import KIND",
            "toy_monitors:KIND",
            "calls a monitor @novelty, which dqsql has",
        ),
    ],
)
def test_packages_that_cannot_be_used(
    install: Install, text: str, target: str, message: str
) -> None:
    install(text, target)
    with pytest.raises(ConfigError, match=message):
        registry.load_kinds()
