"""Names of the phases of a run, whose seconds `dq_model_runs` and `dqsql run --timing` tell."""

from __future__ import annotations

START = "start"
"""Until Spark is there."""
WRITE = "write"
"""Writing tables."""
COMPILE = "compile"
"""Registering and analysing a model's SQL."""
DISCOVERY = "discovery"
"""Looking for batches that are new."""
SCAN = "scan"
"""Scanning and measuring."""
DECIDE = "decide"
"""Checks, monitors, samples of failing rows."""

OF_MODELS = (COMPILE, DISCOVERY, SCAN, DECIDE)
"""The phases that each model has of its own, in their order."""
