"""Which topics a consumer's join metadata names."""

import struct

import pytest

from gateway.groups.subscription import MAX_SUBSCRIBED_TOPICS, subscribed_topics


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
