"""What all partitions of one gateway share: the mesh's two sides, the catalog, the cache, and the workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.catalog.keys import log_name
from gateway.common.budget import Gate
from gateway.common.error_counts import ErrorCounts
from gateway.log.closer import Closer
from gateway.log.cold import ColdReader
from gateway.log.copier import Copier
from gateway.log.deleted import Deleted
from gateway.log.epoch_counter import EpochCounter
from gateway.log.fences import Fences
from gateway.log.idempotence.producer_ids import ProducerIds
from gateway.log.idempotence.producers import ProducerCount
from gateway.log.log_start import LogStarts
from gateway.log.neighbours import CatalogCopies, Leadership, LeadsAll, LogStores, NoCopies
from gateway.log.opener import Opener
from gateway.log.tail_cache import TailCache
from gateway.log.transactions.aborted_reading import AbortedReader
from gateway.log.wake_ups import WakeUps
from wireproto.dafka.additions import NOTHING_REMEMBERED, Remembered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.catalog.interface import Catalog
    from gateway.log.partition import Partition
    from mesh.producer import Producer
    from mesh.reader import Reader


MAX_WINDOW_BYTES = 64 * 1024 * 1024
"""Appended and not yet durable, all partitions together: some hundred milliseconds of a busy disk. Half of
the store's queue, so that the store never refuses what the gateway sent. Internal topics do not wait at this
gate: their share besides is bounded where they are written (`gateway.journal.group_commit`)."""

MAX_STUCK_BYTES = 32 * 1024 * 1024
"""How much of the windows that wait without progress does not count towards the gate, so that partitions
whose stores are away do not stop the producers of all others. Beyond it the segments with the largest
windows, of those whose stores are not there, are given up: their members decide what is kept when they are
back."""


class LogContext:
    """Made once per gateway life."""

    def __init__(
        self,
        catalog: Catalog,
        producer: Producer,
        reader: Reader,
        *,
        cluster_id: str,
        stores: LogStores,
        tail_cache_bytes: int,
        copies: CatalogCopies | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self.catalog = catalog
        self.producer = producer
        self.reader = reader
        self.cluster_id = cluster_id
        self.stores = stores
        self.copies: CatalogCopies = copies or NoCopies()
        self.leadership: Leadership = leadership or LeadsAll()
        self.tail_cache = TailCache(tail_cache_bytes)
        self.fences = Fences(self)
        self.deleted = Deleted()
        self.wake_ups = WakeUps()
        self.opener = Opener(self)
        self.closer = Closer(self)
        self.copier = Copier(self)
        self.cold = ColdReader(self)
        self.aborted = AbortedReader(self)
        self.log_starts = LogStarts(self)
        self.epoch_counter = EpochCounter(catalog)
        self.producer_ids = ProducerIds(catalog, self.copies)
        self.producers = ProducerCount(trio.current_time)
        self.errors = ErrorCounts()
        """What partitions answered to Produce and Fetch other than success."""
        self.given_up = 0
        """Segments that were given up because of `MAX_STUCK_BYTES`."""
        self.window_gate = Gate()
        """Closed while the windows of all partitions hold as much as they may: producers' sockets are not
        read."""
        self._recover_again: Callable[[Partition], None] | None = None
        self._recover_first: Callable[[Partition], None] | None = None
        self._segments_dropped: Callable[[], None] | None = None
        self._segments_gained: list[Callable[[], None]] = []
        producer.connect(self)

    # who is told of what happens to logs -------------------------------------------------------------------

    # Recovery and deletion work with the whole context, so they are made after it and connect themselves.

    def on_recovery(
        self, recover_again: Callable[[Partition], None], recover_first: Callable[[Partition], None]
    ) -> None:
        """Have `recover_again` called with each partition that has failed and may be recovered, and
        `recover_first` with each that somebody has asked for and that is not available. Raises RuntimeError
        if somebody is called already.
        """
        if self._recover_again is not None:
            raise RuntimeError("somebody recovers partitions already")
        self._recover_again, self._recover_first = recover_again, recover_first

    def on_segments_dropped(self, forget_them: Callable[[], None]) -> None:
        """Have `forget_them` called whenever there may be tombstones of segments to work on. Raises
        RuntimeError if somebody is called already.
        """
        if self._segments_dropped is not None:
            raise RuntimeError("somebody deletes segments already")
        self._segments_dropped = forget_them

    def on_segments_gained(self, look: Callable[[], None]) -> None:
        """Have `look` called whenever this gateway leads more than before: notes that were others' are its
        own.
        """
        self._segments_gained.append(look)

    def recover_again(self, partition: Partition) -> None:
        """A partition has lost its segment."""
        if self._recover_again is not None:
            self._recover_again(partition)

    def recover_first(self, partition: Partition) -> None:
        """Somebody has asked for a partition that is not available."""
        if self._recover_first is not None:
            self._recover_first(partition)

    def segments_dropped(self) -> None:
        """Segments have left their chains, or something that their deletion waits for has happened."""
        if self._segments_dropped is not None:
            self._segments_dropped()

    def segments_gained(self) -> None:
        """This gateway leads more than before."""
        for look in self._segments_gained:
            look()

    def window_changed(self) -> None:
        """Records were appended or became durable: close or open the gate."""
        held, gate = self.producer.window_bytes, self.window_gate
        if self.producer.stuck_bytes:
            held -= min(self.producer.stuck_bytes, MAX_STUCK_BYTES)
        if gate.is_open:
            if held > MAX_WINDOW_BYTES:
                gate.close()
        elif held <= MAX_WINDOW_BYTES // 2:
            gate.open()

    # what this gateway leads -------------------------------------------------------------------------------

    def leads(self, partition: Partition) -> bool:
        """Whether this gateway leads a partition."""
        return self.leadership.leads(partition.topic.id, partition.index)

    def leads_log(self, log: str) -> bool:
        """Whether this gateway leads the log of this name, deleted or not. Notes of older versions do not say
        whose they are (""): they belong to one slot.
        """
        return self.leadership.leads(*keys.of_log(log)) if log else self.leadership.leads(b"", 0)

    def first_epoch(self, topic_id: bytes, index: int) -> int:
        """The leader epoch of a partition that was not read yet."""
        epoch = self.leadership.epoch(topic_id, index)
        return self.epoch_counter.leadership if epoch is None else epoch

    # told by the producer ----------------------------------------------------------------------------------

    def copied(self, member: str, address: str, /) -> None:
        """A store has all that it was to copy of a segment."""
        self.copier.hurry(member, address)

    def is_live(self, member: str, /) -> bool:
        """Whether a store is there."""
        return self.stores.live(member)

    def looked_for_stuck(self) -> None:
        """Some windows wait without progress, or did: they must not stop what moves."""
        left = self.producer.stuck_bytes
        if left > MAX_STUCK_BYTES:
            for writer, held in sorted(self.producer.stuck(), key=lambda stuck: -stuck.held):
                if left > MAX_STUCK_BYTES // 2 and not self.stores.enough(writer.members, writer.w):
                    away = [self.stores.name(m) for m in writer.members if not self.stores.live(m)]
                    self.given_up += 1
                    self.producer.give_up(writer, f"its stores are not there: {', '.join(away)}")
                    left -= held
        self.window_changed()

    # where the catalog is ----------------------------------------------------------------------------------

    def place_of(self, key: str) -> Remembered:
        """Where in the catalog's history a key was changed last; nothing if it is not there, or before the
        catalog has a name.
        """
        entry = self.catalog.get(key)
        return NOTHING_REMEMBERED if entry is None else self.place(entry.mod_revision)

    def place(self, sequence: int) -> Remembered:
        """A place in the catalog's history, as stores are told it."""
        lineage = self.catalog.get(keys.LINEAGE)
        if lineage is None:
            return NOTHING_REMEMBERED
        return Remembered(keys.unpack(lineage.value)["lineage"], self.producer.requests.prefix, sequence)

    # where segments go ------------------------------------------------------------------------------------

    def members_for(self, partition: Partition) -> tuple[str, ...]:
        """The stores that will keep a partition's next segment."""
        topic = partition.topic
        return self.stores.choose(log_name(topic.id, partition.index), topic.replication_factor)

    @staticmethod
    def w_for(partition: Partition, members: Sequence[str]) -> int:
        """How many of these members must have a batch before it counts."""
        wanted = max(partition.topic.settings.min_insync_replicas, len(members) // 2 + 1)
        return min(wanted, len(members))

    @staticmethod
    def now_ms() -> int:
        """The wall clock, ms since 1970: for timestamps that people see, never for order."""
        return time.time_ns() // 1_000_000
