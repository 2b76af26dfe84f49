"""Sessions out of clicks, with clicks that come late.

    python examples/sessions.py --bootstrap 127.0.0.1:9092

Clicks of a person that follow each other within 10 minutes are one visit. Clicks do not come in the order of
their times, so a visit is written only when it is final: when the *watermark*, 15 minutes behind the latest
click that was seen, has passed its end. A click that comes late but is not behind the watermark still counts;
one that is behind it is dropped, because its visit may have been written already. The longer the watermark
waits, the fewer clicks are lost, and the later (and the larger the state) the result.

    batch 1   ann 10:00, 10:04   bob 10:20, 10:40    latest 10:40, so from now on clicks before 10:25 are too
    late batch 2   ann 10:30 (late, counts)   ann 10:05 (too late, dropped)   bob 12:00      now those before
    11:45 are batch 3   cat 12:05                              all visits that ended before 11:45 are written
"""

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dafka_pipeline.spark.session import SparkOptions, spark_session

BATCHES = [
    [("ann", "10:00"), ("ann", "10:04"), ("bob", "10:20"), ("bob", "10:40")],
    [("ann", "10:30"), ("ann", "10:05"), ("bob", "12:00")],
    [("cat", "12:05")],
]
EXPECTED = [
    {"person": "ann", "from": "10:00", "to": "10:14", "clicks": 2},  # not 3: the click of 10:05 came too late
    {"person": "ann", "from": "10:30", "to": "10:40", "clicks": 1},  # it was late, but not too late
    {"person": "bob", "from": "10:20", "to": "10:30", "clicks": 1},
    {"person": "bob", "from": "10:40", "to": "10:50", "clicks": 1},
]
EXPECTED_DROPPED = 1


def sessions(records: DataFrame) -> DataFrame:
    """From records with clicks to one record a visit: the person as the key, the visit as JSON."""
    clicks = records.select(
        F.from_json(F.col("value").cast("string"), "person STRING, at TIMESTAMP").alias("click")
    )
    visits = (
        clicks.select("click.*")
        .withWatermark("at", "15 minutes")
        .groupBy("person", F.session_window("at", "10 minutes").alias("visit"))
        .agg(F.count("*").alias("clicks"))
    )
    return visits.select(
        F.col("person").alias("key"),
        F.to_json(
            F.struct(
                "person",
                F.date_format("visit.start", "HH:mm").alias("from"),
                F.date_format("visit.end", "HH:mm").alias("to"),
                "clicks",
            )
        ).alias("value"),
    )


def main(spark: SparkSession, bootstrap: str) -> bool:
    """Make the data, run the query, show what came; whether it is what was expected."""
    run = uuid.uuid4().hex[:8]
    clicks, visits = f"clicks-{run}", f"visits-{run}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(clicks, 1), NewTopic(visits, 1)]).values():
        made.result()
    dropped = 0
    with tempfile.TemporaryDirectory(prefix="sessions-") as checkpoint:
        for batch in BATCHES:
            send(bootstrap, clicks, batch)
            dropped += run_query(spark, bootstrap, clicks, visits, Path(checkpoint))
    found = written(spark, bootstrap, visits)
    print("expected:", *EXPECTED, f"{EXPECTED_DROPPED} click dropped", sep="\n  ")
    print("came:", *found, f"{dropped} click dropped", sep="\n  ")
    return found == EXPECTED and dropped == EXPECTED_DROPPED


def run_query(spark: SparkSession, bootstrap: str, clicks: str, visits: str, checkpoint: Path) -> int:
    """Read the clicks that are new, and write the visits that are final; how many clicks came too late."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", clicks)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        sessions(records)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", visits)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")  # what is final, once
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    # Spark counts what it drops; whoever runs this for good should watch it.
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def written(spark: SparkSession, bootstrap: str, visits: str) -> list[dict[str, Any]]:
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", visits)
        .load()
    )
    found = [json.loads(row.value) for row in records.selectExpr("CAST(value AS STRING)").collect()]
    return sorted(found, key=lambda visit: (visit["person"], visit["from"]))


def send(bootstrap: str, topic: str, clicks: Sequence[tuple[str, str]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for person, time in clicks:
        click = {"person": person, "at": f"2026-01-31T{time}:00Z"}
        producer.produce(topic, json.dumps(click), key=person)
    producer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Sessions out of clicks, some of which come late.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument(
        "--jars", type=Path, help="a folder with Spark's Kafka connector, where there is no network"
    )
    options = parser.parse_args()
    with spark_session(SparkOptions("local[2]", options.jars), "sessions") as session:
        sys.exit(0 if main(session, options.bootstrap) else 1)
