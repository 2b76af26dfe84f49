"""Kafka's records as Spark frames, between offsets that the caller has chosen.

The columns and their types are those of an archive (`dafka_pipeline.table.layout`), so that what comes from a
topic and what comes from a table are compared and written alike.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READER: Final = {
    # Each poll costs two look-ups of offsets (SPARK-34187): few large ones.
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    # A consumer asks ahead for what comes next, and its look-ups wait behind that question: at the end of a
    # log for so many milliseconds, once in each partition (the default is 500).
    "kafka.fetch.max.wait.ms": "10",
    "kafka.isolation.level": "read_committed",
    "kafkaConsumer.pollTimeoutMs": "120000",
}
"""How the executors' consumers read; `--kafka` wins over each of them."""

COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType AS timestamp_type",
    "key",
    "value",
    "headers",
)
"""The columns of a record, as an archive names them."""


def read_spans(
    spark: SparkSession,
    options: KafkaOptions,
    spans: Collection[Span],
    *,
    tasks: int = 0,
    fail_on_loss: bool = True,
    group: str = "",
) -> DataFrame:
    """The records of `spans` (at most one of each partition), in the columns of an archive.

    tasks: spans are split until there are so many; 0 reads each span in one task.
    group: a name under which executors keep their consumers from one call to the next. Nobody joins it.
    fail_on_loss: whether records that the log no longer has end the read; else they are left out.
    """
    reader = spark.read.format("kafka").options(**READER).options(**options.for_spark())
    by_topic: dict[str, list[Span]] = {}
    for span in spans:
        by_topic.setdefault(span.topic, []).append(span)
    assign = {topic: sorted(one.partition for one in those) for topic, those in by_topic.items()}
    reader = (
        reader.option("assign", json.dumps(assign))
        .option("startingOffsets", _offsets(by_topic, "start"))
        .option("endingOffsets", _offsets(by_topic, "end"))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", str(fail_on_loss).lower())
    )
    if tasks > len(spans):
        reader = reader.option("minPartitions", str(tasks))
    if group and "group.id" not in options.properties:
        reader = reader.option("kafka.group.id", group)
    return reader.load().selectExpr(*COLUMNS)


def _offsets(by_topic: Mapping[str, Collection[Span]], which: str) -> str:
    return json.dumps(
        {
            topic: {str(one.partition): getattr(one, which) for one in those}
            for topic, those in by_topic.items()
        }
    )
