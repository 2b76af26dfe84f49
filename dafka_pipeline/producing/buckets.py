"""Each target partition's rows into one task, without two of them in a task while another has none. Pure.

Spark places rows by a hash of a column, which puts several values into one task. So the column is not the
number of the task, but a number whose hash is that task.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
SEED: Final = 42
"""The seed of Spark's `hash` and of its hash partitioning."""


def spark_hash(number: int) -> int:
    """Spark's `hash` of an INT: Murmur3 (x86, 32 bits) of its four bytes, as a signed number."""
    k = number & _MASK
    k = k * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    k = k * 0x1B873593 & _MASK
    h = SEED ^ k
    h = (h << 13 | h >> 19) & _MASK
    h = h * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def numbers_for(tasks: int) -> list[int]:
    """For each task a number that `repartition(tasks, number)` places there."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(spark_hash(number) % tasks, number)
        number += 1
    return [found[task] for task in range(tasks)]
