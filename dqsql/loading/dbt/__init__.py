"""dbt projects: their manifest, models, and the generic tests that are adopted."""
