"""Selections are read from the files of a project."""

from tests.loading.conftest import write

__all__ = ["write"]
