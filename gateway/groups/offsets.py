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
from gateway.groups.pending_offsets import PendingOffsets
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

    __slots__ = ("_by_topic", "_charge", "_count", "_on_way", "_pending", "bytes")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self._count = 0
        self.bytes = 0
        """Memory of what is committed, about."""
        self._charge: Callable[[int], None] | None = None
        self._on_way: dict[TopicPartition, int] = {}
        """How many writes of a partition are on their way to the log."""
        self._pending: PendingOffsets | None = None
        """Of open transactions, from when there is one."""

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
        """Nothing is committed, and nothing on its way or in open transactions."""
        return not self._by_topic and not self._on_way and not self._pending

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

    @staticmethod
    def growth_in_transaction(offsets: Mapping[TopicPartition, CommittedOffset]) -> int:
        """How many more bytes there may be with these until the end of a transaction."""
        return sum(map(_bytes_of, offsets.values()))

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
        for key, offset in offsets.items():
            if self._pending and offset is None:
                self._grown(-sum(map(_bytes_of, self._pending.deleted(key))))
            elif self._pending:
                self._pending.committed(key)
            self.put(*key, offset)

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

    # within transactions ------------------------------------------------------------------------------------

    def start_in_transaction(self, keys: Iterable[TopicPartition]) -> None:
        """A write of these offsets, which are part of a transaction, goes to the log."""
        if self._pending is None:
            self._pending = PendingOffsets()
        self._pending.start(keys)

    def add_in_transaction(
        self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset], *, durable: bool
    ) -> None:
        """That write is over: they wait for the end of the producer's transaction if they are durable."""
        assert self._pending is not None, "the write was started"
        if durable:
            replaced = self._pending.add(producer_id, offsets)
            self._grown(self.growth_in_transaction(offsets) - sum(map(_bytes_of, replaced)))
        else:
            self._pending.give_up(offsets)

    def load_pending(
        self, producer_id: int, key: TopicPartition, offset: CommittedOffset, *, superseded: bool
    ) -> None:
        """What the log has of an open transaction, in its order; `superseded`: a plain commit came later."""
        self.start_in_transaction([key])
        self.add_in_transaction(producer_id, {key: offset}, durable=True)
        if superseded and self._pending is not None:
            self._pending.committed(key)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of the producer's transaction is durable: readers see what was committed in it."""
        if self._pending is not None:
            found, ended = self._pending.end(producer_id, is_commit=is_commit)
            self._grown(-sum(map(_bytes_of, ended)))
            for (topic, partition), offset in found.items():
                self.put(topic, partition, offset)

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return self._pending is not None and self._pending.is_unstable((topic, partition))

    @property
    def producers(self) -> Iterable[int]:
        """The ids of those whose open transactions have offsets here."""
        return () if self._pending is None else self._pending.producers

    # what is to be forgotten --------------------------------------------------------------------------------

    def keys(self) -> list[TopicPartition]:
        """All that the log may have an offset of: committed, on their way, or in open transactions."""
        committed = [(topic, partition) for topic, found in self._by_topic.items() for partition in found]
        others = dict.fromkeys(self._on_way)
        if self._pending:
            others |= dict.fromkeys(self._pending.keys())
        return [*committed, *(key for key in others if not self._has(key))]

    def known(self, keys: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of `keys` that the log may have an offset of."""
        return [
            key
            for key in dict.fromkeys(keys)
            if key in self._on_way or self._has(key) or self.is_unstable(*key)
        ]

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
        the group is subscribed to keeps its offsets, and so does a partition that is being committed, or that
        an open transaction has. An offset with an expire time of its own (OffsetCommit 2 to 4) goes by that.
        """
        found: list[TopicPartition] = []
        for topic, partitions in self._committed(among):
            if is_subscribed(topic):
                continue
            for partition, offset in partitions:
                began = expires_from(offset.commit_timestamp_ms)
                if began is None or (topic, partition) in self._on_way:
                    continue
                if self.is_unstable(topic, partition):
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
            if not exists(topic, offset.topic_id)
            and (topic, partition) not in self._on_way
            and not self.is_unstable(topic, partition)
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
