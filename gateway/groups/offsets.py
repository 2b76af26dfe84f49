"""The offsets that a group has committed: a pure table, and when an entry of it has outlived its time.

Rule: what is shown was durable before. A write of an offset goes to the log first (`start`), and takes
effect here in the order of the log: `commit` when its record is durable, `give_up` when it is not known to
become so. Meanwhile readers see what was there before; whoever writes again (a deletion, an expiry) knows
that something is on its way, because its own record comes behind it in the log and has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from gateway.groups.member import text_bytes
from gateway.groups.records import NO_TIME, NO_TOPIC_ID, CommittedOffset

OFFSET_METADATA_MAX_BYTES: Final = 4096
"""Kafka's `offset.metadata.max.bytes`: metadata of one committed offset. Kafka counts UTF-16 units, in
spite of the name, and so do we; a longer one is OFFSET_METADATA_TOO_LARGE."""

OFFSET_BYTES: Final = 320
"""Memory of a committed offset beside its metadata: its tuple and numbers, its places in tables. Measured in
groups of a hundred: 210 bytes each, and a hundred more where the topic's name and id are its own, as after
loading."""

TopicPartition: TypeAlias = tuple[str, int]


class OffsetTable:
    """The offsets of one group, by topic and partition."""

    __slots__ = ("_by_topic", "_charge", "_count", "_on_way", "bytes")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self._count = 0
        self.bytes = 0
        """Memory of what is committed, about."""
        self._charge: Callable[[int], None] | None = None
        self._on_way: dict[TopicPartition, int] = {}
        """How many writes of a partition are on their way to the log."""

    # what readers see ---------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many offsets are committed."""
        return self._count

    def fetch(self, topic: str, partition: int, topic_id: bytes = NO_TOPIC_ID) -> CommittedOffset | None:
        """What was committed last; nothing if that was for another topic of the same name.

        Ids that are not known match any (`OffsetMetadataManager.isMismatchedTopicId`).
        """
        found = self._by_topic.get(topic, {}).get(partition)
        if found is None or topic_id in (NO_TOPIC_ID, found.topic_id) or found.topic_id == NO_TOPIC_ID:
            return found
        return None

    def topics(self) -> Iterator[tuple[str, Mapping[int, CommittedOffset]]]:
        """Each topic with its partitions' offsets."""
        return iter(self._by_topic.items())

    def has_topic(self, topic: str) -> bool:
        """Whether an offset of this topic is committed."""
        return topic in self._by_topic

    def is_empty(self) -> bool:
        """Nothing is committed, and nothing on its way."""
        return not self._by_topic and not self._on_way

    # what it holds ------------------------------------------------------------------------------------------

    def charge_to(self, charge: Callable[[int], None] | None) -> None:
        """Have `charge` told of each change of `bytes` from now on; None: nobody."""
        self._charge = charge

    def growth(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> int:
        """How many more bytes there would be with these."""
        growth = 0
        for (topic, partition), offset in offsets.items():
            partitions = self._by_topic.get(topic)
            known = None if partitions is None else partitions.get(partition)
            if known is None:
                growth += _bytes_of(offset)
            elif known.metadata != offset.metadata:
                growth += _bytes_of(offset) - _bytes_of(known)
        return growth

    def _grown(self, size: int) -> None:
        self.bytes += size
        if self._charge is not None:
            self._charge(size)

    # what writers do ----------------------------------------------------------------------------------------

    def start(self, keys: Iterable[TopicPartition]) -> None:
        """A write of these offsets goes to the log."""
        for key in keys:
            self._on_way[key] = self._on_way.get(key, 0) + 1

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """These were written, and are durable; None is a tombstone."""
        self.give_up(offsets)
        for (topic, partition), offset in offsets.items():
            self.put(topic, partition, offset)

    def give_up(self, keys: Iterable[TopicPartition]) -> None:
        """What was to be written of these is not on its way any more."""
        for key in keys:
            left = self._on_way[key] - 1
            if left:
                self._on_way[key] = left
            else:
                del self._on_way[key]

    def put(self, topic: str, partition: int, offset: CommittedOffset | None) -> None:
        """What a record of the log says; None for a tombstone."""
        partitions = self._by_topic.get(topic)
        if offset is None:
            if partitions is not None and (gone := partitions.pop(partition, None)) is not None:
                self._count -= 1
                self._grown(-_bytes_of(gone))
                if not partitions:
                    del self._by_topic[topic]
            return
        if partitions is None:
            partitions = self._by_topic[topic] = {}
        known = partitions.get(partition)
        partitions[partition] = offset
        if known is None:
            self._count += 1
            self._grown(_bytes_of(offset))
        elif known.metadata != offset.metadata:
            self._grown(_bytes_of(offset) - _bytes_of(known))

    # what is to be forgotten --------------------------------------------------------------------------------

    def keys(self) -> list[TopicPartition]:
        """All that the log may have an offset of: committed or on their way."""
        committed = [(topic, partition) for topic, found in self._by_topic.items() for partition in found]
        return [*committed, *(key for key in self._on_way if not self._has(key))]

    def known(self, keys: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of `keys` that the log may have an offset of."""
        return [key for key in dict.fromkeys(keys) if key in self._on_way or self._has(key)]

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        expires_from: Callable[[int], int | None],
        is_subscribed: Callable[[str], bool],
        among: Iterable[TopicPartition] | None = None,
    ) -> list[TopicPartition]:
        """Those, of all or of these, that have outlived `retention_ms`
        (`OffsetExpirationConditionImpl.isOffsetExpired`).

        `expires_from` gives, for the time of a commit, when the retention began; None: not yet. A topic that
        the group is subscribed to keeps its offsets, and so does a partition that is being committed. An
        offset with an expire time of its own (OffsetCommit 2 to 4) goes by that.
        """
        found: list[TopicPartition] = []
        for topic, partitions in self._committed(among):
            if is_subscribed(topic):
                continue
            for partition, offset in partitions:
                began = expires_from(offset.commit_timestamp_ms)
                if began is None or (topic, partition) in self._on_way:
                    continue
                over = began + retention_ms
                if now_ms >= (over if offset.expire_timestamp_ms == NO_TIME else offset.expire_timestamp_ms):
                    found.append((topic, partition))
        return found

    def of_lost_topics(
        self, exists: Callable[[str, bytes], bool], among: Iterable[TopicPartition] | None = None
    ) -> list[TopicPartition]:
        """Those, of all or of these, whose topic `exists` no more (`OffsetMetadataManager.onTopicsDeleted`);
        a partition that is being committed is looked at the next time.
        """
        return [
            (topic, partition)
            for topic, partitions in self._committed(among)
            for partition, offset in partitions
            if not exists(topic, offset.topic_id) and (topic, partition) not in self._on_way
        ]

    def _committed(
        self, among: Iterable[TopicPartition] | None
    ) -> Iterator[tuple[str, Iterable[tuple[int, CommittedOffset]]]]:
        """Topics with their partitions' offsets: all, or what there is of these, which come by topic."""
        if among is None:
            for topic, partitions in self._by_topic.items():
                yield topic, partitions.items()
            return
        for topic, keys in groupby(among, key=itemgetter(0)):
            partitions = self._by_topic.get(topic, {})
            yield topic, [(index, partitions[index]) for _, index in keys if index in partitions]

    def _has(self, key: TopicPartition) -> bool:
        topic, partition = key
        return partition in self._by_topic.get(topic, ())


def _bytes_of(offset: CommittedOffset) -> int:
    return OFFSET_BYTES + text_bytes(offset.metadata)


def is_metadata_too_large(metadata: str | None) -> bool:
    """Whether Kafka refuses this metadata: more than `OFFSET_METADATA_MAX_BYTES` UTF-16 units."""
    if metadata is None or len(metadata) * 2 <= OFFSET_METADATA_MAX_BYTES:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > OFFSET_METADATA_MAX_BYTES
