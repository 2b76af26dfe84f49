"""confluent-kafka (librdkafka 2): the client of most Python, Go and .NET programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.clients.sample import CODEC_NAMES, T0, records, small_records
from tests.clients.stored import check_records, check_stored, put
from tests.differential.batches import Record

SECONDS = 30.0


def produce(bootstrap: str, topic: str, wanted: Sequence[Record], **settings: Any) -> list[Message]:
    """Sends everything and returns the acknowledged messages in the order of acknowledgement."""
    done: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        done.append(message)

    base = {"bootstrap.servers": bootstrap, "message.max.bytes": 1_048_588, "linger.ms": 5}
    producer = Producer(base | settings)
    for record in wanted:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            on_delivery=delivered,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    assert producer.flush(SECONDS) == 0
    return done


def consumer(bootstrap: str, topic: str, offset: int, **settings: Any) -> Consumer:
    base = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    made = Consumer(base | settings)
    made.assign([TopicPartition(topic, 0, offset)])
    return made


def as_record(message: Message) -> tuple[int, Record]:
    offset, headers, value, key = message.offset(), message.headers() or [], message.value(), message.key()
    assert offset is not None
    assert isinstance(headers, list)
    pairs = tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers)
    return offset, Record(value, key, message.timestamp()[1], pairs)


def consume(source: Consumer, count: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    while len(found) < count:
        message = source.poll(SECONDS)
        assert message is not None, f"only {len(found)} of {count} came"
        assert message.error() is None, message.error()
        found.append(as_record(message))
    return found


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_round_trip(bootstrap: str, topic: str, codec: str, idempotent: bool) -> None:
    wanted = records()
    acked = produce(bootstrap, topic, wanted, **{"compression.type": codec, "enable.idempotence": idempotent})
    assert [message.offset() for message in acked] == list(range(len(wanted)))
    check_stored(bootstrap, topic, wanted, codec)
    source = consumer(bootstrap, topic, 0)
    check_records(consume(source, len(wanted)), wanted)
    source.close()


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks(bootstrap: str, topic: str, acks: int) -> None:
    wanted = small_records(2_000)
    produce(bootstrap, topic, wanted, acks=acks)
    source = consumer(bootstrap, topic, 0)
    check_records(consume(source, len(wanted)), wanted)
    source.close()


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_reads_what_others_stored(bootstrap: str, topic: str, codec: str) -> None:
    """From the beginning, and from the middle of a batch."""
    wanted = small_records(50)
    put(bootstrap, topic, wanted, codec=codec)
    for start in [0, 3, 8, 49]:
        source = consumer(bootstrap, topic, start)
        check_records(consume(source, 50 - start), wanted[start:], first_offset=start)
        source.close()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation_levels(bootstrap: str, topic: str, isolation: str) -> None:
    wanted = small_records(20)
    put(bootstrap, topic, wanted)
    source = consumer(bootstrap, topic, 0, **{"isolation.level": isolation})
    check_records(consume(source, 20), wanted)
    source.close()


def test_offsets_for_times_and_watermarks(bootstrap: str, topic: str) -> None:
    put(bootstrap, topic, small_records(20))
    source = consumer(bootstrap, topic, 0)
    assert source.get_watermark_offsets(TopicPartition(topic, 0), SECONDS) == (0, 20)
    for time, offset in [(0, 0), (T0, 0), (T0 + 7, 7), (T0 + 19, 19)]:
        (found,) = source.offsets_for_times([TopicPartition(topic, 0, time)], SECONDS)
        assert found.offset == offset
    (found,) = source.offsets_for_times([TopicPartition(topic, 0, T0 + 20)], SECONDS)
    assert found.offset < 0  # the end: librdkafka's OFFSET_END
    source.close()


def test_a_consumer_at_the_end_gets_what_comes_next(bootstrap: str, topic: str) -> None:
    wanted = small_records(30)
    put(bootstrap, topic, wanted[:10])
    source = consumer(bootstrap, topic, 10)
    assert source.poll(0.1) is None
    put(bootstrap, topic, wanted[10:])
    check_records(consume(source, 20), wanted[10:], first_offset=10)
    source.close()


def test_an_offset_outside_the_log_is_an_error(bootstrap: str, topic: str) -> None:
    """Never a silent reset."""
    put(bootstrap, topic, small_records(5))
    source = consumer(bootstrap, topic, 500, **{"auto.offset.reset": "error"})
    message = source.poll(SECONDS)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    source.close()


def test_too_large_a_message_is_refused(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="10000")
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x" * 20_000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_log_append_time(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    (acked,) = produce(bootstrap, topic, [Record(b"v", b"k", 12345)])
    source = consumer(bootstrap, topic, 0)
    ((_, record),) = consume(source, 1)
    assert record.timestamp == acked.timestamp()[1] > T0
    source.close()


def test_an_unknown_topic_is_an_error(bootstrap: str) -> None:
    """Consumers do not create topics."""
    source = consumer(bootstrap, "no-such-topic", 0)
    with pytest.raises(KafkaException) as raised:
        source.get_watermark_offsets(TopicPartition("no-such-topic", 0), SECONDS)
    assert raised.value.args[0].code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION}
    topic = source.list_topics("no-such-topic", SECONDS).topics["no-such-topic"]
    assert topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    source.close()
