"""Produce by hand, against kafka-python's encoder and bytes written down."""

from dataclasses import replace
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireproto.kafka.leaders import CurrentLeader, NodeEndpoint
from wireproto.kafka.primitives import uvarint
from wireproto.kafka.produce import (
    MAX_DECODED_AT_ONCE_ELEMENTS,
    MAX_VERSION,
    MIN_VERSION,
    ManyPartitions,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
    decode_few_partitions,
    decode_produce,
    encode_produce_response,
)
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

PRODUCE = 0
VERSIONS = range(MIN_VERSION, MAX_VERSION + 1)
Response = RESPONSE_CLASSES[PRODUCE]
TopicResponse = Response.TopicProduceResponse
PartitionResponse = TopicResponse.PartitionProduceResponse
RecordError = PartitionResponse.BatchIndexAndErrorMessage
TOPIC_ID = bytes(range(1, 17))


def decode(version: int, body: bytes) -> ProduceRequest:
    return decode_produce(version, memoryview(body), 0)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (3, "ffff ffff 00000064 00000001 0001 74 00000001 00000002 00000004 deadbeef"),
        (9, "00 ffff 00000064 02 02 74 02 00000002 05 deadbeef 00 00 00"),
        (13, "00 ffff 00000064 02 0102030405060708090a0b0c0d0e0f10 02 00000002 05 deadbeef 00 00 00"),
        # every tags section with a tag that nobody knows
        (9, "00 ffff 00000064 02 02 74 02 00000002 05 deadbeef 01 2a 00 01 2a 01 ff 02 2a 00 2b 02 ffff"),
    ],
)
def test_golden_requests(version: int, text: str) -> None:
    request = decode(version, bytes.fromhex(text))
    name, topic_id = ("t", None) if version < 13 else (None, TOPIC_ID)
    records = memoryview(b"\xde\xad\xbe\xef")
    assert request == ProduceRequest(
        None, -1, 100, [ProduceTopic(name, topic_id, [ProducePartition(2, records)])]
    )


@pytest.mark.parametrize(
    ("version", "text", "records"),
    [
        (3, "ffff 0001 00000064 00000001 0000 00000001 00000000 ffffffff", None),
        (3, "ffff 0001 00000064 00000001 0000 00000001 00000000 00000000", b""),
        (9, "00 0001 00000064 02 01 02 00000000 00 00 00 00", None),
        (9, "00 0001 00000064 02 01 02 00000000 01 00 00 00", b""),
    ],
)
def test_null_records_are_not_empty_records(version: int, text: str, records: bytes | None) -> None:
    (topic,) = decode(version, bytes.fromhex(text)).topics
    assert topic.partitions[0].records == records
    assert (topic.partitions[0].records is None) == (records is None)


def test_records_are_a_writable_slice_of_the_frame() -> None:
    frame = bytearray.fromhex("ffff ffff 00000064 00000001 0001 74 00000001 00000002 00000004 deadbeef")
    records = decode_produce(3, memoryview(frame), 0).topics[0].partitions[0].records
    assert records is not None
    records[0:1] = b"\x00"
    assert frame.endswith(bytes.fromhex("00adbeef"))


def test_the_body_starts_at_the_offset() -> None:
    frame = b"header" + bytes.fromhex("ffff 0001 00000064 00000000")
    assert decode_produce(3, memoryview(frame), 6) == ProduceRequest(None, 1, 100, [])


# ---------------------------------------------------------------------------------------- responses

_int64 = st.integers(-(2**63), 2**63 - 1)
_message = st.one_of(st.none(), st.text(max_size=20), st.just("x" * 300))
results = st.builds(
    ProducePartitionResult,
    index=st.integers(0, 2**31 - 1),
    error_code=st.integers(-1, 133),
    base_offset=_int64,
    log_append_time_ms=_int64,
    log_start_offset=_int64,
    error_message=_message,
    record_errors=st.lists(st.tuples(st.integers(0, 2**31 - 1), _message), max_size=3),
)
topics = st.lists(
    st.tuples(st.text(max_size=10), st.uuids().map(lambda uuid: uuid.bytes), st.lists(results, max_size=4)),
    max_size=3,
)


def by_kafka_python(version: int, correlation_id: int, answers: list[Any], throttle_ms: int) -> bytes:
    response = Response(
        version=version,
        throttle_time_ms=throttle_ms,
        responses=[
            TopicResponse(
                version=version,
                name=name,
                topic_id=UUID(bytes=topic_id),
                partition_responses=[
                    PartitionResponse(
                        version=version,
                        index=result.index,
                        error_code=result.error_code,
                        base_offset=result.base_offset,
                        log_append_time_ms=result.log_append_time_ms,
                        log_start_offset=result.log_start_offset,
                        record_errors=[
                            RecordError(version=version, batch_index=index, batch_index_error_message=message)
                            for index, message in result.record_errors
                            if version >= 8
                        ],
                        error_message=result.error_message,
                    )
                    for result in partitions
                ],
            )
            for name, topic_id, partitions in answers
        ],
    )
    return encode_response(response, version, correlation_id)


