"""A check model with one annotation beside a column, or behind FROM."""

from __future__ import annotations

# The column's annotation starts at line 6, column 10; the model's at line 9, column 4.
MODEL = """\
{{{{ config(batch_by = 'day') }}}}
select
    day,
    s,
    y,
    x -- {column}
from {{{{ source('shop', 'orders') }}}}

-- {model}
"""


def of_column(annotation: str) -> str:
    return MODEL.format(column=annotation, model="")


def of_model(annotation: str) -> str:
    return MODEL.format(column="", model=annotation)
