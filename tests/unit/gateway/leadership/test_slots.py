"""Which slot a partition is in."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.leadership.slots import SLOTS, Occupancy, TopicShape, slot_of, topic_id_for

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


@given(st.lists(st.tuples(IDS, st.integers(0, 2500)), max_size=4, unique_by=lambda one: one[0]))
def test_every_partition_is_counted_once(shapes: list[tuple[bytes, int]]) -> None:
    occupancy = Occupancy(TopicShape(topic_id, count) for topic_id, count in shapes)
    for slot in range(SLOTS):
        found = dict(occupancy.contents[slot])
        assert sum(found.values()) == occupancy.weights[slot]
    for number, (topic_id, count) in enumerate(shapes):
        found = {
            slot: dict(here)[number] for slot, here in enumerate(occupancy.contents) if number in dict(here)
        }
        assert found == Counter(slot_of(topic_id, index) for index in range(count))


@given(st.text(min_size=1), st.uuids(version=4), st.uuids(version=4))
def test_topics_of_one_name_have_other_ids_and_the_same_slots(name: str, first: UUID, second: UUID) -> None:
    ids = [topic_id_for(name, drawn) for drawn in (first, second)]
    assert slot_of(ids[0], 0) == slot_of(ids[1], 0)
    for made, drawn in zip(ids, (first, second), strict=True):
        assert (UUID(bytes=made).version, made[:12]) == (4, drawn.bytes[:12])


def test_topics_of_many_names_are_spread_over_the_slots() -> None:
    taken = Counter(slot_of(topic_id_for(f"topic-{n}", UUID(int=n)), 0) for n in range(SLOTS))
    assert len(taken) > SLOTS // 2
    assert max(taken.values()) < 10


def test_the_first_partition_of_a_slot_decides_where_several_are_wanted_elsewhere() -> None:
    """Whoever counts, and in whatever order: two gateways may have taken two wishes at the same moment."""
    shapes = [
        TopicShape(bytes(16), 3000, {SLOTS: 5, 0: 4, 1: 6, 3000: 7}),
        TopicShape(bytes(range(16)), 3, {2: 9}),
    ]
    for topics in (shapes, shapes[::-1]):
        occupancy = Occupancy(topics)
        wanted = {slot: occupancy.preferred(slot) for slot in range(SLOTS)}
        assert {slot: gateway for slot, gateway in wanted.items() if gateway is not None} == {
            slot_of(bytes(16), 0): 4,
            slot_of(bytes(16), 1): 6,
            slot_of(bytes(range(16)), 2): 9,
        }
