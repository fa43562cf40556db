"""Turns annotations into states to scan, metrics to derive and predicates to test. No Spark."""
