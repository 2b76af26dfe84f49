"""Fetch by hand, against kafka-python's encoder and bytes written down."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.fetch import (
    MAX_VERSION,
    MIN_VERSION,
    Buffer,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    decode_fetch,
    encode_fetch_response,
)
from wireproto.kafka.leaders import CurrentLeader, NodeEndpoint
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

FETCH = 1
VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)
Response = RESPONSE_CLASSES[FETCH]
TopicResponse = Response.FetchableTopicResponse
PartitionResponse = TopicResponse.PartitionData
TOPIC_ID = bytes(range(1, 17))


def decode(version: int, body: bytes) -> FetchRequest:
    return decode_fetch(version, memoryview(body), 0)


def one_partition(*fields: int, name: str | None = "t", topic_id: bytes | None = None) -> list[FetchTopic]:
    return [FetchTopic(name, topic_id, [FetchPartition(*fields)])]


GOLDEN_REQUESTS = [
    (  # replica, max wait, min bytes, max bytes, isolation; topic "t": partition, offset, max bytes
        4,
        "ffffffff 000001f4 00000001 00100000 01 00000001 0001 74 00000001 00000003 0000000000000009 00008000",
        FetchRequest(-1, 500, 1, 1 << 20, 1, 0, -1, one_partition(3, -1, 9, -1, -1, 32768)),
    ),
    (  # and the session, the current epoch, the log start; one forgotten partition; rack "r"
        11,
        (
            "ffffffff 000001f4 00000001 00100000 01 0000000a 0000000b 00000001 0001 74 00000001"
            "00000003 00000002 0000000000000009 ffffffffffffffff 00008000"
            "00000001 0001 75 00000001 00000004 0001 72"
        ),
        FetchRequest(
            -1,
            500,
            1,
            1 << 20,
            1,
            10,
            11,
            one_partition(3, 2, 9, -1, -1, 32768),
            "r",
            [ForgottenTopic("u", None, (4,))],
        ),
    ),
    (  # flexible: the last fetched epoch; a tag that nobody knows in the partition; a cluster id
        12,
        (
            "ffffffff 000001f4 00000001 00100000 01 00000000 ffffffff 02 02 74 02"
            "00000003 00000002 0000000000000009 00000001 0000000000000004 00008000 01 63 01 ff 00"
            " 01 01 01 00 02 02 63"
        ),
        FetchRequest(-1, 500, 1, 1 << 20, 1, 0, -1, one_partition(3, 2, 9, 1, 4, 32768)),
    ),
    (  # by id; a follower's state in tag 1, its directory id and high watermark in the partition's tags
        18,
        (
            "000001f4 00000001 00100000 01 00000000 ffffffff 02 0102030405060708090a0b0c0d0e0f10 02"
            "00000003 00000002 0000000000000009 00000001 0000000000000004 00008000"
            "02 00 10 ffffffffffffffffffffffffffffffff 01 08 0000000000000007 00"
            " 01 01 01 01 0d 00000005 0000000000000006 00"
        ),
        FetchRequest(
            5, 500, 1, 1 << 20, 1, 0, -1, one_partition(3, 2, 9, 1, 4, 32768, name=None, topic_id=TOPIC_ID)
        ),
    ),
]


@pytest.mark.parametrize(("version", "text", "request_"), GOLDEN_REQUESTS)
def test_golden_requests(version: int, text: str, request_: FetchRequest) -> None:
    assert decode(version, bytes.fromhex(text)) == request_


@pytest.mark.parametrize(
    ("version", "tags"),
    [
        (17, "01 00 0f" + "00" * 15),  # a directory id of 15 bytes
        (18, "01 01 09" + "00" * 9),  # a high watermark of 9
    ],
)
def test_followers_tags_have_their_sizes(version: int, tags: str) -> None:
    text = "00" * 21 + "02" + "00" * 16 + "02" + "00" * 32 + tags + "00 01 01 00"
    with pytest.raises(MalformedRequest, match="size it says"):
        decode(version, bytes.fromhex(text))
    assert decode(version, bytes.fromhex(text.replace(tags, "00"))).topics[0].partitions


def test_the_body_starts_at_the_offset() -> None:
    frame = b"header" + bytes.fromhex(GOLDEN_REQUESTS[0][1])
    assert decode_fetch(4, memoryview(frame), 6) == GOLDEN_REQUESTS[0][2]


# ---------------------------------------------------------------------------------------- responses

_int64 = st.integers(-(2**63), 2**63 - 1)
_records = st.lists(st.one_of(st.binary(max_size=20), st.just(bytes(200))), max_size=3)
_aborted = st.one_of(
    st.none(),
    st.lists(st.tuples(_int64, _int64), max_size=3),
    st.just([(1, 2)] * 127),  # the count of a compact array takes two bytes from here on
)
results = st.builds(
    FetchPartitionResult,
    index=st.integers(0, 2**31 - 1),
    error_code=st.integers(-1, 133),
    high_watermark=_int64,
    last_stable_offset=_int64,
    log_start_offset=_int64,
    records=_records,
    aborted=_aborted,
)
topics = st.lists(
    st.tuples(st.text(max_size=10), st.uuids().map(lambda uuid: uuid.bytes), st.lists(results, max_size=4)),
    max_size=3,
)
_int32 = st.integers(-(2**31), 2**31 - 1)


def _by_kafka_python(version: int, aborted: Sequence[tuple[int, int]] | None) -> list[Any] | None:
    if aborted is None:
        return None
    one = PartitionResponse.AbortedTransaction
    return [one(version=version, producer_id=pid, first_offset=first) for pid, first in aborted]


def by_kafka_python(
    version: int, correlation_id: int, answers: list[Any], throttle_ms: int, error_code: int, session_id: int
) -> bytes:
    response = Response(
        version=version,
        throttle_time_ms=throttle_ms,
        error_code=error_code,
        session_id=session_id,
        responses=[
            TopicResponse(
                version=version,
                topic=name,
                topic_id=UUID(bytes=topic_id),
                partitions=[
                    PartitionResponse(
                        version=version,
                        partition_index=result.index,
                        error_code=result.error_code,
                        high_watermark=result.high_watermark,
                        last_stable_offset=result.last_stable_offset,
                        log_start_offset=result.log_start_offset,
                        aborted_transactions=_by_kafka_python(version, result.aborted),
                        preferred_read_replica=-1,
                        records=b"".join(result.records),
                    )
                    for result in partitions
                ],
            )
            for name, topic_id, partitions in answers
        ],
    )
    return encode_response(response, version, correlation_id)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    answers=topics,
    correlation_id=_int32,
    throttle_ms=st.integers(0, 2**31 - 1),
    error_code=st.integers(-1, 133),
    session_id=_int32,
)
@settings(max_examples=50)
def test_responses_are_those_of_kafka_python(
    version: int, answers: Any, correlation_id: int, throttle_ms: int, error_code: int, session_id: int
) -> None:
    ours = encode_fetch_response(
        version,
        correlation_id,
        answers,
        throttle_ms=throttle_ms,
        error_code=error_code,
        session_id=session_id,
    )
    expected = by_kafka_python(version, correlation_id, answers, throttle_ms, error_code, session_id)
    assert b"".join(ours) == expected


ONE_RESULT = FetchPartitionResult(2, 0, 5, 6, 7, [b"\xde\xad", b"\xbe\xef"])

GOLDEN_RESPONSES = [
    (  # size, correlation, throttle; topic "t": partition, error, watermark, stable offset, aborted, records
        4,
        (
            "00000035 00000001 00000000 00000001 0001 74 00000001"
            "00000002 0000 0000000000000005 0000000000000006 00000000 00000004 deadbeef"
        ),
    ),
    (  # and error, session, log start, preferred replica
        11,
        (
            "00000047 00000001 00000000 0000 00000000 00000001 0001 74 00000001"
            "00000002 0000 0000000000000005 0000000000000006 0000000000000007 00000000 ffffffff"
            " 00000004 deadbeef"
        ),
    ),
    (
        12,
        (
            "0000003e 00000001 00 00000000 0000 00000000 02 02 74 02"
            "00000002 0000 0000000000000005 0000000000000006 0000000000000007 01 ffffffff"
            " 05 deadbeef 00 00 00"
        ),
    ),
    (
        18,
        (
            "0000004c 00000001 00 00000000 0000 00000000 02 0102030405060708090a0b0c0d0e0f10 02"
            "00000002 0000 0000000000000005 0000000000000006 0000000000000007 01 ffffffff"
            " 05 deadbeef 00 00 00"
        ),
    ),
]


@pytest.mark.parametrize(("version", "text"), GOLDEN_RESPONSES)
def test_golden_responses(version: int, text: str) -> None:
    ours = b"".join(encode_fetch_response(version, 1, [("t", TOPIC_ID, [ONE_RESULT])]))
    assert ours.hex(" ") == bytes.fromhex(text).hex(" ")


LISTED = {  # in front of the records' size, and of the preferred replica where there is one
    4: (
        "ffffffff",
        "00000000",
        "00000002 0000000000000007 0000000000000100 0000000000000008 0000000000000101",
    ),
    11: (
        "ffffffff",
        "00000000",
        "00000002 0000000000000007 0000000000000100 0000000000000008 0000000000000101",
    ),
    12: ("00", "01", "03 0000000000000007 0000000000000100 00 0000000000000008 0000000000000101 00"),
    18: ("00", "01", "03 0000000000000007 0000000000000100 00 0000000000000008 0000000000000101 00"),
}


@pytest.mark.parametrize("version", LISTED)
@pytest.mark.parametrize(
    ("place", "aborted"), [(0, None), (1, []), (2, [(7, 0x100), (8, 0x101)])], ids=["null", "empty", "two"]
)
def test_the_list_of_aborted_transactions(
    version: int, place: int, aborted: list[tuple[int, int]] | None
) -> None:
    """Null for who reads everything; librdkafka takes no null for who reads what is committed."""
    result = replace(ONE_RESULT, aborted=aborted)
    ours = b"".join(encode_fetch_response(version, 1, [("t", TOPIC_ID, [result])]))
    listed = bytes.fromhex(LISTED[version][place])
    empty = bytes.fromhex(LISTED[version][1])
    stable = bytes.fromhex("0000000000000006" + ("" if version < 5 else "0000000000000007"))
    before, behind = bytes.fromhex(dict(GOLDEN_RESPONSES)[version]).split(stable + empty)
    expected = before + stable + listed + behind
    assert ours.hex(" ") == ((len(expected) - 4).to_bytes(4, "big") + expected[4:]).hex(" ")


@pytest.mark.parametrize("version", VERSIONS)
def test_record_buffers_are_handed_on_as_they_are(version: int) -> None:
    stored = bytearray(b"one batch, another batch")
    batches: list[Buffer] = [memoryview(stored)[:9], memoryview(stored)[11:], b"third"]
    buffers = encode_fetch_response(version, 1, [("t", TOPIC_ID, [FetchPartitionResult(0, records=batches)])])
    assert [buffer for buffer in buffers if any(buffer is batch for batch in batches)] == batches


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_without_records_has_empty_ones(version: int) -> None:
    answers = [("t", TOPIC_ID, [FetchPartitionResult(0, 1)])]
    response = Response.decode(
        b"".join(encode_fetch_response(version, 1, answers)), version=version, header=True, framed=True
    )
    (partition,) = response.responses[0].partitions
    assert (partition.error_code, partition.records, partition.aborted_transactions) == (1, b"", [])
    assert partition.preferred_read_replica == -1


@pytest.mark.parametrize("topic_id", [None, b"short"])
def test_a_topic_id_is_needed_from_13(topic_id: bytes | None) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        encode_fetch_response(13, 1, [("t", topic_id, [ONE_RESULT])])


LEADER = FetchPartitionResult(1, 6, current_leader=CurrentLeader(3, 57))
NODES = [NodeEndpoint(3, "c.example", 9092, "rack")]


@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_are_named_from_version_16_on(version: int) -> None:
    results = [LEADER, ONE_RESULT]
    ours = b"".join(encode_fetch_response(version, 1, [("t", TOPIC_ID, results)], nodes=NODES))
    if version < 16:
        plain = [replace(LEADER, current_leader=None), ONE_RESULT]
        assert ours == b"".join(encode_fetch_response(version, 1, [("t", TOPIC_ID, plain)]))
        return
    answer = Response.decode(ours, version=version, header=True, framed=True)
    leader, other = answer.responses[0].partitions
    assert (leader.current_leader.leader_id, leader.current_leader.leader_epoch) == (3, 57)
    assert (other.current_leader, other.partition_index) == (None, 2)
    (node,) = answer.node_endpoints
    assert (node.node_id, node.host, node.port, node.rack) == NODES[0]
