"""Requests that are well formed and ill meant: broken batches, bombs, odd names, limits."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTopicPartitionsRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from tests.clients.stored import create_topic, put, stored_records
from tests.differential.batches import Record, batch, batch_of, unsigned_varint
from tests.differential.requests import fetch, fetch_partition, produce
from tests.differential.side import Server, Side
from tests.differential.transactions import commit_offsets, marker, write_markers
from tests.differential.wire import Connection, decode, encode
from tests.faults.victim import ANSWER_SECONDS, MIB, Victim
from tests.peers.standalone import Standalone

CORRUPT, TOO_LARGE, INVALID_TOPIC, INVALID_PARTITIONS = 2, 10, 17, 37
INVALID_CONFIG = 40
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71
OUT_OF_RANGE, UNKNOWN_TOPIC, POLICY_VIOLATION, UNSUPPORTED_CODEC, INVALID_RECORD = 1, 3, 44, 76, 87
BOMB_BYTES = 200 * MIB
ONE, TWO = [Record(b"one")], [Record(b"one"), Record(b"two")]


def side(victim: Victim) -> Side:
    """Only to build requests with."""
    return Side(Server("ours", victim.bootstrap, "run"), "bad", 0)


def send(victim: Victim, topic: str, partitions: dict[int, bytes], version: int = 9) -> list[int]:
    """The error codes of a Produce, by partition."""
    with victim.connect() as connection:
        answer = connection.ask(produce(side(victim), version, {topic: partitions}))
    found = {part.index: part.error_code for part in answer.responses[0].partition_responses}
    return [found[index] for index in sorted(found)]


BROKEN = {
    "crc": (batch(ONE, crc=0), CORRUPT),
    "magic 3": (batch(ONE, magic=3), CORRUPT),
    "magic 1": (batch(ONE, magic=1), INVALID_RECORD),
    "length - 1": (batch(ONE, length=len(batch(ONE)) - 13), CORRUPT),
    "length + 1": (batch(ONE, length=len(batch(ONE)) - 11), INVALID_RECORD),
    "count + 1": (batch(ONE, count=2), INVALID_RECORD),
    "count and delta lie": (batch(TWO, count=5, last_offset_delta=4), INVALID_RECORD),
    "last offset delta": (batch(TWO, last_offset_delta=5), INVALID_RECORD),
    "base offset": (batch(ONE, base_offset=5), INVALID_RECORD),
    "control": (batch(ONE, attributes=0x20), INVALID_RECORD),
    "codec 5": (batch(ONE, attributes=5), UNSUPPORTED_CODEC),
    "codec 7": (batch(ONE, attributes=7), UNSUPPORTED_CODEC),
    "no records": (batch([]), INVALID_RECORD),
    "two batches": (batch(ONE) + batch(ONE), INVALID_RECORD),
    "a batch inside a batch": (batch(ONE, payload=batch(ONE)), INVALID_RECORD),
    "noise": (bytes(range(200)), CORRUPT),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_batches(victim: Victim, name: str) -> None:
    """The right error for the partition; those before and after it in the request are stored."""
    broken, error = BROKEN[name]
    topic = victim.new_topic(partitions=3)
    good = batch_of(b"good")
    assert send(victim, topic, {0: good, 1: broken, 2: good}) == [0, error, 0]
    for partition, count in [(0, 1), (1, 0), (2, 1)]:
        assert len(stored_records(victim.bootstrap, topic, partition)) == count


def test_a_produce_of_very_many_partitions(victim: Victim) -> None:
    """One of as many as are allowed is answered, many times over at once; one of more is hung up on."""
    topic = victim.new_topic()
    many = {topic: dict.fromkeys(range(10), b"") | {index: batch_of(b"x") for index in range(3)}}

    def of(count: int) -> bytes:
        request = produce(side(victim), 9, many, timeout_ms=60_000)
        data = request.topic_data[0]
        data.partition_data = [data.partition_data[n % 10] for n in range(count)]
        return encode(request)

    with victim.bounded(128 * MIB):
        assert victim.answer_to(of(20_000)) is None
        clients = [victim.connect() for _ in range(8)]
        for client in clients:
            client.send(of(19_999))
        for client in clients:
            received = client.receive()
            assert received is not None
            (answered,) = decode(0, 9, received).responses
            codes = [part.error_code for part in answered.partition_responses]
            assert len(codes) == 19_999
            # Partition 0 is the only one that is there; batches of others, and no batches, are refused.
            assert {index: set(codes[index::10]) for index in range(10)} == {
                0: {0}, **{index: {UNKNOWN_TOPIC} for index in range(1, 10)}
            }  # fmt: skip
            client.close()


def large_record() -> bytes:
    """One record of 200 MiB of zeros, as it would be inside a batch."""
    length = varint_of(BOMB_BYTES)
    inner = b"\0\0\0\1" + length + bytes(BOMB_BYTES) + b"\0"
    return varint_of(len(inner)) + inner


def varint_of(number: int) -> bytes:
    return unsigned_varint(number << 1)


def _zstd_with_size(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=True).compress(data)


def _zstd_without_size(data: bytes) -> bytes:
    made = zstandard.ZstdCompressor().compressobj()
    return made.compress(data) + made.flush()


def _xerial(data: bytes) -> bytes:
    """snappy-java's framing around a block that claims to be 3 GiB."""
    block = unsigned_varint(3 * 1024 * MIB) + bytes(cramjam.snappy.compress_raw(data[:1000]))[2:]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + struct.pack(">i", len(block)) + block


