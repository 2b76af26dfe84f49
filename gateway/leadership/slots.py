"""Which slot a partition is in, and how much is in each. Pure.

Leadership is given by slots, of which there are `SLOTS`, and not by partitions: a table of that size is read
and compared whole, and thousands of partitions change their leader with a few transactions.

Rule: a topic's partitions are in slots that follow one another round the ring of slots, from one that the
topic's id chooses. So up to `SLOTS` of them are in slots of their own, and where the gateways take turns
round the ring each topic is even among them, one that is created later as well.

Which slot a partition is in must never change: gateways of two releases work on one table.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple

SLOTS: Final = 1024
"""Slots of a cluster: some for each of hundreds of gateways, and few enough to look at all of them at
once.
"""

NO_OVERRIDES: Final[Mapping[int, int]] = MappingProxyType({})


def slot_of(topic_id: bytes, index: int) -> int:
    """The slot of a partition."""
    return (first_slot(topic_id) + index) % SLOTS


def first_slot(topic_id: bytes) -> int:
    """The slot of a topic's partition 0."""
    return int.from_bytes(blake2b(topic_id, digest_size=2).digest()) % SLOTS


class TopicShape(NamedTuple):
    """A topic's partitions. `overridden` are those that are led by a gateway of their own, and not by their
    slot's: partition -> gateway id.
    """

    id: bytes
    partitions: int
    overridden: Mapping[int, int] = NO_OVERRIDES


class Occupancy:
    """What is in each slot. Topics have numbers here, by the order in which they came."""

    def __init__(self, topics: Iterable[TopicShape] = ()) -> None:
        self.contents: list[list[tuple[int, int]]] = [[] for _ in range(SLOTS)]
        """By slot: (topic, how many of its partitions are led with the slot)."""
        self.weights = [0] * SLOTS
        """By slot: the partitions that are led with it."""
        self.overridden: list[dict[int, int]] = []
        """By topic: gateway id -> how many partitions it leads by overrides."""
        for topic in topics:
            self.add(topic)

    def add(self, topic: TopicShape) -> None:
        """Count one more."""
        number, first = len(self.overridden), first_slot(topic.id)
        counts: dict[int, int] = {}
        overridden: dict[int, int] = {}
        for index in range(topic.partitions):
            gateway = topic.overridden.get(index)
            if gateway is not None:
                overridden[gateway] = overridden.get(gateway, 0) + 1
            else:
                slot = (first + index) % SLOTS
                counts[slot] = counts.get(slot, 0) + 1
        for slot, count in counts.items():
            self.contents[slot].append((number, count))
            self.weights[slot] += count
        self.overridden.append(overridden)
