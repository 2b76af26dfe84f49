"""The order of gateways round the ring, and what a slot's move would gain."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.leadership.balance import Balance, Gain, Gateway, ring
from gateway.leadership.slots import Occupancy, slot_of
from tests.unit.gateway.leadership.tables import topic

ONE = topic(1, 3)


@pytest.mark.parametrize(
    ("racks", "order"),
    [
        ({}, []),
        ({3: "", 1: "", 2: ""}, [1, 2, 3]),
        ({1: "a", 2: "a", 3: "b", 4: "b"}, [1, 3, 2, 4]),
        ({1: "a", 2: "a", 3: "a", 4: "b"}, [1, 2, 4, 3]),
        ({1: "c", 2: "b", 3: "a"}, [3, 2, 1]),
    ],
)
def test_gateways_of_one_rack_are_far_apart_round_the_ring(racks: dict[int, str], order: list[int]) -> None:
    assert [one.id for one in ring(Gateway(number, rack) for number, rack in racks.items())] == order


@given(st.integers(1, 6), st.integers(2, 5))
def test_racks_of_one_size_take_turns(size: int, racks: int) -> None:
    gateways = [Gateway(10 * rack + number, str(rack)) for rack in range(racks) for number in range(size)]
    order = [gateway.rack for gateway in ring(gateways)]
    assert all(before != after for before, after in pairwise([*order, order[0]]))


def test_a_gateways_place_is_where_the_ring_has_it() -> None:
    balance = Balance([Gateway(7), Gateway(5), Gateway(9)], Occupancy([]))
    assert balance.ids == [7, 5, 9]
    assert balance.places == {7: 0, 5: 1, 9: 2}
    assert [balance.turn(slot) for slot in (0, 1, 2, 3, 1023)] == [0, 1, 2, 0, 0]


def test_what_is_put_and_taken_out_again_leaves_nothing() -> None:
    balance = Balance([Gateway(1), Gateway(2)], Occupancy([ONE]))
    first, second = slot_of(ONE.id, 0), slot_of(ONE.id, 1)
    balance.put(first, 0)
    assert balance.best(second) == 1
    balance.take_out(first, 0)
    balance.put(first, 1)
    assert balance.best(second) == 0


def test_a_gain_is_what_the_topic_has_more_there_and_what_all_topics_have() -> None:
    balance = Balance([Gateway(1), Gateway(2)], Occupancy([ONE]))
    slots = [slot_of(ONE.id, index) for index in range(3)]
    for slot in slots:
        balance.put(slot, 0)
    assert balance.better(slots[0], 0) == (Gain(2, 2), 1)
    balance.take_out(slots[0], 0)
    balance.put(slots[0], 1)
    assert balance.better(slots[1], 0) is None
    assert balance.better(slots[0], 1) is None


def test_to_ask_changes_nothing() -> None:
    balance = Balance([Gateway(1), Gateway(2)], Occupancy([ONE]))
    slots = [slot_of(ONE.id, index) for index in range(3)]
    for slot in slots:
        balance.put(slot, 0)
    assert [balance.better(slots[0], 0) for _ in range(3)] == [(Gain(2, 2), 1)] * 3


def test_all_topics_in_a_slot_count() -> None:
    """Of two gateways one leads more of one topic in it, and the other more of the other two."""
    shapes = [topic(number, 1024) for number in (1, 2, 3)]
    balance = Balance([Gateway(1), Gateway(2)], Occupancy(shapes))
    assert balance.best(0) == 0, "nobody leads anything: it is the turn of the first"
    # Some of their slots have two of their partitions.
    shapes = [topic(1, 1026), topic(2, 1026), topic(3, 1025)]
    balance = Balance([Gateway(1), Gateway(2)], Occupancy(shapes))
    led = {slot_of(one.id, index) for one in shapes for index in (0, 1)[: one.partitions - 1024]}
    for slot in led:
        balance.put(slot, 0 if slot in {slot_of(shapes[0].id, index) for index in (0, 1)} else 1)
    slot = next(slot for slot in range(0, 1024, 2) if led.isdisjoint((slot, slot + 1)))
    assert balance.best(slot) == 0
    assert balance.best(slot + 1) == 0, "though it is the other one's turn, and leads less of the first"