BOMBS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, lambda data: gzip.compress(data, 6)),
    "snappy that claims 4 GiB": (2, lambda _: b"\xff\xff\xff\xff\x0f" + b"\0" * 50),
    "xerial that claims 3 GiB": (2, _xerial),
    "lz4": (3, lambda data: lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "zstd with its size": (4, _zstd_with_size),
    "zstd without its size": (4, _zstd_without_size),
    "zstd that claims 2^62": (4, lambda _: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**62) + b"\1\0\0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bombs(victim: Victim, name: str) -> None:
    """Sent with a largest time that makes the server look inside, and asked for by time if stored."""
    codec, squeeze = BOMBS[name]
    payload = squeeze(large_record())
    topic = victim.new_topic(partitions=2, max_message_bytes=str(16 * MIB))
    records = [Record(b"x")]
    with victim.bounded(128 * MIB):
        for partition, largest in [(0, -1), (1, records[0].timestamp)]:
            data = batch(records, payload=payload, attributes=codec, max_timestamp=largest)
            (error,) = send(victim, topic, {partition: data})
            assert error in {0, CORRUPT, TOO_LARGE, INVALID_RECORD}
            if error == 0:
                by_time(victim, topic, partition, records[0].timestamp)


OPENED = ["gzip", "snappy that claims 4 GiB", "zstd without its size"]


@pytest.mark.slow
def test_bombs_that_the_server_opens() -> None:
    """Where batches are opened to be compressed anew, or for their keys; and in compaction, which reads what
    was stored before the topic was compacted: it is left alone, and other topics are compacted.
    """
    with Standalone(None, "--compaction-backoff-ms", "20") as server:
        victim = Victim(server)
        size = str(16 * MIB)
        topics = [
            victim.new_topic(max_message_bytes=size, compression_type="gzip"),
            victim.new_topic(max_message_bytes=size, compression_type="uncompressed"),
            victim.new_topic(max_message_bytes=size, cleanup_policy="compact"),
        ]
        plain = victim.new_topic(len(OPENED), max_message_bytes=size)
        # What is inflated is 64 MiB at most, and so is what it is read from.
        with victim.bounded(320 * MIB):
            for partition, name in enumerate(OPENED):
                codec, squeeze = BOMBS[name]
                data = batch(
                    [Record(b"x", b"k")], payload=squeeze(large_record()), attributes=codec, max_timestamp=-1
                )
                for topic in topics:
                    (error,) = send(victim, topic, {0: data})
                    assert error in {CORRUPT, TOO_LARGE, INVALID_RECORD}
                assert send(victim, plain, {partition: data})[0] in {0, CORRUPT, TOO_LARGE, INVALID_RECORD}
            for topic in topics:
                assert stored_records(victim.bootstrap, topic) == []
            other = victim.new_topic()
            for topic in (plain, other):
                eager = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
                assert alter(victim, topic, eager) == 0
            for value in (b"old", b"new", b"last"):
                put(victim.bootstrap, other, [Record(value, b"k")])
            deadline = time.monotonic() + ANSWER_SECONDS
            while b"old" in [record.value for _, record in stored_records(victim.bootstrap, other)]:
                assert time.monotonic() < deadline, server.tail()
                time.sleep(0.01)


def by_time(victim: Victim, topic: str, partition: int, time: int) -> Any:
    of = ListOffsetsRequest.ListOffsetsTopic
    one = of.ListOffsetsPartition(partition_index=partition, timestamp=time)
    with victim.connect() as connection:
        return connection.ask(
            ListOffsetsRequest(version=5, replica_id=-1, topics=[of(name=topic, partitions=[one])])
        )


NAMES = [
    "",
    ".",
    "..",
    "a/b",
    "x" * 250,
    "a\0b",
    "\N{SNOWMAN}",
    "a b",
    "a\nb",
    "../../etc/passwd",
    "%00",
    "a:b",
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_topic_names(victim: Victim, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=-1, assignments=[], configs=[]
    )
    with victim.connect() as connection:
        made = connection.ask(CreateTopicsRequest(version=5, topics=[topic], timeout_ms=5_000))
        assert made.topics[0].error_code == INVALID_TOPIC
        wanted = [MetadataRequest.MetadataRequestTopic(name=name, topic_id=None)]
        shown = connection.ask(MetadataRequest(version=9, topics=wanted, allow_auto_topic_creation=True))
        assert shown.topics[0].error_code == INVALID_TOPIC
        stored = connection.ask(produce(side(victim), 9, {name: {0: batch_of(b"x")}}))
        assert stored.responses[0].partition_responses[0].error_code in {UNKNOWN_TOPIC, INVALID_TOPIC}
    victim.check()


def test_names_that_begin_alike(victim: Victim) -> None:
    """Prefixes of each other, upper and lower case, dots: each topic has its own records."""
    names = ["fo", "foo", "fooo", "foo.bar", "foo-bar", "FOO", "f", "foo."]
    for name in names:
        create_topic(victim.bootstrap, name)
        put(victim.bootstrap, name, [Record(name.encode())])
    for name in names:
        assert [r.value for _, r in stored_records(victim.bootstrap, name)] == [name.encode()]


@pytest.mark.parametrize("partitions", [1_000_000, 2**31 - 1])
def test_too_many_partitions(victim: Victim, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(
        name="huge", num_partitions=partitions, replication_factor=-1, assignments=[], configs=[]
    )
    with victim.bounded(16 * MIB), victim.connect() as connection:
        made = connection.ask(CreateTopicsRequest(version=5, topics=[topic], timeout_ms=5_000))
        assert made.topics[0].error_code in {INVALID_PARTITIONS, POLICY_VIOLATION}


@pytest.mark.parametrize("partitions", [1_000_000, 2**31 - 1])
def test_too_many_partitions_for_a_topic_that_is_there(victim: Victim, partitions: int) -> None:
    name = victim.new_topic()
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    with victim.bounded(16 * MIB), victim.connect() as connection:
        made = connection.ask(CreatePartitionsRequest(version=3, topics=[topic], timeout_ms=5_000))
        assert made.results[0].error_code == POLICY_VIOLATION


def alter(victim: Victim, name: str, configs: dict[str, str]) -> int:
    """The error code of an IncrementalAlterConfigs of one topic."""
    of = IncrementalAlterConfigsRequest.AlterConfigsResource
    made = [of.AlterableConfig(name=n, config_operation=0, value=v) for n, v in configs.items()]
    resource = of(resource_type=2, resource_name=name, configs=made)
    with victim.connect() as connection:
        request = IncrementalAlterConfigsRequest(version=1, resources=[resource], validate_only=False)
        return int(connection.ask(request).responses[0].error_code)


def test_configs_that_are_too_many_or_too_large(victim: Victim) -> None:
    """Refused by name, and the topic stays as it was."""
    name = victim.new_topic()
    numbers = ("flush.messages", "flush.ms", "index.interval.bytes", "max.message.bytes", "retention.bytes",
               "retention.ms", "segment.ms", "segment.jitter.ms", "delete.retention.ms",
               "file.delete.delay.ms", "min.compaction.lag.ms")  # fmt: skip
    with victim.bounded(64 * MIB):
        assert alter(victim, name, {f"config.{n}": "1" for n in range(20_000)}) == INVALID_CONFIG
        assert alter(victim, name, {"retention.ms": "9" * 30_000}) == INVALID_CONFIG
        assert alter(victim, name, {"x" * 30_000: "1"}) == INVALID_CONFIG
        # Each is a number for Java, which cuts the blanks; together they do not fit the catalog.
        assert alter(victim, name, dict.fromkeys(numbers, "\1" * 32_000 + "1")) == INVALID_CONFIG
        assert alter(victim, name, {"retention.ms": "1000"}) == 0
    victim.check()


def test_partitions_that_are_described_over_and_over(victim: Victim) -> None:
    name = victim.new_topic()
    put(victim.bootstrap, name, [Record(b"x")])
    dirs = DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=[0, 1, -1] * 30_000)
    producers = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0] * 40_000)
    pages = [DescribeTopicPartitionsRequest.TopicRequest(name=f"nowhere-{n}") for n in range(10_000)]
    with victim.bounded(64 * MIB), victim.connect() as connection:
        found = connection.ask(DescribeLogDirsRequest(version=5, topics=[dirs]))
        assert [len(topic.partitions) for topic in found.results[0].topics] == [1]
        told = connection.ask(DescribeProducersRequest(version=0, topics=[producers]))
        assert len(told.topics[0].partitions) == 40_000
        shown = connection.ask(
            DescribeTopicPartitionsRequest(version=0, topics=pages, response_partition_limit=2**31 - 1)
        )
        assert {topic.error_code for topic in shown.topics} == {UNKNOWN_TOPIC}
        assert len(shown.topics) == 10_000


