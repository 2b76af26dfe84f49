"""What transactions about partitions compare, and what is done when another gateway was faster.

Rule: whoever changes something of a partition in the catalog (its record, its segments, its producers, the
notes about its segments) compares the partition's record and its topic's key with what this gateway has
read of them, or has put there itself last; and, where there are several gateways, what says that this one
leads it. What another one leads now is not read anew: it is served there. Where a compare fails, what is
known of the partition is old: it is read anew before anything else is decided. One whose topic was deleted
drops out, and the others go on.

Each partition's `PartitionFence` is the one place that knows the revision of its record, `Topic.revision`
that of its topic's key.

Rule: while a transaction that puts a partition's record is under way no other one about that partition is
made: its outcome is not known, and what is made of the state before would be refused. Who comes meanwhile
waits (`Fences.free`), which costs nothing otherwise, and then looks at the partition anew.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed, unchanged
from gateway.catalog.pieces import Room
from gateway.leadership.records import slot_text
from gateway.leadership.slots import slot_of
from gateway.log.partition import LED_ELSEWHERE

if TYPE_CHECKING:
    from gateway.catalog.interface import Entry
    from gateway.log.context import LogContext
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

TOGETHER: Final = 8
"""Transactions of one change that are under way at once."""

FEW: Final = 16
"""Partitions that usually go into one transaction."""

CHANGED_ELSEWHERE = "another gateway has changed it in the catalog, where it is read anew"

logger = logging.getLogger(__name__)


class PartlyDone(CompareFailed):
    """As that, of one of several transactions; those about the partitions that are `done` have happened."""

    def __init__(self, key: str, done: Sequence[Partition]) -> None:
        super().__init__(key)
        self.done = done


class Overtaken(Exception):
    """Nothing was changed: another gateway has changed what was compared, which is read anew now.

    `partitions` are not this gateway's to change any more as they are. Without any the same may be tried
    again.
    """

    def __init__(self, partitions: Collection[Partition]) -> None:
        super().__init__(partitions)
        self.partitions = partitions


class PartitionFence:
    """`key` is that of the partition's record, `revision` the one that it has as far as this gateway knows;
    0: there is none.
    """

    __slots__ = ("key", "readings", "revision", "under_way")

    def __init__(self, topic_id: bytes, index: int, entry: Entry | None) -> None:
        self.key = keys.partition_key(topic_id, index)
        self.readings = 0
        """How often the record was read. What was made of an earlier reading says nothing of a later one."""
        self.under_way: trio.Event | None = None
        """Set when the transaction is over that puts the record right now."""
        self.read(entry)

    def read(self, entry: Entry | None) -> None:
        """This is what the catalog says of the partition, and what everything begins with again."""
        self.revision = 0 if entry is None else entry.mod_revision
        self.readings += 1


class Changes:
    """What one transaction does."""

    __slots__ = ("compares", "deletes", "epochs", "puts")

    def __init__(self) -> None:
        self.compares: list[Compare] = []
        """Besides the partitions' own."""
        self.puts: dict[str, bytes] = {}
        self.deletes: list[str] = []
        self.epochs: set[int] = set()
        """The leader epochs that it uses, which are drawn with it if they are not drawn yet."""

    def add(self, more: Changes) -> None:
        """These as well."""
        self.compares += more.compares
        self.puts |= more.puts
        self.deletes += more.deletes
        self.epochs |= more.epochs


Compose = Callable[["Partition", Changes], bool]
"""Adds a partition's part to a transaction; false: nothing of it is to be changed any more."""


