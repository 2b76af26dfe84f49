"""An alert on a rate: somebody fails to log in three times within a minute.

    python examples/rate_alert.py --bootstrap 127.0.0.1:9092

A count by fixed windows of a minute would miss two failures at 10:00:50 and two at 10:01:10, and would alert
again with each further one. So the state is our own: for each user the times of the failures of the last
minute, and whether an alert was given. The alert is given at once, by the failure that is one too many, and
not again until the user has been quiet for a minute.

`transformWithStateInPandas` keeps such state for each key, in RocksDB on local disk and in the checkpoint: it
survives restarts, and it may be larger than memory. It needs the extra `state` (pandas and protobuf).
"""

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from dafka_pipeline.spark.session import SparkOptions, spark_session

LIMIT = 3
WITHIN_SECONDS = 60
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

BATCHES = [
    [("ann", "10:00:50"), ("bob", "10:00:00"), ("ann", "10:00:55"), ("bob", "10:00:59")],
    [
        ("ann", "10:01:10"),
        ("ann", "10:01:11"),
        ("bob", "10:02:30"),
    ],  # ann's third within a minute, and a fourth
    [("ann", "10:05:00"), ("ann", "10:05:01"), ("ann", "10:05:02")],  # after a quiet time: a new alert
]
EXPECTED = ["ann 10:01:10", "ann 10:05:02"]


class Failures(StatefulProcessor):
    """What is kept of one user, and what a failure does to it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._recent = handle.getListState("recent", "at BIGINT")
        self._alerted = handle.getValueState("alerted", "alerted BOOLEAN")

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803  # Spark's; timers would serve to forget users
    ) -> Iterator[pd.DataFrame]:
        times = [row[0] for row in self._recent.get()]
        alerted = self._alerted.exists() and self._alerted.get()[0]
        alerts = []
        for time in sorted(int(time) for some in rows for time in some["at"]):
            recent = [one for one in times if one > time - WITHIN_SECONDS]
            alerted = alerted and bool(recent)
            times = [*recent, time][-LIMIT:]
            if len(times) == LIMIT and not alerted:
                alerted = True
                alerts.append(time)
        self._recent.put([(time,) for time in times])
        self._alerted.update((alerted,))
        # The type `object`: Spark 4.0 does not take the string type that pandas 3 makes by itself.
        yield pd.DataFrame({"user": pd.Series([key[0]] * len(alerts), dtype="object"), "at": alerts})

    def close(self) -> None:
        """Nothing is open."""


def alerts(records: DataFrame) -> DataFrame:
    """From records with failures to one record an alert: the user as the key, the time as the value."""
    failures = records.select(
        F.from_json(F.col("value").cast("string"), "user STRING, at TIMESTAMP").alias("failure")
    ).selectExpr("failure.user", "unix_seconds(failure.at) AS at")
    found = failures.groupBy("user").transformWithStateInPandas(
        statefulProcessor=Failures(),
        outputStructType="user STRING, at BIGINT",
        outputMode="Append",
        timeMode="None",
    )
    return found.selectExpr("user AS key", "date_format(timestamp_seconds(at), 'HH:mm:ss') AS value")


def main(spark: SparkSession, bootstrap: str) -> bool:
    """Make the data, run the query, show what came; whether it is what was expected."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    run = uuid.uuid4().hex[:8]
    logins, warnings = f"logins-{run}", f"alerts-{run}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(logins, 1), NewTopic(warnings, 1)]).values():
        made.result()
    with tempfile.TemporaryDirectory(prefix="rate-alert-") as checkpoint:
        for failures in BATCHES:
            send(bootstrap, logins, failures)
            run_query(spark, bootstrap, logins, warnings, Path(checkpoint))
    found = given(spark, bootstrap, warnings)
    print("expected:", EXPECTED)
    print("came:    ", found)
    return found == EXPECTED


def run_query(spark: SparkSession, bootstrap: str, logins: str, warnings: str, checkpoint: Path) -> None:
    """Read the failures that are new, and write alerts."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", logins)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        alerts(records)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", warnings)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def given(spark: SparkSession, bootstrap: str, warnings: str) -> list[str]:
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", warnings)
        .load()
    )
    rows = records.orderBy("offset").selectExpr(
        "concat_ws(' ', CAST(key AS STRING), CAST(value AS STRING)) AS alert"
    )
    return [row.alert for row in rows.collect()]


def send(bootstrap: str, topic: str, failures: Sequence[tuple[str, str]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, time in failures:
        failure = {"user": user, "at": f"2026-01-31T{time}Z"}
        producer.produce(topic, json.dumps(failure), key=user)
    producer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An alert on a rate of failures.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument(
        "--jars", type=Path, help="a folder with Spark's Kafka connector, where there is no network"
    )
    options = parser.parse_args()
    with spark_session(SparkOptions("local[2]", options.jars), "rate alert") as session:
        sys.exit(0 if main(session, options.bootstrap) else 1)
