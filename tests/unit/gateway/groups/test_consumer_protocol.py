"""What is read out of a consumer's subscription and its assignment."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.consumer_protocol import (
    MAX_SUBSCRIBED_TOPICS,
    assigned_partitions,
    subscribed_topics,
    topics_of_all,
)


def subscription(*topics: str, behind: bytes = b"") -> bytes:
    names = [name.encode() for name in topics]
    parts = [struct.pack(f">h{len(name)}s", len(name), name) for name in names]
    return struct.pack(">hi", 1, len(names)) + b"".join(parts) + behind


@pytest.mark.parametrize("behind", [b"", b"\xff\xff\xff\xff", b"owned partitions"])
def test_the_topics_are_read_whatever_is_behind_them(behind: bytes) -> None:
    assert subscribed_topics(subscription("orders", "payments", behind=behind)) == frozenset(
        {"orders", "payments"}
    )


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\1",
        struct.pack(">hi", 1, -1),
        struct.pack(">hi", 1, 3),
        struct.pack(">hih", 1, 1, -1),
        struct.pack(">hih2s", 1, 1, 3, b"ab"),
        struct.pack(">hih1s", 1, 1, 1, b"\xff"),
    ],
)
def test_what_is_no_subscription_is_told(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


def test_a_member_that_names_very_many_topics_counts_as_reading_everything() -> None:
    most = [f"t{number}" for number in range(MAX_SUBSCRIBED_TOPICS)]
    assert subscribed_topics(subscription(*most)) == frozenset(most)
    assert subscribed_topics(subscription(*most, "one more")) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_a_subscription_or_refused(data: bytes) -> None:
    found = subscribed_topics(data)
    assert found is None or all(isinstance(name, str) for name in found)


def assignment(topics: dict[str, list[int]], *, version: int = 1, behind: bytes = b"\0\0\0\0") -> bytes:
    parts = [struct.pack(">hi", version, len(topics))]
    for name, partitions in topics.items():
        data = name.encode()
        parts.append(
            struct.pack(f">h{len(data)}si{len(partitions)}i", len(data), data, len(partitions), *partitions)
        )
    return b"".join(parts) + behind


@pytest.mark.parametrize(
    "topics",
    [{}, {"orders": [0]}, {"orders": [2, 0, 1], "payments": []}, {"ÿ": [5]}],
)
@pytest.mark.parametrize("behind", [b"", b"\0\0\0\0", b"\0\0\0\2ab"])
def test_an_assignment_names_topics_and_partitions(topics: dict[str, list[int]], behind: bytes) -> None:
    assert assigned_partitions(assignment(topics, behind=behind)) == topics


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\1",
        struct.pack(">hi", 1, 1),
        struct.pack(">hi", 1, -1),
        struct.pack(">hi", 1, 2**31 - 1),
        struct.pack(">hih", 1, 1, -1),
        struct.pack(">hih2s", 1, 1, 30_000, b"ab"),
        struct.pack(">hih1si", 1, 1, 1, b"a", 2**31 - 1),
        struct.pack(">hih1si", 1, 1, 1, b"a", -5),
        struct.pack(">hih1si", 1, 1, 1, b"\xff", 0),
    ],
)
def test_what_is_no_assignment_is_told(data: bytes) -> None:
    assert assigned_partitions(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_an_assignment_or_refused(data: bytes) -> None:
    found = assigned_partitions(data)
    assert found is None or all(isinstance(name, str) for name in found)


def test_members_that_name_too_many_topics_together_read_everything() -> None:
    most = [f"t{number}" for number in range(MAX_SUBSCRIBED_TOPICS)]
    alike = {subscription(*most)}
    assert topics_of_all(alike) == frozenset(most)
    full = [subscription(*most, behind=bytes([number])) for number in range(4)]
    assert topics_of_all(full) == frozenset(most)
    assert topics_of_all([*full, subscription("one more")]) is None
    assert topics_of_all([b"not a consumer's"]) is None
