"""Frames go into topics: every record once, whole, in order, with its time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from dafka_pipeline.failures import PipelineError
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import POSITION_HEADER, Plan, Publisher, Timing
from dafka_pipeline.running.report import Report
from dafka_pipeline.running.stopping import Stop
from dafka_pipeline.table.location import Files, Location
from tests.clients.sample import records as sample_records
from tests.clients.sample import small_records
from tests.clients.stored import committed_records
from tests.differential.batches import Record
from tests.pipelines.replaying import assert_holds

FRAME = (
    "target STRING, target_partition INT, position ARRAY<BIGINT>, milliseconds BIGINT, key BINARY, "
    "value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)

QUICK = Timing(lease=20, message=3, stall=2, spread=1, clocks=0.5)


def frame_of(spark: SparkSession, topic: str, partitions: Mapping[int, Sequence[Record]]) -> DataFrame:
    """Records as rows, the last ones first: the frame's own order means nothing."""
    rows = [
        (topic, partition, [n], one.timestamp, one.key, one.value, list(one.headers) or None)
        for partition, those in partitions.items()
        for n, one in enumerate(those)
    ]
    frame = spark.createDataFrame(rows[::-1], FRAME)
    return frame.selectExpr(
        "target", "target_partition", "position", "timestamp_millis(milliseconds) AS timestamp", "key",
        "value", "headers",
    )  # fmt: skip


def with_positions(records: Sequence[Record], stream: str) -> list[Record]:
    """As they must be in the target."""
    return [
        Record(
            one.value,
            one.key,
            one.timestamp,
            (*one.headers, (POSITION_HEADER, f"{stream}|{n}".encode())),
        )
        for n, one in enumerate(records)
    ]


def test_every_oddity_of_a_record_arrives(
    spark: SparkSession, kafka: KafkaOptions, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(3, message_timestamp_after_max_ms="9223372036854775807")
    odd = [
        Record(b"no time", b"k", -1),
        Record(b"before 1970", b"k", -5),
        Record(b"far", b"k", 880_000_000_000_000),
    ]
    sent = {0: [*sample_records(), *odd], 1: [], 2: small_records(2500)}
    plan = Plan("odd", kafka, (topic,), timing=QUICK)
    files = Files(spark, Location.of(str(tmp_path)))
    with Publisher(spark, plan, files, "_pipeline/odd", Stop(), Report("test")) as publisher:
        published = publisher.publish(frame_of(spark, topic, sent))
    assert published.records == len(sent[0]) + len(sent[2])
    for partition, records in sent.items():
        assert_holds(kafka.bootstrap, topic, with_positions(records, "odd"), partition)


@pytest.mark.parametrize("append", [False, True])
def test_a_record_that_the_server_refuses_leaves_no_hole(
    spark: SparkSession, kafka: KafkaOptions, new_topic: Callable[..., str], tmp_path: Path, append: bool
) -> None:
    """In the middle of a piece, of which only the last record is heard of."""
    topic = new_topic(1, max_message_bytes="5000")
    sent = small_records(900)
    # Nothing that a codec makes small.
    large = Record(random.Random(0).randbytes(50_000), b"large")
    frame = frame_of(spark, topic, {0: [*sent[:400], large, *sent[400:]]})
    plan = Plan("refused", kafka, (topic,), timing=QUICK, append=append)
    files = Files(spark, Location.of(str(tmp_path)))
    with (
        pytest.raises(PipelineError, match="too large"),
        Publisher(spark, plan, files, "_pipeline/refused", Stop(), Report("test")) as publisher,
    ):
        publisher.publish(frame)
    found = committed_records(kafka.bootstrap, topic)
    assert [one for _, one in found] == with_positions(sent[:400], "refused")[: len(found)]
