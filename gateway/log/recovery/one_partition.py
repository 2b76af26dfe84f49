"""One partition's recovery, from the catalog to serving. `gateway.log.recovery.recovery` runs many of them.

Each step that needs stores waits for them as long as it takes, and says for which; nothing else of the
gateway waits with it. An attempt that is cut off anywhere, by a crash or because the topic is deleted, leaves
what the next one can begin with.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from gateway.catalog import keys
from gateway.log.closer import Closer
from gateway.log.idempotence.state import ProducerState
from gateway.log.opener import partition_record
from gateway.log.partition import Partition, PartitionState
from gateway.log.recovery.producers_at_end import producers_of_empty_log, read_producers
from gateway.log.recovery.verification import Asked, CatalogRefuted, Verification
from gateway.log.segment import NO_TIMESTAMP, Segment
from mesh import crash_points
from mesh.protocol.recovery import Seal
from mesh.reader import NotServed
from wireproto.records.row import Row

if TYPE_CHECKING:
    from gateway.log.context import LogContext

GRACE_SECONDS = 0.5
"""How long recovery waits for the stores that are there and that it could do without."""

PATIENCE_SECONDS = 5.0
"""How long a partition waits for stores that are there before others need not wait for it."""

AWAY_PATIENCE_SECONDS = 0.5
"""The same for stores that are not there."""

SOURCES_GONE_SECONDS = 15.0
"""How long a tail is waited for that only stores have which went since they told of it: above a restart."""

AGAIN_SECONDS = 1.0
"""Pause before something is asked again that a store was too slow for."""

LOOK_SECONDS = 1.0
"""How often an attempt that waits looks whether it is still wanted."""

LEAST_PAUSE_SECONDS = 0.01
"""Between two such looks, however the seconds were rounded."""

logger = logging.getLogger(__name__)


class Inconsistent(Exception):
    """Catalog and stores disagree; the text says how and what to do."""


class Superseded(Exception):
    """The partition was deleted, or failed, meanwhile."""


class AskedInVain(Exception):
    """Who was asked was removed meanwhile: others are to be asked."""


class SourcesGone(Exception):
    """Whoever had the end that was decided is there no more, and the others can decide without it."""


class Attempt:
    """Brings one partition to where it can serve. `waiting_for` are the stores that it waits for, once that
    takes long; `settled` is called when that is so, and when it is over.
    """

    def __init__(
        self, context: "LogContext", partition: Partition, *, accept_loss: bool, settled: Callable[[], None]
    ) -> None:
        self.partition = partition
        self.waiting_for: tuple[str, ...] = ()
        self._context = context
        self._accept_loss = accept_loss
        self._settled = settled
        self._progress = trio.Event()
        self._open_addresses: list[str] = []
        self._given_up: frozenset[str] = frozenset()
        self._seals: list[Seal] = []

    def give_up(self, stores: Collection[str]) -> None:
        """These stores will never answer again; what only they have of what is open is given up."""
        self._given_up = frozenset(stores)
        for seal in self._seals:
            seal.give_up(stores)
        self.progressed()

    def progressed(self) -> None:
        """Something was heard that it may wait for."""
        self._progress.set()
        self._progress = trio.Event()

    @property
    def _name(self) -> str:
        return f"{self.partition.topic.name}-{self.partition.index}"

    # the catalog ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Everything that the catalog says of the partition; nothing of an earlier attempt is kept but what
        was shown.
        """
        partition, catalog = self.partition, self._context.catalog
        topic_id = partition.topic.id
        prefix = f"{keys.segments_prefix(topic_id)}{partition.index:06d}/"
        segments = [Segment.unpack(entry.value) for entry in catalog.range(prefix)]
        self._open_addresses = [segment.address for segment in segments if segment.is_open]
        if self._accept_loss and segments:
            segments[-1] = segments[-1].reopened()
        entry = catalog.get(keys.partition_key(topic_id, partition.index))
        partition.begin_recovery(segments, None if entry is None else keys.unpack(entry.value))

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
        return Asked(tuple(self._open_addresses), members, len(members) - w + 1)

    # the steps --------------------------------------------------------------------------------------------

    async def verify(self, verification: Verification) -> None:
        """Whether no store refutes the catalog. Raises CatalogRefuted, CatalogUnverified, AskedInVain."""
        partition, stores = self.partition, self._context.stores

        def decidable() -> bool:
            # Whoever closed a segment is asked whatever becomes of it; a log without one asks who is there.
            if not partition.chain.closed and any(map(stores.is_removed, verification.missing(partition))):
                raise AskedInVain
            return verification.decidable(partition) or (
                bool(self._given_up) and verification.missing(partition) <= self._given_up
            )

        await self._until(decidable, lambda: verification.missing(partition))
        if not verification.complete:
            with trio.move_on_after(GRACE_SECONDS):
                while not verification.complete:
                    await self._progress.wait()
            self._check_wanted()
        try:
            verification.check(partition, self._open_addresses)
        except CatalogRefuted:
            # A transaction that was under way when the catalog was read may be in it by now.
            self.load()
            verification.check(partition, self._open_addresses)

    async def close(self, turns: trio.CapacityLimiter) -> None:
        """Agree on the ends of what is open, make them durable, put them in the catalog, with so many other
        partitions in one turn of the loop. Raises Inconsistent.
        """
        ends: dict[str, tuple[int, bytes]] | None = None
        while ends is None:
            try:
                ends = await self._agree(turns)
            except SourcesGone:
                # Nothing is in the catalog yet: w members had what counts, and one of them will answer.
                logger.warning("%s: the end is agreed on anew, without a store that went", self._name)
        if ends:
            crash_points.reach("between-copy-and-catalog")
            async with turns:
                await self._put_ends(ends)

    async def _agree(self, turns: trio.CapacityLimiter) -> dict[str, tuple[int, bytes]]:
        """The ends of what is open, by address, each durable on w members.

        Raises Inconsistent, SourcesGone, Superseded.
        """
        seals = [
            Seal(segment.address, segment.members, segment.w, self._confirmed(segment))
            for segment in self.partition.chain.left_open()
        ]
        producer = self._context.producer
        self._seals = seals
        self.give_up(self._given_up)
        try:
            for seal in seals:
                producer.seal(seal, partial(self._seal_answered, seal))
            for seal in seals:
                await self._sealed(seal)
            async with turns:
                pass  # one message may have told hundreds of partitions
            for seal in seals:
                await self._copied(seal)
        finally:
            self._seals = []
            for seal in seals:
                producer.unseal(seal.address)
        return {seal.address: seal.end() for seal in seals}

    def _seal_answered(self, seal: Seal) -> None:
        if seal.decidable or seal.refused or seal.lost:
            self.progressed()

    @staticmethod
    def _confirmed(segment: Segment) -> Collection[str]:
        if segment.announced and not segment.confirmed and len(segment.members) == 1:
            return segment.members
        return segment.confirmed

    async def _sealed(self, seal: Seal) -> None:
        """Wait until enough members have answered, and a moment for the others that are there."""
        asked_again: set[str] = set()

        def decided() -> bool:
            if seal.hopeless and (seal.lost or len(seal.members) == 1):
                self._say_hopeless(seal)
            for member in seal.refused:
                if member not in asked_again:
                    asked_again.add(member)
                    self._context.producer.seal_again(seal, member, partial_again(member))
            return seal.decidable

        def partial_again(member: str) -> Callable[[], None]:
            def told() -> None:
                asked_again.discard(member)
                self.progressed()

            return told

        await self._until(decided, lambda: (*seal.missing(), *seal.refused))
        if seal.missing():
            with trio.move_on_after(GRACE_SECONDS):
                while any(map(self._context.stores.live, seal.missing())):
                    await self._progress.wait()
        if not seal.known and not seal.has_given_up and self._segment(seal.address).announced:
            raise Inconsistent(f"segment {seal.address} was announced, and no store knows it")

    @staticmethod
    def _say_hopeless(seal: Seal) -> None:
        if seal.lost and not seal.known:
            raise Inconsistent(f"segment {seal.address} was announced, and no store knows it")
        if seal.lost:
            lost = ", ".join(seal.lost)
            raise Inconsistent(f"segment {seal.address} was announced, and its stores {lost} have lost it")
        refused = ", ".join(f"{member} (status {status})" for member, status in seal.refused.items())
        raise Inconsistent(f"segment {seal.address} cannot be sealed: refused by {refused}")

    def _segment(self, address: str) -> Segment:
        return next(segment for segment in self.partition.chain.closed if segment.address == address)

    async def _copied(self, seal: Seal) -> None:
        """Wait until w members have everything up to the end; those that lack something copy it."""
        if seal.enough:
            return
        end, _ = seal.end()
        under_way: dict[str, tuple[Sequence[str], trio.CancelScope]] = {}
        """Member -> whom it copies from."""

        async def copy(member: str, sources: Sequence[str], scope: trio.CancelScope) -> None:
            copier = self._context.copier
            with scope:
                if await copier.copy(member, seal.address, end, sources, wanted=lambda: not seal.enough):
                    seal.on_copied(member, end)
                    self.progressed()

        started = trio.current_time()

        def enough() -> bool:
            holders = seal.holders()
            for member in seal.lacking():
                sources, scope = under_way.get(member, ((), trio.CancelScope()))
                if sources != holders:
                    # Whom it asked so far may be gone, and another one that has it has answered meanwhile.
                    scope.cancel()
                    under_way[member] = holders, trio.CancelScope()
                    nursery.start_soon(copy, member, *under_way[member])
            if trio.current_time() >= started + SOURCES_GONE_SECONDS and self._sources_are_gone(seal):
                raise SourcesGone
            return seal.enough

        stopped: Superseded | SourcesGone | None = None
        async with trio.open_nursery() as nursery:
            try:
                await self._until(enough, lambda: (*seal.missing(), *seal.lacking()))
            except (Superseded, SourcesGone) as error:
                stopped = error
            nursery.cancel_scope.cancel()
        if stopped is not None:
            raise stopped

    def _sources_are_gone(self, seal: Seal) -> bool:
        stores = self._context.stores
        return not any(map(stores.live, seal.holders())) and stores.enough(seal.members, seal.needed)

    async def _put_ends(self, ends: dict[str, tuple[int, bytes]]) -> None:
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
                puts[keys.segment_tombstone_key(segment.address)] = keys.pack({"members": segment.members})
                continue
            kept.append(segment)
            puts[key] = segment.pack()
            Closer.note(segment, puts)
            logger.debug(
                "segment %s of %s closed at offset %d", segment.address, self._name, segment.end_offset
            )
        self._check_wanted()
        partition.chain.settle(kept)
        _forget_empty_epochs(partition, empty)
        record = keys.unpack(partition_record(partition))
        record["next_epoch"] = partition.leader_epoch
        puts[keys.partition_key(topic_id, partition.index)] = keys.pack(record)
        await self._context.catalog.transact([], puts, deletes)
        self._context.closer.begin(kept)
        if deletes:
            self._context.segments_dropped()

    def set_ends(self) -> None:
        """The log's end is known. Raises Inconsistent."""
        partition = self.partition
        last = partition.chain.last_closed
        end = None if last is None else last.end_offset
        if end is None:
            end = partition.log_start_offset
        if end < partition.high_watermark and not self._accept_loss and not self._given_up:
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
                self._wait_for(error.silent, f": {error}")
                await trio.sleep(AGAIN_SECONDS)
                self._check_wanted()
            else:
                self._check_wanted()
                return producers

    async def _read_producers(self, limit: trio.CapacityLimiter) -> ProducerState:
        partition, context = self.partition, self._context
        last = partition.chain.last_closed
        if last is None:
            return producers_of_empty_log(context, partition.topic.id, partition.index)
        if self._given_up.issuperset(last.members):
            logger.warning("%s: what was known of its idempotent producers is given up", self._name)
            return ProducerState()
        return await read_producers(context, last, limit)

    # waiting ----------------------------------------------------------------------------------------------

    async def _until(self, done: Callable[[], bool], missing: Callable[[], Iterable[str]]) -> None:
        """Return when `done`. Who is `missing` is said when that takes long. Raises Superseded."""
        stores = self._context.stores
        started = trio.current_time()
        while not done():
            names = tuple(sorted(set(missing())))
            waited = trio.current_time() - started
            patience = PATIENCE_SECONDS if any(map(stores.live, names)) else AWAY_PATIENCE_SECONDS
            if waited >= patience:
                self._wait_for(names)
            pause = LOOK_SECONDS if waited >= patience else max(patience - waited, LEAST_PAUSE_SECONDS)
            with trio.move_on_after(pause):
                await self._progress.wait()
            self._check_wanted()
        self.waiting_for = ()

    def _wait_for(self, names: Iterable[str], why: str = "") -> None:
        """Others need not wait for this partition any more."""
        self.waiting_for = tuple(names)
        stores = ", ".join(map(self._context.stores.name, self.waiting_for))
        self.partition.recovery_waits(f"its recovery waits for the stores {stores}{why}")
        self._settled()

    def _check_wanted(self) -> None:
        if self.partition.deleted or self.partition.state is not PartitionState.RECOVERING:
            raise Superseded


def _with_end(segment: Segment, end: int, row_bytes: bytes) -> Segment:
    if end < 0:
        return segment.closed(segment.start_offset, -1, NO_TIMESTAMP)
    row = Row.unpack(row_bytes)
    return segment.closed(row.last_offset + 1, end, row.running_max_timestamp)


def _forget_empty_epochs(partition: Partition, empty: Sequence[Segment]) -> None:
    """An epoch that wrote nothing but these segments is none. Those whose segments retention has dropped
    stay known.
    """
    wrote = {segment.epoch for segment in partition.chain.closed if not segment.is_compacted}
    begun = {segment.epoch: segment.start_offset for segment in reversed(empty) if segment.epoch not in wrote}
    partition.epochs.forget_unwritten(begun)
