r"""Word count: how often each word has come so far, kept up to date in a topic.

    python examples/word_count.py --bootstrap 127.0.0.1:9092

Lines of text go into one topic. A streaming query counts their words and writes each new count into another
topic, with the word as the record's key: whoever reads it from the beginning ends up with the newest count of
each word (and a compacted topic keeps just that). The query runs twice here, and the second run goes on
counting where the first one
ended: the counts are kept in the checkpoint.

The same function runs for ever, with metrics and a graceful stop, by

    dafka-pipeline transform examples/word_count.py:count_words --from lines --to counts --checkpoint ./counts
        \\ --output-mode update
"""

import argparse
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from dafka_pipeline.spark.session import SparkOptions, spark_session

FIRST = ["the quick brown fox", "jumps over the lazy dog"]
SECOND = ["The dog sleeps", "the fox sleeps too"]
EXPECTED = {
    "the": 4, "quick": 1, "brown": 1, "fox": 2, "jumps": 1,
    "over": 1, "lazy": 1, "dog": 2, "sleeps": 2, "too": 1,
}  # fmt: skip


def count_words(records: DataFrame) -> DataFrame:
    """From records with lines to one record a word: the word as the key, its count as the value."""
    words = records.selectExpr("explode(split(lower(CAST(value AS STRING)), ' +')) AS word")
    # Spark keeps the count of each word between batches. This grows with the number of different words;
    # where that has no limit, count by windows of time and give a watermark (see sessions.py).
    counts = words.groupBy("word").count()
    return counts.selectExpr("word AS key", "CAST(count AS STRING) AS value")


def main(spark: SparkSession, bootstrap: str) -> bool:
    """Make the data, run the query, show what came; whether it is what was expected."""
    run = uuid.uuid4().hex[:8]
    lines, counts = f"lines-{run}", f"counts-{run}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(lines, 2), NewTopic(counts, 2)]).values():
        made.result()
    with tempfile.TemporaryDirectory(prefix="word-count-") as checkpoint:
        for text in (FIRST, SECOND):
            send(bootstrap, lines, text)
            run_query(spark, bootstrap, lines, counts, Path(checkpoint))
    found = newest_counts(spark, bootstrap, counts)
    print("expected:", EXPECTED)
    print("counted: ", found)
    return found == EXPECTED


def run_query(spark: SparkSession, bootstrap: str, lines: str, counts: str, checkpoint: Path) -> None:
    """Read what is new since the last run, and write the counts that have changed."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", lines)
        .option("startingOffsets", "earliest")  # for the first run; later ones go on where it ended
        .load()
    )
    query = (
        count_words(records)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", counts)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update")  # words whose count has changed, not all of them
        .trigger(availableNow=True)  # processingTime="10 seconds" would go on for ever
        .start()
    )
    query.awaitTermination()


def newest_counts(spark: SparkSession, bootstrap: str, counts: str) -> dict[str, int]:
    """The topic as a table: the last value of each key."""
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", counts)
        .load()
    )
    # A key is always in the same partition, so its offsets tell which record is the newest.
    newest = records.groupBy("key").agg({"offset": "max"}).withColumnRenamed("max(offset)", "offset")
    rows = records.join(newest, ["key", "offset"]).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    return {row.key: int(row.value) for row in rows.collect()}


def send(bootstrap: str, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    producer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Word count from topic to topic.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument(
        "--jars", type=Path, help="a folder with Spark's Kafka connector, where there is no network"
    )
    options = parser.parse_args()
    # The session of dafka-pipeline: it brings the jars that fit the installed PySpark.
    with spark_session(SparkOptions("local[2]", options.jars), "word count") as session:
        sys.exit(0 if main(session, options.bootstrap) else 1)
