"""One partition's recovery, from the catalog to serving. `gateway.log.recovery.recovery` runs many of them.

Each step that needs stores waits for them as long as it takes, and says for which; nothing else of the
gateway waits with it. An attempt that is cut off anywhere, by a crash or because the topic is deleted, leaves
what the next one can begin with.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.log.closer import Closer
from gateway.log.compaction.left_over import noted_outputs
from gateway.log.fences import Overtaken
from gateway.log.idempotence.state import ProducerState
from gateway.log.notes import tombstone
from gateway.log.opener import partition_record
from gateway.log.partition import Partition
from gateway.log.recovery.chain_check import what_contradicts
from gateway.log.recovery.endings import Endings
from gateway.log.recovery.ends import EndAgreement, Inconsistent, SourcesGone
from gateway.log.recovery.producers_at_end import producers_of_empty_log, read_producers
from gateway.log.recovery.store_waits import StoreWaits
from gateway.log.recovery.verification import RESTORE, Asked, CatalogRefuted, Known, Verification
from gateway.log.segment import NO_TIMESTAMP, Segment
from mesh import crash_points
from mesh.reader import NotServed
from wireproto.records.row import Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext

MAX_NAMED_TRANSACTIONS: Final = 20
"""Open transactions of one partition that are named to an operator."""

logger = logging.getLogger(__name__)


class AskedInVain(Exception):
    """What the attempt began with is different now: a store that was asked was removed, or a segment has
    other members. It is to begin anew.
    """


class PartitionRecovery:
    """One attempt to bring a partition to where it can serve. `settled` is called when it waits for stores
    for so long that others need not wait for it. Attempts that share `endings` share transactions.
    """

    def __init__(
        self,
        context: "LogContext",
        partition: Partition,
        *,
        accept_loss: bool,
        settled: Callable[[], None],
        endings: Endings,
    ) -> None:
        self.partition = partition
        self._context = context
        self._endings = endings
        self._accept_loss = accept_loss
        self._waits = StoreWaits(context.stores, partition, self._waits_long)
        self._settled = settled
        self._known = Known((), "", 0, 0, bool)
        self._compares: dict[str, Compare] = {}
        """address -> the catalog's entry, as it was loaded, of a segment whose end may be agreed on."""
        self._contradiction = ""
        """What cannot be true of the chain as it was loaded."""
        self._accepted_end = 0
        """Where the log goes on at least: an accepted loss may have left less than the log start."""
        self._given_up: frozenset[str] = frozenset()
        self._agreement: EndAgreement | None = None

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The stores that it waits for, once that takes long."""
        return self._waits.names

    @property
    def is_old(self) -> bool:
        """Whether this gateway has lost the partition since it began, or leads it anew."""
        return self._waits.is_old

    def give_up(self, stores: Collection[str]) -> None:
        """These stores will never answer again; what only they have of what is open is given up."""
        self._given_up = frozenset(stores)
        if self._agreement is not None:
            self._agreement.give_up(stores)
        self.progressed()

    def progressed(self) -> None:
        """Something was heard that it may wait for."""
        self._waits.progressed()

    def _waits_long(self) -> None:
        """It waits for stores: what was closed before is served meanwhile."""
        self.show()
        self._settled()

    def show(self) -> None:
        """Have what the catalog says of the partition served, unless that cannot be true."""
        if not self._contradiction:
            self.partition.show()

    @property
    def _name(self) -> str:
        return f"{self.partition.topic.name}-{self.partition.index}"

    @property
    def _accepts_loss(self) -> bool:
        return self._accept_loss or bool(self._given_up)

    # the catalog ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Everything that the catalog says of the partition; nothing of an earlier attempt is kept but what
        was shown. A chain that cannot be true is not shown: `verify` says so; and one that was not shown
        before is shown once that has gone well.
        """
        partition, catalog = self.partition, self._context.catalog
        topic_id = partition.topic.id
        entries = catalog.range(keys.partition_segments(topic_id, partition.index))
        segments = [Segment.unpack(entry.value) for entry in entries]
        self._compares = {
            segment.address: Compare(entry.key, entry.mod_revision)
            for segment, entry in zip(segments, entries, strict=True)
            if segment.is_open or segment is segments[-1]
        }
        entry = catalog.get(partition.fence.key)
        partition.fence.read(entry)
        record = None if entry is None else keys.unpack(entry.value)
        self._contradiction = what_contradicts(segments, record)
        self._accepted_end = 0 if record is None else min(record.get("end", 0), record["log_start"])
        self._known = self._as_known(segments, 0 if record is None else record["log_start"])
        if self._accept_loss and segments:
            segments[-1] = segments[-1].reopened()
        withheld = partition.withheld or bool(self._contradiction)
        partition.begin_recovery(segments, record, withheld=withheld)

    def _as_known(self, segments: Sequence[Segment], log_start: int) -> Known:
        """What the stores' answers are compared with."""
        partition, catalog = self.partition, self._context.catalog
        unended = [segment.address for segment in segments if segment.is_open]
        unended += [output.address for output in noted_outputs(self._context, partition.log)]
        ended = [segment for segment in segments if not segment.is_open]
        end = max([log_start, *(segment.end_offset or segment.start_offset for segment in segments)])
        beyond = max([end, *(segment.start_offset + 1 for segment in segments)])
        chain = {segment.address for segment in segments}

        def is_known(address: str) -> bool:
            notes = keys.compacting_key(address), keys.segment_tombstone_key(address)
            places = (*notes, keys.left_over_key(address))
            if address in chain or address in self._context.deleted:
                return True
            return any(catalog.get(key) is not None for key in places)

        return Known(unended, ended[-1].address if ended else "", end, beyond, is_known)

    def asked(self) -> Asked:
        """What the stores are to be asked of it before anything is believed; it was loaded."""
        partition, context = self.partition, self._context
        last = partition.chain.last_closed
        if last is not None:
            members: Sequence[str] = last.members
            w = last.w
        else:
            members = context.members_for(partition)
            w = context.w_for(partition, members)
        return Asked(self._known.addresses, members, len(members) - w + 1)

    # the steps --------------------------------------------------------------------------------------------

    async def verify(self, verification: Verification) -> None:
        """Whether the catalog does not contradict itself, and no store refutes it. Raises CatalogRefuted,
        CatalogUnverified, AskedInVain.
        """
        partition, stores = self.partition, self._context.stores
        self._check_chain()

        def decidable() -> bool:
            # Whoever closed a segment is asked whatever becomes of it; a log without one asks who is there.
            if not partition.chain.closed and any(map(stores.is_removed, verification.missing(partition))):
                raise AskedInVain
            return verification.decidable(partition) or (
                bool(self._given_up) and verification.missing(partition) <= self._given_up
            )

        await self._waits.until(decidable, lambda: verification.missing(partition))
        if not verification.complete:
            await self._waits.a_moment(lambda: verification.complete)
            self._waits.check_wanted()
        try:
            verification.check(partition, self._known)
        except CatalogRefuted:
            # A transaction that was under way when the catalog was read may be in it by now.
            self.load()
            self._check_chain()
            await verification.check_closely(partition, self._known)
            self._waits.check_wanted()
        self.show()

    def _check_chain(self) -> None:
        """Raises CatalogRefuted."""
        if self._contradiction:
            raise CatalogRefuted(
                f"the catalog has lost something of this log: {self._contradiction}; {RESTORE}"
            )

    async def close(self, turns: trio.CapacityLimiter) -> None:
        """Agree on the ends of what is open, make them durable, put them in the catalog, with so many other
        partitions in one turn of the loop. Raises Inconsistent, CatalogRefuted, AskedInVain.
        """
        ends: dict[str, tuple[int, bytes]] | None = None
        while ends is None:
            try:
                ends = await self._agree()
            except SourcesGone:
                # Nothing is in the catalog yet: w members had what counts, and one of them will answer.
                logger.warning("%s: the end is agreed on anew, without a store that went", self._name)
        async with turns:  # one message may have told hundreds of partitions
            if ends:
                crash_points.reach("between-copy-and-catalog")
                await self._put_ends(ends)

    async def _agree(self) -> dict[str, tuple[int, bytes]]:
        """The ends of what is open, as `EndAgreement.run`."""
        left_open = self.partition.chain.left_open()
        agreement = self._agreement = EndAgreement(
            self._context, left_open, self.partition.leader_epoch, self._waits, self._given_up
        )
        try:
            return await agreement.run()
        finally:
            self._agreement = None

    async def _put_ends(self, ends: dict[str, tuple[int, bytes]]) -> None:
        await self._context.fences.free([self.partition])
        partition, topic_id = self.partition, self.partition.topic.id
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        kept: list[Segment] = []
        empty: list[Segment] = []
        for opened in partition.chain.left_open():
            segment = _with_end(opened, *ends[opened.address])
            key = keys.segment_key(topic_id, partition.index, segment.start_offset, segment.address)
            if segment.last_sequence == -1:
                empty.append(segment)
                deletes.append(key)
                continue
            kept.append(segment)
            puts[key] = segment.pack()
            Closer.note(segment, partition.log, puts)
            logger.debug(
                "segment %s of %s closed at offset %d", segment.address, self._name, segment.end_offset
            )
        self._waits.check_wanted()
        partition.chain.settle(kept)
        puts |= _tombstones(partition.log, empty, nothing_is_left=not partition.chain.closed)
        _forget_empty_epochs(partition, empty)
        record = keys.unpack(partition_record(partition))
        # Where a loss was accepted, what is left may end before the log's start, where it goes on.
        self._accepted_end = record["log_start"] if self._accepts_loss else self._accepted_end
        record["end"] = max([self._accepted_end, *(one.start_offset for one in empty)])
        self._contradiction = what_contradicts(partition.chain.closed, record)
        self._check_chain()
        puts[partition.fence.key] = keys.pack(record)
        compares = [self._compares[one] for one in ends]
        try:
            await self._endings.put(partition, puts, deletes, compares)
        except (CompareFailed, Overtaken):
            # A start that accepts losses recovers what the catalog has closed, and others may change.
            self._waits.check_wanted()
            raise AskedInVain from None
        self._context.closer.begin(kept, later=True)
        if deletes:
            self._context.segments_dropped()

    def set_ends(self) -> None:
        """The log's end is known. Raises Inconsistent."""
        partition = self.partition
        last = partition.chain.last_closed
        end = None if last is None else last.end_offset
        end = partition.log_start_offset if end is None else max(end, self._accepted_end)
        if end < partition.high_watermark and not self._accepts_loss:
            raise Inconsistent(
                f"the log ends at offset {end}, and {partition.high_watermark} was shown before"
            )
        # Where loss was accepted, what is left may end below the log start: nothing there would be shown.
        partition.set_end(max(end, partition.log_start_offset))

    async def read_producers(self, limit: trio.CapacityLimiter) -> ProducerState:
        """The snapshot in the last segment's announcement, and that segment's rows.

        A store that is slow is asked again, for ever. Raises NotServed, ValueError, KeyError.
        """
        while True:
            try:
                producers = await self._read_producers(limit)
            except NotServed as error:
                if not error.silent:
                    raise
                await self._waits.pause(error.silent, str(error))
            else:
                self._waits.check_wanted()
                return producers

    async def _read_producers(self, limit: trio.CapacityLimiter) -> ProducerState:
        partition, context = self.partition, self._context
        last = partition.chain.last_closed
        if last is None:
            return producers_of_empty_log(context, partition.topic.id, partition.index)
        if self._given_up.issuperset(last.members):
            logger.warning("%s: what was known of its idempotent producers is given up", self._name)
            return await self._left_open(limit)
        at_end = await read_producers(context, last, limit)
        context.aborted.found(partition, last.address, at_end.aborted)
        return at_end.producers

    async def _left_open(self, limit: trio.CapacityLimiter) -> ProducerState:
        """No store has the last segment. Open transactions of the newest one that can be read count as open:
        what has become of them since nobody knows, and readers of what is committed must not see them as if
        they had been. Of other producers nothing is known. Raises NotServed, ValueError, KeyError.
        """
        for segment in reversed(self.partition.chain.closed):
            if not self._given_up.issuperset(segment.members):
                found = await read_producers(self._context, segment, limit)
                return found.producers.only_open()
        return ProducerState()

    def say_what_is_open(self, producers: ProducerState) -> None:
        """Where a loss was accepted, name the transactions that are open: the markers of some may be lost."""
        found = producers.open_transactions()
        if self._accepts_loss and found:
            logger.warning(
                "%s: these transactions are open, and readers of what is committed wait for them: %s. One "
                "whose marker was lost, or of which no coordinator knows, is aborted by 'dafka store "
                "accept-loss --gone', or else has to be ended by "
                "'dafka transactions abort %s --partition %d --start-offset OFFSET'",
                self._name, named_transactions(found), self.partition.topic.name, self.partition.index,
            )  # fmt: skip


