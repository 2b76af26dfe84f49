"""Change events into a slowly changing dimension (type 2): where each customer lives, and lived before.

    python examples/changing_dimension.py --bootstrap 127.0.0.1:9092

Each change of a customer's city is a record in a topic. The table keeps every version with the time from
which and until which it held, so that an order of last year is counted for the city of last year:

    customer  city    valid_from  valid_to
    1         Bern    01-01       03-01
    1         Basel   03-01       null        what holds now

Two things make this harder than it looks, and both are shown here. Changes come **out of order**: one that is
late belongs between two versions that are in the table already. And a batch may **run twice**: when the
driver dies between the table's commit and Spark's own note that the batch is done. So the batch does not say
"close the newest version, and add one". It computes the versions of its customers anew, out of what the table
has and what has come, and merges them by customer and valid_from: doing that once more changes nothing.
"""

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from dafka_pipeline.spark.session import SparkOptions, spark_session

Version = tuple[int, str, str, str | None]

BATCHES = [
    [(1, "Bern", "2026-01-01"), (2, "Chur", "2026-01-15")],
    [(1, "Basel", "2026-03-01"), (3, "Genf", "2026-03-02")],
    [(1, "Biel", "2026-02-01"), (2, "Thun", "2026-04-01"), (2, "Thun", "2026-04-01")],  # late; and one twice
]
EXPECTED: list[Version] = [
    (1, "Bern", "2026-01-01", "2026-02-01"),
    (1, "Biel", "2026-02-01", "2026-03-01"),
    (1, "Basel", "2026-03-01", None),
    (2, "Chur", "2026-01-15", "2026-04-01"),
    (2, "Thun", "2026-04-01", None),
    (3, "Genf", "2026-03-02", None),
]


def merge_changes(batch: DataFrame, table: str) -> None:
    """Bring the changes of a batch into the table at that path."""
    spark = batch.sparkSession
    event = F.from_json(F.col("value").cast("string"), "customer INT, city STRING, changed_on DATE")
    changes = batch.select(event.alias("event")).selectExpr(
        "event.customer", "event.city", "event.changed_on AS valid_from"
    )
    history = spark.read.format("delta").load(table)
    known = history.join(changes.select("customer").distinct(), "customer", "left_semi")
    versions = known.select("customer", "city", "valid_from").union(changes)
    versions = versions.dropDuplicates(["customer", "valid_from"])
    following = Window.partitionBy("customer").orderBy("valid_from")
    versions = versions.withColumn("valid_to", F.lead("valid_from").over(following))
    # One statement, one commit: readers see the batch whole or not at all.
    # (Rows that are only added need no MERGE: a Delta write with the options txnAppId and txnVersion=batch_id
    # is taken once.)
    spark.sql(
        f"""
        MERGE INTO delta.`{table}` AS history USING {{versions}} AS version
        ON history.customer = version.customer AND history.valid_from = version.valid_from
        WHEN MATCHED AND NOT history.valid_to <=> version.valid_to THEN UPDATE SET valid_to = version.valid_to
        WHEN NOT MATCHED THEN INSERT *
        """,
        versions=versions,
    )


def main(spark: SparkSession, bootstrap: str) -> bool:
    """Make the data, run the query, show what came; whether it is what was expected."""
    topic = f"customers-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    with tempfile.TemporaryDirectory(prefix="dimension-") as folder:
        table, checkpoint = f"{folder}/customers", Path(folder, "checkpoint")
        schema = "customer INT, city STRING, valid_from DATE, valid_to DATE"
        spark.createDataFrame([], schema).write.format("delta").save(table)
        for changes in BATCHES:
            send(bootstrap, topic, changes)
            run_query(spark, bootstrap, topic, table, checkpoint)
        first = versions_in(spark, table)
        # As after a crash: the table has the last batch, and Spark's note that it is done is not there.
        forget_last_commit(checkpoint)
        run_query(spark, bootstrap, topic, table, checkpoint)
        second = versions_in(spark, table)
    print("expected:", *EXPECTED, sep="\n  ")
    print("came:", *first, sep="\n  ")
    print("the last batch once more changes nothing:", first == second)
    return first == second == EXPECTED


def run_query(spark: SparkSession, bootstrap: str, topic: str, table: str, checkpoint: Path) -> None:
    """Bring the changes that are new into the table."""
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.foreachBatch(lambda batch, _number: merge_changes(batch, table))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def versions_in(spark: SparkSession, table: str) -> list[Version]:
    rows = spark.read.format("delta").load(table).orderBy("customer", "valid_from")
    texts = rows.selectExpr("customer", "city", "CAST(valid_from AS STRING)", "CAST(valid_to AS STRING)")
    return [(row.customer, row.city, row.valid_from, row.valid_to) for row in texts.collect()]


def forget_last_commit(checkpoint: Path) -> None:
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def send(bootstrap: str, topic: str, changes: Sequence[tuple[int, str, str]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for customer, city, changed_on in changes:
        event = {"customer": customer, "city": city, "changed_on": changed_on}
        producer.produce(topic, json.dumps(event), key=str(customer))
    producer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Change events into a slowly changing dimension.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument(
        "--jars", type=Path, help="a folder with Spark's Kafka connector and Delta, without a network"
    )
    options = parser.parse_args()
    with spark_session(SparkOptions("local[2]", options.jars), "changing dimension") as session:
        sys.exit(0 if main(session, options.bootstrap) else 1)
