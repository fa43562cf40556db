"""Reads a project's files and builds a `Project`: no Spark, no network, no writing."""

from dqsql.loading.config import parse_vars, shipped_macros
from dqsql.loading.profiles import TargetRequest, load_target
from dqsql.loading.project import load_project

__all__ = ["TargetRequest", "load_project", "load_target", "parse_vars", "shipped_macros"]
