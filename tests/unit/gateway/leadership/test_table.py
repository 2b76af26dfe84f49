"""Who leads a partition, and under which leader epoch."""

from __future__ import annotations

from gateway.leadership.next_table import NOBODY
from gateway.leadership.slots import SLOTS, slot_of
from gateway.leadership.table import Leader, Table

TOPIC, OTHER = bytes(range(16)), bytes(16)
FIRST, SECOND = "A" * 16, "B" * 16


def table() -> Table:
    """Gateway 1 leads the slot of partition 0 of the topic, and nobody anything else."""
    made = Table()
    made.slots[slot_of(TOPIC, 0)] = Leader(1, FIRST, 7)
    return made


def test_a_partition_is_led_by_its_slots_gateway() -> None:
    assert table().leader_of(TOPIC, 0) == Leader(1, FIRST, 7)
    assert table().leader_of(TOPIC, SLOTS) == Leader(1, FIRST, 7)
    assert table().leader_of(TOPIC, 1) is None
    assert table().leader_of(OTHER, 0) is None


def test_a_slot_is_an_orphan_unless_its_leader_is_alive_in_the_same_life() -> None:
    made = Table()
    made.slots[:] = [Leader(1 + slot % 3, FIRST, 4) for slot in range(SLOTS)]
    made.slots[0] = None
    alive = {1: FIRST, 2: SECOND}
    assert made.orphans(alive) == {slot for slot in range(SLOTS) if slot == 0 or slot % 3}
    assert made.orphans(dict.fromkeys((1, 2, 3), FIRST)) == {0}
    assert made.owners()[:4] == [NOBODY, 2, 3, 1]
