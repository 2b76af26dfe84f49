"""Which slots a gateway's life takes from the table, and with which transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import pytest
import trio

from gateway.catalog import keys
from gateway.catalog.interface import Compare, CompareFailed
from gateway.cluster.slot_leadership import KEEPERS_SLOT, Moved, SlotLeadership
from gateway.leadership.records import AliveRecord, BadRecord, pack_alive, pack_slot, slot_text, unpack_slot
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


async def takes(leadership: SlotLeadership, slots: Iterable[int], counter: EpochCounter) -> Moved:
    """What is different when it has taken these."""
    await leadership.take(slots, counter)
    return leadership.read()


def test_a_life_leads_what_it_has_taken() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1, slot + 1: 2, slot + 2: 1})
        leadership = SlotLeadership(catalog, 1, SECOND)
        assert leadership.read().others == {slot, slot + 1, slot + 2}
        assert not leadership.leads(TOPIC, 0)
        counter = EpochCounter(catalog)
        moved = await takes(leadership, [slot, slot + 2], counter)
        assert (moved.gained, moved.lost, moved.others) == ({slot, slot + 2}, set(), set())
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
        assert [leadership.epoch(TOPIC, index) for index in (0, 1, 3)] == [4, 3, 0]
        assert leadership.read() == (set(), set(), set())

    run(body)


def test_a_transaction_has_as_many_slots_as_etcd_takes() -> None:
    async def body(catalog: Watched) -> None:
        await catalog.give({slot: 2 + slot % 20 for slot in range(SLOTS)})
        await takes(SlotLeadership(catalog, 1, SECOND), range(SLOTS), EpochCounter(catalog))
        assert {leader[:2] for leader in catalog.leaders().values()} == {(1, SECOND)}
        own_life_and_history = 5
        assert max(catalog.sizes) // 2 + own_life_and_history <= MOST_OPERATIONS

    run(body)


def test_what_a_life_leads_that_goes_on_is_not_taken() -> None:
    """Also where it is noticed only by the compare."""

    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 2, slot + 1: 3})
        await catalog.transact([], {keys.alive_key(2): pack_alive(AliveRecord(FIRST))})

        async def begins() -> None:
            await catalog.transact([], {keys.alive_key(3): pack_alive(AliveRecord(FIRST))})

        catalog.before = [begins]
        leadership = SlotLeadership(catalog, 1, SECOND)
        moved = await takes(leadership, [slot, slot + 1], EpochCounter(catalog))
        assert not moved.gained
        assert {leader.gateway for leader in catalog.leaders().values()} == {2, 3}

    run(body)


def test_what_a_life_has_led_is_taken_by_the_gateways_next_one_and_by_others() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1, slot + 1: 2})
        for gateway, life in ((1, SECOND), (2, THIRD)):
            await catalog.transact([], {keys.alive_key(gateway): pack_alive(AliveRecord(life))})
        leadership = SlotLeadership(catalog, 1, SECOND)
        moved = await takes(leadership, [slot, slot + 1, slot + 2], EpochCounter(catalog))
        assert moved.gained == {slot, slot + 1, slot + 2}, "the last one nobody ever had"

    run(body)


def test_what_is_compared_of_a_slot_that_is_not_led_never_holds() -> None:
    async def body(catalog: Watched) -> None:
        await catalog.give({slot_of(TOPIC, 0): 2})
        leadership = SlotLeadership(catalog, 1, SECOND)
        leadership.read()
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
        await takes(leadership, [slot], counter)
        assert catalog.leaders() == {slot: Leader(1, SECOND, 8)}
        assert leadership.leads(TOPIC, 0)

    run(body)


def test_each_take_has_a_number_of_its_own() -> None:
    """One that was drawn before may be lower than what the slot's leader has drawn since."""

    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 2, slot + 1: 2})
        leadership, counter = SlotLeadership(catalog, 1, SECOND), EpochCounter(catalog)
        await takes(leadership, [slot], counter)
        await takes(leadership, [slot + 1], counter)
        assert catalog.leaders() == {slot: Leader(1, SECOND, 4), slot + 1: Leader(1, SECOND, 5)}

    run(body)


def test_a_slot_that_another_life_takes_meanwhile_is_that_ones() -> None:
    """Also where it is the same gateway's: two processes of one gateway take nothing from each other
    again.
    """

    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        await catalog.give({slot: 1, slot + 1: 1})
        other = SlotLeadership(catalog, 1, THIRD)
        catalog.before = [lambda: other.take([slot, slot + 1], EpochCounter(catalog))]
        leadership = SlotLeadership(catalog, 1, SECOND)
        assert not (await takes(leadership, [slot, slot + 1], EpochCounter(catalog))).gained
        assert {leader.life for leader in catalog.leaders().values()} == {THIRD}
        assert other.read().gained == {slot, slot + 1}
        assert [other.leads(TOPIC, index) for index in (0, 1)] == [True, True]

    run(body)