MANY = 60_000


@pytest.mark.parametrize(
    "request_of_many",
    [
        DescribeTransactionsRequest(version=0, transactional_ids=[""] * MANY),
        DescribeUserScramCredentialsRequest(
            version=0, users=[DescribeUserScramCredentialsRequest.UserName(name="u")] * MANY
        ),
        AlterUserScramCredentialsRequest(
            version=0,
            deletions=[AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="u", mechanism=1)]
            * MANY,
            upsertions=[],
        ),
        ElectLeadersRequest(
            version=2,
            topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0] * MANY)],
            timeout_ms=1000,
        ),
        DescribeProducersRequest(
            version=0,
            topics=[DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0] * MANY)],
        ),
        IncrementalAlterConfigsRequest(
            version=1,
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=2, resource_name="", configs=[]
                )
            ]
            * MANY,
            validate_only=False,
        ),
        AlterReplicaLogDirsRequest(
            version=2,
            dirs=[AlterReplicaLogDirsRequest.AlterReplicaLogDir(path="", topics=[])] * MANY,
        ),
        UpdateFeaturesRequest(
            version=2,
            feature_updates=[UpdateFeaturesRequest.FeatureUpdateKey(feature="", max_version_level=0)] * MANY,
        ),
        write_markers(marker(1, 0, committed=False, wanted={"t": [0] * MANY}), version=1),
        commit_offsets("t", 1, 0, "g", {"t": dict.fromkeys(range(MANY), 0)}, version=3),
    ],
    ids=lambda request: type(request).__name__,
)
def test_too_many_small_questions_are_refused(victim: Victim, request_of_many: Any) -> None:
    """Each answer would be hundreds of times as large as its question."""
    with victim.bounded(64 * MIB), victim.connect() as connection:
        connection.send(encode(request_of_many))
        assert connection.receive() is None
    victim.check()


