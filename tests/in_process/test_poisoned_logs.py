"""Bytes that nobody could read never enter a log; and where they did all the same, others are served."""

from __future__ import annotations

import gzip
import logging
import time
from pathlib import Path
from typing import Any

import pytest
import trio
import zstandard
from kafka import KafkaConsumer, TopicPartition
from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import ProduceResponse

from dafka.processes.standalone import Standalone
from gateway.broker import Broker
from gateway.groups.internal_topic import OFFSETS_TOPIC, OFFSETS_TOPIC_PARTITIONS
from gateway.journal.internal_topic import partition_for
from gateway.produce.opening import MAX_NAMED_RECORDS
from tests.clients.stored import stored_batches
from tests.differential.offsets import commit, offset
from tests.differential.wire import Connection, decode
from tests.in_process.in_process import RawClient, produce_request, running
from tests.in_process.test_offsets import ask, codes, find, groups_of, until_loaded
from tests.peers.standalone import Standalone as StandaloneProcess
from wireproto.records.builder import build_batch
from wireproto.records.header import BatchHeader, read_header
from wireproto.records.signing import sign
from wireproto.records.varint import write_varint

CORRUPT, MESSAGE_TOO_LARGE, INVALID_CONFIG, INVALID_RECORD = 2, 10, 40, 87
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
NOW_MS = int(time.time() * 1000)


def good(value: bytes, codec: int = 0, count: int = 1) -> bytes:
    return build_batch([(b"k", b"%s %d" % (value, n), [], NOW_MS + n) for n in range(count)], codec=codec)


def of(body: bytes, count: int = 1, codec: int = 0) -> bytes:
    """A batch with a header that is right in itself, and a right CRC."""
    header: BatchHeader = read_header(build_batch([(None, b"", [], NOW_MS)]))
    return sign(header._replace(attributes=codec, count=count, last_offset_delta=count - 1), body)


def record(place: int = 0, *, delta: int = 0, value: bytes = b"v") -> bytes:
    body, out = bytearray(b"\0"), bytearray()
    for number in (delta, place, -1, len(value)):
        write_varint(number, body)
    body += value + b"\0"
    write_varint(len(body), out)
    return bytes(out + body)


RECORDS = [record(place) for place in range(20)]
ZSTD_OF_64_MIB = zstandard.ZstdCompressor(3).compress(bytes(64 << 20))
ATTACKS = {
    "a zstd header with garbage behind it": of(ZSTD_MAGIC + bytes(range(1, 201)), 3, 4),
    "a gzip header with garbage behind it": of(b"\x1f\x8b\x08" + bytes(range(200)), 3, 1),
    "an lz4 header with garbage behind it": of(b"\x04\x22\x4d\x18" + bytes(range(200)), 3, 3),
    "garbage as snappy": of(bytes(range(1, 201)), 3, 2),
    "uncompressed garbage": of(bytes(range(3, 251)) * 2, 17),
    "uncompressed garbage, much of it": of(bytes(range(3, 251)) * 900, 9000),
    "too large a count in gzip": of(gzip.compress(RECORDS[0]), 20, 1),
    "too small a count in gzip": of(gzip.compress(b"".join(RECORDS)), 19, 1),
    "one malformed record": of(b"\x0c\0\0\0\x7f\x7f\x7f"),
    "one malformed record among many": of(
        b"".join([*RECORDS[:17], b"\x0c\0\0\x22\x7f\x7f\x7f", *RECORDS[18:]]), 20
    ),
    "one malformed record in zstd": of(
        zstandard.ZstdCompressor(3).compress(b"".join([*RECORDS[:19], b"\x0c\0\0\x26\x7f\x7f\x7f"])), 20, 4
    ),
    "offset deltas that repeat": of(b"".join([*RECORDS[:19], RECORDS[18]]), 20),
    "2**31 - 1 records claimed": of(ZSTD_MAGIC + bytes(470_000), INT32_MAX, 4),
    "2**31 - 1 records claimed in a frame of 64 MiB": of(ZSTD_OF_64_MIB, INT32_MAX, 4),
    "9 million records claimed in a frame of 64 MiB of zeros": of(ZSTD_OF_64_MIB, 9_000_000, 4),
    "a timestamp that overflows": of(record(delta=INT64_MAX)),
    "a number of too many bytes": of(
        b"".join([*RECORDS[:19], b"\x18\0\0\x26\x81\x80\x80\x80\x80\0\x02v\0"]), 20
    ),
}


