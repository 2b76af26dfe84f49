"""What the server holds, read with Fetch over a plain socket: no client library between."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from tests.differential.batches import (
    CONTROL,
    TRANSACTIONAL,
    Batch,
    Record,
    batch,
    records_of,
    whole_batches,
)
from tests.differential.wire import Connection

FETCH_BYTES = 4 * 1024 * 1024
SETTLE_SECONDS = 20.0
SMALL_BATCH_BYTES = 1500
NOT_LEADER = 6
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ABORT_MARKER = b"\0\0\0\0"


def stored_batches(bootstrap: str, topic: str, partition: int = 0, *, gaps: bool = False) -> list[Batch]:
    """Every batch of a partition from its first offset to its high watermark; with `gaps` what compaction has
    taken away may be missing, at the end too.
    """
    found: list[Batch] = []
    with Connection(bootstrap) as connection:
        while True:
            offset = found[-1].base_offset + found[-1].last_offset_delta + 1 if found else 0
            answer = connection.ask(_fetch(topic, partition, offset)).responses[0].partitions[0]
            assert answer.error_code == 0, answer
            if offset >= answer.high_watermark:
                return found
            new = list(whole_batches(answer.records))
            if gaps and not new:
                return found
            assert new, f"nothing at {offset}, below the high watermark {answer.high_watermark}"
            assert all(one.crc_is_right for one in new)
            found += new


def stored_records(
    bootstrap: str, topic: str, partition: int = 0, *, gaps: bool = False
) -> list[tuple[int, Record]]:
    """Every (offset, record) of a partition; `gaps` as for `stored_batches`."""
    return [
        pair for one in stored_batches(bootstrap, topic, partition, gaps=gaps) for pair in records_of(one)
    ]


def committed_records(bootstrap: str, topic: str, partition: int = 0) -> list[tuple[int, Record]]:
    """Every (offset, record) of a partition that a reader of committed records gets: up to the last stable
    offset, without markers and what was aborted.
    """
    found: list[tuple[int, Record]] = []
    offset = 0
    with Connection(bootstrap) as connection:
        while True:
            request = _fetch(topic, partition, offset, READ_COMMITTED)
            answer = connection.ask(request).responses[0].partitions[0]
            assert answer.error_code == 0, answer
            if offset >= answer.last_stable_offset:
                return found
            new = list(whole_batches(answer.records))
            assert new, f"nothing at {offset}, below the last stable offset {answer.last_stable_offset}"
            aborted = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or []]
            found += [pair for one in _committed(new, aborted) for pair in records_of(one)]
            offset = new[-1].base_offset + new[-1].last_offset_delta + 1


def _committed(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> list[Batch]:
    """Those of no transaction, or of a committed one. `aborted`: producer ids and first offsets, as Fetch has
    them.
    """
    left = sorted(aborted, key=lambda one: one[1])
    aborting: set[int] = set()
    found = []
    for one in batches:
        while left and left[0][1] <= one.base_offset:
            aborting.add(left.pop(0)[0])
        if one.attributes & CONTROL:
            [(_, marker)] = records_of(one)
            if marker.key == ABORT_MARKER:
                aborting.discard(one.producer_id)
        elif not (one.attributes & TRANSACTIONAL and one.producer_id in aborting):
            found.append(one)
    return found


def _fetch(topic: str, partition: int, offset: int, isolation: int = READ_UNCOMMITTED) -> FetchRequest:
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
    )
    return FetchRequest(
        version=11,
        max_wait_ms=500,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=isolation,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])],
    )


def create_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Makes a topic with as many copies as the server likes, and waits until every partition answers."""
    return create_replicated_topic(bootstrap, name, partitions, -1, **configs)


def create_replicated_topic(bootstrap: str, name: str, partitions: int, copies: int, **configs: str) -> str:
    """Makes a topic and waits until every partition answers."""
    of = CreateTopicsRequest.CreatableTopic
    configs = {"retention_ms": "-1"} | configs  # the samples' times are long past
    settings = [of.CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()]
    topic = of(
        name=name, num_partitions=partitions, replication_factor=copies, assignments=[], configs=settings
    )
    with Connection(bootstrap) as connection:
        answer = connection.ask(CreateTopicsRequest(version=5, topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_code == 0, answer
        # What another gateway leads is asked for there. A single broker that does not lead yet soon will.
        fine = {0} if _is_alone(connection) else {0, NOT_LEADER}
        deadline = time.monotonic() + SETTLE_SECONDS
        while not _codes(connection, name, partitions) <= fine:
            assert time.monotonic() < deadline, f"{name} does not come up"
            time.sleep(0.01)
    return name


def _is_alone(connection: Connection) -> bool:
    return len(connection.ask(MetadataRequest(version=8, topics=[])).brokers) == 1


def _codes(connection: Connection, name: str, partitions: int) -> set[int]:
    of = ListOffsetsRequest.ListOffsetsTopic
    wanted = [of.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)]
    question = ListOffsetsRequest(version=5, replica_id=-1, topics=[of(name=name, partitions=wanted)])
    return {p.error_code for t in connection.ask(question).topics for p in t.partitions}


def put(
    bootstrap: str,
    topic: str,
    records: Sequence[Record],
    *,
    partition: int = 0,
    codec: str = "none",
    per_batch: int = 8,
) -> None:
    """Appends records over a plain socket, so many to a batch."""
    of = ProduceRequest.TopicProduceData
    with Connection(bootstrap) as connection:
        for first in range(0, len(records), per_batch):
            data = batch(records[first : first + per_batch], codec=codec)
            part = of.PartitionProduceData(index=partition, records=data)
            answer = connection.ask(
                ProduceRequest(
                    version=9, acks=-1, timeout_ms=10_000, topic_data=[of(name=topic, partition_data=[part])]
                )
            )
            assert answer.responses[0].partition_responses[0].error_code == 0, answer


def check_stored(bootstrap: str, topic: str, expected: Sequence[Record], codec: str) -> None:
    """Partition 0 holds exactly these records, in this order from offset 0, in batches of this codec.

    A batch too small to gain anything may be stored plain: some clients send it so.
    """
    batches = stored_batches(bootstrap, topic)
    names = {one.codec_name for one in batches}
    assert codec in names <= {codec, "none"}
    assert {one.codec_name for one in batches if len(one.raw) > SMALL_BATCH_BYTES} <= {codec}
    check_records([pair for one in batches for pair in records_of(one)], expected)


def check_records(
    found: Sequence[tuple[int, Record]], expected: Sequence[Record], first_offset: int = 0
) -> None:
    """Offsets without gaps, and every record as sent; the message names the first that is not."""
    for n, ((offset, record), wanted) in enumerate(zip(found, expected, strict=False)):
        assert offset == first_offset + n, f"record {n} has offset {offset}"
        assert record == wanted, f"offset {offset}: {_brief(record)}, expected {_brief(wanted)}"
    assert len(found) == len(expected)


def _brief(record: Record) -> str:
    text = repr(record)
    return text if len(text) < 500 else f"{text[:500]}... ({len(record.value or b'')} bytes)"
