"""Programs of single columns, which the package learns many at a time."""

from __future__ import annotations

from dqsql.decisions.avh import AvhConfig, ColumnHistory, fit_programs
from dqsql.decisions.program import Program


def fit_program(history: ColumnHistory, config: AvhConfig | None = None) -> Program:
    """The program of one column."""
    return fit_programs([history], config)[0]
