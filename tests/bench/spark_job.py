"""One Spark session that reads a topic, writes another and follows a third, once it is warm for the clock.

Arguments: connector jars, bootstrap, source topic, sink topic, followed topic, records to write,
micro-batches, process id of the server. The last line is JSON: for each of the three the seconds and the
processor seconds of server and client (this process and its JVM), and how many records were read.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, length, lit, repeat
from pyspark.sql.functions import sum as total

from tests.peers.process import processor_seconds

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
WARM_UP_RECORDS = 10_000
WARM_UP_BATCHES = 5
BATCH_RECORDS = 100
"""Of a micro-batch: what it takes is what a trigger costs."""


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


class Triggers:
    """A stream over a topic; each micro-batch is of the records that were produced before it."""

    def __init__(self, spark: Any, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        self._topic = topic
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        self.query = source.option("subscribe", topic).load().writeStream.format("noop").start()

    def run(self, batches: int) -> list[float]:
        """Seconds that each of so many micro-batches took, as Spark says."""
        found: list[float] = []
        while len(found) < batches:
            for _ in range(BATCH_RECORDS):
                self._producer.produce(self._topic, bytes(100))
            self._producer.flush()
            self.query.processAllAvailable()
            found += [
                progress["durationMs"]["triggerExecution"] / 1e3
                for progress in self.query.recentProgress[-1:]
                if progress["numInputRows"]
            ]
        return found


def main() -> None:
    jars, bootstrap, source, sink, stream, *numbers = sys.argv[1:]
    records, batches, server = map(int, numbers)
    spark = session(jars)
    write(spark, bootstrap, sink, WARM_UP_RECORDS)
    read(spark, bootstrap, sink)
    client = (os.getpid(), spark.sparkContext._gateway.proc.pid)

    def step(work: Callable[[], Any]) -> tuple[Any, list[float], float]:
        """What came of it, the processor seconds of server and client, and the seconds."""
        before = [processor_seconds(server), sum(map(processor_seconds, client))]
        start = time.perf_counter()
        outcome = work()
        seconds = time.perf_counter() - start
        after = [processor_seconds(server), sum(map(processor_seconds, client))]
        return outcome, [late - early for early, late in zip(before, after, strict=True)], seconds

    found, read_cost, read_seconds = step(lambda: read(spark, bootstrap, source))
    _, sink_cost, sink_seconds = step(lambda: write(spark, bootstrap, sink, records))
    triggers = Triggers(spark, bootstrap, stream)
    triggers.run(WARM_UP_BATCHES)
    times, all_cost, _ = step(lambda: triggers.run(batches))
    triggers.query.stop()
    spark.stop()
    steps = [
        (read_seconds, read_cost),
        (sink_seconds, sink_cost),
        (statistics.median(times), [used / len(times) for used in all_cost]),
    ]
    print(json.dumps({"records": found, "steps": steps}))


if __name__ == "__main__":
    main()
