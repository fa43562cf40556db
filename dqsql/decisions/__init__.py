"""Decisions: pure functions of arrays, from metrics to verdicts. No Spark, no clock, no I/O."""
