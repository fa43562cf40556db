"""What an embedded session is started with where there is little to read.

Of a few megabytes, Spark and the JVM spend most of their time preparing for more: the second JIT
compiler alone takes half of the processor time of a daily run of the example project. Of a few
thousand rows, generating and compiling code takes longer than the rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import Enum

SMALL_BYTES = 32 * 2**20
"""Size of all files that a run reads, in bytes, up to which its session is a small one."""

FEW_ROWS = 10_000
"""New rows of a run up to which Spark interprets wide plans instead of compiling them."""
FEW_KNOWN_ROWS = 500_000
"""Rows checked before up to which that pays: batches are looked for among all rows."""

_SMALL_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # What is known of columns by filters, which of wide plans takes the square of their number.
    "spark.sql.constraintPropagation.enabled": "false",
    # Sketches of many batches are kept in one hash table, for which there is memory enough: Spark
    # starts to sort the rows at 128 batches.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "4096",
}
_FEW_CONF = {
    **_SMALL_CONF,
    # Code for the few columns of batches is soon compiled, and looks for them among all rows.
    "spark.sql.codegen.maxFields": "12",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Scale(Enum):
    """How much a run reads, as far as is known before it starts."""

    ANY = "any"
    SMALL = "small"
    """At most `SMALL_BYTES`."""
    FEW = "few"
    """Small, and about at most `FEW_ROWS` are new."""

    @property
    def conf(self) -> Mapping[str, str]:
        """SQL settings for so much. They change plans, never results."""
        return _CONF[self]


_CONF = {Scale.ANY: {}, Scale.SMALL: _SMALL_CONF, Scale.FEW: _FEW_CONF}

# The first compiler needs room for its code that the JVM sets aside only with the second.
_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
_COLLECTOR = "-XX:+UseSerialGC"
_CHOSEN_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
# Where the JVM finds options besides those that Spark gives it.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def small_java_options(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The JVM's options of a small session with these settings of Spark.

    The JVM does not start with two garbage collectors; the user's is kept.
    """
    given = [settings.get("spark.driver.extraJavaOptions", "")]
    given += [os.environ.get(name, "") for name in _VARIABLES]
    chosen = any(_CHOSEN_COLLECTOR.search(text) for text in given)
    return _COMPILER if chosen else (*_COMPILER, _COLLECTOR)
