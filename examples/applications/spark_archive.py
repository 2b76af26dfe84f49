r"""A topic kept for ever, as files that every tool reads: an archive with plain Spark.

    python examples/applications/spark_archive.py --bootstrap 127.0.0.1:9092

A stream takes what is new in a topic and appends it to Parquet files by day: key, value, headers, and
where each record was. It runs when you like (`availableNow`), as a nightly job does; its checkpoint says
how far it was. Here it runs twice, with records between, and reads the archive back.

`dafka-pipeline archive` is this as a finished job: exactly once without a checkpoint that could be lost,
Delta, compaction, audit, replay. See docs/pipelines.md.
"""

import argparse
import sys
import tempfile
import uuid
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from dafka_pipeline.spark.session import SparkOptions, spark_session

EXPECTED = {f"order {number}" for number in range(20)}


def archive(spark: SparkSession, bootstrap: str, topic: str, to: Path) -> None:
    """Append what is new."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        records.withColumn("day", records.timestamp.cast("date"))
        .writeStream.format("parquet")
        .option("path", str(to / "records"))
        .option("checkpointLocation", str(to / "checkpoint"))
        .partitionBy("day")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def send(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, f"order {number}", str(number), headers=[("source", b"web")])
    producer.flush()


def main(spark: SparkSession, bootstrap: str) -> bool:
    """Make records, archive them twice, show what came; whether it is what was expected."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2)])[topic].result()
    with tempfile.TemporaryDirectory(prefix="spark-archive-") as directory:
        to = Path(directory)
        for numbers in (range(10), range(10, 20)):
            send(bootstrap, topic, numbers)
            archive(spark, bootstrap, topic, to)
        kept = spark.read.parquet(str(to / "records"))
        rows = kept.selectExpr(
            "CAST(value AS STRING)", "partition", "offset", "headers[0].key AS header"
        ).collect()
    places = {(row.partition, row.offset) for row in rows}
    print("records:", len(rows), "in", len(places), "places")
    return (
        {row.value for row in rows} == EXPECTED
        and len(rows) == len(places) == len(EXPECTED)
        and {row.header for row in rows} == {"source"}
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A topic as Parquet files.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument(
        "--jars", type=Path, help="a folder with Spark's Kafka connector, where there is no network"
    )
    options = parser.parse_args()
    with spark_session(SparkOptions("local[2]", options.jars), "archive") as session:
        sys.exit(0 if main(session, options.bootstrap) else 1)
