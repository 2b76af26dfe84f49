"""What a gateway leads, one of several: the slots that name it and its life in the catalog's table.

Rule: a slot is led only in the life that its key names, and each transaction about one of its partitions
compares that key as it was read when it named this life. So from the transaction on that names another life
nothing of this one changes the partition any more, also when nothing else of it is different: an idle
partition's record is as it was, and its stores know of no newer leader epoch yet.

Rule: each transaction that gives a slot to a life draws the slot's leader epoch (`gateway.log.epoch_counter`)
and compares that the life is alive: the taker's own transactions all do (`gateway.cluster.alive`), a giver's
compares the receiver's key.

Rule: a slot of a life that is over is taken by comparing that it is over: its gateway's key is gone, or is
there for another life. Who only believes that somebody is dead takes nothing.

There is no allocator: each gateway takes for itself what the next table gives it
(`gateway.leadership.next_table`, the same function everywhere), and gives away what is its own. Who went by
an older table finds its compare refused, and looks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.leadership.records import pack_slot, slot_number, slot_text, unpack_alive, unpack_slot
from gateway.leadership.slots import SLOTS, slot_of
from gateway.leadership.table import Leader, Table

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog, Entry
    from gateway.log.epoch_counter import EpochCounter

SLOTS_AT_ONCE: Final = 40
"""Slots in one transaction. Each is compared and put, and with what every transaction has besides, and the
gateways whose lives are over, these are some hundred compares: etcd takes 128."""

OVER_AT_ONCE: Final = 8
"""Gateways whose lives are over, of the slots of one transaction."""

KEEPERS_SLOT: Final = 0
"""Who leads it tells the stores of the catalog (`gateway.cluster.remembering`)."""

NEVER: Final = -1
"""A revision that no key has: what is compared of a slot that this life does not lead."""


class Moved(NamedTuple):
    """Slots whose leader is another one since the table was read before: those that this life leads now, and
    did not, or not under this leader epoch; those that it led; and those that pass between others.
    """

    gained: set[int]
    lost: set[int]
    others: set[int]


class SlotLeadership:
    """One life's of a gateway. It leads what the table says as `read` has read it."""

    def __init__(self, catalog: Catalog, gateway: int, life: str) -> None:
        self.gateway = gateway
        self.life = life
        self.table = Table()
        """As it was read last."""
        self._catalog = catalog
        self._revisions = [0] * SLOTS
        """Of the keys, when they were read: most are as they were, each time."""
        self._led: dict[int, Compare] = {}
        """By slot: its key, as it was read when it named this life."""
        self._refused: set[Compare] = set()
        """Of these, those that did not hold: another life has the slot by now."""
        self._giving: set[int] = set()
        """Slots of these that are being given away."""

    # what logs ask ----------------------------------------------------------------------------------------

    def leads(self, topic_id: bytes, index: int) -> bool:
        return self.leads_slot(slot_of(topic_id, index))

    def leads_slot(self, slot: int) -> bool:
        """Whether this life leads what is in a slot."""
        compare = self._led.get(slot)
        return compare is not None and compare not in self._refused and slot not in self._giving

    def compares(self, topic_id: bytes, index: int) -> Sequence[Compare]:
        slot = slot_of(topic_id, index)
        return [self._led.get(slot) or Compare(_key(slot), NEVER)]

    def lost(self, compared: Compare) -> None:
        # An old one says nothing of a slot that was away and has come back since.
        if self._led.get(slot_number(compared.key.removeprefix(keys.SLOTS))) == compared:
            self._refused.add(compared)

    def is_keeper(self) -> bool:
        """Whether this life tells the stores of the catalog: by a view of it that has it alive, too. One that
        has slept sees the end of its lease before it sees who has its slots.
        """
        there = self._catalog.get(keys.alive_key(self.gateway))
        is_alive = there is not None and unpack_alive(there.value).life == self.life
        return is_alive and self.leads_slot(KEEPERS_SLOT)

    def epoch(self, topic_id: bytes, index: int) -> int:
        leader = self.table.leader_of(topic_id, index)
        return 0 if leader is None else leader.epoch

    # the table --------------------------------------------------------------------------------------------

    def read(self) -> Moved:
        """Take the table as the catalog shows it. Raises BadRecord: it has what nobody can read."""
        there = {
            slot_number(entry.key.removeprefix(keys.SLOTS)): entry
            for entry in self._catalog.range(keys.SLOTS)
        }
        moved = Moved(set(), set(), set())
        for slot in range(SLOTS):
            self._read_slot(slot, there.get(slot), moved)
        self._refused.intersection_update(self._led.values())
        return moved

    def _read_slot(self, slot: int, entry: Entry | None, moved: Moved) -> None:
        before = self.table.slots[slot]
        revision = 0 if entry is None else entry.mod_revision
        if revision == self._revisions[slot]:
            leader = before
        else:
            leader = None if entry is None else unpack_slot(entry.value)
            self._revisions[slot], self.table.slots[slot] = revision, leader
        if entry is not None and leader is not None and self._is_own(leader):
            compare = Compare(entry.key, entry.mod_revision)
            if self._led.get(slot) != compare:
                self._led[slot] = compare
                moved.gained.add(slot)
        elif self._led.pop(slot, None) is not None:
            moved.lost.add(slot)
        elif leader != before:
            moved.others.add(slot)

    def _is_own(self, leader: Leader) -> bool:
        return (leader.gateway, leader.life) == (self.gateway, self.life)

    # changes of the table ---------------------------------------------------------------------------------

    async def take(self, slots: Iterable[int], counter: EpochCounter) -> None:
        """Lead those of these slots whose leader's life is over. What somebody else takes meanwhile is that
        one's; `read` shows what has become of them. Raises BadRecord.
        """
        left = {slot: compares for slot in slots if (compares := self._over(slot))}
        while left:
            some: dict[int, list[Compare]] = {}
            over: set[str] = set()
            for slot, compares in islice(left.items(), SLOTS_AT_ONCE):
                over.update(compare.key for compare in compares[1:])
                if len(over) > OVER_AT_ONCE:
                    break
                some[slot] = compares
            own = dict.fromkeys(some, (self.gateway, self.life))
            failed = await self._put(own, [one for compares in some.values() for one in compares], counter)
            if failed is None:
                left = {slot: compares for slot, compares in left.items() if slot not in some}
            elif failed != keys.LEADER_EPOCH:
                left = {
                    slot: compares
                    for slot, compares in left.items()
                    if all(compare.key != failed for compare in compares)
                }

    def _over(self, slot: int) -> list[Compare]:
        """The slot as it is now, and that the life is over which had it; nothing if that goes on."""
        entry = self._catalog.get(_key(slot))
        if entry is None:
            return [Compare(_key(slot), 0)]
        leader = unpack_slot(entry.value)
        key = keys.alive_key(leader.gateway)
        there = self._catalog.get(key)
        if there is not None and unpack_alive(there.value).life == leader.life:
            return []
        compares = [Compare(entry.key, entry.mod_revision)]
        if leader.gateway != self.gateway:  # that this one's key is this life's is compared anyhow
            compares.append(Compare(key, 0 if there is None else there.mod_revision))
        return compares

    async def give(self, targets: Mapping[int, tuple[int, str]], counter: EpochCounter) -> None:
        """Have these lives lead slots that this life leads: slot -> gateway and life. Nothing of the slots'
        partitions may be served, and nothing is from now on: what this life still leads afterwards, because
        the others are gone, `read` shows as gained.
        """
        left = dict(targets)
        self._giving.update(targets)
        try:
            while left:
                some = dict(islice(left.items(), SLOTS_AT_ONCE))
                compares = [self._led.get(slot) or Compare(_key(slot), NEVER) for slot in some]
                for gateway, life in dict.fromkeys(some.values()):
                    compares.append(self._goes_on(gateway, life))
                if await self._put(some, compares, counter) != keys.LEADER_EPOCH:
                    for slot in some:
                        del left[slot]
        finally:
            self._giving.difference_update(targets)
            for slot in targets:
                self._led.pop(slot, None)

    def _goes_on(self, gateway: int, life: str) -> Compare:
        """That this life of a gateway is not over."""
        key = keys.alive_key(gateway)
        there = self._catalog.get(key)
        is_alive = there is not None and unpack_alive(there.value).life == life
        return Compare(key, there.mod_revision if there is not None and is_alive else NEVER)

    async def _put(
        self, leaders: Mapping[int, tuple[int, str]], compares: Iterable[Compare], counter: EpochCounter
    ) -> str | None:
        """One transaction; the key of a compare that did not hold."""
        # Never one that is drawn already: who had a slot may have drawn a higher one since.
        await counter.settled()
        epoch = counter.next
        every = list(dict.fromkeys(compares))
        puts = {
            _key(slot): pack_slot(Leader(gateway, life, epoch)) for slot, (gateway, life) in leaders.items()
        }
        for_another = any(life != self.life for _, life in leaders.values())
        try:
            async with counter.using([epoch], every, puts, for_another=for_another):
                await self._catalog.transact(every, puts)
        except CompareFailed as failed:
            return failed.key
        return None


def _key(slot: int) -> str:
    return keys.SLOTS + slot_text(slot)