def test_metadata_of_ten_thousand_names(victim: Victim) -> None:
    wanted = [MetadataRequest.MetadataRequestTopic(name=f"nowhere-{n}", topic_id=None) for n in range(10_000)]
    with victim.bounded(64 * MIB), victim.connect() as connection:
        shown = connection.ask(MetadataRequest(version=9, topics=wanted, allow_auto_topic_creation=False))
        assert {topic.error_code for topic in shown.topics} == {UNKNOWN_TOPIC}
        assert len(shown.topics) == 10_000


@pytest.mark.parametrize("offset", [-1, -2, 4, 5, 1000, 2**62, -(2**63)])
def test_offsets_out_of_range(victim: Victim, offset: int) -> None:
    """Error 1 and nothing else: a silent reset would lose or double records."""
    topic = victim.new_topic()
    put(victim.bootstrap, topic, [Record(b"x")] * 3)
    for version in (4, 11, 12):
        with victim.connect() as connection:
            ask = fetch(side(victim), version, {topic: [fetch_partition(0, offset)]})
            part = connection.ask(ask).responses[0].partitions[0]
        assert part.error_code == OUT_OF_RANGE
        assert not part.records


def test_fetches_that_wait_for_ever(victim: Victim) -> None:
    """They hold nothing up, and their clients may go away."""
    topic = victim.new_topic()
    most = 2**31 - 1
    ask = fetch(side(victim), 11, {topic: [fetch_partition(0, 0)]}, max_wait_ms=most, min_bytes=most)
    with victim.bounded(32 * MIB):
        for _ in range(200):
            with victim.connect() as connection:
                connection.send(encode(ask))
        waiting = [victim.connect() for _ in range(50)]
        for connection in waiting:
            connection.send(
                encode(fetch(side(victim), 11, {topic: [fetch_partition(0, 0)]}, max_wait_ms=most))
            )
        put(victim.bootstrap, topic, [Record(b"at last")])
        for connection in waiting:
            assert connection.receive() is not None
            connection.close()


