"""Which partitions a consumer's assignment names: `ConsumerProtocolAssignment`, for those who look at groups.

The coordinator itself never reads assignments: they belong to the clients.
"""

import struct

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """Topic -> partitions, as they were written; None when these are not a consumer's bytes."""
    try:
        return _assigned(memoryview(assignment))
    except (struct.error, UnicodeDecodeError, ValueError):
        return None


def _assigned(data: memoryview) -> dict[str, list[int]]:
    (topics,) = _INT.unpack_from(data, _SHORT.size)
    at = _SHORT.size + _INT.size
    found: dict[str, list[int]] = {}
    for _ in range(_count(topics, data)):
        (length,) = _SHORT.unpack_from(data, at)
        at += _SHORT.size
        name = bytes(data[at : at + _count(length, data)]).decode()
        at += length
        (partitions,) = _INT.unpack_from(data, at)
        at += _INT.size
        found.setdefault(name, []).extend(struct.unpack_from(f">{_count(partitions, data)}i", data, at))
        at += partitions * _INT.size
    return found


def _count(count: int, data: memoryview) -> int:
    if not 0 <= count <= len(data):
        raise ValueError("a length that the bytes have no room for")
    return count
