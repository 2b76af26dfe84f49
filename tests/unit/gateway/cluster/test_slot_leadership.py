"""Which slots a gateway's life takes from the table, and with which transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.cluster.slot_leadership import SLOTS_AT_ONCE, SlotLeadership
from gateway.leadership.records import BadRecord, pack_slot, slot_text, unpack_slot
from gateway.leadership.slots import SLOTS, slot_of
from gateway.leadership.table import Leader
from gateway.log.epoch_counter import EpochCounter
from tests.unit.gateway.catalog.memory import MemoryCatalog

FIRST, SECOND, THIRD = "A" * 16, "B" * 16, "C" * 16
TOPIC = bytes(range(16))
MOST_OPERATIONS = 120


def key_of(slot: int) -> str:
    return keys.SLOTS + slot_text(slot)


class Watched(MemoryCatalog):
    """`before` is called before each transaction, with what it compares and puts."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.before: list[Callable[[], Awaitable[object]]] = []

    async def transact(
        self,
        compares: Sequence[Compare],
        puts: Mapping[str, bytes],
        deletes: Sequence[str] = (),
        lease: int | None = None,
    ) -> int:
        if self.before:
            await self.before.pop()()
        self.sizes.append(len(compares) + len(puts) + len(deletes))
        return await super().transact(compares, puts, deletes, lease)

    async def give(self, owners: Mapping[int, int], life: str = FIRST) -> None:
        """The table has these gateways by slot, since leader epoch 3."""
        await self.transact([], {keys.LEADER_EPOCH: keys.pack(3)})
        for slot, gateway in owners.items():
            await self.transact([], {key_of(slot): pack_slot(Leader(gateway, life, 3))})
        self.sizes.clear()

    def leaders(self) -> dict[int, Leader]:
        return {int(entry.key[-4:]): unpack_slot(entry.value) for entry in self.range(keys.SLOTS)}


def run(body: Callable[[Watched], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(20):
            await body(Watched())

    trio.run(main)


def test_a_life_leads_the_slots_that_name_its_gateway() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1, slot + 1: 2, slot + 2: 1})
        leadership = SlotLeadership(catalog, 1, SECOND)
        assert not leadership.leads(TOPIC, 0)
        counter = EpochCounter(catalog)
        await leadership.take(counter)
        assert [leadership.leads(TOPIC, index) for index in (0, 1, 2, 3)] == [True, False, True, False]
        assert catalog.leaders() == {
            slot: Leader(1, SECOND, 4),
            slot + 1: Leader(2, FIRST, 3),
            slot + 2: Leader(1, SECOND, 4),
        }
        assert counter.highest == 4, "its leader epoch is drawn"
        entry = catalog.get(key_of(slot))
        assert entry is not None
        assert leadership.compares(TOPIC, 0) == [Compare(entry.key, entry.mod_revision)]

    run(body)


def test_a_transaction_has_as_many_slots_as_etcd_takes() -> None:
    async def body(catalog: Watched) -> None:
        await catalog.give(dict.fromkeys(range(SLOTS), 1))
        await SlotLeadership(catalog, 1, SECOND).take(EpochCounter(catalog))
        assert set(catalog.leaders().values()) == {Leader(1, SECOND, 4)}
        assert len(catalog.sizes) == -(-SLOTS // SLOTS_AT_ONCE)
        own_life_and_history = 5
        assert max(catalog.sizes) + own_life_and_history <= MOST_OPERATIONS

    run(body)


def test_what_is_compared_of_a_slot_that_is_not_led_never_holds() -> None:
    async def body(catalog: Watched) -> None:
        await catalog.give({slot_of(TOPIC, 0): 2})
        leadership = SlotLeadership(catalog, 1, SECOND)
        await leadership.take(EpochCounter(catalog))
        for index in (0, 1):
            with pytest.raises(CompareFailed):
                await catalog.transact(leadership.compares(TOPIC, index), {"/x": b""})

    run(body)


def test_another_number_is_drawn_where_another_gateway_was_faster() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1})

        async def draw() -> None:
            await catalog.transact([], {keys.LEADER_EPOCH: keys.pack(7)})

        counter = EpochCounter(catalog)
        catalog.before = [draw]
        leadership = SlotLeadership(catalog, 1, SECOND)
        await leadership.take(counter)
        assert catalog.leaders() == {slot: Leader(1, SECOND, 8)}
        assert leadership.leads(TOPIC, 0)
        assert counter.leadership == counter.highest == 8

    run(body)


def test_a_slot_that_another_life_takes_meanwhile_is_that_ones() -> None:
    """Also where it is the same gateway's: two processes of one gateway take nothing from each other
    again.
    """

    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1, slot + 1: 1})
        other = SlotLeadership(catalog, 1, THIRD)
        catalog.before = [lambda: other.take(EpochCounter(catalog))]
        leadership = SlotLeadership(catalog, 1, SECOND)
        await leadership.take(EpochCounter(catalog))
        assert {leader.life for leader in catalog.leaders().values()} == {THIRD}
        assert [leadership.leads(TOPIC, index) for index in (0, 1)] == [False, False]
        assert [other.leads(TOPIC, index) for index in (0, 1)] == [True, True]

    run(body)


def test_a_slot_that_is_lost_is_not_led_and_its_compare_stays() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1, slot + 1: 1})
        leadership = SlotLeadership(catalog, 1, SECOND)
        await leadership.take(EpochCounter(catalog))
        compared = leadership.compares(TOPIC, 0)
        leadership.lost(key_of(slot))
        assert [leadership.leads(TOPIC, index) for index in (0, 1)] == [False, True]
        assert leadership.compares(TOPIC, 0) == compared

    run(body)


def test_a_table_that_nobody_can_read_is_not_led_by() -> None:
    async def body(catalog: Watched) -> None:
        await catalog.transact([], {key_of(3): b'{"v":2}'})
        with pytest.raises(BadRecord, match="a newer release"):
            await SlotLeadership(catalog, 1, SECOND).take(EpochCounter(catalog))

    run(body)
