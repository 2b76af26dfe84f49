"""What stores are told of native records that are in topics: they may go then, and not before.

Rule: what is told of an address lies below the high watermark of its partition, so as many stores have it as
count; and it is told by who leads the partition. Which topics take up a subject is told by every gateway,
once its catalog is compared with what stores remember: an older one would have them drop what others want.

Theory of operation: every `TELL_SECONDS` it is looked how far the addresses have come that are taken up here.
A producer's last batch may be above the high watermark each time that is looked, so what it was at the last
look counts, too, once that is below. All stores get the same message, and none answers; everything is told
again after `AGAIN_SECONDS`, for stores that have started since, or to which a message did not come.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.native.positions import next_of
from wireproto.dafka.additions import MAX_NATIVE_TOPICS_TOLD, NativeTopic, TakenAddress, TakenUp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.cluster.cluster import Cluster
    from gateway.cluster.native_addresses import KnownAddress
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic
    from gateway.native.intake import Intake
    from mesh.native.subjects import NativeSubjects

TELL_SECONDS: Final = 5.0
"""How often stores are told what is new."""

AGAIN_SECONDS: Final = 60.0
"""How often they are told everything."""

TOLD_AT_ONCE: Final = 500
"""Addresses in one message, and looked at in one stretch."""


class Seen(NamedTuple):
    """Where an address was when it was looked at: its last record is at `last_offset`, and comes before
    `following`.
    """

    leader_epoch: int
    last_offset: int
    following: int


class Committed:
    """How far addresses have come for good. Pure."""

    def __init__(self) -> None:
        self._seen: dict[tuple[bytes, str], Seen] = {}
        """What was above the high watermark at the last look."""

    def look(self, key: tuple[bytes, str], now: Seen, high_watermark: int) -> int | None:
        """The first sequence that is not there for good; None: as far as before."""
        seen = self._seen.get(key)
        if now.last_offset < high_watermark:
            self._seen.pop(key, None)
            return now.following
        if seen is None or seen.leader_epoch != now.leader_epoch:
            self._seen[key] = now
            return None
        if seen.last_offset >= high_watermark:
            return None
        self._seen[key] = now
        return seen.following

    def keep_only(self, keys: set[tuple[bytes, str]]) -> None:
        """Others are not looked at any more."""
        for key in self._seen.keys() - keys:
            del self._seen[key]


class Taken:
    """Of one gateway."""

    def __init__(self, cluster: Cluster, subjects: NativeSubjects, intakes: Mapping[bytes, Intake]) -> None:
        self._cluster = cluster
        self._addresses = cluster.native_addresses
        self._subjects = subjects
        self._intakes = intakes
        self._committed = Committed()
        self._told: dict[tuple[bytes, str], int] = {}
        self._topics: tuple[NativeTopic, ...] = ()
        self._due = -math.inf
        self._again = math.inf

    async def tell(self) -> None:
        """Tell the stores what is due."""
        now = trio.current_time()
        if now < self._due or not self._cluster.context.copies.is_compared:
            return
        self._due = now + TELL_SECONDS
        self._again = min(self._again, now + AGAIN_SECONDS)
        everything = now >= self._again
        if everything:
            self._again = now + AGAIN_SECONDS
            self._told.clear()
        topics = [topic for topic in self._cluster.topics.all() if topic.settings.native_subject]
        # Those that are taken up, and others as far as there is room: they are still to have everything.
        topics.sort(key=lambda topic: topic.id not in self._intakes)
        del topics[MAX_NATIVE_TOPICS_TOLD:]
        told = tuple(_told_of(topic) for topic in topics)
        if told != self._topics or everything:
            self._topics = told
            self._send([])
        if topics:
            await self._tell_addresses(topics, everything=everything)

    async def _tell_addresses(self, topics: list[Topic], *, everything: bool) -> None:
        places = {topic.id: place for place, topic in enumerate(topics)}
        taken: list[TakenAddress] = []
        looked: set[tuple[bytes, str]] = set()
        looking = self._addresses.all() if everything else self._of_late()
        for number, (topic_id, address, known) in enumerate(looking, 1):
            place = places.get(topic_id)
            if place is not None:
                key = topic_id, address
                looked.add(key)
                following = self._following(topics[place], address, known)
                if following is not None and self._told.get(key) != following:
                    self._told[key] = following
                    taken.append(TakenAddress(place, address, following))
            if number % TOLD_AT_ONCE == 0:
                self._send_some(taken)
                await trio.lowlevel.checkpoint()
        self._committed.keep_only(looked)
        self._send_some(taken)

    def _of_late(self) -> list[tuple[bytes, str, KnownAddress]]:
        """(topic id, address, what is known of it) of those of which something has come lately."""
        return [
            (topic_id, address, fed.known)
            for topic_id, intake in self._intakes.items()
            for address, fed in intake.fed.items()
        ]

    def _following(self, topic: Topic, address: str, known: KnownAddress) -> int | None:
        partition = topic.partitions[known.partition] if known.partition < len(topic.partitions) else None
        if partition is None or not partition.available or partition.deleted:
            return None
        seen = _seen(partition, known)
        return self._committed.look((topic.id, address), seen, partition.high_watermark)

    def _send_some(self, taken: list[TakenAddress]) -> None:
        if taken:
            self._send(taken)
            taken.clear()

    def _send(self, addresses: list[TakenAddress]) -> None:
        self._subjects.tell_stores(TakenUp(self._cluster.context.cluster_id, self._topics, tuple(addresses)))


def _told_of(topic: Topic) -> NativeTopic:
    settings = topic.settings
    return NativeTopic(topic.id.hex(), settings.native_subject, settings.native_retention_ms)


def _seen(partition: Partition, known: KnownAddress) -> Seen:
    """Where an address is in its partition. What the catalog knows of it is there for good."""
    producer = partition.producers.state.find(known.producer_id)
    following = next_of(known, producer)
    if producer is None or following == known.next:
        return Seen(partition.leader_epoch, -1, following)
    return Seen(partition.leader_epoch, producer.last_offset, following)
