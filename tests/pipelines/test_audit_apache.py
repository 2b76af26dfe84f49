"""Audits of Apache Kafka: beside ours, with aborted transactions, and after a compaction of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from dafka_pipeline.audit.archive_side import archive_side
from dafka_pipeline.audit.compacted import LATER
from dafka_pipeline.audit.coverage import BEHIND, RIGHT, NotCompared
from dafka_pipeline.audit.job import audit_frames
from dafka_pipeline.audit.kafka_side import kafka_side
from dafka_pipeline.audit.settings import AuditOptions
from dafka_pipeline.audit.verdict import ALTERED, MISSING_LEFT, MISSING_RIGHT
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.cluster import TopicPartition as Place
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.ranges import Span
from dafka_pipeline.table.location import Location
from tests.clients.sample import T0, records
from tests.clients.stored import create_topic, put
from tests.differential.batches import Record
from tests.peers.apache_kafka import ApacheKafka
from tests.pipelines.tables import Rows, altered_copy, write_archive

pytestmark = [pytest.mark.slow, pytest.mark.long]

OPTIONS = AuditOptions(range_offsets=16)
COMPACTION_SECONDS = 90.0


@pytest.fixture(scope="module")
def apache() -> Iterator[Cluster]:
    with ApacheKafka(properties={"log.cleaner.backoff.ms": "50", "log.cleaner.threads": "1"}) as kafka:
        yield Cluster(KafkaOptions(kafka.bootstrap))


def make_topic(cluster: Cluster, name: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.options.bootstrap})
    config = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
    for done in admin.create_topics([NewTopic(name, 1, 1, config=config)]).values():
        done.result()


def committed_rows(cluster: Cluster, topic: str) -> Rows:
    """What a plain consumer of committed records gets."""
    consumer = Consumer({
        "bootstrap.servers": cluster.options.bootstrap, "group.id": "audit-test", "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: Rows = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return rows
        rows.append({
            "topic": topic, "partition": 0, "offset": message.offset(),
            "timestamp": message.timestamp()[1] * 1000, "timestamp_type": 0,
            "key": message.key(), "value": message.value(), "headers": None,
        })  # fmt: skip


def send(producer: Any, topic: str, values: Sequence[str], since: int = T0) -> None:
    for n, value in enumerate(values):
        producer.produce(topic, value.encode(), key=value[:1].encode(), timestamp=since + n)


def test_aborted_records_are_on_neither_side(spark: SparkSession, apache: Cluster, tmp_path: Path) -> None:
    make_topic(apache, "transactions")
    producer = Producer({"bootstrap.servers": apache.options.bootstrap, "transactional.id": "audit"})
    producer.init_transactions()
    for values, commit in (
        (["a1", "b1", "c1"], True),
        (["a2", "b2"], False),
        (["c3"], True),
        (["d4"], False),
    ):
        producer.begin_transaction()
        send(producer, "transactions", values)
        assert producer.flush(60) == 0
        producer.commit_transaction() if commit else producer.abort_transaction()
    rows = committed_rows(apache, "transactions")
    assert [row["value"] for row in rows] == [b"a1", b"b1", b"c1", b"c3"]
    end = 3 + 1 + 2 + 1 + 1 + 1 + 1 + 1
    archive = write_archive(spark, tmp_path / "archive", rows, {"transactions": [end]})
    side = archive_side(spark, Location(str(archive)))
    verdict = audit_frames(spark, side, kafka_side(spark, apache, ["transactions"]), OPTIONS)
    assert verdict.equal
    assert [(one.end, one.left, one.right) for one in verdict.compared.values()] == [(end, 4, 4)]
    # An open transaction is behind what readers of committed records may see.
    producer.begin_transaction()
    send(producer, "transactions", ["open"])
    assert producer.flush(60) == 0
    assert kafka_side(spark, apache, ["transactions"]).kept[Place("transactions", 0)].end == end
    producer.abort_transaction()

    def without_last(rows: Rows) -> Rows:
        return [row for row in rows if row["value"] != b"c3"] + [{**rows[0], "offset": 4, "value": b"a2"}]

    copy = altered_copy(archive, tmp_path / "copy", without_last)
    copied = archive_side(spark, Location(str(copy)))
    verdict = audit_frames(spark, copied, kafka_side(spark, apache, ["transactions"]), OPTIONS)
    assert [(one.kind, one.place.offset) for one in verdict.named] == [
        (MISSING_RIGHT, 4),
        ("missing left", 7),
    ]


def test_two_kafkas(spark: SparkSession, apache: Cluster, bootstrap: str) -> None:
    ours = Cluster(KafkaOptions(bootstrap))
    for cluster in (apache, ours):
        create_topic(cluster.options.bootstrap, "two-kafkas")
        put(cluster.options.bootstrap, "two-kafkas", records())
    left, right = (kafka_side(spark, cluster, ["two-kafkas"]) for cluster in (apache, ours))
    verdict = audit_frames(spark, left, right, OPTIONS)
    assert verdict.equal
    assert [(one.left, one.right) for one in verdict.compared.values()] == [(len(records()), len(records()))]
    put(apache.options.bootstrap, "two-kafkas", [Record(b"", None, T0)])
    put(bootstrap, "two-kafkas", [Record(None, b"", T0), Record(b"more", None, T0)])
    left, right = (kafka_side(spark, cluster, ["two-kafkas"]) for cluster in (apache, ours))
    verdict = audit_frames(spark, left, right, OPTIONS)
    assert [(one.kind, one.place.offset, one.fields) for one in verdict.named] == [
        (ALTERED, len(records()), ("key", "value")),
        (MISSING_LEFT, len(records()) + 1, ()),
    ]


def test_after_a_compaction(spark: SparkSession, apache: Cluster, tmp_path: Path) -> None:
    make_topic(
        apache,
        "compacted",
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="0",
    )
    producer = Producer({"bootstrap.servers": apache.options.bootstrap})
    values = [f"{key}{n}" for n in range(5) for key in "abc"]
    send(producer, "compacted", values)
    assert producer.flush(60) == 0
    before = committed_rows(apache, "compacted")
    archive = write_archive(spark, tmp_path / "archive", before, {"compacted": [len(before)]})
    # A newer record rolls the segment; what is in the newest one is never compacted.
    deadline = time.monotonic() + COMPACTION_SECONDS
    while len([row for row in committed_rows(apache, "compacted") if row["offset"] < 15]) > 2:
        assert time.monotonic() < deadline, "Apache Kafka did not compact its log"
        time.sleep(0.2)
        send(producer, "compacted", ["a9"], int(time.time() * 1000))
        assert producer.flush(60) == 0
    left = archive_side(spark, Location(str(archive)))
    right = kafka_side(spark, apache, ["compacted"])
    verdict = audit_frames(spark, left, right, AuditOptions(range_offsets=16, compacted=True))
    # The newest "a" is behind the archive's end and explains the last one in it.
    assert verdict.equal
    assert verdict.compacted == {LATER: 13}
    end = right.kept[Place("compacted", 0)].end
    assert verdict.not_compared == [NotCompared(Span("compacted", 0, 15, end), RIGHT, BEHIND)]
    plain = audit_frames(spark, left, right, OPTIONS)
    assert plain.counts == {MISSING_RIGHT: 13}