def test_a_slot_whose_compare_did_not_hold_is_not_led_and_its_compare_stays() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        leadership = SlotLeadership(catalog, 1, SECOND)
        await takes(leadership, [slot, slot + 1], EpochCounter(catalog))
        compared = leadership.compares(TOPIC, 0)
        leadership.lost(compared[0])
        assert [leadership.leads(TOPIC, index) for index in (0, 1)] == [False, True]
        assert leadership.compares(TOPIC, 0) == compared
        await catalog.give({slot: 2}, THIRD)
        assert leadership.read().lost == {slot}
        assert not leadership.leads(TOPIC, 0)

    run(body)


def test_an_old_compare_says_nothing_of_a_slot_that_has_come_back() -> None:
    """A transaction may be refused when the slot was away and is led anew: that is not lost."""

    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        leadership = SlotLeadership(catalog, 1, SECOND)
        await takes(leadership, [slot], EpochCounter(catalog))
        (old,) = leadership.compares(TOPIC, 0)
        await catalog.give({slot: 2}, THIRD)
        leadership.read()
        await catalog.give({slot: 1}, SECOND)
        assert leadership.read().gained == {slot}
        leadership.lost(old)
        assert leadership.leads(TOPIC, 0)
        leadership.lost(leadership.compares(TOPIC, 0)[0])
        assert not leadership.leads(TOPIC, 0)

    run(body)


def test_the_keeper_is_alive_by_what_it_sees() -> None:
    async def body(catalog: Watched) -> None:
        leadership = SlotLeadership(catalog, 1, SECOND)
        await takes(leadership, [KEEPERS_SLOT], EpochCounter(catalog))
        await catalog.transact([], {keys.alive_key(1): pack_alive(AliveRecord(SECOND))})
        assert leadership.is_keeper()
        entry = catalog.get(keys.alive_key(1))
        assert entry is not None
        await catalog.transact([], {}, [keys.alive_key(1)])
        assert leadership.leads_slot(KEEPERS_SLOT), "nobody has taken it yet"
        assert not leadership.is_keeper()
        await catalog.transact([], {keys.alive_key(1): pack_alive(AliveRecord(THIRD))})
        assert not leadership.is_keeper()

    run(body)


def test_a_slot_is_given_to_a_life_that_goes_on() -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        leadership, counter = SlotLeadership(catalog, 1, SECOND), EpochCounter(catalog)
        await takes(leadership, [slot, slot + 1], counter)
        await catalog.transact([], {keys.alive_key(2): pack_alive(AliveRecord(THIRD))})

        async def not_led() -> None:
            assert [leadership.leads(TOPIC, index) for index in (0, 1)] == [False, True]

        catalog.before = [not_led]
        await leadership.give({slot: (2, THIRD)}, counter)
        assert catalog.leaders() == {slot: Leader(2, THIRD, counter.highest), slot + 1: Leader(1, SECOND, 0)}
        assert leadership.read().others == {slot}
        other = SlotLeadership(catalog, 2, THIRD)
        assert other.read().gained == {slot}
        assert other.epoch(TOPIC, 0) == counter.highest

    run(body)


@pytest.mark.parametrize("alive", [None, FIRST], ids=["gone", "another life"])
def test_what_cannot_be_given_is_led_anew(alive: str | None) -> None:
    async def body(catalog: Watched) -> None:
        slot = slot_of(TOPIC, 0)
        leadership, counter = SlotLeadership(catalog, 1, SECOND), EpochCounter(catalog)
        await takes(leadership, [slot], counter)
        if alive:
            await catalog.transact([], {keys.alive_key(2): pack_alive(AliveRecord(alive))})
        before = catalog.leaders()
        await leadership.give({slot: (2, THIRD)}, counter)
        assert catalog.leaders() == before
        assert leadership.read().gained == {slot}
        assert leadership.leads(TOPIC, 0)

    run(body)


def test_a_table_that_nobody_can_read_is_not_led_by() -> None:
    async def body(catalog: Watched) -> None:
        await catalog.transact([], {key_of(3): b'{"v":2}'})
        with pytest.raises(BadRecord, match="a newer release"):
            SlotLeadership(catalog, 1, SECOND).read()

    run(body)
