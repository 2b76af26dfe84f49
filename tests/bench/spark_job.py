"""One Spark session that reads a topic and writes another, once to warm up and once for the clock.

Arguments: connector jars, bootstrap, source topic, sink topic, records to write. The last line is JSON.
"""

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, length, lit, repeat
from pyspark.sql.functions import sum as total

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
WARM_UP_RECORDS = 10_000


def session(jars: str) -> Any:
    builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.jars", jars)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: Any, bootstrap: str, topic: str) -> int:
    """How many records there are; every value is looked at, not only counted."""
    source = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    )
    found = source.load().agg(
        count(col("offset")).alias("records"), total(length(col("value"))).alias("bytes")
    )
    return int(found.first()["records"])


def write(spark: Any, bootstrap: str, topic: str, records: int) -> None:
    values = spark.range(records).select(
        col("id").cast("string").alias("key"), repeat(lit("x"), 100).alias("value")
    )
    values.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()


def main() -> None:
    jars, bootstrap, source, sink, records = sys.argv[1:]
    spark = session(jars)
    write(spark, bootstrap, sink, WARM_UP_RECORDS)
    read(spark, bootstrap, sink)

    start = time.perf_counter()
    found = read(spark, bootstrap, source)
    read_seconds = time.perf_counter() - start
    start = time.perf_counter()
    write(spark, bootstrap, sink, int(records))
    sink_seconds = time.perf_counter() - start

    spark.stop()
    print(json.dumps({"records": found, "read_seconds": read_seconds, "sink_seconds": sink_seconds}))


if __name__ == "__main__":
    main()