@pytest.mark.parametrize("version", VERSIONS)
@given(answers=topics, correlation_id=st.integers(-(2**31), 2**31 - 1), throttle_ms=st.integers(0, 2**31 - 1))
@settings(max_examples=50)
def test_responses_are_those_of_kafka_python(
    version: int, answers: Any, correlation_id: int, throttle_ms: int
) -> None:
    ours = encode_produce_response(version, correlation_id, answers, throttle_ms)
    assert ours == by_kafka_python(version, correlation_id, answers, throttle_ms)


ONE_RESULT = ProducePartitionResult(2, 0, 5, 6, 7)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (
            3,  # size, correlation, one topic "t", partition: index, error, base offset, time; throttle
            (
                "00000029 00000001 00000001 0001 74 00000001"
                "00000002 0000 0000000000000005 0000000000000006 00000000"
            ),
        ),
        (
            5,  # and the log start offset
            (
                "00000031 00000001 00000001 0001 74 00000001"
                "00000002 0000 0000000000000005 0000000000000006 0000000000000007 00000000"
            ),
        ),
        (
            8,  # and no record errors, no message
            (
                "00000037 00000001 00000001 0001 74 00000001"
                "00000002 0000 0000000000000005 0000000000000006 0000000000000007 00000000 ffff 00000000"
            ),
        ),
        (
            9,
            (
                "00000030 00000001 00 02 02 74 02"
                "00000002 0000 0000000000000005 0000000000000006 0000000000000007 01 00 00 00 00000000 00"
            ),
        ),
        (
            13,
            (
                "0000003e 00000001 00 02 0102030405060708090a0b0c0d0e0f10 02"
                "00000002 0000 0000000000000005 0000000000000006 0000000000000007 01 00 00 00 00000000 00"
            ),
        ),
    ],
)
def test_golden_responses(version: int, text: str) -> None:
    assert encode_produce_response(version, 1, [("t", TOPIC_ID, [ONE_RESULT])]).hex(" ") == bytes.fromhex(
        text
    ).hex(" ")


@pytest.mark.parametrize("topic_id", [None, b"short"])
def test_a_topic_id_is_needed_from_13(topic_id: bytes | None) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        encode_produce_response(13, 1, [("t", topic_id, [ONE_RESULT])])


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("topics", [1, 2, MAX_DECODED_AT_ONCE_ELEMENTS // 2])
def test_more_partitions_than_are_decoded_at_once_are_left_to_somebody_else(
    version: int, topics: int
) -> None:
    """Topics and partitions count alike, and what is decoded either way is the same."""
    for more in (0, 1):
        partitions = MAX_DECODED_AT_ONCE_ELEMENTS - topics + more
        shares = [partitions // topics + (n < partitions % topics) for n in range(topics)]
        body = many(version, shares)
        whole = decode(version, body)
        assert whole.elements == MAX_DECODED_AT_ONCE_ELEMENTS + more
        assert [len(topic.partitions) for topic in whole.topics] == shares
        if more:
            with pytest.raises(ManyPartitions):
                decode_few_partitions(version, memoryview(body), 0)
        else:
            assert decode_few_partitions(version, memoryview(body), 0) == whole


def many(version: int, shares: list[int]) -> bytes:
    """A request whose topics have so many partitions each."""
    if version < 9:
        topics = b"".join(
            b"\0\1t" + pack(">i", share) + b"\0\0\0\0\xff\xff\xff\xff" * share for share in shares
        )
        return b"\xff\xff\xff\xff\0\0\0\0" + pack(">i", len(shares)) + topics
    topics = b"".join(b"\2t" + uvarint(share + 1) + b"\0\0\0\0\0\0" * share + b"\0" for share in shares)
    return b"\0\xff\xff\0\0\0\0" + uvarint(len(shares) + 1) + topics + b"\0"


LEADERS = [
    ProducePartitionResult(0, 6, error_message="elsewhere", current_leader=CurrentLeader(3, 57)),
    ProducePartitionResult(1, 6, current_leader=CurrentLeader(2, 2**31 - 1)),
    ProducePartitionResult(2, 0, 5, 6, 7),
]
NODES = [NodeEndpoint(2, "b.example", 9092, None), NodeEndpoint(3, "c" * 255, 65_535, "rack")]


@pytest.mark.parametrize("version", VERSIONS)
def test_leaders_are_named_from_version_10_on(version: int) -> None:
    ours = encode_produce_response(version, 1, [("t", TOPIC_ID, LEADERS)], nodes=NODES)
    answer = Response.decode(ours, version=version, header=True, framed=True)
    partitions = answer.responses[0].partition_responses
    assert [one.index for one in partitions] == [0, 1, 2]
    if version < 10:
        assert ours == encode_produce_response(version, 1, [("t", TOPIC_ID, without_leaders())])
        return
    told = [
        one.current_leader and (one.current_leader.leader_id, one.current_leader.leader_epoch)
        for one in partitions
    ]
    assert told == [(3, 57), (2, 2**31 - 1), None]
    where = [(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
    assert where == [tuple(node) for node in NODES]


def without_leaders() -> list[ProducePartitionResult]:
    return [replace(one, current_leader=None) for one in LEADERS]
