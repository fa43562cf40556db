"""Makes Spark's context in a JVM that was started early, while the project is still being read.

By way of Py4J alone, which waits for the JVM and takes no time of this process. PySpark, which
does, gets hold of the context when the session is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP_NAME = "dqsql"
# What PySpark sets of every context, unless it is set; see DEFAULT_CONFIGS in its context.py.
_PYSPARK_CONF = {"spark.serializer.objectStreamReset": "100", "spark.rdd.compress": "true"}


def make_context(port: int, secret: str) -> bool:
    """Make a context and a session of the settings that the JVM was started with.

    Returns False where the JVM does not answer: then nothing has been made. Raises Py4JError.
    """
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
    from py4j.protocol import Py4JNetworkError

    # The JVM may be ended meanwhile, since nothing needs it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    client = ClientServer(
        JavaParameters(port=port, auth_token=secret), PythonParameters(port=0, eager_load=False)
    )
    try:
        spark: Any = client.jvm.org.apache.spark
        conf = spark.SparkConf()
    except (Py4JNetworkError, OSError):
        return False
    for key, value in {"spark.app.name": APP_NAME, **_PYSPARK_CONF}.items():
        conf.setIfMissing(key, value)
    spark.api.java.JavaSparkContext(conf)
    spark.sql.classic.SparkSession.builder().getOrCreate().sessionState()
    return True


def bound_session() -> SparkSession:
    """The session of the context that the JVM has, which PySpark reaches by its environment."""
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    launched: Callable[[], Any] = launch_gateway
    gateway = launched()
    spark = gateway.jvm.org.apache.spark
    java = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
    SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
    return SparkSession.builder.getOrCreate()
