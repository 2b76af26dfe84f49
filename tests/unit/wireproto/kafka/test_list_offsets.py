"""Our encoder against kafka-python's, over every version."""

from __future__ import annotations

import pytest

from wireproto.kafka.list_offsets import PartitionOffset, encode_list_offsets_response
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

Response = RESPONSE_CLASSES[2]
Topic = Response.ListOffsetsTopicResponse

EXTREMES = [
    PartitionOffset(0, 0),
    PartitionOffset(2**31 - 1, 2**15 - 1, 2**63 - 1, 2**63 - 1, 2**31 - 1),
    PartitionOffset(-(2**31), -(2**15), -(2**63), -(2**63), -(2**31)),
]
ANSWERS: list[list[tuple[str, list[PartitionOffset]]]] = [
    [],
    [("t", [])],
    [("t", EXTREMES)],
    [("", EXTREMES[:1]), ("é" * 100, EXTREMES), ("t", EXTREMES[1:])],
    # At 127 elements a compact length takes a second byte.
    [("t" * 126, EXTREMES * 42), ("t" * 127, [*EXTREMES * 42, EXTREMES[0]])],
    [(str(index), EXTREMES[:1]) for index in range(200)],
]


def by_kafka_python(
    version: int, answered: list[tuple[str, list[PartitionOffset]]], throttle_ms: int
) -> bytes:
    response = Response(
        throttle_time_ms=throttle_ms,
        topics=[
            Topic(
                name=name,
                partitions=[
                    Topic.ListOffsetsPartitionResponse(
                        partition_index=offset.partition,
                        error_code=offset.error_code,
                        timestamp=offset.timestamp,
                        offset=offset.offset,
                        leader_epoch=offset.leader_epoch,
                    )
                    for offset in offsets
                ],
            )
            for name, offsets in answered
        ],
    )
    return encode_response(response, version, 4711)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("answered", ANSWERS)
@pytest.mark.parametrize("throttle_ms", [0, 2**31 - 1])
def test_as_kafka_python_encodes_it(
    version: int, answered: list[tuple[str, list[PartitionOffset]]], throttle_ms: int
) -> None:
    framed = encode_list_offsets_response(version, 4711, answered, throttle_ms)
    assert framed == by_kafka_python(version, answered, throttle_ms)


def test_golden_bytes() -> None:
    answered = [("t", [PartitionOffset(3, 0, -1, 5, 2)])]
    v1 = "00000025 00000007  00000001 000174 00000001  00000003 0000 ffffffffffffffff 0000000000000005"
    assert encode_list_offsets_response(1, 7, answered) == bytes.fromhex(v1)
    v6 = "0000002a 00000007 00  00000000 02 0274 02  00000003 0000 ffffffffffffffff 0000000000000005"
    assert encode_list_offsets_response(6, 7, answered) == bytes.fromhex(v6 + "00000002 00 00 00")
