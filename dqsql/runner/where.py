"""Which project and target a command is about, where nothing has to be compiled."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from dqsql.loading import load_project
from dqsql.loading.project import read_target_path
from dqsql.model.project import Project
from dqsql.runner.compilation import Variables

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
        return load_project(
            self.project_dir,
            target=self.target,
            profile=self.profile,
            profiles_dir=self.profiles_dir,
            vars=self.vars,
            strict=False,
        )
