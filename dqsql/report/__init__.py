"""What a run tells people and machines: console lines, JSON events, artefacts. No Spark, no SQL."""