def produce(connection: Connection, batch: bytes, topic: str = "orders", acks: int = -1) -> tuple[int, int]:
    """(error, base offset)."""
    answer = connection.ask(produce_request(batch, topic=topic, acks=acks, timeout_ms=30_000))
    (part,) = answer.responses[0].partition_responses
    return part.error_code, part.base_offset


def consumed(bootstrap: str, count: int) -> list[bytes]:
    """What kafka-python's consumer reads of the topic."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=20_000, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition("orders", 0)])
    found: list[bytes] = []
    for message in consumer:
        found.append(message.value)
        if len(found) == count:
            break
    consumer.close()
    return found


def test_what_nobody_could_read_is_refused_and_is_in_no_log(tmp_path: Path) -> None:
    """Consumers read what came before and after it."""
    arguments = ("--topics", "orders", "--fsync", "never")
    with StandaloneProcess(tmp_path / "data", *arguments, directory=tmp_path / "server") as server:
        sent: list[bytes] = []
        with Connection(server.bootstrap) as connection:
            for number, (name, batch) in enumerate(ATTACKS.items()):
                kept = good(b"before " + name.encode(), number % 5, 1 + number)
                code, base = produce(connection, kept)
                assert (code, base) == (0, len(sent))
                sent += [b"before %s %d" % (name.encode(), n) for n in range(1 + number)]
                assert produce(connection, batch) == (INVALID_RECORD, -1), name
            assert produce(connection, good(b"last")) == (0, len(sent))
            sent.append(b"last 0")
        batches = stored_batches(server.bootstrap, "orders")
        assert [one.base_offset for one in batches][-1] == len(sent) - 1
        assert len(batches) == len(ATTACKS) + 1
        assert consumed(server.bootstrap, len(sent)) == sent


def test_a_batch_that_waits_to_be_opened_keeps_its_place(tmp_path: Path) -> None:
    """What its client sends after it is appended after it; other clients do not wait."""

    async def main() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with (
                running(tmp_path, patch, topics=(("orders", 1), ("others", 1))) as (_, port),
                await RawClient.connect(port) as client,
                await RawClient.connect(port) as other,
            ):
                large = build_batch([(None, b"%d" % n, [], NOW_MS) for n in range(300_000)], codec=1)
                await client.send(produce_request(large))
                await client.send(produce_request(good(b"small")), 2)
                done: list[str] = []

                async def first() -> None:
                    for expected in (0, 300_000):
                        answer = await client.receive(ProduceResponse, 9)
                        (part,) = answer.responses[0].partition_responses
                        assert (part.error_code, part.base_offset) == (0, expected)
                    done.append("large")

                async def second() -> None:
                    answer = await other.ask(produce_request(good(b"x"), topic="others"), ProduceResponse)
                    assert answer.responses[0].partition_responses[0].error_code == 0
                    done.append("others")

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(first)
                    nursery.start_soon(second)
                assert done == ["others", "large"]

    trio.run(main)


def test_trusted_batches_are_not_looked_through_but_internal_topics_are(tmp_path: Path) -> None:
    arguments = ("--topics", "orders", "--trust-batches", "--admin-client-writes", "--fsync", "never")
    with StandaloneProcess(tmp_path / "data", *arguments, directory=tmp_path / "server") as server:
        bad = of(b"".join([*RECORDS[:17], b"\x0c\0\0\x22\x7f\x7f\x7f", *RECORDS[18:]]), 20)
        with Connection(server.bootstrap) as connection:
            assert produce(connection, bad) == (0, 0)
            assert connection.ask(FindCoordinatorRequest(version=1, key="g", key_type=0)).error_code == 0
            request = produce_request(bad, topic=OFFSETS_TOPIC)
            request.with_header(correlation_id=1, client_id="__admin_client")
            connection.send(bytes(request.encode(framed=True, header=True)))
            received = connection.receive()
            assert received is not None
            answer = decode(0, 9, received)
            assert answer.responses[0].partition_responses[0].error_code == INVALID_RECORD


def test_an_answer_names_so_many_records_and_no_more(tmp_path: Path) -> None:
    """Of all batches of the request together: of 200 such ones it would have had hundreds of megabytes."""

    async def main() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with (
                running(tmp_path, patch, topics=(("orders", 1),)) as (_, port),
                await RawClient.connect(port) as client,
            ):
                compacted = IncrementalAlterConfigsRequest.AlterConfigsResource
                request = IncrementalAlterConfigsRequest(
                    version=1,
                    resources=[
                        compacted(
                            resource_type=2,
                            resource_name="orders",
                            configs=[compacted.AlterableConfig(
                                name="cleanup.policy", config_operation=0, value="compact"
                            )],
                        )
                    ],
                    validate_only=False,
                )  # fmt: skip
                assert (await ask(client, request)).responses[0].error_code == 0
                keyless = build_batch([(None, b"", [], NOW_MS)] * 9000, codec=4)
                late = build_batch([(b"k", b"", [], 2 * NOW_MS)] * 9000, codec=4)
                produced = produce_request(keyless)
                data = produced.topic_data[0]
                part = data.PartitionProduceData
                data.partition_data = [
                    part(version=9, index=0, records=content) for content in [keyless, late] * 10
                ]
                answer = await client.ask(produced, ProduceResponse)
                parts = answer.responses[0].partition_responses
                assert [part.error_code for part in parts] == [INVALID_RECORD, 32] * 10
                assert sum(len(part.record_errors) for part in parts) == MAX_NAMED_RECORDS
                assert "rejected due to 9000 record errors in total" in parts[-2].error_message

    trio.run(main)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_the_topic_of_groups_stays_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    async def main() -> None:
        async with running(tmp_path, monkeypatch) as (_, port), await RawClient.connect(port) as client:
            await find(client)
            for name, operation, value in [
                ("cleanup.policy", 0, policy),
                ("cleanup.policy", 1, None),
                ("max.message.bytes", 0, "100"),
            ]:
                resource = IncrementalAlterConfigsRequest.AlterConfigsResource
                config = resource.AlterableConfig(name=name, config_operation=operation, value=value)
                request = IncrementalAlterConfigsRequest(
                    version=1,
                    resources=[resource(resource_type=2, resource_name=OFFSETS_TOPIC, configs=[config])],
                    validate_only=False,
                )
                (told,) = (await ask(client, request)).responses
                assert told.error_code == INVALID_CONFIG
                assert told.error_message.startswith(f"The internal topic {OFFSETS_TOPIC} needs {name}")

    trio.run(main)


def test_groups_are_there_beside_a_batch_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was written into every partition, past all checks, before and after what groups committed."""
    groups = [f"group {number}" for number in range(20)]
    brokers: list[Broker] = []
    monkeypatch.setattr(Standalone, "_register_metrics", lambda _self, broker: brokers.append(broker))

    def poison(bad: bytes) -> None:
        topic = brokers[-1].topics.get(OFFSETS_TOPIC)
        assert topic is not None
        for partition in topic.partitions:
            view = memoryview(bytearray(bad))
            partition.append(read_header(view), view, -1, NOW_MS)
        brokers[-1].deliver()

    async def first() -> None:
        async with (
            running(tmp_path, monkeypatch, topics=(("orders", 1),)) as (server, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            assert await groups_of(client) == []
            poison(ATTACKS["a zstd header with garbage behind it"])
            for number, group in enumerate(groups):
                assert codes(await ask(client, commit(group, {"orders": [offset(0, number)]}))) == [0]
            poison(ATTACKS["one malformed record among many"])
            for group in groups[::2]:
                assert codes(await ask(client, commit(group, {"orders": [offset(0, 99)]}))) == [0]
        await server.catalog.aclose()

    async def second() -> None:
        async with (
            running(tmp_path, monkeypatch) as (server, port),
            await RawClient.connect(port) as client,
        ):
            await find(client)
            for number, group in enumerate(groups):
                expected = number if number % 2 else 99
                assert await until_loaded(client, group) == {("orders", 0): (expected, -1, "")}
            assert await groups_of(client) == sorted(groups)
            assert codes(await ask(client, commit("another", {"orders": [offset(0, 1)]}))) == [0]
            journal: Any = brokers[-1].groups.journal
            assert journal.unreadable_batches == 2 * OFFSETS_TOPIC_PARTITIONS
        await server.catalog.aclose()

    trio.run(first)
    with caplog.at_level(logging.ERROR):
        trio.run(second)
    place = partition_for(groups[0], OFFSETS_TOPIC_PARTITIONS)
    said = [
        one.getMessage()
        for one in caplog.records
        if f"{OFFSETS_TOPIC}-{place}: the batch" in one.getMessage()
    ]
    assert len(said) == 2
    assert said[0].startswith(
        f"{OFFSETS_TOPIC}-{place}: the batch of 265 bytes at offsets 0 to 2 cannot be read"
    )
