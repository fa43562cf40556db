"""Two processes do not write of the same model at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import dqsql
from dqsql.engine.exclusive import lock_file, locked
from dqsql.errors import DqsqlError, StorageError
from dqsql.model.project import Target

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of this kind")

HOLDER = """
import sys
from dqsql.model.project import Target
from dqsql.engine.exclusive import locked
with locked(Target("t", "t", warehouse=sys.argv[1]), sys.argv[2:]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(warehouse: Path, *models: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that is at work on some models."""
    (warehouse / "dq").mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", HOLDER, str(warehouse), *models]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def target(warehouse: Path) -> Target:
    return Target("t", "t", warehouse=str(warehouse))


def test_the_second_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    mine = target(tmp_path)
    with held(tmp_path, "orders", "flights") as process:
        for models in (["flights"], ["a", "orders"]):
            with (
                pytest.raises(StorageError, match=f"working on the model {models[-1]}"),
                locked(mine, models),
            ):
                pytest.fail("two at a time")
        # Another model, another schema, and tables elsewhere.
        for other, models in (
            (mine, ["weather"]),
            (replace(mine, schema="other"), ["orders"]),
            (replace(mine, warehouse="s3://bucket/x"), ["orders"]),
            (replace(mine, warehouse=None), ["orders"]),
        ):
            with locked(other, models):
                pass
        process.kill()
        process.wait()
        with locked(mine, ["orders", "flights"]):
            pass


def test_a_thread_that_ends_gives_back_its_own_models_only(tmp_path: Path) -> None:
    mine = target(tmp_path)
    (tmp_path / "dq").mkdir()
    with locked(mine, ["orders", "flights"]):
        with locked(mine, ["items", "orders"]):
            pass
        for model, state in {"orders": "refused", "flights": "refused", "items": "held"}.items():
            command = [sys.executable, "-c", HOLDER, str(tmp_path), model]
            done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
            assert (done.stdout.strip() or "refused") == state, done.stderr
        with held(tmp_path, "items"), pytest.raises(StorageError), locked(mine, ["a", "items"]):
            pytest.fail("two at a time")
    with held(tmp_path, "orders", "flights", "a"):
        pass


def test_two_threads_do_not_write_of_one_model_at_once(tmp_path: Path) -> None:
    mine = target(tmp_path)
    (tmp_path / "dq").mkdir()
    done: list[str] = []

    def other(*models: str) -> None:
        with locked(mine, models):
            done.append(models[0])

    with ThreadPoolExecutor(2) as threads:
        with locked(mine, ["orders"]):
            waiting = threads.submit(other, "items", "orders")
            threads.submit(other, "flights").result()
            # A run inside a run goes on.
            with locked(mine, ["orders"]):
                assert done == ["flights"]
            assert not waiting.done()
        waiting.result()
    assert done == ["flights", "items"]


def test_a_copy_of_the_process_has_none_of_its_locks(tmp_path: Path) -> None:
    mine = target(tmp_path)
    (tmp_path / "dq").mkdir()
    with warnings.catch_warnings():
        # Of threads that Spark and numpy have left.
        warnings.simplefilter("ignore", DeprecationWarning)
        with locked(mine, ["orders"]):
            child = os.fork()
            if not child:
                try:
                    with locked(mine, ["orders"]):
                        os._exit(1)
                except StorageError:
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0


def test_two_threads_that_need_what_the_other_has(tmp_path: Path) -> None:
    mine = target(tmp_path)
    (tmp_path / "dq").mkdir()
    both = threading.Barrier(2)

    def nested(first: str, second: str) -> str:
        with locked(mine, [first]):
            both.wait()
            try:
                with locked(mine, [second]):
                    return "went on"
            except StorageError:
                return "refused"

    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(nested, *pair) for pair in (("a", "b"), ("b", "a"))]
        assert "refused" in [end.result() for end in ends]


def test_a_folder_without_locks_is_no_error(tmp_path: Path) -> None:
    lock_file(tmp_path / "dq").mkdir()
    with locked(target(tmp_path), ["orders"]):
        pass


def test_nothing_is_started_nor_written(make_project: Callable[..., Path]) -> None:
    checks = {f"checks/{name}.sql": "select 1 as x -- @not_null\n" for name in ("a", "b")}
    root = make_project(checks)
    tries: list[Callable[[], object]] = [
        lambda: dqsql.run(root),
        lambda: dqsql.run(root, select=["b"]),
        lambda: dqsql.review("b", ["1"], "accept", "so", project_dir=root),
    ]
    with held(root / "warehouse", "b"):
        for attempt in tries:
            with pytest.raises(DqsqlError, match="another dqsql is working on the model b") as told:
                attempt()
            assert told.value.hint is not None and "docs/storage.md" in told.value.hint
    assert list((root / "warehouse" / "dq").iterdir()) == []
