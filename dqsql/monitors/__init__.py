"""Monitors: checks whose bounds are learned from the history of a model's batches."""
