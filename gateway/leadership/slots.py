"""Which slot a partition is in, and how much is in each. Pure.

Leadership is given by slots, of which there are `SLOTS`, and not by partitions: a table of that size is read
and compared whole, and thousands of partitions change their leader with a few transactions.

Rule: a topic's partitions are in slots that follow one another round the ring of slots, from one that the
topic's id chooses. So up to `SLOTS` of them are in slots of their own, and where the gateways take turns
round the ring each topic is even among them, one that is created later as well. Ids of new topics are made so
that topics of one name, of which there is one at a time, have the same slots (`topic_id_for`).

Which slot a partition is in must never change: gateways of two releases work on one table.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import count
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

SLOTS: Final = 1024
"""Slots of a cluster: some for each of hundreds of gateways, and few enough to look at all of them at
once.
"""

NO_PREFERENCES: Final[Mapping[int, int]] = MappingProxyType({})


def slot_of(topic_id: bytes, index: int) -> int:
    """The slot of a partition."""
    return (first_slot(topic_id) + index) % SLOTS


def first_slot(topic_id: bytes) -> int:
    """The slot of a topic's partition 0."""
    return int.from_bytes(blake2b(topic_id, digest_size=2).digest()) % SLOTS


def topic_id_for(name: str, drawn: UUID) -> bytes:
    """An id for a new topic of this name: the one that was drawn, but for its last bytes, which choose the
    slots that every topic of this name has.

    A topic that is deleted and made anew has another id, and clients that know its partitions by their name
    compare leader epochs over both: librdkafka ignores a leader whose epoch is below the one it has
    (`rd_kafka_toppar_leader_update`), and would produce to the old one for ever. The epochs of a slot only go
    up. It takes `SLOTS` tries on the average, of less than a microsecond each.
    """
    wanted = first_slot(name.encode())
    number = int.from_bytes(drawn.bytes)
    for change in count():
        topic_id = (number ^ change).to_bytes(len(drawn.bytes))
        if first_slot(topic_id) == wanted:
            return topic_id
    raise AssertionError("unreachable")


class TopicShape(NamedTuple):
    """A topic's partitions. `preferred` are those that somebody wants a certain gateway to lead: partition ->
    gateway id.
    """

    id: bytes
    partitions: int
    preferred: Mapping[int, int] = NO_PREFERENCES


class Occupancy:
    """What is in each slot. Topics have numbers here, by the order in which they came."""

    def __init__(self, topics: Iterable[TopicShape] = ()) -> None:
        self.contents: list[list[tuple[int, int]]] = [[] for _ in range(SLOTS)]
        """By slot: (topic, how many of its partitions are in the slot)."""
        self.weights = [0] * SLOTS
        """By slot: the partitions that are in it."""
        self.topics = 0
        """How many there are."""
        self.wishes: dict[int, tuple[bytes, int, int]] = {}
        """By slot: the partition, as its topic's id and its index, and its preferred leader."""
        for topic in topics:
            self.add(topic)

    def add(self, topic: TopicShape) -> None:
        """Count one more."""
        first = first_slot(topic.id)
        laps, rest = divmod(topic.partitions, SLOTS)
        for step in range(min(topic.partitions, SLOTS)):
            slot, count = (first + step) % SLOTS, laps + (step < rest)
            self.contents[slot].append((self.topics, count))
            self.weights[slot] += count
        self.topics += 1
        for index, gateway in topic.preferred.items():
            if 0 <= index < topic.partitions:
                slot, wish = (first + index) % SLOTS, (topic.id, index, gateway)
                self.wishes[slot] = min(wish, self.wishes.get(slot, wish))

    def preferred(self, slot: int) -> int | None:
        """The gateway that is to lead a slot, if somebody has said so of one of its partitions; of several
        that disagree the first one's, in the order of topics' ids and partitions.
        """
        wish = self.wishes.get(slot)
        return None if wish is None else wish[2]
