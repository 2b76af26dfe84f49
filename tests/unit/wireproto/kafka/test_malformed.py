"""Bytes that are no request: refused before anything is allocated or looped over for them."""

import tracemalloc
from struct import pack
from typing import Any

import pytest

from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.fetch import decode_fetch
from wireproto.kafka.primitives import MAX_ARRAY_ELEMENTS, MAX_REQUEST_ELEMENTS
from wireproto.kafka.produce import MAX_PRODUCED_ELEMENTS, decode_produce
from wireproto.kafka.requests import decode_request

MALFORMED = [
    # Metadata 1 (not flexible): array of topics
    ("array count 2**31-1", 3, 1, "7fffffff", "2147483647 elements"),
    ("array count -5", 3, 1, "fffffffb", "length -5"),
    ("array count above the bytes", 3, 1, "00000003 0000 0000", "3 elements and 4 bytes"),
    ("null array where not allowed", 3, 0, "ffffffff", "topics is null"),
    ("string of length -7", 3, 1, "00000001 fff9", "length -7"),
    ("null string where not allowed", 3, 1, "00000001 ffff", "name is null"),
    ("string longer than the request", 3, 1, "00000001 0004 616263", "ends in the middle"),
    ("string not UTF-8", 3, 1, "00000001 0002 c328", "not UTF-8"),
    ("string with a surrogate", 3, 1, "00000001 0003 eda080", "not UTF-8"),
    ("overlong UTF-8", 3, 1, "00000001 0002 c0af", "not UTF-8"),
    ("trailing bytes", 3, 1, "00000000 00", "1 bytes are left over"),
    ("nothing", 3, 1, "", "ends in the middle"),
    # Metadata 9 (flexible)
    ("compact count 2**32-1", 3, 9, "ffffffff0f 00000000", "4294967294 elements"),
    ("varint of 6 bytes", 3, 9, "ffffffffff01 00000000", "more than 32 bits"),
    ("varint of 10 bytes", 3, 9, "ffffffffffffffffff01 00000000", "more than 32 bits"),
    ("varint of 33 bits", 3, 9, "ffffffff1f 00000000", "more than 32 bits"),
    ("varint without an end", 3, 9, "ffff", "ends in the middle"),
    ("null compact string where not allowed", 3, 9, "02 00 00 00 00 00 00", "name is null"),
    ("compact string of 2**32-2 bytes", 3, 9, "02 ffffffff0f 00 00 00 00 00", "length 4294967294"),
    ("compact string of 32,768 bytes", 3, 9, "02 818002" + "61" * 32768 + "00 00 00 00 00", "length 32768"),
    ("Produce 9: transactional id of 32,768 bytes", 0, 9, "818002" + "61" * 32768, "length 32768"),
    ("compact string not UTF-8", 3, 9, "02 02 80 00 00 00 00 00", "not UTF-8"),
    ("compact string longer than the request", 3, 9, "02 7f 61 00 00 00 00", "ends in the middle"),
    ("2**31 tags", 3, 9, "01 00 00 00 8080808008", "2147483648 elements"),
    ("tag of 4 GiB", 3, 9, "01 00 00 00 01 63 ffffffff0f", "tagged field is longer"),
    ("tag longer than the request", 3, 9, "01 00 00 00 01 63 03 0000", "tagged field is longer"),
    ("tag number of 33 bits", 3, 9, "01 00 00 00 01 ffffffff1f 00", "more than 32 bits"),
    ("null compact array where not allowed", 2, 6, "ffffffff 00 00 00", "topics is null"),
    # Produce
    ("Produce 3: null topics", 0, 3, "ffff ffff 00000000 ffffffff", "-1 elements|is null"),
    ("Produce 3: null topic name", 0, 3, "ffff ffff 00000000 00000001 ffff 00000000", "name is null"),
    ("Produce 3: null partitions", 0, 3, "ffff ffff 00000000 00000001 0000 ffffffff", "-1 elements|is null"),
    (
        "Produce 3: records of length -2",
        0,
        3,
        "ffff ffff 00000000 00000001 0000 00000001 00000000 fffffffe",
        "length -2",
    ),
    (
        "Produce 3: records longer than the request",
        0,
        3,
        "ffff ffff 00000000 00000001 0000 00000001 00000000 00000003 0000",
        "2 bytes|in the middle",
    ),
    ("Produce 9: null topics", 0, 9, "00 ffff 00000000 00 00", "-1 elements|is null"),
    (
        "Produce 9: records of 4 GiB",
        0,
        9,
        "00 ffff 00000000 02 02 74 02 00000000 ffffffff0f 00",
        "in the middle",
    ),
    ("Produce 9: null topic name", 0, 9, "00 ffff 00000000 02 00 01 00 00", "name is null"),
    (
        "Produce 13: topic id cut short",
        0,
        13,
        "00 ffff 00000000 02 0011223344556677 00 00",
        "elements|in the middle",
    ),
    ("Produce 3: transactional id of length -2", 0, 3, "fffe ffff 00000000 00000000", "length -2"),
    # Fetch
    (
        "Fetch 4: partitions 2**31-1",
        1,
        4,
        "ffffffff 00000000 00000000 00000000 00 00000001 0000 7fffffff",
        "2147483647 e",
    ),
    ("Fetch 11: null rack id", 1, 11, "ffffffff" + "00" * 21 + "00000000 00000000 ffff", "rack.id is null"),
    ("Fetch 12: null rack id", 1, 12, "ffffffff" + "00" * 21 + "01 01 00 00", "rack.id is null"),
    (
        "Fetch 15: replica state of 12 bytes",
        1,
        15,
        "00" * 21 + "01 01 01 01 01 0c" + "00" * 13,
        "size it says",
    ),
    ("Fetch 15: replica state cut short", 1, 15, "00" * 21 + "01 01 01 01 01 04 00000000", "in the middle"),
    (
        "Fetch 12: cluster id not UTF-8",
        1,
        12,
        "ffffffff" + "00" * 21 + "01 01 01 01 00 02 02 80",
        "not UTF-8",
    ),
    ("DescribeTopicPartitions: cursor marker 2", 75, 0, "01 00000000 02 02 74 00000009 00 00", "length 2"),
]


