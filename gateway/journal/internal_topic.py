"""A topic of the gateway's own: its shape, and which of its partitions has what. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

_UTF_16: Final = f"utf-16-{sys.byteorder[0]}e"


class InternalTopic(NamedTuple):
    """Its name, and what it is made with."""

    name: str
    partitions: int
    configs: Mapping[str, str]


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, a signed number of 32 bits."""
    value = 0
    if text.isascii():
        units: bytes | memoryview = text.encode()
    else:
        units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(key: str, partitions: int) -> int:
    """Which of so many partitions keeps a group or transactional id: Kafka's
    `Utils.abs(key.hashCode()) % partitions`.

    Kafka's `abs` of the smallest number is 0.
    """
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions
