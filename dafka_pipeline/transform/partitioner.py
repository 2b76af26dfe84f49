"""The partition of a key as Java's producers choose it: murmur2, which librdkafka does not by default.
Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
MASK: Final = 0xFFFFFFFF
KEPT: Final = 65_536
"""Keys whose hash is kept: they repeat, and one of 20 bytes takes 2 us."""


@lru_cache(maxsize=KEPT)
def positive_hash(key: bytes) -> int:
    """Kafka's `toPositive(murmur2(key))`, 31 bits; modulo the number of partitions it is the partition."""
    h = (SEED ^ len(key)) & MASK
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * M & MASK
        k = (k ^ (k >> 24)) * M & MASK
        h = (h * M & MASK) ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * M & MASK
    h = (h ^ (h >> 13)) * M & MASK
    return (h ^ (h >> 15)) & 0x7FFFFFFF


def hash_of(key: bytes | bytearray | None) -> int:
    """As `positive_hash`, for a column: a row without a key has 0."""
    return 0 if key is None else positive_hash(bytes(key))