def decoders(key: int) -> list[Any]:
    """All ways to decode one API: Produce and Fetch have two."""
    by_hand = {0: decode_produce, 1: decode_fetch}

    def generic(version: int, frame: memoryview, offset: int) -> Any:
        return decode_request(key, version, frame, offset)

    return [generic, by_hand[key]] if key in by_hand else [generic]


@pytest.mark.parametrize(
    ("key", "version", "text", "why"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED]
)
def test_refused(key: int, version: int, text: str, why: str) -> None:
    for decode in decoders(key):
        with pytest.raises(MalformedRequest, match=why):
            decode(version, memoryview(bytes.fromhex(text)), 0)


def names(count: int) -> bytes:
    """A Metadata 1 request with so many empty names."""
    return pack(">i", count) + bytes(2 * count)


def test_the_largest_array_is_read_and_one_more_refused() -> None:
    assert len(decode_request(3, 1, memoryview(names(MAX_ARRAY_ELEMENTS)), 0).topics) == MAX_ARRAY_ELEMENTS
    with pytest.raises(MalformedRequest, match=f"{MAX_ARRAY_ELEMENTS + 1} elements"):
        decode_request(3, 1, memoryview(names(MAX_ARRAY_ELEMENTS + 1)), 0)


def fetch_or_produce(key: int, topics: int, partitions: int) -> bytes:
    """Produce 3 or Fetch 4 with so many topics of so many partitions each."""
    head, size = (bytes.fromhex("ffff ffff 00000000"), 8) if key == 0 else (bytes(17), 16)
    return head + pack(">i", topics) + topics * (pack(">hi", 0, partitions) + bytes(partitions * size))


@pytest.mark.parametrize(("key", "version"), [(0, 3), (1, 4)])
def test_the_arrays_of_one_request_share_a_limit(key: int, version: int) -> None:
    for decode in decoders(key):
        produce = decode is decode_produce
        topics, partitions = 10, (MAX_PRODUCED_ELEMENTS if produce else MAX_REQUEST_ELEMENTS) // 10
        why = "20000 topics and partitions" if produce else "a request are allowed"
        with pytest.raises(MalformedRequest, match=why):
            decode(version, memoryview(fetch_or_produce(key, topics, partitions)), 0)
        decode(version, memoryview(fetch_or_produce(key, topics, partitions - 1)), 0)


@pytest.mark.parametrize(("key", "version"), [(3, 9), (0, 9), (1, 12)])
def test_tags_count_as_elements(key: int, version: int) -> None:
    start = {
        3: "01 00 00 00",
        0: "00 ffff 00000000 01",
        1: "ffffffff" + "00" * 21 + "01 01 01",
    }[key]
    tag = bytes.fromhex("63 00")
    for decode in decoders(key):
        as_many = bytes.fromhex(start) + bytes.fromhex("a08d06") + MAX_ARRAY_ELEMENTS * tag
        decode(version, memoryview(as_many), 0)
        one_more = bytes.fromhex(start) + bytes.fromhex("a18d06") + (MAX_ARRAY_ELEMENTS + 1) * tag
        with pytest.raises(MalformedRequest, match=f"{MAX_ARRAY_ELEMENTS + 1} elements"):
            decode(version, memoryview(one_more), 0)


TWENTY_MB = 20_000_000


@pytest.mark.parametrize(
    ("key", "version", "start"),
    [
        (3, 1, pack(">i", 10_000_000)),  # 10 million empty names
        (3, 9, bytes.fromhex("81ade204")),
        (0, 3, bytes.fromhex("ffff ffff 00000000") + pack(">i", 3_000_000)),
        (0, 9, bytes.fromhex("00 ffff 00000000 81ade204")),
        (1, 4, bytes(17) + pack(">i", 3_000_000)),
        (1, 12, bytes(25) + bytes.fromhex("81ade204")),
        (3, 9, b"\xff"),  # a varint of 20 MB
    ],
)
def test_twenty_megabytes_of_empty_elements_are_refused_before_the_first(
    key: int, version: int, start: bytes
) -> None:
    filler = b"\xff" if start == b"\xff" else b"\x00"
    frame = memoryview(start + filler * TWENTY_MB)
    for decode in decoders(key):
        tracemalloc.start()
        try:
            with pytest.raises(MalformedRequest):
                decode(version, frame, 0)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()
