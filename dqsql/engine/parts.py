"""Wide statements in parts, so that Spark analyses each part once.

Spark analyses a statement in rounds until nothing changes: about three for each level of
subqueries, and in each it looks at every expression that is not resolved yet. So one pass of many
levels makes it look many times at the long lists of columns above. A view keeps what it was
analysed to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from dqsql.compiler.scan import is_part
from dqsql.engine.selects import select
from dqsql.engine.session_use import put_view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = itertools.count()


def over_views(
    spark: SparkSession, statement: exp.Expr, text: Callable[[exp.Expr], str]
) -> exp.Expr:
    """The statement with its parts put as views; as it is, where it has but one pass.

    `text` writes SQL. Spark refuses here what it refuses of a part.
    """
    parts = [q for q in statement.find_all(exp.Subquery) if is_part(q)]
    if len(parts) <= 1:
        return statement
    # The inner ones first.
    for part in reversed(parts):
        name = f"dqsql__part_{next(_NUMBERS)}"
        put_view(select(spark, text(part.this)), name)
        view = exp.Table(this=exp.to_identifier(name), alias=part.args.get("alias"))
        part.replace(view)
    return statement
