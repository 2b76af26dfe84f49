"""Which slot a partition is in."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.leadership.slots import SLOTS, Occupancy, TopicShape, slot_of

IDS = st.binary(min_size=16, max_size=16)


@pytest.mark.parametrize(
    ("topic_id", "index", "slot"),
    [
        (bytes(16), 0, 132),
        (bytes(16), 1, 133),
        (bytes(range(16)), 0, 363),
        (bytes(range(16)), 1000, 339),
        (b"\xff" * 16, 0, 349),
    ],
)
def test_a_partition_is_always_in_the_same_slot(topic_id: bytes, index: int, slot: int) -> None:
    """Gateways of two releases lead by one table."""
    assert slot_of(topic_id, index) == slot


@given(topic_id=IDS, first=st.integers(0, 10_000))
def test_no_two_of_as_many_partitions_as_there_are_slots_share_one(topic_id: bytes, first: int) -> None:
    assert len({slot_of(topic_id, index) for index in range(first, first + SLOTS)}) == SLOTS


@given(topic_id=IDS, index=st.integers(0, 10_000))
def test_neighbours_are_neighbours_round_the_ring(topic_id: bytes, index: int) -> None:
    assert slot_of(topic_id, index + 1) == (slot_of(topic_id, index) + 1) % SLOTS


def test_topics_begin_in_slots_all_over_the_ring() -> None:
    firsts = [slot_of(number.to_bytes(16), 0) for number in range(20_000)]
    assert {firsts.count(slot) for slot in (0, 1, 511, 1023)} <= set(range(5, 45))
    assert len(set(firsts)) == SLOTS


@given(
    st.lists(st.tuples(IDS, st.integers(0, 2500)), max_size=4, unique_by=lambda one: one[0]),
    st.dictionaries(st.integers(0, 2500), st.integers(1, 3), max_size=5),
)
def test_every_partition_is_counted_once(shapes: list[tuple[bytes, int]], overridden: dict[int, int]) -> None:
    topics = [TopicShape(topic_id, count, overridden) for topic_id, count in shapes]
    occupancy = Occupancy(topics)
    for slot in range(SLOTS):
        found = dict(occupancy.contents[slot])
        assert sum(found.values()) == occupancy.weights[slot]
    for number, (topic_id, count) in enumerate(shapes):
        own = {index: gateway for index, gateway in overridden.items() if index < count}
        led = Counter(slot_of(topic_id, index) for index in range(count) if index not in own)
        found = {
            slot: dict(here)[number] for slot, here in enumerate(occupancy.contents) if number in dict(here)
        }
        assert found == led
        assert occupancy.overridden[number] == Counter(own.values())
