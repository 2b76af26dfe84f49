"""The strict walk over kafka-python's schemas: every API and version, against kafka-python's own codec."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wireproto.kafka.messages import ALL_VERSIONS, damaged, messages, versions_of
from wireproto.kafka.api_keys import ApiKey, is_flexible
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.headers import parse_request_header
from wireproto.kafka.requests import COPY_BYTES, LEFT_OVER_BYTES, SCRAM_LEFT_OVER_BYTES, decode_request
from wireproto.kafka.schemas import REQUEST_CLASSES, schema_versions

KEYS = sorted(REQUEST_CLASSES)


def encode(message: Any, version: int) -> bytes:
    return bytes(message.encode(version=version))


def decode(key: int, version: int, body: bytes) -> Any:
    return decode_request(key, version, memoryview(body), 0)


def read_or_refused(key: int, version: int, body: bytes) -> None:
    """No other exception, and none of the client's bytes at length in the message."""
    refusal = None
    try:
        decode(key, version, body)
    except MalformedRequest as error:
        refusal = str(error)
    assert refusal is None or 0 < len(refusal) < 150


def draw_request(data: st.DataObject, key: int) -> tuple[int, Any, bytes]:
    version = data.draw(st.sampled_from(versions_of(key)))
    message = data.draw(messages(REQUEST_CLASSES[key], version))
    return version, message, encode(message, version)


@pytest.mark.parametrize("key", KEYS)
@given(data=st.data())
@settings(max_examples=40)
def test_gives_what_was_encoded_and_what_kafka_python_reads(key: int, data: st.DataObject) -> None:
    version, message, body = draw_request(data, key)
    decoded = decode(key, version, body)
    assert decoded == message
    assert decoded == REQUEST_CLASSES[key].decode(body, version=version)
    assert decoded.version == decoded.API_VERSION == version
    assert encode(decoded, version) == body


@pytest.mark.parametrize("key", KEYS)
@given(data=st.data())
@settings(max_examples=6)
def test_a_request_cut_short_or_too_long_is_refused(key: int, data: st.DataObject) -> None:
    version, _, body = draw_request(data, key)
    for length in range(len(body)):
        with pytest.raises(MalformedRequest):
            decode(key, version, body[:length])
    allowed = LEFT_OVER_BYTES if key == ApiKey.METADATA and is_flexible(key, version) else 0
    if key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        allowed = SCRAM_LEFT_OVER_BYTES
    with pytest.raises(MalformedRequest, match=f"{allowed + 1} bytes are left over"):
        decode(key, version, body + bytes(allowed + 1))


@pytest.mark.parametrize("key", KEYS)
@given(data=st.data())
@settings(max_examples=20)
def test_damaged_requests_are_read_or_refused(key: int, data: st.DataObject) -> None:
    version, _, body = draw_request(data, key)
    for _ in range(3):  # drawing the request takes longer than damaging it
        read_or_refused(key, version, data.draw(damaged(body)))


@given(api=st.sampled_from(ALL_VERSIONS), body=st.binary(max_size=200))
@settings(max_examples=1000)
def test_random_bytes_are_read_or_refused(api: tuple[int, int], body: bytes) -> None:
    read_or_refused(*api, body)


def test_the_body_starts_at_the_offset() -> None:
    frame = memoryview(b"header" + bytes.fromhex("00000001 0003 666f6f"))
    assert [topic.name for topic in decode_request(3, 0, frame, 6).topics] == ["foo"]


@pytest.mark.parametrize("size", [3, COPY_BYTES])
def test_a_request_does_not_change_with_its_frame(size: int) -> None:
    """Small bodies are copied first, big ones are not; JoinGroup has strings and bytes."""
    message = REQUEST_CLASSES[11](
        version=0,
        group_id="group",
        session_timeout_ms=1,
        member_id="",
        protocol_type="consumer",
        protocols=[("range", b"m" * size)],
    )
    frame = bytearray(encode(message, 0))
    request = decode_request(11, 0, memoryview(frame), 0)
    frame[:] = bytes(len(frame))
    assert request.group_id == "group"
    assert [(protocol.name, protocol.metadata) for protocol in request.protocols] == [("range", b"m" * size)]
    assert type(request.protocols[0].metadata) is bytes


