"""Recovery of partitions when a gateway life begins (architecture: start and recovery of a partition).

0. The stores are asked whether they know more than the catalog (`gateway.log.verification`).
1. SEAL goes to the members of every open segment; n-w+1 of them decide where it ends.
2. One catalog transaction per partition closes what was decided (an empty segment leaves the chain, and its
   address is deleted), and then CLOSE is repeated to members.
3. The idempotence state is what the last segment's announcement held plus that segment's rows.

So a start reads neither the log nor anything that grows with it. Until 3 is done a partition takes no
produces and answers no latest offset; what lies below the end of its last closed segment is served.

Rule: when catalog and stores disagree, nothing is mended by guessing. A segment whose announcement was
confirmed and that no member knows any more, an end below what was shown, a last segment that a store does not
hold: the partition fails with the reason, and stays so. Its closed segments are still served, as far as the
stores have them: the catalog is right about them, and each batch is checked. Of a catalog that the stores
refute (0) nothing is served at all. A store that is only slow decides nothing: it is asked again.
"""

import base64
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from gateway.log import catalog_keys as keys
from gateway.log.closer import Closer
from gateway.log.epochs import LeaderEpochs
from gateway.log.idempotence import ProducerState
from gateway.log.idempotence_snapshot import InvalidSnapshot
from gateway.log.opener import partition_record
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import NO_TIMESTAMP, Segment
from gateway.log.tail_cache import HotBatches
from gateway.log.verification import CatalogRefuted, CatalogUnverified, Verification
from mesh import crash_points
from mesh.protocol.recovery import Seal
from mesh.reader import NotServed
from wireproto.kafka.errors import KafkaError
from wireproto.records.batch import InvalidBatch
from wireproto.records.row import ROW_BYTES, Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext

PARTITIONS_AT_ONCE = 256
"""Partitions whose seals are one round."""

REBUILDS_AT_ONCE = 16
"""Partitions whose idempotence state is read at the same time."""

ROWS_AT_ONCE = 4096
"""Rows applied to an idempotence state before other tasks run."""

WAITING_LOGGED_SECONDS = 5.0
"""How often it is said for which stores a recovery waits."""

AGAIN_SECONDS = 1.0
"""Pause before a partition that lost its segment, or could not be recovered, is recovered again."""

NEXT_STEP = (
    "the store is not the one that it was: put back its data, or start once with --accept-loss to go on with"
    " what is there"
)

NO_PRODUCES = "serves no produces"

UNREADABLE = "its last segment cannot be read back"

logger = logging.getLogger(__name__)


class Inconsistent(Exception):
    """Catalog and stores disagree; the text says how and what to do."""


