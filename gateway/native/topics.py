"""Which topics have a subject, and what has to be in the catalog for that.

Theory of operation: each topic with `dafka.native.subject` has an `Intake` as long as that is its subject. An
address that is heard of for the first time is given a partition, by the topic's rule or by a hash of its name
over the partitions that there are then, and a producer id: by the gateway that leads that partition, and by
whoever comes first if several believe that they do. How far an address has come that is silent goes into the
catalog long before its log forgets it.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final
from zlib import crc32

import trio

from gateway.catalog import keys
from gateway.cluster.native_addresses import MAX_NATIVE_ADDRESSES, KnownAddress
from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable
from gateway.native.intake import Intake
from gateway.native.positions import next_of
from gateway.native.taken import Taken
from gateway.security.principal import Principal
from mesh.protocol.address_state import life_of
from wireproto.kafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.cluster.cluster import Cluster
    from gateway.log.idempotence.producer import Producer
    from gateway.log.topic import Topic
    from mesh.native.subjects import NativeSubjects

LOOK_SECONDS: Final = 1.0
"""How often is looked which topics have a subject, and which addresses are to be known."""

SILENT_LOOK_SECONDS: Final = 10.0
"""How often is looked which addresses were silent."""

SILENT_SECONDS: Final = 60.0
"""After so long without a record the catalog is told how far an address has come. Until then its log does not
forget it."""

MAX_NATIVE_TOPICS: Final = 16
"""Topics with a subject: each may have 24 MiB of records in memory."""

NOTED_AT_ONCE: Final = 100
"""Addresses in one transaction."""

LOOKED_AT_ONCE: Final = 200
"""Addresses in one stretch, where all are looked at."""

KEPT_SECONDS: Final = 2.0
"""How long is waited for the stores to have new addresses in their copies of the catalog."""

NATIVE: Final = "Native"
"""The type of the principals whose the producers are: no client is one of them."""

logger = logging.getLogger(__name__)


class NativeTopics:
    """Of one gateway. `run` it once logs are recovered, or while they are."""

    def __init__(self, cluster: Cluster, subjects: NativeSubjects) -> None:
        self.intakes: dict[bytes, Intake] = {}
        """By the topics' ids."""
        self._cluster = cluster
        self._addresses = cluster.native_addresses
        self._subjects = subjects
        self._ended: Counter[str] = Counter()
        """What intakes had counted that have ended."""
        self._limit = LogLimit(logger)
        self._taken = Taken(cluster, subjects, self.intakes)
        cluster.context.producers.keeps = self._is_behind

    @property
    def addresses(self) -> int:
        """That the catalog knows."""
        return len(self._addresses)

    @property
    def records(self) -> int:
        """Records that this life has appended to topics."""
        return self._ended["records"] + sum(intake.records for intake in self.intakes.values())

    @property
    def lost(self) -> int:
        """Records that no store had any more when their turn came."""
        return self._ended["lost"] + sum(intake.lost for intake in self.intakes.values())

    @property
    def refused(self) -> int:
        """Records that no batch of their topic may have."""
        return self._ended["refused"] + sum(intake.refused for intake in self.intakes.values())

    @property
    def rewritten(self) -> int:
        """Addresses that were found to have a record with two contents."""
        return self._ended["rewritten"] + sum(len(intake.rewrites) for intake in self.intakes.values())

    @property
    def lag(self) -> int:
        """Records that stores have told of and that are not in their topics, of addresses taken up here."""
        return sum(intake.lag for intake in self.intakes.values())

    @property
    def waiting_bytes(self) -> int:
        """Bytes of records that are here and not appended."""
        return sum(intake.waiting_bytes for intake in self.intakes.values())

    async def run(self) -> None:
        """Take up the records of topics that have a subject, for ever."""
        looked = trio.current_time()
        async with trio.open_nursery() as nursery:
            while True:
                self._look(nursery)
                await self._make_known()
                await self._taken.tell()
                if trio.current_time() >= looked + SILENT_LOOK_SECONDS:
                    looked = trio.current_time()
                    await self._note_silent()
                    await self._addresses.forget_topics(topic.id for topic in self._cluster.topics.all())
                await trio.sleep(LOOK_SECONDS)

    def _look(self, nursery: trio.Nursery) -> None:
        wanted = {topic.id: topic for topic in self._cluster.topics.all() if topic.settings.native_subject}
        for topic_id, intake in list(self.intakes.items()):
            topic = wanted.get(topic_id)
            if topic is None or topic is not intake.topic or topic.settings.native_subject != intake.subject:
                intake.stop()
                self._ended.update(
                    records=intake.records,
                    lost=intake.lost,
                    refused=intake.refused,
                    rewritten=len(intake.rewrites),
                )
                del self.intakes[topic_id]
        for topic_id, topic in wanted.items():
            if topic_id in self.intakes:
                continue
            if len(self.intakes) < MAX_NATIVE_TOPICS:
                intake = Intake(self._cluster.context, self._subjects, self._addresses, topic)
                self.intakes[topic_id] = intake
                nursery.start_soon(intake.run)
            else:
                self._limit.warning(
                    "topic %s gets no native records: %d topics have a subject, and no more may be",
                    topic.name, MAX_NATIVE_TOPICS,
                )  # fmt: skip

    # what the catalog is told ------------------------------------------------------------------------------

    async def _make_known(self) -> None:
        for intake in list(self.intakes.values()):
            taken = list(intake.unknown)
            intake.unknown.clear()
            lives = self._lives_of_segments(intake.subject) if taken else set()
            natives: list[str] = []
            for address in taken:
                if life_of(address) in lives:
                    intake.leave_out(address)
                else:
                    natives.append(address)
            try:
                await self._make(intake.topic, natives)
            except KafkaError as error:
                self._limit.info("native addresses of topic %s wait: %s", intake.topic.name, error)
        if self._addresses.are_to_be_kept and await self._cluster.context.copies.keep(KEPT_SECONDS):
            self._addresses.kept()
            for intake in self.intakes.values():
                intake.more_are_known()

    async def _make(self, topic: Topic, addresses: Sequence[str]) -> None:
        """Have the catalog know those of these addresses whose partitions are led here. Raises KafkaError."""
        led: dict[str, int] = {}
        for address in addresses:
            index = _partition_of(topic, address)
            if index < len(topic.partitions) and topic.partitions[index].available:
                led[address] = index
        new = [address for address in led if not self._addresses.has(topic.id, address)]
        if len(new) > self._addresses.room:
            self._say_full(topic, new[self._addresses.room])
            new = new[: self._addresses.room]
        for start in range(0, len(new), NOTED_AT_ONCE):
            made: dict[str, KnownAddress] = {}
            for address in new[start : start + NOTED_AT_ONCE]:
                whom = Principal(NATIVE, f"{topic.id.hex()}/{address}")
                producer_id = await self._cluster.allocate_producer_id(whom)
                made[address] = KnownAddress(led[address], producer_id)
            await self._addresses.make(topic.id, made)

    def _say_full(self, topic: Topic, address: str) -> None:
        self._limit.warning(
            "native address %s of subject %s does not come into topic %s: %d addresses are known, and no "
            "more may be",
            printable(address), topic.settings.native_subject, topic.name, MAX_NATIVE_ADDRESSES,
        )  # fmt: skip

    def _lives_of_segments(self, subject: str) -> set[str]:
        """The gateway lives that have published segments of a topic with the name of the subject: one that
        had not begun in the catalog when it ended is known by its segments alone.
        """
        named = self._cluster.topics.get(subject)
        if named is None:
            return set()
        segments = self._cluster.context.catalog.range(keys.segments_prefix(named.id))
        return {life_of(keys.address_of_segment(entry.key)) for entry in segments}

    async def _note_silent(self) -> None:
        """Have the catalog know how far those have come that were silent, of topics with a subject or
        without.
        """
        silent: dict[bytes, dict[str, int]] = {}
        for number, (topic_id, address, known) in enumerate(self._addresses.all(), 1):
            if (following := self._silent_at(topic_id, address, known)) is not None:
                silent.setdefault(topic_id, {})[address] = following
            if number % LOOKED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        for topic_id, reached in silent.items():
            waiting = list(reached.items())
            for start in range(0, len(waiting), NOTED_AT_ONCE):
                await self._addresses.reached(topic_id, dict(waiting[start : start + NOTED_AT_ONCE]))
            if topic_id in self.intakes:
                self.intakes[topic_id].rest(reached)

    def _silent_at(self, topic_id: bytes, address: str, known: KnownAddress) -> int | None:
        """How far a silent address has come, durably, past what was refused; None: it is not silent, or led
        elsewhere, or that is known.
        """
        topic = self._cluster.topics.by_id(topic_id)
        if topic is None or known.partition >= len(topic.partitions):
            return None
        partition = topic.partitions[known.partition]
        producer = partition.producers.state.find(known.producer_id) if partition.available else None
        if producer is None:
            return None
        intake = self.intakes.get(topic_id)
        fed = None if intake is None else intake.fed.get(address)
        following = max(next_of(known, producer), 0 if fed is None else fed.refused_before)
        if following <= known.next:
            return None
        quiet_ms = self._cluster.context.now_ms() - producer.used_ms
        if quiet_ms < SILENT_SECONDS * 1000 or producer.last_offset >= partition.high_watermark:
            return None
        return following

    def _is_behind(self, producer_id: int, producer: Producer) -> bool:
        """Whether the catalog does not know yet how far a native address has come: its log must not forget
        it.
        """
        known = self._addresses.of_producer(producer_id)
        return known is not None and known.next < next_of(known, producer)


def _partition_of(topic: Topic, address: str) -> int:
    """The partition of an address that is heard of for the first time."""
    rule = topic.settings.native_partition
    return crc32(address.encode()) % len(topic.partitions) if rule is None else rule
