"""What a gateway leads, one of several: the slots that name it and its life in the catalog's table.

Rule: a slot is led only in the life that its key names, and each transaction about one of its partitions
compares that key, as this life has put it. So from the transaction on that names another life nothing of this
one changes the partition any more, also when nothing else of it is different: an idle partition's record is
as it was, and its stores know of no newer leader epoch yet.

Rule: the leader epoch in the key is the number of this life's leadership, drawn in the same transaction
(`gateway.log.epoch_counter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.leadership.records import pack_slot, slot_number, slot_text, unpack_slot
from gateway.leadership.slots import slot_of
from gateway.leadership.table import Leader

if TYPE_CHECKING:
    from gateway.catalog.interface import Catalog
    from gateway.log.epoch_counter import EpochCounter

SLOTS_AT_ONCE: Final = 45
"""Slots in one transaction. Each is compared and put, and with what every transaction has besides these are
some hundred operations: etcd takes 128."""

NEVER: Final = -1
"""A revision that no key has: what is compared of a slot that this life never led."""


class SlotLeadership:
    """One life's of a gateway. It leads nothing before `take`; see `gateway.log.neighbours.Leadership`."""

    def __init__(self, catalog: Catalog, gateway: int, life: str) -> None:
        self._catalog = catalog
        self._gateway = gateway
        self._life = life
        self._taken: dict[int, Compare] = {}
        """By slot: its key, as this life has put it."""
        self._lost: set[int] = set()
        """The slots of these that another life has by now."""

    def leads(self, topic_id: bytes, index: int) -> bool:
        slot = slot_of(topic_id, index)
        return slot in self._taken and slot not in self._lost

    def compares(self, topic_id: bytes, index: int) -> Sequence[Compare]:
        slot = slot_of(topic_id, index)
        return [self._taken.get(slot) or Compare(keys.SLOTS + slot_text(slot), NEVER)]

    def lost(self, compared: str) -> None:
        self._lost.add(slot_number(compared.removeprefix(keys.SLOTS)))

    async def take(self, counter: EpochCounter) -> None:
        """Lead, from now on, what the table gives this gateway, whichever of its lives had it before.

        A slot that yet another life takes meanwhile is that one's. Raises BadRecord: the table has what
        nobody can read.
        """
        given = self._given()
        while slots := dict(islice(given.items(), SLOTS_AT_ONCE)):
            epoch = counter.leadership
            value = pack_slot(Leader(self._gateway, self._life, epoch))
            compares = list(slots.values())
            puts = {compare.key: value for compare in compares}
            try:
                async with counter.using([epoch], compares, puts):
                    revision = await self._catalog.transact(compares, puts)
            except CompareFailed as failed:
                # Or another gateway has drawn that number: then the next one.
                given = {slot: compare for slot, compare in given.items() if compare.key != failed.key}
                continue
            for slot, compare in slots.items():
                self._taken[slot] = Compare(compare.key, revision)
                del given[slot]

    def _given(self) -> dict[int, Compare]:
        """The slots that name this gateway: with what is compared to take them."""
        return {
            slot_number(entry.key.removeprefix(keys.SLOTS)): Compare(entry.key, entry.mod_revision)
            for entry in self._catalog.range(keys.SLOTS)
            if unpack_slot(entry.value).gateway == self._gateway
        }
