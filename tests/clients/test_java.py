"""Apache Kafka's own Java clients: 4.3, which produces by topic id, and 3.9, which Spark brings."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

import pytest

from tests.clients.sample import CODEC_NAMES, records, small_records
from tests.clients.stored import check_records, check_stored, put, stored_batches
from tests.differential.batches import Record
from tests.peers.java import java_client
from tests.peers.maven import KAFKA_VERSION, OLD_CLIENTS_VERSION

SETTINGS = [
    "max.request.size=1048588",
    "linger.ms=5",
    "delivery.timeout.ms=30000",
    "request.timeout.ms=10000",
]
VERSIONS = [KAFKA_VERSION, OLD_CLIENTS_VERSION]


def text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def data(field: str) -> bytes | None:
    return None if field == "-" else base64.b64decode(field)


def line(topic: str, record: Record) -> str:
    headers = ",".join(f"{name}={text(value)}" for name, value in record.headers)
    return f"{topic}\t0\t{record.timestamp}\t{text(record.key)}\t{text(record.value)}\t{headers}"


def produce(bootstrap: str, topic: str, wanted: Sequence[Record], version: str, *settings: str) -> list[str]:
    """One line for each record sent: partition, offset, timestamp; or the error."""
    given = "".join(line(topic, record) + "\n" for record in wanted)
    address = f"bootstrap.servers={bootstrap}"
    done = java_client("Producer", address, *SETTINGS, *settings, stdin=given, version=version)
    return done.stdout.splitlines()


def consume(bootstrap: str, ranges: Sequence[str], version: str) -> dict[str, list[tuple[int, Record]]]:
    """The records of `topic:partition:start:end` ranges, by topic."""
    settings = [f"bootstrap.servers={bootstrap}", "auto.offset.reset=none", "enable.auto.commit=false"]
    done = java_client("AssignedConsumer", *settings, *ranges, version=version)
    found: dict[str, list[tuple[int, Record]]] = {}
    for row in done.stdout.splitlines():
        topic, _, offset, timestamp, kind, epoch, key, value, headers = row.split("\t")
        assert kind == "CreateTime"
        assert int(epoch) >= 0
        pairs = tuple((h.split("=", 1)[0], data(h.split("=", 1)[1])) for h in headers.split(",") if h)
        record = Record(data(value), data(key), int(timestamp), pairs)
        found.setdefault(topic, []).append((int(offset), record))
    return found


@pytest.mark.parametrize(
    ("version", "codecs"),
    [(KAFKA_VERSION, CODEC_NAMES), (OLD_CLIENTS_VERSION, ["none", "snappy"])],
    ids=VERSIONS,
)
def test_round_trip(bootstrap: str, new_topic: Callable[..., str], version: str, codecs: list[str]) -> None:
    """With its defaults: idempotent, acks=all. A producer for each codec, one consumer for all topics."""
    wanted = records()
    topics = {codec: new_topic() for codec in codecs}
    for codec, topic in topics.items():
        lines = produce(bootstrap, topic, wanted, version, f"compression.type={codec}")
        assert lines == [f"0\t{n}\t{record.timestamp}" for n, record in enumerate(wanted)]
        check_stored(bootstrap, topic, wanted, codec)
    found = consume(bootstrap, [f"{topic}:0:0:{len(wanted)}" for topic in topics.values()], version)
    for topic in topics.values():
        check_records(found[topic], wanted)


def test_not_idempotent(bootstrap: str, topic: str) -> None:
    wanted = small_records(300)
    lines = produce(bootstrap, topic, wanted, KAFKA_VERSION, "enable.idempotence=false", "acks=1")
    assert len(lines) == len(wanted)
    check_stored(bootstrap, topic, wanted, "none")


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_what_others_stored(bootstrap: str, new_topic: Callable[..., str], version: str) -> None:
    wanted = small_records(50)
    topics = [new_topic() for _ in CODEC_NAMES]
    for topic, codec in zip(topics, CODEC_NAMES, strict=True):
        put(bootstrap, topic, wanted, codec=codec)
    found = consume(bootstrap, [f"{topic}:0:3:50" for topic in topics], version)
    for topic in topics:
        check_records(found[topic], wanted[3:], first_offset=3)


def test_errors_are_named(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    (line,) = produce(bootstrap, topic, [Record(b"x" * 5000, b"k")], KAFKA_VERSION)
    assert line.startswith("error\tRecordTooLargeException")
    assert stored_batches(bootstrap, topic) == []