@pytest.mark.parametrize(
    ("key", "version"), [(4, 0), (3, 14), (3, -1), (0, 2), (2, 0), (19, 1), (-1, 0), (999, 0)]
)
def test_what_has_no_schema_is_refused(key: int, version: int) -> None:
    with pytest.raises(MalformedRequest, match=f"no API {key} version {version}"):
        decode(key, version, b"")


#: What Kafka 4.3 speaks: a change in kafka-python's schemas must not pass unnoticed.
KAFKA_VERSIONS = {
    "Produce": (3, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "ApiVersions": (0, 4),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
    "InitProducerId": (0, 6),
    "OffsetForLeaderEpoch": (2, 4),
    "DescribeConfigs": (1, 4),
    "DescribeCluster": (0, 2),
    "DescribeTopicPartitions": (0, 0),
}


@pytest.mark.parametrize(("name", "versions"), KAFKA_VERSIONS.items())
def test_versions_are_those_of_kafka(name: str, versions: tuple[int, int]) -> None:
    (key,) = [key for key, cls in REQUEST_CLASSES.items() if cls.name == name + "Request"]
    assert schema_versions(key) == versions


GOLDEN = [
    # ListOffsets 10: replica, isolation, one topic "t" with partition 3, epoch 5, timestamp -1; timeout 1000
    (
        (2, 10),
        "ffffffff 01 02 02 74 02 00000003 00000005 ffffffffffffffff 00 00 000003e8 00",
        {
            "replica_id": -1,
            "isolation_level": 1,
            "topics": [
                {
                    "name": "t",
                    "partitions": [{"partition_index": 3, "current_leader_epoch": 5, "timestamp": -1}],
                }
            ],
            "timeout_ms": 1000,
        },
    ),
    # Metadata 12: one topic by id, its name null; a tag that nobody knows at the end
    (
        (3, 12),
        "02 00112233445566778899aabbccddeeff 00 00 01 00 01 2a 02 beef",
        {
            "topics": [{"topic_id": "00112233-4455-6677-8899-aabbccddeeff", "name": None}],
            "allow_auto_topic_creation": True,
            "include_topic_authorized_operations": False,
        },
    ),
    # Metadata 4: all topics
    ((3, 4), "ffffffff 00", {"topics": None, "allow_auto_topic_creation": False}),
    # InitProducerId 4 without a transactional id
    (
        (22, 4),
        "00 0000ea60 ffffffffffffffff ffff 00",
        {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1},
    ),
    # DescribeTopicPartitions 0: topic "t", limit 2000, no cursor; then with one
    (
        (75, 0),
        "02 02 74 00 000007d0 ff 00",
        {"topics": [{"name": "t"}], "response_partition_limit": 2000, "cursor": None},
    ),
    (
        (75, 0),
        "02 02 74 00 000007d0 01 02 74 00000009 00 00",
        {
            "topics": [{"name": "t"}],
            "response_partition_limit": 2000,
            "cursor": {"topic_name": "t", "partition_index": 9},
        },
    ),
    # Fetch 15 by the generic way: replica state in tag 1
    (
        (1, 15),
        "00000064 00000001 00100000 00 00000000 ffffffff 01 01 01 01 01 0d 00000007 0000000000000008 00",
        {
            "cluster_id": None,
            "replica_state": {"replica_id": 7, "replica_epoch": 8},
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [],
            "forgotten_topics_data": [],
            "rack_id": "",
        },
    ),
]


@pytest.mark.parametrize(("api", "text", "expected"), GOLDEN)
def test_golden_bytes(api: tuple[int, int], text: str, expected: dict[str, Any]) -> None:
    assert decode(*api, bytes.fromhex(text)).to_dict() == expected


def test_the_metadata_request_of_librdkafka_for_all_topics_is_understood() -> None:
    """As librdkafka 2.16 sends it: a count of four bytes where one belongs."""
    frame = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    header = parse_request_header(memoryview(frame))
    request = decode_request(3, 13, memoryview(frame), header.body_offset)
    assert request.topics is None
    assert request.allow_auto_topic_creation is False


def test_more_bytes_than_that_behind_a_metadata_request_are_refused() -> None:
    frame = bytes.fromhex("0003000d00000003000772646b61666b61000000000001000000")
    header = parse_request_header(memoryview(frame))
    with pytest.raises(MalformedRequest, match="4 bytes are left over"):
        decode_request(3, 13, memoryview(frame), header.body_offset)
