"""Requests as a client sends them, and answers as it reads them, beside kafka-python's own."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.kafka.messages import ALL_VERSIONS, messages, versions_of
from wireproto.kafka.asking import correlation_id_of, decode_answer, frame_request
from wireproto.kafka.errors import MalformedAnswer
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

ASKED: Final = {"ListOffsets": 2, "ApiVersions": 18, "AddPartitionsToTxn": 24, "WriteTxnMarkers": 27}
"""What gateways ask each other, or will."""

ID: Final = 0x01020304


@pytest.mark.parametrize(("key", "version"), [one for one in ALL_VERSIONS if one[0] in ASKED.values()])
@given(data=st.data())
@settings(max_examples=10)
def test_a_request_is_framed_as_kafka_python_frames_it(key: int, version: int, data: st.DataObject) -> None:
    request = data.draw(messages(REQUEST_CLASSES[key], version))
    body = bytes(request.encode(version=version))
    request.with_header(correlation_id=ID, client_id="gateway-2")
    framed = bytes(request.encode(version=version, header=True, framed=True))
    assert frame_request(key, version, ID, "gateway-2", body) == framed


@pytest.mark.parametrize("key", ASKED.values(), ids=ASKED)
@given(data=st.data())
@settings(max_examples=30)
def test_an_answer_is_read_as_it_was_meant(key: int, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_of(key)))
    answer = data.draw(messages(RESPONSE_CLASSES[key], version))
    frame = memoryview(encode_response(answer, version, ID))[4:]
    assert correlation_id_of(frame) == ID
    assert decode_answer(key, version, frame) == answer


def list_offsets(*offsets: int, version: int = 11) -> Any:
    cls = RESPONSE_CLASSES[2]
    topic = cls.ListOffsetsTopicResponse
    partitions = [
        topic.ListOffsetsPartitionResponse(
            partition_index=index, error_code=0, timestamp=-1, offset=offset, leader_epoch=3
        )
        for index, offset in enumerate(offsets)
    ]
    return cls(version=version, throttle_time_ms=0, topics=[topic(name="orders", partitions=partitions)])


@pytest.mark.parametrize("version", [4, 11])
def test_an_answer_that_is_cut_or_too_long_is_refused(version: int) -> None:
    frame = encode_response(list_offsets(7, 9, version=version), version, ID)[4:]
    for end in range(len(frame)):
        with pytest.raises(MalformedAnswer):
            decode_answer(2, version, memoryview(frame[:end]))
    with pytest.raises(MalformedAnswer, match="its fields"):
        decode_answer(2, version, memoryview(frame + b"\0"))


HEADER = ID.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"\0\0\0", "shorter than its header"),
        (HEADER + bytes(4) + b"\x7f\xff\xff\xff", "elements and 0 bytes"),
        (HEADER + bytes(4) + b"\0\0\0\1\0\1\xff" + bytes(4), "not UTF-8"),
        (HEADER + bytes(4) + b"\xff\xff\xff\xff", "null"),
    ],
)
def test_what_no_answer_can_be_is_refused_before_anything_is_allocated(frame: bytes, why: str) -> None:
    read = correlation_id_of if len(frame) < len(HEADER) else partial(decode_answer, 2, 4)
    with pytest.raises(MalformedAnswer, match=why):
        read(memoryview(frame))


@pytest.mark.parametrize("key", ASKED.values(), ids=ASKED)
@given(version=st.integers(0, 11), body=st.binary(max_size=60))
@settings(max_examples=200)
def test_any_bytes_are_an_answer_or_refused(key: int, version: int, body: bytes) -> None:
    try:
        answer = decode_answer(key, version, memoryview(HEADER + body))
    except MalformedAnswer:
        return
    assert key == answer.API_KEY


def test_an_api_or_a_version_that_is_not_there() -> None:
    for key, version in ((9999, 0), (2, 99)):
        with pytest.raises(MalformedAnswer, match="there is no answer"):
            decode_answer(key, version, memoryview(HEADER))


def test_a_field_that_no_decoder_reads_is_a_defect_and_not_taken_for_a_string() -> None:
    with pytest.raises(NotImplementedError, match="bitfield"):
        decode_answer(3, 8, memoryview(HEADER))
