"""From profiles to checks: rules that suggest annotations; pure functions, without Spark."""
