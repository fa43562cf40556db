"""What an embedded session is started with where there is little to read.

Of a few megabytes, Spark and the JVM spend most of their time preparing for more: the second JIT
compiler alone takes half of the processor time of a daily run of the example project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

SMALL_BYTES = 32 * 2**20
"""Size of all files that a run reads, in bytes, up to which its session is a small one."""

SMALL_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""SQL settings of a small run. They change plans, never results."""

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
