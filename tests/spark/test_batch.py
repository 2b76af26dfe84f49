"""Batch reads and writes: contents compared, by offsets and by times."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from kafka.protocol.admin import DeleteRecordsRequest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tests.clients.sample import CODEC_NAMES, T0, records, small_records
from tests.clients.stored import check_records, put, stored_records
from tests.differential.batches import Record
from tests.differential.wire import ask
from tests.spark.frames import as_records, numbered, read, without_headers

pytestmark = pytest.mark.slow


def test_reads_everything(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Every codec, nulls, empties, up to 1 MB, headers or none."""
    topic = new_topic(partitions=len(CODEC_NAMES))
    for partition, codec in enumerate(CODEC_NAMES):
        put(bootstrap, topic, records(), partition=partition, codec=codec, per_batch=1)
    found = as_records(read(spark, bootstrap, subscribe=topic, includeHeaders="true"))
    assert set(found) == {(topic, partition) for partition in range(len(CODEC_NAMES))}
    for pairs in found.values():
        check_records(pairs, records())
    plain = as_records(read(spark, bootstrap, assign=json.dumps({topic: [1]})))
    assert plain == {(topic, 1): numbered(without_headers(records()))}


def test_reads_several_topics(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topics = [new_topic(suffix="-one"), new_topic(suffix="-two", partitions=2), new_topic(suffix="-empty")]
    wanted = small_records(40)
    put(bootstrap, topics[0], wanted)
    put(bootstrap, topics[1], wanted[:7], partition=1)
    expected = {(topics[0], 0): numbered(wanted), (topics[1], 1): numbered(wanted[:7])}
    assert as_records(read(spark, bootstrap, subscribe=",".join(topics))) == expected
    pattern = topics[0].removesuffix("-one").rpartition("-")[0] + "-.*"
    assert as_records(read(spark, bootstrap, subscribePattern=pattern)) == expected


def test_reads_by_offsets(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """From and to the middle of batches; -2 and -1 are the ends."""
    topic = new_topic(partitions=2)
    wanted = small_records(100)
    for partition in (0, 1):
        put(bootstrap, topic, wanted, partition=partition)
    starts, ends = {"0": 13, "1": -2}, {"0": 77, "1": -1}
    frame = read(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets=json.dumps({topic: starts}),
        endingOffsets=json.dumps({topic: ends}),
    )
    expected = {(topic, 0): numbered(wanted[13:77], 13), (topic, 1): numbered(wanted)}
    assert as_records(frame) == expected


def test_reads_by_times(spark: SparkSession, bootstrap: str, topic: str) -> None:
    wanted = small_records(60)
    put(bootstrap, topic, wanted)
    frame = read(spark, bootstrap, subscribe=topic, startingTimestamp=T0 + 11, endingTimestamp=T0 + 42)
    assert as_records(frame) == {(topic, 0): numbered(wanted[11:42], 11)}
    by_partition = {
        "startingOffsetsByTimestamp": json.dumps({topic: {"0": T0 + 30}}),
        "endingOffsetsByTimestamp": json.dumps({topic: {"0": T0 + 1_000_000}}),
    }
    frame = read(spark, bootstrap, subscribe=topic, **by_partition)
    assert as_records(frame) == {(topic, 0): numbered(wanted[30:], 30)}


def test_a_starting_time_after_everything(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """An error by default; nothing when the strategy says latest."""
    put(bootstrap, topic, small_records(5))
    late = {"subscribe": topic, "startingTimestamp": T0 + 1_000_000}
    with pytest.raises(IllegalArgumentException, match="No offset matched"):
        read(spark, bootstrap, **late).collect()
    frame = read(spark, bootstrap, **late, startingOffsetsByTimestampStrategy="latest")
    assert as_records(frame) == {}


def test_min_partitions(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """One Kafka partition read by several tasks at once."""
    wanted = small_records(400)
    put(bootstrap, topic, wanted, per_batch=30)
    frame = read(spark, bootstrap, subscribe=topic, minPartitions="4")
    assert frame.rdd.getNumPartitions() >= 4
    assert as_records(frame) == {(topic, 0): numbered(wanted)}


def test_writes(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Key, value, headers and partition columns; bytes as given, nulls too."""
    topic = new_topic(partitions=2)
    rows = [
        (b"%d" % n if n % 3 else None, b"value %d" % n if n % 5 else None, n % 2, [("h", b"%d" % n)])
        for n in range(200)
    ]
    schema = "key binary, value binary, partition int, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).option("includeHeaders", "true").save()
    for partition in (0, 1):
        found = [
            (offset, Record(r.value, r.key, 0, r.headers))
            for offset, r in stored_records(bootstrap, topic, partition)
        ]
        check_records(found, [Record(v, k, 0, tuple(h)) for k, v, p, h in rows if p == partition])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_writes_compressed_by_topic_column(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], codec: str
) -> None:
    a, b = new_topic(suffix="-a"), new_topic(suffix="-b")
    rows = [(a if n % 2 else b, f"value {n}") for n in range(300)]
    frame = spark.createDataFrame(rows, "topic string, value string").coalesce(1)
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("kafka.compression.type", codec).save()
    for name in (a, b):
        values = [r.value for _, r in stored_records(bootstrap, name)]
        assert values == [value.encode() for to, value in rows if to == name]


def test_an_unknown_topic_fails_at_once(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(Exception, match="UnknownTopicOrPartition"):
        read(spark, bootstrap, subscribe="no-such-topic-at-all").collect()


def test_reads_what_the_log_start_leaves(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """From the earliest offset that is left; from a deleted one only where that is no failure."""
    wanted = small_records(60)
    put(bootstrap, topic, wanted)
    part = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition(partition_index=0, offset=21)
    one = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[part])
    answer = ask(bootstrap, DeleteRecordsRequest(version=1, topics=[one], timeout_ms=10_000))
    assert answer.topics[0].partitions[0].low_watermark == 21
    left = {(topic, 0): numbered(wanted[21:], 21)}
    assert as_records(read(spark, bootstrap, subscribe=topic)) == left
    starts = json.dumps({topic: {"0": 5}})
    lenient = {"subscribe": topic, "startingOffsets": starts, "failOnDataLoss": "false"}
    assert as_records(read(spark, bootstrap, **lenient)) == left
    with pytest.raises(Exception, match=r"(?i)out of range|some data may have been lost|OffsetOutOfRange"):
        read(spark, bootstrap, subscribe=topic, startingOffsets=starts).collect()
