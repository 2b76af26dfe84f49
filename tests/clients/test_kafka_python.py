"""kafka-python 3: pure Python, idempotent by default."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAlreadyExistsError

from tests.clients.sample import CODEC_NAMES, T0, records, small_records
from tests.clients.stored import check_records, check_stored, put
from tests.differential.batches import Record
from tests.peers.requirements import unavailable

SECONDS = 30


def need(codec: str) -> None:
    """kafka-python finds its compressors by itself, snappy under the name of one package only."""
    if codec == "snappy" and importlib.util.find_spec("snappy") is None:
        unavailable("python-snappy is not installed: pip install python-snappy")


def produce(bootstrap: str, topic: str, wanted: Sequence[Record], **settings: Any) -> list[Any]:
    """Sends everything; the acknowledgements in the order sent."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, max_request_size=1_048_588, **settings)
    futures = [
        producer.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=0,
            timestamp_ms=record.timestamp,
        )
        for record in wanted
    ]
    producer.flush(timeout=SECONDS)
    acked = [future.get(timeout=SECONDS) for future in futures]
    producer.close(timeout=SECONDS)
    return acked


def consumer(bootstrap: str, topic: str, offset: int) -> Any:
    made = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        consumer_timeout_ms=SECONDS * 1000,
        auto_offset_reset="none",
    )
    made.assign([TopicPartition(topic, 0)])
    made.seek(TopicPartition(topic, 0), offset)
    return made


def consume(source: Any, count: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    for message in source:
        headers = tuple((name, value) for name, value in message.headers)
        found.append((message.offset, Record(message.value, message.key, message.timestamp, headers)))
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} of {count} came")


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_round_trip(bootstrap: str, topic: str, codec: str) -> None:
    need(codec)
    # It will not send a header without a value, nor a record without both key and value.
    wanted = [r for r in records(null_header_values=False) if (r.key, r.value) != (None, None)]
    acked = produce(bootstrap, topic, wanted, compression_type=None if codec == "none" else codec)
    assert [one.offset for one in acked] == list(range(len(wanted)))
    check_stored(bootstrap, topic, wanted, codec)
    source = consumer(bootstrap, topic, 0)
    check_records(consume(source, len(wanted)), wanted)
    source.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(bootstrap: str, topic: str, acks: Any) -> None:
    wanted = small_records(500)
    produce(bootstrap, topic, wanted, acks=acks, enable_idempotence=acks == "all")
    source = consumer(bootstrap, topic, 0)
    check_records(consume(source, len(wanted)), wanted)
    source.close()


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_reads_what_others_stored(bootstrap: str, topic: str, codec: str) -> None:
    need(codec)
    wanted = small_records(50)
    put(bootstrap, topic, wanted, codec=codec)
    for start in [0, 3, 8, 49]:
        source = consumer(bootstrap, topic, start)
        check_records(consume(source, 50 - start), wanted[start:], first_offset=start)
        source.close()


def test_offsets(bootstrap: str, topic: str) -> None:
    put(bootstrap, topic, small_records(20))
    source = consumer(bootstrap, topic, 0)
    partition = TopicPartition(topic, 0)
    assert source.beginning_offsets([partition]) == {partition: 0}
    assert source.end_offsets([partition]) == {partition: 20}
    found = source.offsets_for_times({partition: T0 + 7})[partition]
    assert (found.offset, found.timestamp) == (7, T0 + 7)
    assert source.offsets_for_times({partition: T0 + 20})[partition] is None
    source.close()


def test_admin(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    name = f"{topic}-made"
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    assert name in admin.list_topics()
    admin.delete_topics([name])
    assert name not in admin.list_topics()
    admin.close()
