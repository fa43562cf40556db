"""The version of this installation of dqsql."""

from __future__ import annotations

from importlib import metadata

try:
    VERSION = metadata.version("dqsql")
except metadata.PackageNotFoundError:  # running from a tree that is not installed
    VERSION = "0+unknown"
