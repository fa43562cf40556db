"""Files of a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Never

import pytest

from dqsql.errors import LoadError, Span
from dqsql.loading.documents import files_below


def test_a_folder_that_cannot_be_read_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: str) -> Never:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / "checks").mkdir()
    assert files_below(tmp_path, ["checks", "nowhere"], (".sql",)) == []
    # The user of the tests may be one that can read all.
    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(LoadError, match="cannot read the folder: Permission denied") as failure:
        files_below(tmp_path, ["checks"], (".sql",))
    assert failure.value.span == Span("checks")
