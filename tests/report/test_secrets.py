"""Secrets of the environment: where they may be read, and that nothing shows them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dqsql.errors import DqsqlError, JinjaError, UsageError
from dqsql.loading import load_project
from dqsql.redaction import redact, redact_file
from dqsql.report.artefacts import write_atomically, write_json
from dqsql.report.errors import error_record
from dqsql.report.terminal import Terminal

SECRET = 'p"ß\\word-1'
MakeProject = Callable[..., Path]


@pytest.fixture(autouse=True, params=["DBT_ENV_SECRET_TOKEN", "DQSQL_ENV_SECRET_TOKEN"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(request.param, SECRET)
    monkeypatch.setenv(f"{request.param}_LONGER", f"{SECRET}-and-more")
    monkeypatch.setenv("DBT_ENV_SECRET_EMPTY", " ")
    return str(request.param)


def test_texts_and_errors() -> None:
    assert redact(f"a {SECRET} b {SECRET}-and-more") == "a ***** b *****"
    error = DqsqlError(f"cannot use {SECRET}", hint=f"not {SECRET}")
    assert str(error) == "cannot use *****\n  hint: not *****"
    assert "word-1" not in str(error_record(error)) + repr(error)


def test_the_console_and_artefacts(tmp_path: Path) -> None:
    out = io.StringIO()
    Terminal(out).line(f"url is {SECRET}")
    assert out.getvalue() == "url is *****\n"
    write_json(tmp_path / "a.json", {"url": SECRET})
    assert json.loads((tmp_path / "a.json").read_text()) == {"url": "*****"}
    write_atomically(tmp_path / "a.sql", SECRET, redacted=False)
    assert (tmp_path / "a.sql").read_text() == SECRET


def test_a_log_that_is_still_written(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    before = f"one {SECRET}\ntwo {SECRET}-and-more\n".encode()
    log.write_bytes(before)
    redact_file(log)
    after = log.read_bytes()
    assert len(after) == len(before)
    assert b"word" not in after
    assert after.startswith(b"one ****")
    redact_file(tmp_path / "none.log")


def test_only_profiles_read_them(make_project: MakeProject, name: str) -> None:
    call = f"{{{{ env_var('{name}') }}}}"
    profiles = f"""\
    test:
      target: local
      outputs:
        local: {{type: spark, method: connect, url: "sc://h/;token={call}"}}
    """
    project = load_project(make_project({"profiles.yml": profiles}))
    assert project.target.url == f"sc://h/;token={SECRET}"
    with pytest.raises(
        JinjaError, match=r"is a secret, which only profiles.yml may read"
    ) as caught:
        load_project(make_project({"checks/m.sql": f"select '{call}' as a from t"}, "other"))
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column) == (1, 12)


def test_broken_variables_are_not_shown(make_project: MakeProject) -> None:
    for text in ("{a: [hidden", "hidden", "{a: 2024-99-99, b: hidden}"):
        with pytest.raises(UsageError, match=r"--vars") as caught:
            load_project(make_project({}), vars=text)
        assert "hidden" not in str(caught.value)