class Fences:
    """Makes the transactions of one gateway's partitions."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._partitions: WeakValueDictionary[str, Partition] = WeakValueDictionary()
        """By their logs' names."""

    def add(self, partition: Partition) -> PartitionFence:
        """A new partition's fence."""
        topic_id, index = partition.topic.id, partition.index
        self._partitions[partition.log] = partition
        return PartitionFence(topic_id, index, self._context.catalog.get(keys.partition_key(topic_id, index)))

    def partition(self, log: str) -> Partition | None:
        """The partition of this log, None where its topic was deleted, or is not known."""
        found = self._partitions.get(log)
        if found is None or not found.deleted:
            return found
        # Until the transaction that deletes it is durable it is there.
        topic = self._as_read(keys.topic_key(found.topic.name))
        return found if topic.mod_revision == found.topic.revision else None

    def of_deleted(self, log: str) -> list[Compare]:
        """What is compared to change something of a log that is no partition any more."""
        topic_id, index = keys.of_log(log)
        compares = [self._as_read(keys.tombstone_key(topic_id))]
        if not compares[0].mod_revision:
            compares.append(self._as_read(keys.partition_key(topic_id, index)))
        return [*compares, *self._context.leadership.compares(topic_id, index)]

    def _as_read(self, key: str) -> Compare:
        return unchanged(self._context.catalog, [key])[0]

    async def free(self, partitions: Iterable[Partition]) -> None:
        """Return when the records of none of these are being put; at once, if that is so."""
        partitions = tuple(partitions)
        while busy := [one.fence.under_way for one in partitions if one.fence.under_way is not None]:
            await busy[0].wait()

    async def change(self, partitions: Iterable[Partition], compose: Compose) -> list[Partition]:
        """Do what `compose` says of each of these, in as few transactions as may be; gives those of which it
        is done. What concerns one partition is in one transaction.

        It is asked for each attempt anew: others may have been faster. Raises PartlyDone: a compare did not
        hold that it has added, or that of the counter of leader epochs.
        """
        waiting = deque(partitions)
        done: list[Partition] = []
        failed: list[CompareFailed] = []

        async def work() -> None:
            try:
                while waiting and not failed:
                    done.extend(await self._change_some(waiting, compose))
            except CompareFailed as error:
                failed.append(error)

        if len(waiting) <= FEW:
            await work()
        else:
            # What a catalog takes at once it makes durable at once.
            async with trio.open_nursery() as nursery:
                for _ in range(TOGETHER):
                    nursery.start_soon(work)
        if failed:
            raise PartlyDone(failed[0].key, done)
        return done

    async def _change_some(self, waiting: deque[Partition], compose: Compose) -> list[Partition]:
        """One transaction about the first of these, those of which it is done; who is to be asked again is
        waiting again.
        """
        await self.free(waiting)
        room, changes = Room(), Changes()
        some: list[Partition] = []
        while waiting:
            part = Changes()
            partition = waiting[0]
            if compose(partition, part):
                compares = [*part.compares, *self.fenced([partition])]
                if not room.take(compares, part.puts, part.deletes) and some:
                    break
                changes.add(part)
                some.append(partition)
            waiting.popleft()
        if not some:
            return []
        try:
            compares = list(dict.fromkeys(changes.compares))
            await self.transact(some, changes.puts, changes.deletes, compares, epochs=changes.epochs)
        except Overtaken as overtaken:
            waiting.extendleft(one for one in some if one not in overtaken.partitions)
            return []
        return some

    async def transact(
        self,
        partitions: Collection[Partition],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        compares: Sequence[Compare] = (),
        *,
        epochs: Collection[int] = (),
    ) -> int:
        """One transaction about these partitions, which are `free`, and to which nothing has happened since
        it was made; the revision that it has.

        Whoever puts a record goes on to its end, cancelled or not, so that this gateway knows what it has
        put.

        Raises Overtaken; CompareFailed, of one of `compares`, or of the counter of leader epochs where one
        of `epochs` is another gateway's.
        """
        if lost := [partition for partition in partitions if not self._context.leads(partition)]:
            raise self._deposed(lost)
        fences = [partition.fence for partition in partitions]
        assert all(fence.under_way is None for fence in fences), "it is made of what is not known yet"
        fenced = self.fenced(partitions)
        put = [(fence, fence.readings) for fence in fences if fence.key in puts]
        under_way = trio.Event()
        for fence, _ in put:
            fence.under_way = under_way
        try:
            with trio.CancelScope(shield=bool(put)):
                every, put_all = [*fenced, *compares], dict(puts)
                async with self._context.epoch_counter.using(epochs, every, put_all):
                    revision = await self._context.catalog.transact(every, put_all, deletes)
        except CompareFailed as failed:
            for compare in fenced:
                if failed.key == compare.key:
                    if compare.key not in puts and _is_put_here(partitions, compare):
                        raise Overtaken(()) from None
                    raise self._overtaken(compare, partitions) from None
            raise
        finally:
            for fence, _ in put:
                fence.under_way = None
            under_way.set()
        for fence, reading in put:
            # One that was read meanwhile may have been read as it was before.
            if fence.readings == reading:
                fence.revision = revision
        return revision

    def fenced(self, partitions: Collection[Partition]) -> list[Compare]:
        """What is compared of these partitions, whatever is changed of them."""
        leadership = self._context.leadership
        topics = {partition.topic: None for partition in partitions}
        fenced = [Compare(keys.topic_key(topic.name), topic.revision) for topic in topics]
        fenced += [Compare(one.fence.key, one.fence.revision) for one in partitions]
        led = (compare for one in partitions for compare in leadership.compares(one.topic.id, one.index))
        return [*fenced, *dict.fromkeys(led)]

    def _deposed(self, partitions: Collection[Partition]) -> Overtaken:
        """Another gateway leads these."""
        for partition in partitions:
            if partition.available:
                logger.info("%s-%d: %s", partition.topic.name, partition.index, LED_ELSEWHERE)
                partition.led_elsewhere(partition.leader_epoch)
        return Overtaken(partitions)

    def _overtaken(self, compare: Compare, partitions: Collection[Partition]) -> Overtaken:
        """Read anew what another gateway has changed."""
        key = compare.key
        if key.startswith(keys.SLOTS):
            self._context.leadership.lost(compare)
            of_slot = [one for one in partitions if _slot_key(one) == key]
            # One that has come back since is recovered under its new leader epoch.
            self._deposed([one for one in of_slot if not self._context.leads(one)])
            return Overtaken(of_slot)
        if not key.startswith(keys.TOPICS):
            lost = [partition for partition in partitions if partition.fence.key == key]
            for partition in lost:
                self._read_anew(partition)
            return Overtaken(lost)
        entry = self._context.catalog.get(key)
        topic_id = None if entry is None else keys.unpack(entry.value)["id"]
        lost = []
        for partition in partitions:
            topic: Topic = partition.topic
            if keys.topic_key(topic.name) != key:
                continue
            if entry is not None and topic.id.hex() == topic_id:
                topic.revision = entry.mod_revision
                continue
            lost.append(partition)
            if not partition.deleted:
                partition.delete()
        return Overtaken(lost)

    def _read_anew(self, partition: Partition) -> None:
        # One that does not serve is being recovered, which reads it, or has failed and changes nothing.
        if partition.available:
            logger.warning("%s-%d: %s", partition.topic.name, partition.index, CHANGED_ELSEWHERE)
            partition.fail(CHANGED_ELSEWHERE)
            self._context.recover_again(partition)


def _is_put_here(partitions: Iterable[Partition], compare: Compare) -> bool:
    """Whether this gateway has put the record of one of these since this compare was made, or does so now. A
    catalog may do several transactions at once: one that only compares a record comes after one that was made
    later and puts it. The same may be tried again then.
    """
    fences = [one.fence for one in partitions if one.fence.key == compare.key]
    return any(one.under_way is not None or one.revision != compare.mod_revision for one in fences)


def _slot_key(partition: Partition) -> str:
    return keys.SLOTS + slot_text(slot_of(partition.topic.id, partition.index))
