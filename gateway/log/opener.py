"""Opening segments, many at a time: one catalog transaction and one round of OPENs for all that wait.

A partition that appends to a new segment holds its batches in the window meanwhile. A segment that follows
another of the same life waits until that one is durable to its last record; closing the one and inserting the
other is then one transaction. The order is fixed: catalog first, then CLOSE of the one before and OPEN on the
members' disks, then the first RECORD, so that a crash leaves either nothing, or a segment that recovery can
seal; and so that the stores never know more of a log than the catalog (`gateway.log.recovery.verification`).
That the members have confirmed is noted in the catalog after that, off the producers' path. The stores are
not waited for here: each segment goes on when its own members have answered.

A store that takes an announcement names what it has of other gateway lives of the same log, and seals it. If
the catalog does not know that, it is behind (`gateway.log.other_lives`): nothing of the log is served.

When too few members can take a segment, because they know a newer epoch or belong to another cluster, this
catalog is not the one that the stores have served. The partition serves nothing and says so; what the
transaction had put is taken back, so that the next start is told of what the stores know: the number of its
leader epoch stays drawn, and the partition's record goes back to what it was.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.log.announcement import announcement_of
from gateway.log.chain import OpenSegment
from gateway.log.closer import Closer
from gateway.log.epoch_counter import EPOCH_TAKEN
from gateway.log.epochs import LeaderEpochs
from gateway.log.fences import Changes, Compose, PartlyDone
from gateway.log.notes import tombstone
from gateway.log.other_lives import what_is_unknown
from gateway.log.partition import Partition, PartitionState
from gateway.log.segment import Segment
from mesh.protocol.opening import PASSING, Opening
from mesh.protocol.writer import State
from mesh.segment_requests import why_refused

if TYPE_CHECKING:
    from gateway.log.context import LogContext

MAX_OPENS_AT_ONCE = 256
"""Segments in one transaction and one OPEN."""

MAX_SNAPSHOT_BYTES_AT_ONCE = 8 * 1024 * 1024
"""Idempotence snapshots in one OPEN: they are encoded on the loop."""

NEXT_STEP = "restore the catalog that belongs to this store, or start once with --rebuild-catalog"

MEMBER_LEAVES = "a store that was to keep its next segment gets no new segments any more"

logger = logging.getLogger(__name__)


class Opener:
    """Owns the task that opens segments for all partitions."""

    def __init__(self, context: "LogContext") -> None:
        self.opened = 0
        self._context = context
        self._waiting: dict[Partition, OpenSegment] = {}
        self._ending: dict[Partition, None] = {}
        self._answered: dict[Partition, tuple[OpenSegment, Opening]] = {}
        """What members said of segments, and is not noted yet."""
        self._work = trio.Event()

    def start(self, partition: Partition, now_ms: int) -> OpenSegment:
        """A new open segment at the partition's end, to be announced as soon as may be."""
        context = self._context
        members = context.members_for(partition)
        address = context.producer.requests.new_id()
        segment = Segment(
            address,
            partition.leader_epoch,
            partition.next_offset,
            members,
            context.w_for(partition, members),
            now_ms,
            first_unstable=partition.producers.first_open(),
        )
        writer = context.producer.start(address, partition.topic.name, members, segment.w, partition)
        # Taken before the segment's first batch: what is not durable must not be remembered as appended.
        opening = OpenSegment(segment, writer, partition.producers.snapshot(now_ms))
        self._waiting[partition] = opening
        self.drained(partition)
        return opening

    def end(self, partition: Partition) -> None:
        """Close the partition's open segment, if all of it is durable then."""
        self._ending[partition] = None
        self._work.set()

    async def end_all(self, partitions: Iterable[Partition]) -> None:
        """As `end`, of all of these; return when that is durable in the catalog. Nothing is appended to them
        meanwhile. Never cancelled: what became of it would not be known.
        """
        left = dict.fromkeys(partitions)
        with trio.CancelScope(shield=True):
            while left:
                some = list(islice(left, MAX_OPENS_AT_ONCE))
                await self._end_these(some)
                for partition in some:
                    del left[partition]

    def drained(self, partition: Partition) -> None:
        """Open the partition's next segment now if everything before it is durable."""
        opening = self._waiting.get(partition)
        if opening is not None and partition.high_watermark >= opening.segment.start_offset:
            self._work.set()

    def forget(self, partition: Partition) -> None:
        """The partition failed: what it waited for will not be opened."""
        self._waiting.pop(partition, None)

    async def run(self) -> None:
        """Open what waits, for ever. A failure of the catalog ends the process."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            ready = self._take_ready()
            if ready:
                await self._insert_all(ready)
            while self._answered:
                await self._note_answers()
            if self._ending:
                await self._end_some()

    def _take_ready(self) -> dict[Partition, OpenSegment]:
        """The openings whose predecessors are durable, as many as go into one round."""
        ready: dict[Partition, OpenSegment] = {}
        room = MAX_SNAPSHOT_BYTES_AT_ONCE
        for partition, opening in self._waiting.items():
            if (
                partition.state is not PartitionState.READY
                or partition.high_watermark < opening.segment.start_offset
            ):
                continue
            if len(ready) == MAX_OPENS_AT_ONCE or (ready and len(opening.snapshot) > room):
                self._work.set()
                break
            room -= len(opening.snapshot)
            ready[partition] = opening
        for partition in ready:
            del self._waiting[partition]
        return ready

    async def _insert_all(self, ready: dict[Partition, OpenSegment]) -> None:
        closed: dict[Partition, list[Segment]] = {}
        homeless: list[Partition] = []

        def insert(partition: Partition, changes: Changes) -> bool:
            opening = ready[partition]
            if not _goes_on(partition, opening):
                return False
            members = self._context.stores.as_members(opening.segment.members)
            if members is None:
                homeless.append(partition)
                return False
            if partition not in closed:
                closed[partition] = self._close_rolled(partition)
            _put_closed(partition, closed[partition], changes.puts)
            self._insert(partition, opening, changes)
            changes.compares += members
            return True

        before = {
            partition: [one.segment.address for one in partition.chain.rolling
                        if one.segment.epoch == opening.segment.epoch]
            for partition, opening in ready.items()
        }  # fmt: skip
        with self._context.closer.expect(address for waited in before.values() for address in waited):
            for partition in await self._change(ready, insert):
                waited = [one for one in closed[partition] if one.address in before[partition]]
                self._tell(partition, ready[partition], closed[partition], waited)
        self._begin_anew({one: ready[one] for one in homeless}, MEMBER_LEAVES)

    async def _change(self, ready: Mapping[Partition, OpenSegment], insert: Compose) -> list[Partition]:
        """Those of these partitions that `insert` has put into the catalog."""
        inserted: list[Partition] = []
        while True:
            left = [one for one in ready if one not in inserted]
            try:
                return inserted + await self._context.fences.change(left, insert)
            except PartlyDone as failed:
                inserted += failed.done
                if failed.key.startswith(keys.STORES):
                    self._context.stores.load()
                else:
                    self._begin_anew({one: ready[one] for one in left if one not in inserted}, EPOCH_TAKEN)
                    return inserted

    def _begin_anew(self, ready: Mapping[Partition, OpenSegment], reason: str) -> None:
        """These cannot be opened as they are; nothing was told to anybody."""
        for partition, opening in ready.items():
            if _goes_on(partition, opening):
                partition.fail(reason)
                self._context.recover_again(partition)

    def _tell(
        self, partition: Partition, opening: OpenSegment, closed: list[Segment], before: list[Segment]
    ) -> None:
        """Tell the ends of the segments that were closed; those `before` this one first, then announce it."""
        closer = self._context.closer
        closer.begin(one for one in closed if one not in before)
        if not closed and self._ended_before(partition, opening):
            return
        untold = {segment.address for segment in before}
        for segment in before:
            heard = partial(self._told_end, partition, opening, segment.address, untold)
            closer.begin([segment], heard)
        if not before:
            self._announce(partition, opening)

    def _ended_before(self, partition: Partition, opening: OpenSegment) -> bool:
        """Whether the segment before was closed on its own, and its end is yet to be heard: then this one is
        announced after that.
        """
        last = partition.chain.last_closed
        if last is None or last.is_compacted or last.epoch != opening.segment.epoch:
            return False
        return self._context.closer.when_heard(last.address, partial(self._announce, partition, opening))

    def _told_end(self, partition: Partition, opening: OpenSegment, address: str, untold: set[str]) -> None:
        """Enough members have heard the end of a segment before this one."""
        untold.discard(address)
        if not untold:
            self._announce(partition, opening)

    def _announce(self, partition: Partition, opening: OpenSegment) -> None:
        # One that was deleted or failed meanwhile is announced to nobody.
        if _goes_on(partition, opening):
            announcement = announcement_of(self._context, partition, opening.segment, opening.snapshot)
            told = partial(self._on_answer, partition, opening)
            at = self._context.place_of(_segment_key(partition, opening.segment))
            self._context.producer.segments.open(announcement, told, at)

    def _on_answer(self, partition: Partition, opening: OpenSegment, answers: Opening) -> None:
        if answers.sealed and _goes_on(partition, opening):
            unknown = what_is_unknown(self._context, partition, answers)
            if unknown:
                # Nothing was written to the segment yet, and it is not recovered: it would come here again.
                logger.error("%s-%d serves nothing: %s", partition.topic.name, partition.index, unknown)
                partition.withhold(unknown)
                return
        if answers.enough or answers.hopeless:
            self._answered[partition] = opening, answers
            self._work.set()

    async def _note_answers(self) -> None:
        """Note in the catalog what members have said: many in one transaction."""
        answered, self._answered = self._answered, {}
        noted: dict[Partition, OpenSegment] = {}
        for partition, (opening, answers) in answered.items():
            if answers.hopeless:
                await self._refused(partition, opening, answers)
                continue
            self.opened += not opening.segment.announced
            confirmed = tuple(member for member in opening.segment.members if member in answers.confirmed)
            if _goes_on(partition, opening) and confirmed != opening.segment.confirmed:
                opening.announced_to(confirmed)
                noted[partition] = opening

        def note(partition: Partition, changes: Changes) -> bool:
            if not _goes_on(partition, noted[partition]):
                return False
            segment = noted[partition].segment
            changes.puts[_segment_key(partition, segment)] = segment.pack()
            return True

        await self._context.fences.change(noted, note)

    async def _end_some(self) -> None:
        ending = list(islice(self._ending, MAX_OPENS_AT_ONCE))
        for partition in ending:
            del self._ending[partition]
        if self._ending:
            self._work.set()
        await self._end_these(ending)

    async def _end_these(self, ending: Sequence[Partition]) -> None:
        """Close open segments without next ones, where all of them is durable: many in one transaction, and
        then whatever came meanwhile.
        """
        closed: dict[Partition, list[Segment]] = {}

        def end(partition: Partition, changes: Changes) -> bool:
            current = partition.chain.current
            if partition not in closed:
                if current is None or not self._may_end(partition, current):
                    return False
                partition.chain.roll()
                closed[partition] = self._close_rolled(partition)
            elif not partition.available:
                return False
            _put_closed(partition, closed[partition], changes.puts)
            return True

        open_ones = (partition.chain.current for partition in ending)
        with self._context.closer.expect(one.segment.address for one in open_ones if one is not None):
            for partition in await self._context.fences.change(ending, end):
                # The next segment, if there will be one of the same epoch, waits until they are heard.
                self._context.closer.begin(closed[partition], _nobody_waits_yet)

    def _may_end(self, partition: Partition, current: OpenSegment) -> bool:
        return (
            partition.state is PartitionState.READY
            and partition not in self._waiting
            and current.writer.state is State.OPEN
            and not current.writer
        )

    async def _refused(self, partition: Partition, opening: OpenSegment, answers: Opening) -> None:
        if partition.chain.current is not opening or partition.deleted:
            return
        reason = ", ".join(why_refused(answers, member) for member in answers.refused)
        if PASSING.intersection(answers.refused.values()):
            # A disk, not the catalog: recovery closes the segment, and says if that cannot be done either.
            partition.fail(reason)
            self._context.recover_again(partition)
            return
        reason = f"{reason}; {NEXT_STEP}"
        logger.error("%s-%d serves no produces: %s", partition.topic.name, partition.index, reason)
        partition.fail(reason)
        told = [member for member in answers.members if member not in answers.refused]

        def take_back(partition: Partition, changes: Changes) -> bool:
            if partition.deleted:
                return False
            record = keys.unpack(partition_record(partition))
            # Where a loss was accepted, nothing else says that the log goes on here.
            record["end"] = opening.segment.start_offset
            if told:
                # They have the announcement, or get it yet, and know its epoch: they are to forget the
                # segment, and the catalog goes on after the epoch.
                segment = opening.segment
                changes.puts |= tombstone(segment.address, partition.log, segment.epoch, told)
            else:
                partition.next_epoch = record["next_epoch"] = opening.next_epoch_before
                begun = [opening.segment.epoch, opening.segment.start_offset]
                record["epochs"] = [pair for pair in record["epochs"] if pair != begun]
            changes.puts[partition.fence.key] = keys.pack(record)
            changes.deletes.append(_segment_key(partition, opening.segment))
            return True

        if await self._context.fences.change([partition], take_back) and told:
            self._context.segments_dropped()

    def _close_rolled(self, partition: Partition) -> list[Segment]:
        """The segments before this one are durable to their end: close them in the same transaction."""
        rolled = list(partition.chain.rolling)
        closed = partition.chain.close_rolling(partition.next_offset, self._context.now_ms())
        aborted = self._context.aborted.cache
        for opened in rolled:
            self._context.producer.forget(opened.writer)
            aborted.no_longer_open(opened.aborted)
            aborted.put(opened.segment.address, opened.aborted)
        return closed

    @staticmethod
    def _insert(partition: Partition, opening: OpenSegment, changes: Changes) -> None:
        segment, puts = opening.segment, changes.puts
        partition.epochs.assign(segment.epoch, segment.start_offset)
        if opening.next_epoch_before < 0:  # or it is tried again
            opening.next_epoch_before = partition.next_epoch
        partition.next_epoch = max(partition.next_epoch, segment.epoch + 1)
        puts[_segment_key(partition, segment)] = segment.pack()
        puts[partition.fence.key] = partition_record(partition)
        changes.epochs.add(segment.epoch)


def _put_closed(partition: Partition, closed: Sequence[Segment], puts: dict[str, bytes]) -> None:
    for segment in closed:
        puts[_segment_key(partition, segment)] = segment.pack()
        Closer.note(segment, partition.log, puts)


def _nobody_waits_yet() -> None:
    """For a segment that was closed without a next one."""


def _goes_on(partition: Partition, opening: OpenSegment) -> bool:
    """Whether the partition still appends to this segment; one that failed keeps it, to be read."""
    return (
        partition.state is PartitionState.READY
        and partition.chain.current is opening
        and not partition.deleted
    )


def partition_record(partition: Partition) -> bytes:
    """The catalog's value of a partition that was written to."""
    log_start = max(partition.log_start_offset, partition.next_log_start)
    epochs = LeaderEpochs.from_list(partition.epochs.to_list())
    epochs.truncate_front(log_start)
    return keys.pack({"next_epoch": partition.next_epoch, "epochs": epochs.to_list(), "log_start": log_start})


def _segment_key(partition: Partition, segment: Segment) -> str:
    return keys.segment_key(partition.topic.id, partition.index, segment.start_offset, segment.address)