def named_transactions(first_offsets: Mapping[int, int]) -> str:
    """Open transactions by their producers' ids and first offsets, for people: the oldest ones."""
    oldest = sorted(first_offsets.items(), key=itemgetter(1))[:MAX_NAMED_TRANSACTIONS]
    named = ", ".join(f"producer {producer_id} from offset {first}" for producer_id, first in oldest)
    more = len(first_offsets) - len(oldest)
    return f"{named} and {more} more" if more else named


def _with_end(segment: Segment, end: int, row_bytes: bytes) -> Segment:
    if end < 0:
        return segment.closed(segment.start_offset, -1, NO_TIMESTAMP)
    row = Row.unpack(row_bytes)
    return segment.closed(row.last_offset + 1, end, row.running_max_timestamp)


def _tombstones(log: str, empty: Sequence[Segment], *, nothing_is_left: bool) -> dict[str, bytes]:
    """The catalog's entries by which the stores forget these segments of a log."""
    puts: dict[str, bytes] = {}
    for segment in empty:
        # Nothing else tells the stores where the log ends.
        more = {"last": True} if nothing_is_left and segment is empty[-1] else {}
        puts |= tombstone(segment.address, log, segment.epoch, segment.keepers, **more)
    return puts


def _forget_empty_epochs(partition: Partition, empty: Sequence[Segment]) -> None:
    """An epoch that wrote nothing but these segments is none. Those whose segments retention has dropped
    stay known.
    """
    wrote = {segment.epoch for segment in partition.chain.closed if not segment.is_compacted}
    begun = {segment.epoch: segment.start_offset for segment in reversed(empty) if segment.epoch not in wrote}
    partition.epochs.forget_unwritten(begun)
