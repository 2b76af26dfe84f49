"""Where Kafka's default partitioner puts a record with a key."""

from collections.abc import Sequence


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of this key among so many (`BuiltInPartitioner.partitionForKey`)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: Sequence[int]) -> int:
    """The hash by which Java's clients place a key (`Utils.murmur2`), as a number without a sign."""
    multiplier, length = 0x5BD1E995, len(data)
    found = (0x9747B28C ^ length) & 0xFFFFFFFF
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(bytes(data[start : start + 4]), "little")
        word = word * multiplier & 0xFFFFFFFF
        word = (word ^ word >> 24) * multiplier & 0xFFFFFFFF
        found = (found * multiplier & 0xFFFFFFFF) ^ word
    if rest := bytes(data[whole:]):
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & 0xFFFFFFFF
    found = (found ^ found >> 13) * multiplier & 0xFFFFFFFF
    return found ^ found >> 15