def test_records_that_are_not_there_cannot_be_deleted(victim: Victim) -> None:
    """Beyond the high watermark or below zero: an error, and what is there stays; too many are refused."""
    topic = victim.new_topic()
    put(victim.bootstrap, topic, [Record(b"x")] * 3)
    of = DeleteRecordsRequest.DeleteRecordsTopic

    def delete(index: int, offset: int) -> int:
        part = of.DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(version=2, topics=[of(name=topic, partitions=[part])], timeout_ms=5000)
        with victim.connect() as connection:
            return int(connection.ask(request).topics[0].partitions[0].error_code)

    assert [delete(0, offset) for offset in (4, 2**63 - 1, -2, -(2**63))] == [OUT_OF_RANGE] * 4
    assert [delete(index, 1) for index in (1, -1, 2**31 - 1)] == [UNKNOWN_TOPIC] * 3
    assert len(stored_records(victim.bootstrap, topic)) == 3
    many = [of.DeleteRecordsPartition(partition_index=0, offset=0)] * 60_000
    with victim.bounded(32 * MIB), victim.connect() as connection:
        connection.send(encode(DeleteRecordsRequest(version=2, topics=[of(name=topic, partitions=many)])))
        assert connection.receive() is None


def test_cursors_that_lead_nowhere(victim: Victim) -> None:
    """Names that are not there, or cannot be; partitions and limits of any number: pages come to an end."""
    names = [victim.new_topic(partitions=3) for _ in range(3)]
    of = DescribeTopicPartitionsRequest
    wanted = [of.TopicRequest(name=name) for name in names]

    def pages(cursor: Any, limit: int) -> list[tuple[str, int]]:
        """All partitions from there on, page by page."""
        seen: list[tuple[str, int]] = []
        for _ in range(12):
            request = of(version=0, topics=wanted, response_partition_limit=limit, cursor=cursor)
            with victim.connect() as connection:
                connection.send(encode(request))
                received = connection.receive()
            if received is None:
                return seen
            answer = decode(75, 0, received)
            seen += [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
            if answer.next_cursor is None:
                return seen
            found = answer.next_cursor
            cursor = of.Cursor(topic_name=found.topic_name, partition_index=found.partition_index)
        raise AssertionError(f"pages without end: {cursor}, limit {limit}")

    with victim.bounded(32 * MIB):
        for name in (names[1], names[1] + "x", "", "a/b", "zzz", "x" * 32_000):
            for index in (0, 2, 3, 2**31 - 1, -1, -(2**31)):
                for limit in (1, 2**31 - 1, 0, -1, -(2**31)):
                    seen = pages(of.Cursor(topic_name=name, partition_index=index), limit)
                    assert len(seen) == len(set(seen)) <= 9


def test_fetch_sessions_that_are_not_there(victim: Victim) -> None:
    """Ids and epochs of any number: an error says which is wrong, and real sessions are not disturbed."""
    topic = victim.new_topic()
    with victim.bounded(16 * MIB), victim.connect() as connection:

        def ask(session_id: int, epoch: int) -> Any:
            wanted = {topic: [fetch_partition(0, 0)]}
            request = fetch(side(victim), 11, wanted, session_id=session_id, session_epoch=epoch)
            return connection.ask(request)

        mine = ask(0, 0).session_id
        assert mine > 0
        for session_id in (mine + 1, -1, 2**31 - 1, -(2**31)):
            for epoch in (1, 2**31 - 1, -(2**31)):
                assert ask(session_id, epoch).error_code == SESSION_ID_NOT_FOUND
        for epoch in (0x7FFF, 2**31 - 1, -(2**31), -2, 2):
            assert ask(mine, epoch).error_code == INVALID_SESSION_EPOCH
        assert ask(mine, 1).error_code == 0
        end_sessions(victim, connection, {mine})


def end_sessions(victim: Victim, connection: Connection, sessions: set[int]) -> None:
    """Leave none of them to other tests: they keep their places for two minutes."""
    for session_id in sessions - {0}:
        assert connection.ask(fetch(side(victim), 11, {}, session_id=session_id)).error_code == 0


def test_many_fetch_sessions(victim: Victim) -> None:
    """Sessions are asked for again and again, and none is used: a thousand are kept, and no more."""
    topic = victim.new_topic()
    with victim.bounded(16 * MIB), victim.connect() as connection:
        given = set()
        for _ in range(3000):
            ask = fetch(side(victim), 11, {topic: [fetch_partition(0, 0)]}, session_id=0, session_epoch=0)
            given.add(connection.ask(ask).session_id)
        assert 1 <= len(given - {0}) <= 1000
        end_sessions(victim, connection, given)


def test_fetch_sessions_of_very_many_partitions(victim: Victim) -> None:
    """Their memory is bounded as their number is: who finds no room is answered without one."""
    topic = victim.new_topic()
    wanted = {topic: [fetch_partition(index, 0) for index in range(10_000)]}
    ask = fetch(side(victim), 11, wanted, session_id=0, session_epoch=0)
    with victim.bounded(160 * MIB):
        with victim.connect() as connection:
            given = [connection.ask(ask).session_id for _ in range(11)]
            end_sessions(victim, connection, set(given))
        assert 4 <= len([session_id for session_id in given if session_id]) <= 9
        assert given[-1] == 0


def test_one_partition_named_a_thousand_times(victim: Victim) -> None:
    """A Fetch that names a large partition over and over stays within max_bytes."""
    topic = victim.new_topic()
    put(victim.bootstrap, topic, [Record(bytes(500_000))])
    wanted = [fetch_partition(0, 0) for _ in range(1000)]
    with victim.bounded(64 * MIB), victim.connect() as connection:
        answer = connection.ask(fetch(side(victim), 11, {topic: wanted}, max_bytes=2 * MIB))
        total = sum(len(part.records or b"") for part in answer.responses[0].partitions)
        assert total <= 3 * MIB
