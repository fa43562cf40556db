"""Data patterns: Auto-Validate (SIGMOD 2021) for columns of machine-made strings.

`infer.infer_pattern` learns a validation pattern from a column's values and a corpus index;
`validate.decide` says whether a later batch still follows it. `general.general_index` is the index
that ships with dqsql; `spark_job.contributions` is what tables add to that of a lake.
"""
