"""Runs plans in Spark and keeps the warehouse tables. The only layer that imports pyspark."""
