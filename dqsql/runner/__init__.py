"""Hands a project from layer to layer: loading, compiling, running, deciding, storing."""
