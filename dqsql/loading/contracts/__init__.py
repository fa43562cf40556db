"""Data contracts: read from ODCS YAML, from a model's config or dbt, and turned into checks."""
