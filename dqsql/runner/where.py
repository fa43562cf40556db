"""Which project and target a command is about, where nothing has to be compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from dqsql.loading import load_project
from dqsql.loading.project import read_target_path
from dqsql.model.project import Project
from dqsql.runner.compilation import CompileResult, Place, Variables, compile_project

__all__ = ["Where", "read_target_path"]


@dataclass(frozen=True)
class Where:
    """The project and target that are meant, in the words of the command line."""

    project_dir: str | PathLike[str] = "."
    target: str | None = None
    profile: str | None = None
    profiles_dir: str | PathLike[str] | None = None
    vars: Variables = None

    def project(self) -> Project:
        """Load the project; what is wrong with its annotations is in it. Raises DqsqlError."""
        return load_project(self.project_dir, strict=False, **self._place)

    def compile(
        self,
        *,
        select: Sequence[str] = (),
        exclude: Sequence[str] = (),
        dbt_tests: bool | None = None,
        state: str | PathLike[str] | None = None,
        selector: str | None = None,
        default_selector: bool = False,
    ) -> CompileResult:
        """Load the project and compile the selected models; see `compile_project`."""
        return compile_project(
            self.project_dir,
            select=select,
            exclude=exclude,
            dbt_tests=dbt_tests,
            state=state,
            selector=selector,
            default_selector=default_selector,
            **self._place,
        )

    @property
    def _place(self) -> Place:
        return {
            "target": self.target,
            "profile": self.profile,
            "profiles_dir": self.profiles_dir,
            "vars": self.vars,
        }


def git_sha(root: Path) -> str | None:
    """The commit of the project's repository, or None outside one."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
