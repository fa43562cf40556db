"""The version of the installed package."""

from __future__ import annotations


def dqsql_version() -> str:
    """Return the version, `unknown` in a checkout that is not installed."""
    # Takes a while to import; only `--version` and artefacts need it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dqsql")
    except PackageNotFoundError:
        return "unknown"
