"""Request headers v1 and v2, and which requests have which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as KafkaPythonHeader

from tests.unit.wireproto.kafka.messages import ALL_VERSIONS
from wireproto.kafka.api_keys import API_NAMES, FLEXIBLE_FROM, ApiKey, is_flexible
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.headers import UNKNOWN_BODY, RequestHeader, parse_request_header
from wireproto.kafka.schemas import REQUEST_CLASSES

CASES = [
    # header v1: Metadata 8, correlation 7, client id "abc", one byte of body
    ("0003 0008 00000007 0003 616263 ff", RequestHeader(3, 8, 7, "abc", 13, False)),
    # header v2: Metadata 9, no tags
    ("0003 0009 00000007 0003 616263 00 ff", RequestHeader(3, 9, 7, "abc", 14, True)),
    # header v2 with two tags, one empty and one of two bytes
    ("0003 0009 00000007 0003 616263 02 00 00 05 02 aabb ff", RequestHeader(3, 9, 7, "abc", 20, True)),
    # null and empty client ids
    ("0012 0000 ffffffff ffff", RequestHeader(18, 0, -1, None, 10, False)),
    ("0012 0003 00000000 0000 00", RequestHeader(18, 3, 0, "", 11, True)),
    # ApiVersions of a version that nobody knows: its header can be read all the same
    ("0012 0063 00000001 0001 61 00", RequestHeader(18, 99, 1, "a", 12, True)),
    # SaslHandshake is never flexible
    ("0011 0001 00000001 0001 61", RequestHeader(17, 1, 1, "a", 11, False)),
    # an API key that nobody knows, and one between brokers
    ("7fff 0001 00000001 0001 61", RequestHeader(0x7FFF, 1, 1, "a", UNKNOWN_BODY, False)),
    ("0034 0001 00000001 0001 61 00", RequestHeader(52, 1, 1, "a", UNKNOWN_BODY, False)),
    # versions below zero exist only in bad requests
    ("0003 ffff 00000001 0001 61", RequestHeader(3, -1, 1, "a", 11, False)),
]


@pytest.mark.parametrize(("text", "header"), CASES)
def test_headers(text: str, header: RequestHeader) -> None:
    assert parse_request_header(memoryview(bytes.fromhex(text))) == header


@pytest.mark.parametrize("text", [text for text, header in CASES if header.body_offset != UNKNOWN_BODY])
def test_a_header_cut_short_is_refused(text: str) -> None:
    frame = bytes.fromhex(text)
    for length in range(parse_request_header(memoryview(frame)).body_offset):
        with pytest.raises(MalformedRequest):
            parse_request_header(memoryview(frame[:length]))


@pytest.mark.parametrize(
    "text",
    [
        "0003 0008 00000007 fffe",  # client id of length -2
        "0003 0008 00000007 7fff 61",  # longer than the frame
        "0003 0008 00000007 0002 c328",  # not UTF-8
        "0003 0009 00000007 0000 ffffffff0f",  # 2**32 - 1 tags
        "0003 0009 00000007 0000 ffffffffff01",  # a varint of six bytes
        "0003 0009 00000007 0000 ffffffff1f",  # 33 bits
        "0003 0009 00000007 0000 01 00 ffffffff0f",  # a tag of 4 GiB
        "0003 0009 00000007 0000 01 00 05 00",  # a tag longer than the frame
    ],
)
def test_malformed_headers_are_refused(text: str) -> None:
    with pytest.raises(MalformedRequest):
        parse_request_header(memoryview(bytes.fromhex(text)))


@given(st.binary(max_size=60))
def test_random_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        header = parse_request_header(memoryview(data))
    except MalformedRequest:
        return
    assert header.body_offset <= len(data)


@given(
    st.sampled_from(ALL_VERSIONS),
    st.integers(-(2**31), 2**31 - 1),
    st.one_of(st.none(), st.text(max_size=50)),
)
def test_headers_that_kafka_python_writes(
    api: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    key, version = api
    flexible = REQUEST_CLASSES[key].flexible_version_q(version)
    written = KafkaPythonHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    ).encode(flexible=flexible)
    parsed = parse_request_header(memoryview(written))
    assert parsed == RequestHeader(key, version, correlation_id, client_id, len(written), flexible)


@pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)
def test_flexible_versions_are_those_of_the_schemas(key: int, version: int) -> None:
    assert is_flexible(key, version) is REQUEST_CLASSES[key].flexible_version_q(version)


def test_names_are_kafkas_spelling() -> None:
    assert API_NAMES[0] == "Produce"
    assert API_NAMES[23] == "OffsetForLeaderEpoch"
    assert API_NAMES[28] == "TxnOffsetCommit"
    assert API_NAMES.keys() == FLEXIBLE_FROM.keys() == set(ApiKey)
    for key, message_class in REQUEST_CLASSES.items():
        assert message_class.name == API_NAMES[key] + "Request"
