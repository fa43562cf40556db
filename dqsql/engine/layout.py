"""How batches are gathered into files: the `chunk` of a batch.

One file per batch would be simple, but writing 365 one-row partitions takes tens of times as long
as writing one file of 365 rows, and reading them back is no better. A chunk gathers a bounded
number of neighbouring batches, and depends on nothing but the batch itself, so that a batch that
is run again always lands in the chunk that it was in before.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from dqsql.model.tables import (
    frequency_table_name,
    frequency_total_table_name,
    state_table_name,
    total_table_name,
)

# The end of the text, for Python and Java alike: `$` also stands before a last line break, and they
# differ on what breaks a line.
_END = r"(?![\s\S])"
_MONTH = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]00:00:00)?{_END}"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]"
_NUMBER = rf"^[0-9]+{_END}"
_HASH_CHUNKS = 32
_DIGITS = 16


@dataclass(frozen=True)
class Family:
    """What is kept of a model by batch (`rows`), and of all batches that count (`total`).

    The functions give the names of a model's tables. `keys` identify a row of the first, and
    without the batch one of the second. `chunk` gives a batch's chunk and `chunk_sql` the same as
    Spark SQL. What is `large` is not written as one file a chunk.
    """

    rows: Callable[[str], str]
    total: Callable[[str], str]
    keys: tuple[str, ...]
    chunk: Callable[[str], str]
    chunk_sql: Callable[[str], str]
    large: bool = False

    @property
    def total_keys(self) -> tuple[str, ...]:
        """The columns that identify a row of the total."""
        return self.keys[1:]


def chunk_of(batch: str) -> str:
    """The chunk of a batch.

    The month of a date (or of a timestamp at midnight), the day of any other timestamp, the number
    without its last two digits, and one of 32 hash buckets for everything else.
    """
    if re.search(_MONTH, batch):
        return batch[:7]
    if re.search(_DAY, batch):
        return batch[:10]
    if re.search(_NUMBER, batch):
        return batch[:-2] or "0"
    return f"h{zlib.crc32(batch.encode()) % _HASH_CHUNKS:02d}"


def chunk_sql(batch: str) -> str:
    """`chunk_of` as Spark SQL over the text expression `batch`."""
    month, day, number = (p.replace("\\", "\\\\") for p in (_MONTH, _DAY, _NUMBER))
    return (
        f"case when {batch} rlike '{month}' then substr({batch}, 1, 7)"
        f" when {batch} rlike '{day}' then substr({batch}, 1, 10)"
        f" when {batch} rlike '{number}'"
        f" then coalesce(nullif(substr({batch}, 1, length({batch}) - 2), ''), '0')"
        f" else concat('h', lpad(cast(crc32(cast({batch} as binary)) % {_HASH_CHUNKS} as string),"
        f" 2, '0')) end"
    )


def own_chunk_of(batch: str) -> str:
    """A chunk of a batch's own: what is kept of it is too much to be written along with others."""
    return hashlib.sha256(batch.encode()).hexdigest()[:_DIGITS]


def own_chunk_sql(batch: str) -> str:
    """`own_chunk_of` as Spark SQL over the text expression `batch`."""
    return f"substr(sha2({batch}, 256), 1, {_DIGITS})"


STATES = Family(state_table_name, total_table_name, ("batch", "segment"), chunk_of, chunk_sql)
COUNTS = Family(
    frequency_table_name,
    frequency_total_table_name,
    ("batch", "segment", "counted", "value"),
    own_chunk_of,
    own_chunk_sql,
    large=True,
)
