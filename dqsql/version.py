"""The versions of this installation: of dqsql, and of the Spark that it comes with."""

from __future__ import annotations

from importlib import metadata


def _version(package: str, unknown: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return unknown


# Not installed where it runs from a tree.
VERSION = _version("dqsql", "0+unknown")
# Of a client without the whole package it is taken for a new one.
SPARK = _version("pyspark", "4.2.0")
