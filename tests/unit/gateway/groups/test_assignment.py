"""What is read out of a consumer's assignment."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.assignment import assigned_partitions


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
def test_what_is_none_is_told(data: bytes) -> None:
    assert assigned_partitions(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    found = assigned_partitions(data)
    assert found is None or all(isinstance(name, str) for name in found)
