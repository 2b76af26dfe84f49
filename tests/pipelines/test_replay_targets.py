"""Topics that a replay makes or finds, groups that go on in them, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from pyspark.sql import SparkSession

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import Cluster
from dafka_pipeline.kafka.options import KafkaOptions
from dafka_pipeline.producing import Plan
from dafka_pipeline.producing.checks import has_transactions
from dafka_pipeline.replay.selection import Offsets
from tests.clients.sample import small_records
from tests.clients.stored import committed_records, create_topic, put
from tests.differential.batches import Record
from tests.pipelines.archiving import archive_once
from tests.pipelines.replaying import FOREVER, assert_holds, assert_replayed, killed_at, own, replay, replayer

pytestmark = [pytest.mark.slow, pytest.mark.long]
DAY = "86400000"


def refused(spark: SparkSession, bootstrap: str, archive: Path, targets: dict[str, str], words: str,
            **settings: Any) -> None:  # fmt: skip
    with pytest.raises(Refused, match=words):
        replayer(spark, bootstrap, archive, targets, **{"stream": "r", **settings}).run()


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, tuple[int, str]]:
    admin = Cluster(KafkaOptions(bootstrap)).admin
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, n) for n in range(partitions)])
    found = admin.list_consumer_group_offsets([asked])[group].result().topic_partitions
    return {one.partition: (one.offset, one.metadata or "") for one in found if one.offset >= 0}


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, n, offset, f"m{offset}") for n, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def test_create_and_groups(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Partitions and configs as archived, though times are long past that retention; groups go on."""
    source = new_topic(3, retention_ms=FOREVER, segment_bytes="1048576", max_message_bytes="2000000")
    target = f"{source}-again"
    for partition in (0, 1):
        put(bootstrap, source, small_records(50, str(partition)), partition=partition)
    commit(bootstrap, f"{source}-g", source, {0: 10, 1: 50, 2: 0})
    cluster = Cluster(KafkaOptions(bootstrap))
    archive_once(spark, bootstrap, tmp_path / "a", source)
    # As it was archived, retention would take all of it.
    topics = tmp_path / "a/_pipeline/topics.json"
    topics.write_text(topics.read_text().replace(FOREVER, DAY))
    settings = {"stream": "c", "create": True, "groups": True}
    with killed_at("replay-created"):
        replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    held = cluster.configs(target)
    assert held["retention.ms"] == "-1"
    outcome = replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    assert_replayed(bootstrap, "c", source, target, 3)
    assert cluster.topics([target])[target].partitions == 3
    assert cluster.configs(target) == {
        "retention.ms": DAY,
        "segment.bytes": "1048576",
        "max.message.bytes": "2000000",
    }
    assert committed(bootstrap, f"{source}-g", target, 3) == {0: (10, "m10"), 1: (50, "m50"), 2: (0, "m0")}
    assert any("retention.ms=86400000" in note for note in outcome.notes)


