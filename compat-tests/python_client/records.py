"""Records written and read again."""

from __future__ import annotations

from contextlib import closing

from python_client.adapter import Adapter, Consumer, NotInThisClient, Record
from python_client.checks import equal, fresh_topic, read, read_partition, same_records, send_all

T0 = 1_700_000_000_000
MESSAGE_TOO_LARGE = 10
LARGE_BYTES = 1_000_000
TOO_LARGE_BYTES = 2_000_000
MANY = 5000


def sample(count: int, length: int = 100) -> list[Record]:
    """Records whose values differ and compress."""
    return [Record(f"{n:06d} ".encode() * (length // 7), b"key %d" % n) for n in range(count)]


def codec(adapter: Adapter, name: str) -> None:
    topic = fresh_topic(adapter, f"codec-{name}")
    records = sample(500)
    with closing(adapter.producer(codec=name, linger_ms=50)) as producer:
        send_all(producer, topic, records)
    same_records(read_partition(adapter, topic, len(records)), records)
    # A client that misses something in ApiVersions compresses with nothing, in silence.
    print(f"check-codec {topic} {name}", flush=True)


def headers(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "headers")
    records = [
        Record(b"none"),
        Record(b"one", headers=(("a", b"1"),)),
        Record(b"repeated, in order", headers=(("b", b"2"), ("a", b"1"), ("b", b"3"))),
        Record(b"empty", headers=(("", b""), ("empty", b""))),
        Record(b"bytes", headers=(("\u00e9\u4e16", bytes(range(256))),)),
    ]
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
    same_records(read_partition(adapter, topic, len(records)), records)


def empty_values(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "empty")
    kinds = [(key, value) for key in (None, b"", b"k") for value in (None, b"", b"v")]
    # kafka-python refuses a record that has neither.
    records = [Record(value, key) for key, value in kinds if (key, value) != (None, None)]
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
    same_records(read_partition(adapter, topic, len(records)), records)


def batches(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "batches", partitions=3)
    records = sample(MANY)
    with closing(adapter.producer(linger_ms=20)) as producer:
        send_all(producer, topic, [Record(r.value, r.key, partition=n % 3) for n, r in enumerate(records)])
    for partition in range(3):
        wanted = [Record(r.value, r.key, partition=partition) for r in records[partition::3]]
        same_records(read_partition(adapter, topic, len(wanted), partition), wanted)


def single_records(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "single")
    records = sample(30)
    with closing(adapter.producer()) as producer:
        offsets = [producer.send(topic, record)() for record in records]
    equal(offsets, list(range(len(records))), "acknowledged offsets")
    same_records(read_partition(adapter, topic, len(records)), records)


def large_messages(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "large")
    records = [Record(b"small"), Record(bytes(range(250)) * (LARGE_BYTES // 250)), Record(b"after")]
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records[:2])
        try:
            producer.send(topic, Record(b"x" * TOO_LARGE_BYTES))()
        except Exception as error:
            equal(adapter.error_code(error), MESSAGE_TOO_LARGE, f"error code of {error!r}")
        else:
            raise AssertionError(f"{TOO_LARGE_BYTES} bytes were taken")
        send_all(producer, topic, records[2:])
    same_records(read_partition(adapter, topic, len(records)), records)


def idempotence(adapter: Adapter) -> None:
    if not adapter.can_be_idempotent:
        raise NotInThisClient("its producer is never idempotent")
    topic = fresh_topic(adapter, "idempotence")
    records = sample(2000)
    with closing(adapter.producer(idempotent=True, linger_ms=1)) as producer:
        offsets = send_all(producer, topic, records)
    equal(offsets, list(range(len(records))), "acknowledged offsets")
    same_records(read_partition(adapter, topic, len(records)), records)


def timestamps(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "timestamps", retention_ms="-1")
    records = [Record(r.value, r.key, timestamp=T0 + n * 1000) for n, r in enumerate(sample(50))]
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
    same_records(read_partition(adapter, topic, len(records)), records)
    with closing(adapter.consumer()) as consumer:
        consumer.assign(topic, [0])
        asked = {T0: 0, T0 + 20_000: 20, T0 + 20_001: 21, T0 + 49_000: 49, T0 - 5: 0, T0 + 49_001: None}
        for time, offset in asked.items():
            equal(consumer.offset_at(topic, 0, time), offset, f"offset at {time}")


def seek(adapter: Adapter) -> None:
    topic = fresh_topic(adapter, "seek")
    records = sample(100)
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
        with closing(adapter.consumer()) as consumer:
            consumer.assign(topic, [0])
            _seeks(consumer, topic, records)
            consumer.seek_to_end(topic, 0)
            more = [Record(b"behind the end")]
            send_all(producer, topic, more)
            same_records(read(consumer, 1), more, 100)


def _seeks(consumer: Consumer, topic: str, records: list[Record]) -> None:
    for offset in (42, 7, 99):
        consumer.seek(topic, 0, offset)
        same_records(read(consumer, 1)[:1], records[offset : offset + 1], offset)
    consumer.seek_to_beginning(topic, 0)
    same_records(read(consumer, 1)[:1], records[:1])
    equal(consumer.bounds(topic, 0), (0, 100), "first offset and end")
