"""Data patterns: Auto-Validate (SIGMOD 2021) for columns of machine-made strings.

`infer_pattern` learns a validation pattern from a column's values and a corpus index; `decide`
says whether a later batch still follows it. `general_index` is the index that ships with dqsql;
`dqsql.patterns.spark_job.build_index` builds one from a lake.
"""

from dqsql.patterns.contributions import Contribution, IndexSettings
from dqsql.patterns.index import PatternIndex, PatternStatistics
from dqsql.patterns.infer import (
    InferenceSettings,
    LearnedPattern,
    NoPattern,
    TaggedColumn,
    TagPattern,
    infer_pattern,
    specified,
    tag_pattern,
)
from dqsql.patterns.language import Pattern
from dqsql.patterns.parsing import parse_pattern
from dqsql.patterns.regex import matcher, matches, spark_regex
from dqsql.patterns.store import (
    SizeReport,
    general_index,
    load_index,
    size_report,
    tables_with,
    update_index,
    with_general,
)
from dqsql.patterns.validate import PatternDecision, alarm_threshold, decide

__all__ = [
    "Contribution",
    "IndexSettings",
    "InferenceSettings",
    "LearnedPattern",
    "NoPattern",
    "Pattern",
    "PatternDecision",
    "PatternIndex",
    "PatternStatistics",
    "SizeReport",
    "TagPattern",
    "TaggedColumn",
    "alarm_threshold",
    "decide",
    "general_index",
    "infer_pattern",
    "load_index",
    "matcher",
    "matches",
    "parse_pattern",
    "size_report",
    "spark_regex",
    "specified",
    "tables_with",
    "tag_pattern",
    "update_index",
    "with_general",
]