def test_groups_of_a_part(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Offsets move with the records; what a group has committed by itself stays, unless it shall not."""
    source, target = new_topic(), new_topic(1, "-again")
    group = f"{source}-g"
    put(bootstrap, source, small_records(50))
    commit(bootstrap, group, source, {0: 35})
    archive_once(spark, bootstrap, tmp_path / "a", source)
    settings = {"stream": "p", "groups": True, "selected": {"offsets": (Offsets("", 0, 20, 40),)}}
    replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    assert committed(bootstrap, group, target, 1) == {0: (15, "m35")}
    expected = own("p", committed_records(bootstrap, source)[20:40])
    assert_holds(bootstrap, target, expected)
    again = replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    assert not any("left as they are" in note for note in again.notes)
    commit(bootstrap, group, target, {0: 3})
    outcome = replay(spark, bootstrap, tmp_path / "a", {source: target}, **settings)
    assert committed(bootstrap, group, target, 1) == {0: (3, "m3")}
    assert any("left as they are" in note for note in outcome.notes)
    replay(spark, bootstrap, tmp_path / "a", {source: target}, overwrite_groups=True, **settings)
    assert committed(bootstrap, group, target, 1) == {0: (15, "m35")}


def test_records_of_others(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Before the first own record, and behind it; with --append both are let be, and passed over."""
    source, target, shared = new_topic(), new_topic(1, "-again"), new_topic(1, "-shared")
    archive = tmp_path / "a"
    put(bootstrap, source, small_records(60))
    archive_once(spark, bootstrap, archive, source)
    put(bootstrap, shared, small_records(7, "before"))
    refused(spark, bootstrap, archive, {source: shared}, "not empty")
    for topic, stream, append in ((target, "own", False), (shared, "mine", True)):
        settings = {"stream": stream, "append": append, "round_offsets": 30}
        with killed_at("replay-after-round"):
            replay(spark, bootstrap, archive, {source: topic}, **settings)
        put(bootstrap, topic, small_records(5, "between"))
        if not append:
            refused(spark, bootstrap, archive, {source: topic}, "records of others behind", **settings)
            continue
        assert replay(spark, bootstrap, archive, {source: topic}, **settings).records == 30
    stored = committed_records(bootstrap, source)
    expected = [
        *small_records(7, "before"),
        *own("mine", stored[:30]),
        *small_records(5, "between"),
        *own("mine", stored[30:]),
    ]
    assert_holds(bootstrap, shared, expected)


def test_what_is_refused(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Each before anything is sent or kept."""
    source, archive = new_topic(3), tmp_path / "a"
    put(bootstrap, source, small_records(5), partition=2)
    archive_once(spark, bootstrap, archive, source)
    for words, partitions, configs in (
        ("is compacted", 3, {"cleanup_policy": "compact"}),
        ("delete it at once", 3, {"retention_ms": DAY}),
        ("retention.bytes=1000000", 3, {"retention_bytes": "1000000"}),
        ("times would be lost", 3, {"message_timestamp_type": "LogAppendTime"}),
        ("has 2 partitions, and records of", 2, {}),
    ):
        target = new_topic(partitions, "-again", **configs)
        refused(spark, bootstrap, archive, {source: target}, words)
        assert not any(committed_records(bootstrap, target, n) for n in range(partitions))
    refused(spark, bootstrap, archive, {source: f"{source}-none"}, "There is no topic")
    refused(spark, bootstrap, archive, {"none": "x"}, f"has no topic none. It has {source}")
    refused(spark, bootstrap, archive, {source: new_topic(3)}, "is there already", create=True)
    assert not list(archive.glob("_pipeline/replays/*.json"))
    too_long = KafkaOptions(bootstrap, {"transaction.timeout.ms": "2000000000"})
    with pytest.raises(Refused, match=r"has none for us.*(?i:timeout)"):
        has_transactions(Plan("r", too_long, (source,), transactions="yes"))
    assert not has_transactions(Plan("r", too_long, (source,)))


def test_a_topic_that_was_made_again_is_another_one(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, archive = new_topic(), tmp_path / "a"
    target = f"{source}-again"
    put(bootstrap, source, small_records(60))
    archive_once(spark, bootstrap, archive, source)
    cluster = Cluster(KafkaOptions(bootstrap))
    settings = {"create": True, "round_offsets": 30}
    with killed_at("replay-after-round"):
        replay(spark, bootstrap, archive, {source: target}, stream="r", **settings)
    refused(spark, bootstrap, archive, {source: target}, "belongs to another replay", append=True, **settings)
    cluster.admin.delete_topics([target])[target].result()
    create_topic(bootstrap, target)
    refused(spark, bootstrap, archive, {source: target}, "deleted and made again", **settings)


def test_times_that_librdkafka_cannot_send(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target, archive = new_topic(), new_topic(1, "-again"), tmp_path / "a"
    put(bootstrap, source, [Record(b"a", None, 5), Record(b"zero", b"k", 0), Record(b"b", None, -1)])
    archive_once(spark, bootstrap, archive, source)
    refused(spark, bootstrap, archive, {source: target}, "have the time 0")
    replay(spark, bootstrap, archive, {source: target}, stream="z", selected={"zero_as_ms": 1})
    assert [one.timestamp for _, one in committed_records(bootstrap, target)] == [5, 1, -1]


def test_times_and_one_life_of_a_topic(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Only records of some times; of a replayed topic those that it has now, with their earlier header."""
    source, target, again = new_topic(), new_topic(1, "-again"), new_topic(1, "-third")
    put(bootstrap, source, small_records(40))
    archive_once(spark, bootstrap, tmp_path / "a", source)
    first = small_records(1)[0].timestamp
    times = {"start_ms": first + 10, "end_ms": first + 30}
    replay(spark, bootstrap, tmp_path / "a", {source: target}, stream="t", selected=times)
    archive_once(spark, bootstrap, tmp_path / "b", target)
    replay(spark, bootstrap, tmp_path / "b", {target: again}, stream="t")
    assert_holds(bootstrap, target, own("t", committed_records(bootstrap, source)[10:30]))
    assert_holds(bootstrap, again, own("t", committed_records(bootstrap, target)))


def test_a_damaged_target_is_found(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A record with the right header and another value: what was sent is not what was archived."""
    source, target, archive = new_topic(), new_topic(1, "-again"), tmp_path / "a"
    put(bootstrap, source, small_records(30))
    archive_once(spark, bootstrap, archive, source)
    settings: dict[str, Any] = {"stream": "d", "append": True, "round_offsets": 20}
    with killed_at("replay-after-round"):
        replay(spark, bootstrap, archive, {source: target}, **settings)
    producer = Producer({"bootstrap.servers": bootstrap})
    wrong = small_records(30)[20]
    producer.produce(target, b"altered", wrong.key, 0, timestamp=wrong.timestamp,
                     headers=[("dafka.position", b"d|20")])  # fmt: skip
    assert producer.flush(60) == 0
    outcome = replayer(spark, bootstrap, archive, {source: target}, **settings).run()
    assert outcome.verdict is not None
    assert not outcome.verdict.equal
    assert "20" in outcome.notes[0]
