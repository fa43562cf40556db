"""Warm sessions: their record, who may use them, when they end. Slow tests start servers."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dqsql.engine import warm
from dqsql.engine.archive import archive_path
from dqsql.engine.java import find_java
from dqsql.engine.launching import embedded_settings
from dqsql.engine.session import start_warm_session
from dqsql.engine.warm import WarmPlace, WarmSession, place_of, warm_target
from dqsql.engine.warm_server import _unused
from dqsql.errors import SessionError
from dqsql.model.project import Target

TARGET = Target(name="local", profile="p")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WarmPlace:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = place_of(embedded_settings(TARGET))
    found.record.parent.mkdir(parents=True)
    return found


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def session(port: int) -> WarmSession:
    return WarmSession(port, "secret", os.getpid(), 60.0, time.time())


def used_ago(place: WarmPlace, seconds: float) -> None:
    place.open_lock().close()
    then = time.time() - seconds
    os.utime(place.lock, (then, then))


def test_the_record_is_for_its_user_only(place: WarmPlace) -> None:
    place.write(session(1))
    assert stat.S_IMODE(place.record.stat().st_mode) == 0o600
    found = place.read()
    assert found is not None and found.token == "secret"


def test_targets_with_the_same_settings_share_a_session(place: WarmPlace) -> None:
    same = replace(TARGET, name="other", schema="elsewhere", ansi=True)
    other = replace(TARGET, spark_conf={"spark.sql.shuffle.partitions": "3"})
    assert place_of(embedded_settings(same)) == place
    assert place_of(embedded_settings(other)) != place


def test_a_running_session_is_used_by_its_address(place: WarmPlace, listening: int) -> None:
    place.write(session(listening))
    with warm_target(TARGET, embedded_settings(TARGET)) as found:
        assert found is not None
        assert (found.method, found.url) == ("connect", f"sc://localhost:{listening}/;token=secret")


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"port": 1}'])
def test_a_record_that_cannot_be_read_is_no_session(place: WarmPlace, content: str) -> None:
    place.record.write_text(content)
    with warm_target(TARGET, embedded_settings(TARGET)) as found:
        assert found is None


def test_a_server_that_is_gone_is_no_session(place: WarmPlace, listening: int) -> None:
    place.write(session(listening))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place.write(session(unused.getsockname()[1]))
    with warm_target(TARGET, embedded_settings(TARGET)) as found:
        assert found is None
    assert warm.stop_session(embedded_settings(TARGET)) is None
    assert not place.record.exists()


@pytest.mark.parametrize("field", ["dqsql", "spark"])
def test_another_version_is_refused_in_one_sentence(
    place: WarmPlace, listening: int, field: str
) -> None:
    place.write(replace(session(listening), **{field: "0.0.1"}))
    with (
        pytest.raises(SessionError, match=r"the warm session belongs to .* and this is") as caught,
        warm_target(TARGET, embedded_settings(TARGET)),
    ):
        pass
    assert caught.value.hint == "dqsql session stop"


def test_a_session_ends_when_nobody_has_used_it_for_the_idle_time(place: WarmPlace) -> None:
    place.write(session(1))
    used_ago(place, 50)
    assert not _unused(place, 60.0)
    used_ago(place, 70)
    assert _unused(place, 60.0)
    assert not place.record.exists()


def test_a_session_in_use_does_not_end(place: WarmPlace, listening: int) -> None:
    place.write(session(listening))
    with warm_target(TARGET, embedded_settings(TARGET)):
        used_ago(place, 70)
        assert not _unused(place, 60.0)
    # Its end is a use, too.
    assert not _unused(place, 60.0)


def test_a_session_without_its_record_ends(place: WarmPlace) -> None:
    used_ago(place, 0)
    assert _unused(place, 60.0)


def test_a_session_that_cannot_be_had_keeps_the_archive_of_classes(
    place: WarmPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a start that fails may be the archive's fault."""
    java = find_java()
    archive = archive_path(java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(b"classes")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SessionError, match="its client is not installed"):
        start_warm_session(TARGET, 60.0)
    assert archive.exists()
