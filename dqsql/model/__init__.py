"""The nouns of dqsql as plain data: projects, plans, metric values, decisions. No I/O, no Spark."""