class Recovery:
    """Recovers partitions: all of them at the start of a life, single ones when they lose their segment.

    With `accept_loss` the stores are believed where the catalog says that there was more.
    """

    def __init__(self, context: "LogContext", *, accept_loss: bool = False) -> None:
        self.waiting_for: tuple[str, ...] = ()
        """Stores whose answers recovery waits for now."""
        self._context = context
        self._accept_loss = accept_loss
        self._again: set[Partition] = set()
        self._work = trio.Event()
        self._rebuilds = trio.CapacityLimiter(REBUILDS_AT_ONCE)
        context.recover_again = self._enqueue

    def _enqueue(self, partition: Partition) -> None:
        self._again.add(partition)
        self._work.set()

    async def run(self) -> None:
        """Recover again whatever lost its segment, for ever."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            await trio.sleep(AGAIN_SECONDS)
            partitions, self._again = list(self._again), set()
            await self.recover(partitions)

    async def recover(self, partitions: Sequence[Partition], *, new: bool = False) -> None:
        """Bring partitions to READY (or FAILED, with the reason), in rounds. A store that is slow leaves one
        RECOVERING, and it is tried again.

        `new`: the topic was just made, so no store can know of it, and none is asked.
        """
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            await self._recover_round(
                [
                    partition
                    for partition in partitions[start : start + PARTITIONS_AT_ONCE]
                    if partition.state is not PartitionState.READY and not partition.deleted
                ],
                new=new,
            )

    async def _recover_round(self, partitions: Sequence[Partition], *, new: bool) -> None:
        open_addresses = {partition: self._load(partition) for partition in partitions}
        if not new and partitions:
            partitions = await self._verify(open_addresses)
        seals = {
            segment.address: Seal(segment.address, segment.members, segment.w)
            for partition in partitions
            for segment in partition.closed
            if segment.is_open
        }
        if seals:
            await self._seal(list(seals.values()))
            crash_points.reach("between-copy-and-catalog")
        async with trio.open_nursery() as nursery:
            for partition in partitions:
                nursery.start_soon(self._finish, partition, seals)

    def _load(self, partition: Partition) -> list[str]:
        """Everything that the catalog says of a partition; nothing of an earlier attempt is kept but what was
        shown. The addresses of its open segments.
        """
        catalog, topic_id = self._context.catalog, partition.topic.id
        prefix = f"{keys.segments_prefix(topic_id)}{partition.index:06d}/"
        partition.state = PartitionState.RECOVERING
        partition.withheld = False
        partition.closed = [Segment.unpack(entry.value) for entry in catalog.range(prefix)]
        open_addresses = [segment.address for segment in partition.closed if segment.is_open]
        if self._accept_loss and partition.closed:
            last = partition.closed[-1]
            partition.closed[-1] = replace(last, end_offset=None, last_sequence=None, announced=False)
        partition.current, partition.rolling = None, []
        partition.hot = HotBatches(self._context.tail_cache)
        entry = catalog.get(keys.partition_key(topic_id, partition.index))
        if entry is not None:
            record = keys.unpack(entry.value)
            partition.epochs = LeaderEpochs.from_list(record["epochs"])
            partition.leader_epoch = record["next_epoch"]
            partition.log_start_offset = record["log_start"]
        ends = [segment.end_offset for segment in partition.closed if segment.end_offset is not None]
        partition.raise_ends(max(ends, default=partition.log_start_offset))
        return open_addresses

    async def _verify(self, open_addresses: dict[Partition, list[str]]) -> list[Partition]:
        """The partitions whose catalog no store refutes; the others have failed."""
        verification = Verification(
            self._context.reader,
            [store.incarnation for store in self._context.stores.admitted],
            open_addresses,
        )
        async with self._saying_whom(verification.missing):
            await verification.ask()
        verified: list[Partition] = []
        for partition, addresses in open_addresses.items():
            if partition.deleted:
                continue
            try:
                try:
                    verification.check(partition, addresses)
                except CatalogRefuted:
                    # A transaction that was under way when the catalog was read may be in it by now.
                    verification.check(partition, self._load(partition))
            except CatalogRefuted as error:
                partition.withheld = True
                self._fail(partition, "serves nothing", str(error))
            except CatalogUnverified as error:
                self._fail(partition, NO_PRODUCES, str(error))
            else:
                verified.append(partition)
        return verified

    async def _seal(self, seals: list[Seal]) -> None:
        def missing() -> set[str]:
            return {member for seal in seals if not seal.decidable for member in seal.missing()}

        async with self._saying_whom(missing):
            await self._context.producer.seal(seals)

    @asynccontextmanager
    async def _saying_whom(self, missing: Callable[[], set[str]]) -> AsyncIterator[None]:
        """Log for which stores this waits, while it takes long."""

        async def say() -> None:
            while True:
                await trio.sleep(WAITING_LOGGED_SECONDS)
                self.waiting_for = tuple(sorted(missing()))
                logger.warning("recovery waits for the stores %s: start them", ", ".join(self.waiting_for))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say)
            yield
            nursery.cancel_scope.cancel()
        self.waiting_for = ()

    async def _finish(self, partition: Partition, seals: dict[str, Seal]) -> None:
        """Close what was sealed, know the ends, rebuild the idempotence state. A failure is the partition's
        own.
        """
        async with self._rebuilds:
            try:
                await self._close(partition, seals)
                self._set_ends(partition)
                producers = await self._producers(partition)
            except Inconsistent as error:
                self._fail(partition, NO_PRODUCES, f"{error}; {NEXT_STEP}")
            except NotServed as error:
                if error.silent:
                    self._try_again(partition, error)
                else:
                    self._fail(partition, NO_PRODUCES, f"{UNREADABLE}: {error}; {NEXT_STEP}")
            except (KafkaError, InvalidBatch, ValueError, KeyError) as error:
                self._fail(partition, NO_PRODUCES, f"{UNREADABLE}: {error}; {NEXT_STEP}")
            else:
                if partition.state is PartitionState.RECOVERING and not partition.deleted:
                    partition.serve(producers)

    def _try_again(self, partition: Partition, error: NotServed) -> None:
        """A store was too slow: that says nothing of what it has."""
        if partition.state is PartitionState.RECOVERING and not partition.deleted:
            partition.reason = f"its recovery waits for the stores {', '.join(error.silent)}: {error}"
            logger.warning("partition %s-%d: %s", partition.topic.name, partition.index, partition.reason)
            self._enqueue(partition)

    @staticmethod
    def _fail(partition: Partition, what: str, reason: str) -> None:
        logger.error("partition %s-%d %s: %s", partition.topic.name, partition.index, what, reason)
        partition.fail(reason)

    # ends ------------------------------------------------------------------------------------------------

    async def _close(self, partition: Partition, seals: dict[str, Seal]) -> None:
        closed = [
            self._decide(segment, seals[segment.address]) for segment in partition.closed if segment.is_open
        ]
        if not closed:
            return
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        topic_id = partition.topic.id
        for segment in closed:
            key = keys.segment_key(topic_id, partition.index, segment.start_offset, segment.address)
            if segment.last_sequence == -1:
                deletes.append(key)
                puts[keys.segment_tombstone_key(segment.address)] = keys.pack({"members": segment.members})
            else:
                puts[key] = segment.pack()
                Closer.note(segment, puts)
                logger.info(
                    "segment %s of %s-%d closed at offset %d",
                    segment.address,
                    partition.topic.name,
                    partition.index,
                    segment.end_offset,
                )
        kept = [segment for segment in closed if segment.last_sequence != -1]
        partition.closed = [segment for segment in partition.closed if not segment.is_open] + kept
        self._forget_empty_epochs(partition)
        record = keys.unpack(partition_record(partition))
        record["next_epoch"] = partition.leader_epoch
        puts[keys.partition_key(topic_id, partition.index)] = keys.pack(record)
        if partition.deleted:
            return
        await self._context.catalog.transact([], puts, deletes)
        self._context.closer.begin(kept)
        if deletes:
            self._context.segments_dropped()

    def _decide(self, segment: Segment, seal: Seal) -> Segment:
        """The segment with its end. Raises Inconsistent."""
        if not seal.decidable:
            refused = ", ".join(f"{member} (status {status})" for member, status in seal.refused.items())
            raise Inconsistent(f"segment {segment.address} cannot be sealed: refused by {refused}")
        if segment.announced and not seal.known:
            raise Inconsistent(f"segment {segment.address} was announced, and no store knows it")
        end, row_bytes = seal.end()
        if end < 0:
            return segment.closed(segment.start_offset, -1, NO_TIMESTAMP)
        row = Row.unpack(row_bytes)
        return segment.closed(row.last_offset + 1, end, row.running_max_timestamp)

    @staticmethod
    def _forget_empty_epochs(partition: Partition) -> None:
        """An epoch that wrote nothing, in this life's chain, is none."""
        if not partition.closed:
            partition.epochs = LeaderEpochs()
            return
        newest = max(segment.epoch for segment in partition.closed)
        partition.epochs = LeaderEpochs(pair for pair in partition.epochs.to_list() if pair[0] <= newest)

    def _set_ends(self, partition: Partition) -> None:
        end = partition.closed[-1].end_offset if partition.closed else None
        if end is None:
            end = partition.log_start_offset
        if end < partition.high_watermark and not self._accept_loss:
            raise Inconsistent(
                f"the log ends at offset {end}, and {partition.high_watermark} was shown before"
            )
        partition.next_offset = partition.high_watermark = end

    # idempotence -----------------------------------------------------------------------------------------

    async def _producers(self, partition: Partition) -> ProducerState:
        """The snapshot in the last segment's announcement, and that segment's rows. Raises NotServed."""
        if not partition.closed:
            return ProducerState()
        segment = partition.closed[-1]
        now_ms = self._context.now_ms()
        reader = self._context.reader
        announcement = await reader.announcement(segment.members, segment.address)
        snapshot = base64.b64decode(json.loads(announcement.details)["producers"])
        try:
            state = ProducerState.from_snapshot(snapshot, now_ms) if snapshot else ProducerState()
        except InvalidSnapshot as error:
            raise ValueError(str(error)) from None
        last = segment.last_sequence or 0
        for first in range(0, last + 1, ROWS_AT_ONCE):
            rows = await reader.rows(
                segment.members, segment.address, first, min(last, first + ROWS_AT_ONCE - 1)
            )
            for start in range(0, len(rows), ROW_BYTES):
                state.apply_row(Row.unpack(rows[start : start + ROW_BYTES]), now_ms)
        return state
