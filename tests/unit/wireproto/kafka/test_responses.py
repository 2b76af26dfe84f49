"""Responses: size field, the right header, kafka-python's body."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.kafka.messages import messages, versions_of
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES


@pytest.mark.parametrize("key", sorted(RESPONSE_CLASSES))
@given(data=st.data())
@settings(max_examples=20)
def test_kafka_python_reads_back_what_was_answered(key: int, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_of(key)))
    response = data.draw(messages(RESPONSE_CLASSES[key], version))
    if key == 18:
        response.error_code = 0  # with an error kafka-python reads the body as version 0
    encoded = encode_response(response, version, 0x01020304)
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    decoded = RESPONSE_CLASSES[key].decode(encoded, version=version, header=True, framed=True)
    assert decoded == response
    assert decoded.header.correlation_id == 0x01020304


def api_versions(version: int) -> Any:
    message_class = RESPONSE_CLASSES[18]
    keys = [message_class.ApiVersion(version=version, api_key=18, min_version=0, max_version=4)]
    return message_class(version=version, error_code=35, api_keys=keys, throttle_time_ms=0)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (0, "00000010 00000007 0023 00000001 0012 0000 0004"),  # error 35 at bytes 8 and 9
        (1, "00000014 00000007 0023 00000001 0012 0000 0004 00000000"),
        (3, "00000013 00000007 0023 02 0012 0000 0004 00 00000000 00"),  # flexible body behind header v0
        (4, "00000013 00000007 0023 02 0012 0000 0004 00 00000000 00"),
    ],
)
def test_api_versions_always_has_header_v0(version: int, text: str) -> None:
    assert encode_response(api_versions(version), version, 7).hex(" ") == bytes.fromhex(text).hex(" ")


def find_coordinator(version: int) -> Any:
    message_class = RESPONSE_CLASSES[10]
    coordinator = message_class.Coordinator(
        version=4, key="g", node_id=1, host="h", port=9092, error_code=0, error_message=None
    )
    return message_class(
        version=version,
        node_id=1,
        host="h",
        port=9092,
        error_code=0,
        error_message=None,
        coordinators=[coordinator],
    )


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (0, "00000011 00000007 0000 00000001 0001 68 00002384"),
        (2, "00000017 00000007 00000000 0000 ffff 00000001 0001 68 00002384"),
        (3, "00000017 00000007 00 00000000 0000 00 00000001 02 68 00002384 00"),
        (4, "0000001b 00000007 00 00000000 02 02 67 00000001 02 68 00002384 0000 00 00 00"),
    ],
)
def test_flexible_versions_have_header_v1(version: int, text: str) -> None:
    assert encode_response(find_coordinator(version), version, 7).hex(" ") == bytes.fromhex(text).hex(" ")


def test_the_version_of_the_request_counts_not_that_of_the_object() -> None:
    assert encode_response(find_coordinator(4), 2, 7) == encode_response(find_coordinator(2), 2, 7)


def test_a_version_that_does_not_exist_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="Invalid version"):
        encode_response(find_coordinator(4), 7, 7)
