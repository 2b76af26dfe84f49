"""Which slots go where: even by topic, with as few moves as it takes, and always the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.leadership.balance import SLACK, Gateway
from gateway.leadership.next_table import NOBODY, SLOTS_A_TURN, Move, Why, next_moves
from gateway.leadership.slots import SLOTS, Occupancy, TopicShape, slot_of
from tests.unit.gateway.leadership.tables import (
    EMPTY,
    GATEWAYS,
    TOPICS,
    Sums,
    all_moves,
    because,
    even_table,
    led,
    moved,
    spread,
    sums,
    tables,
    topic,
)

THREE = [Gateway(1), Gateway(2), Gateway(3)]
FEW = settings(max_examples=50)


def ids(gateways: Sequence[Gateway]) -> list[int]:
    return [gateway.id for gateway in gateways]


# from nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 10])
@pytest.mark.parametrize("partitions", [1, 2, 3, 12, 50, 1024, 3000])
def test_a_topic_is_even_in_a_new_cluster_and_one_that_is_created_later_as_well(
    count: int, partitions: int
) -> None:
    gateways = [Gateway(number) for number in range(1, count + 1)]
    owners = even_table(gateways)
    across = next(number for number in range(10_000) if slot_of(number.to_bytes(16), 0) == SLOTS - 1)
    laps = -(-partitions // SLOTS)
    for number in (1, 2, across):
        one = topic(number, partitions)
        # Where the ring ends its last slot and its first one may be the same gateway's.
        assert spread(led(owners, [one])[one.id], ids(gateways)) <= 1 + laps
        after = moved(owners, all_moves(owners, gateways, [one]))
        assert spread(led(after, [one])[one.id], ids(gateways)) <= max(1, laps - 1)


def test_the_first_table_gives_every_slot_once() -> None:
    moves = all_moves(EMPTY, THREE, [])
    assert sorted(move.slot for move in moves) == list(range(SLOTS))
    assert {(move.source, move.why) for move in moves} == {(NOBODY, Why.GONE)}


def test_without_a_gateway_nothing_moves() -> None:
    assert all_moves([1] * SLOTS, [], [topic(1, 5)]) == []


# what holds of every table ----------------------------------------------------------------------------------


@FEW
@given(gateways=GATEWAYS, topics=TOPICS, data=st.data())
def test_every_slot_is_led_in_the_end_and_then_nothing_moves_any_more(
    gateways: list[Gateway], topics: list[TopicShape], data: st.DataObject
) -> None:
    owners = data.draw(tables([*ids(gateways), 1000]))
    after = moved(owners, all_moves(owners, gateways, topics))
    assert set(after) <= set(ids(gateways))
    assert all_moves(after, gateways, topics) == []


@FEW
@given(gateways=GATEWAYS, topics=TOPICS, data=st.data())
def test_what_a_gateway_led_that_is_gone_is_all_that_moves_at_first(
    gateways: list[Gateway], topics: list[TopicShape], data: st.DataObject
) -> None:
    owners = data.draw(tables([*ids(gateways), 1000]))
    moves = all_moves(owners, gateways, topics)
    gone = because(moves, Why.GONE)
    assert moves[: len(gone)] == gone
    assert sorted(move.slot for move in gone) == [
        slot for slot, owner in enumerate(owners) if owner in (NOBODY, 1000)
    ]


@FEW
@given(gateways=GATEWAYS, topics=TOPICS, data=st.data())
def test_each_move_for_evenness_makes_a_sum_smaller_and_none_before_it_larger(
    gateways: list[Gateway], topics: list[TopicShape], data: st.DataObject
) -> None:
    """So moves end, from wherever they begin, and whoever has done some of them."""
    owners = data.draw(tables(ids(gateways)))
    moves = all_moves(owners, gateways, topics)
    owners = moved(owners, because(moves, Why.GONE))
    last = sums(owners, topics)
    for move in because(moves, Why.UNEVEN):
        owners = moved(owners, [move])
        now = sums(owners, topics)
        assert now < last
        last = now


@FEW
@given(gateways=GATEWAYS, topics=TOPICS, data=st.data())
def test_in_the_end_no_move_of_one_slot_would_make_it_more_even(
    gateways: list[Gateway], topics: list[TopicShape], data: st.DataObject
) -> None:
    """Counted here anew, without the code of the balance: by topic strictly, in all up to the slack."""
    owners = data.draw(tables(ids(gateways)))
    after = moved(owners, all_moves(owners, gateways, topics))
    now = sums(after, topics)
    partitions = sum(one.partitions for one in topics)
    slack = partitions // (len(gateways) * SLACK)
    occupied = sorted({slot_of(one.id, index) for one in topics for index in range(one.partitions)})
    for slot in occupied[:: max(1, len(occupied) // 10)]:
        weight = sum(slot_of(one.id, index) == slot for one in topics for index in range(one.partitions))
        for other in set(ids(gateways)) - {after[slot]}:
            then = sums([*after[:slot], other, *after[slot + 1 :]], topics)
            assert then.by_topic >= now.by_topic
            if then.by_topic == now.by_topic:
                assert now.in_all - then.in_all <= 2 * weight * slack


@FEW
@given(gateways=GATEWAYS, topics=TOPICS, data=st.data())
def test_it_is_the_same_whoever_computes_it(
    gateways: list[Gateway], topics: list[TopicShape], data: st.DataObject
) -> None:
    owners = data.draw(tables([*ids(gateways), 1000]))
    others = data.draw(st.permutations(gateways)), data.draw(st.permutations(topics))
    assert all_moves(owners, *others) == all_moves(owners, gateways, topics)


# few moves --------------------------------------------------------------------------------------------------


def apart(*partitions: int) -> list[TopicShape]:
    """Topics of so many partitions that have no slot in common."""
    topics: list[TopicShape] = []
    taken: set[int] = set()
    number = 0
    for count in partitions:
        while True:
            number += 1
            one = topic(number, count)
            slots = {slot_of(one.id, index) for index in range(count)}
            if not slots & taken:
                break
        taken |= slots
        topics.append(one)
    return topics


@FEW
@given(gateways=GATEWAYS, partitions=st.lists(st.integers(1, 60), min_size=1, max_size=4), data=st.data())
def test_topics_apart_are_as_even_as_can_be_with_as_few_moves_as_can_be(
    gateways: list[Gateway], partitions: list[int], data: st.DataObject
) -> None:
    topics = apart(*partitions)
    owners = data.draw(tables(ids(gateways)))
    assume(NOBODY not in owners)
    moves = because(all_moves(owners, gateways, topics), Why.UNEVEN)
    before, after = led(owners, topics), led(moved(owners, moves), topics)
    for one in topics:
        assert spread(after[one.id], ids(gateways)) <= 1
    if len(topics) == 1:
        assert len(moves) == fewest(before[topics[0].id], ids(gateways))


def fewest(counts: Counter[int], gateways: Sequence[int]) -> int:
    """As many as those who have too much have to give, where as many as can be may keep one more."""
    each, more = divmod(counts.total(), len(gateways))
    most = sorted((counts[gateway] for gateway in gateways), reverse=True)
    return sum(max(0, count - each - (place < more)) for place, count in enumerate(most))


@FEW
@given(partitions=st.integers(1, 60), gone=st.sampled_from((1, 2, 3, 4)))
def test_one_that_comes_back_takes_its_share_and_nobody_else_moves_anything(
    partitions: int, gone: int
) -> None:
    gateways = [*THREE, Gateway(4)]
    topics = apart(partitions)
    owners = even_table(gateways, topics)
    left = [gateway for gateway in gateways if gateway.id != gone]
    without = moved(owners, all_moves(owners, left, topics))
    back = because(all_moves(without, gateways, topics), Why.UNEVEN)
    assert {move.target for move in back} <= {gone}
    assert len(back) in {partitions // len(gateways), -(-partitions // len(gateways))}


def test_counts_that_differ_by_one_are_left_alone() -> None:
    one = topic(1, 4)
    first = slot_of(one.id, 0)
    owners = even_table(THREE)
    owners[first : first + 4] = [3, 3, 1, 2]
    assert because(all_moves(owners, THREE, [one]), Why.UNEVEN) == []
    owners[first : first + 4] = [3, 3, 1, 1]
    assert because(all_moves(owners, THREE, [one]), Why.UNEVEN) == [Move(first, 3, 2, Why.UNEVEN)]


def test_a_topic_is_spread_even_where_all_topics_together_are_even() -> None:
    one, two = apart(2, 2)
    gateways = THREE[:2]
    owners = even_table(gateways)
    for shape, gateway in ((one, 1), (two, 2)):
        first = slot_of(shape.id, 0)
        owners[first : first + 2] = [gateway] * 2
    after = moved(owners, all_moves(owners, gateways, [one, two]))
    assert led(after, [one, two]) == {one.id: {1: 1, 2: 1}, two.id: {1: 1, 2: 1}}


def test_topics_of_one_partition_are_even_in_all() -> None:
    topics = apart(*[1] * 30)
    owners = [1] * SLOTS
    moves = because(all_moves(owners, THREE, topics), Why.UNEVEN)
    assert len(moves) == 20
    total: Counter[int] = Counter()
    for counts in led(moved(owners, moves), topics).values():
        total.update(counts)
    assert total == {1: 10, 2: 10, 3: 10}


def test_a_small_difference_of_many_moves_nothing() -> None:
    topics = apart(*[1] * 200)
    gateways = THREE[:2]
    owners = even_table(gateways)
    for number, one in enumerate(topics):
        owners[slot_of(one.id, 0)] = 1 if number < 102 else 2
    assert because(all_moves(owners, gateways, topics), Why.UNEVEN) == [], "102 and 98"
    for number, one in enumerate(topics):
        owners[slot_of(one.id, 0)] = 1 if number < 120 else 2
    assert len(because(all_moves(owners, gateways, topics), Why.UNEVEN)) == 17, "until 103 and 97"


def test_what_moves_first_gains_most() -> None:
    small, large = apart(3, 30)
    owners = even_table(THREE)
    for one in (small, large):
        first = slot_of(one.id, 0)
        owners[first : first + one.partitions] = [1] * one.partitions
    moves = next_moves(owners, (), THREE, Occupancy([small, large]))
    assert next(move for move in moves if move is not None).slot == slot_of(large.id, 0)


def test_some_moves_and_another_look_end_as_evenly_as_all_at_once() -> None:
    topics = apart(40, 7)
    gateways = [*THREE, Gateway(4)]
    owners, looks = [1] * SLOTS, 0
    while moves := because(all_moves(owners, gateways, topics), Why.UNEVEN):
        owners = moved(owners, moves[:3])
        looks += 1
    assert looks == 12
    assert all(spread(counts, ids(gateways)) <= 1 for counts in led(owners, topics).values())


def test_others_have_their_turn_while_it_looks() -> None:
    topics = apart(40)
    steps = list(next_moves(even_table(THREE), (), THREE, Occupancy(topics)))
    taken = sum(map(bool, Occupancy(topics).weights))
    assert len(steps) == taken // SLOTS_A_TURN + SLOTS // SLOTS_A_TURN, "for what is uneven, and what is free"
    assert set(steps) == {None}


@pytest.mark.parametrize("evened", [1, 2, NOBODY])
def test_one_gateway_makes_the_table_even_with_what_it_leads_itself(evened: int) -> None:
    """Each by itself, and in turn, they come to an end that is as good."""
    topics = apart(40, 7)
    owners = [1 if slot % 2 else 2 for slot in range(SLOTS)]
    moves = all_moves(owners, [*THREE, Gateway(4)], topics, evened=evened)
    assert {move.source for move in because(moves, Why.UNEVEN)} <= {evened}
    assert bool(because(moves, Why.UNEVEN)) == (evened != NOBODY)


def test_all_gateways_in_turn_end_as_evenly_as_one_that_does_it_all() -> None:
    topics = apart(40, 7)
    gateways = [*THREE, Gateway(4)]
    owners, idle = [1 if slot % 2 else 2 for slot in range(SLOTS)], 0
    for number in islice(cycle(ids(gateways)), 4 * SLOTS):
        moves = because(all_moves(owners, gateways, topics, evened=number), Why.UNEVEN)
        owners = moved(owners, moves[:1])
        idle = 0 if moves else idle + 1
        if idle == len(gateways):
            break
    assert idle == len(gateways)
    assert all(spread(counts, ids(gateways)) <= 1 for counts in led(owners, topics).values())
    assert because(all_moves(owners, gateways, topics), Why.UNEVEN) == []


# partitions that somebody wants a certain gateway to lead ---------------------------------------------------


def test_a_slot_goes_where_somebody_wants_it_and_the_others_become_even_around_it() -> None:
    plain = topic(1, 6)
    owners = even_table(THREE, [plain])
    wanted = topic(1, 6, p0=2, p1=2, p2=2, p3=2)
    moves = all_moves(owners, THREE, [wanted])
    slots = [slot_of(wanted.id, index) for index in range(6)]
    assert [move.slot for move in because(moves, Why.PREFERRED)] == sorted(
        slot for slot in slots[:4] if owners[slot] != 2
    )
    after = moved(owners, moves)
    assert [after[slot] for slot in slots[:4]] == [2] * 4
    assert sorted(after[slot] for slot in slots[4:]) == [1, 3]
    assert all_moves(after, THREE, [wanted]) == []


def test_while_the_preferred_leader_is_away_or_drains_others_lead_and_it_has_it_back_then() -> None:
    wanted = topic(1, 1, p0=2)
    slot = slot_of(wanted.id, 0)
    owners = even_table(THREE, [wanted])
    assert owners[slot] == 2
    for gateways in (THREE[::2], [Gateway(1), Gateway(2, draining=True), Gateway(3)]):
        without = moved(owners, all_moves(owners, gateways, [wanted]))
        assert without[slot] in (1, 3)
        assert because(all_moves(without, THREE, [wanted]), Why.PREFERRED) == [
            Move(slot, without[slot], 2, Why.PREFERRED)
        ]


def test_what_nobody_leads_any_more_goes_where_somebody_wants_it_at_once() -> None:
    wanted = topic(1, 40, **{f"p{index}": 1 for index in range(40)})
    owners = [3] * SLOTS
    gone = because(all_moves(owners, THREE[:2], [wanted]), Why.GONE)
    slots = {slot_of(wanted.id, index) for index in range(40)}
    assert {move.target for move in gone if move.slot in slots} == {1}


@FEW
@given(gateways=GATEWAYS, topics=TOPICS, wishes=st.data())
def test_with_wishes_moves_end_as_well_and_every_wish_that_can_be_is_met(
    gateways: list[Gateway], topics: list[TopicShape], wishes: st.DataObject
) -> None:
    preferences = st.dictionaries(st.integers(0, 60), st.sampled_from([*ids(gateways), 1000]), max_size=6)
    wanted = [one._replace(preferred=wishes.draw(preferences)) for one in topics]
    owners = wishes.draw(tables([*ids(gateways), 1000]))
    after = moved(owners, all_moves(owners, gateways, wanted))
    occupancy = Occupancy(wanted)
    for slot in range(SLOTS):
        assert after[slot] in ids(gateways)
        if occupancy.preferred(slot) in ids(gateways):
            assert after[slot] == occupancy.preferred(slot)
    assert all_moves(after, gateways, wanted) == []


# lives that are over, and gateways that are draining --------------------------------------------------------


def test_one_that_is_alive_again_keeps_its_slots() -> None:
    topics = apart(40, 7)
    owners = even_table(THREE, topics)
    orphans = {slot for slot, owner in enumerate(owners) if owner == 2}
    moves = all_moves(owners, THREE, topics, orphans)
    assert moves == [Move(slot, 2, 2, Why.BACK) for slot in sorted(orphans)]


def test_one_that_is_alive_again_keeps_what_nobody_has_taken_meanwhile() -> None:
    owners = even_table(THREE)
    taken = [slot for slot, owner in enumerate(owners) if owner == 2][:100]
    for slot in taken:
        owners[slot] = 3
    orphans = {slot for slot, owner in enumerate(owners) if owner == 2}
    moves = all_moves(owners, THREE, [], orphans)
    assert because(moves, Why.BACK) == [Move(slot, 2, 2, Why.BACK) for slot in sorted(orphans)]
    assert because(moves, Why.FREE) == [Move(slot, 3, 2, Why.FREE) for slot in taken]
    assert len(moves) == len(orphans) + len(taken)


def test_the_heaviest_of_a_gone_gateways_slots_find_their_place_first() -> None:
    heavy, light = topic(1, 3000), topic(2, 5)
    weights = Occupancy([heavy, light]).weights
    owners = [3] * SLOTS
    gone = because(all_moves(owners, THREE[:2], [heavy, light]), Why.GONE)
    assert [weights[move.slot] for move in gone] == sorted(weights, reverse=True)


@FEW
@given(topics=TOPICS, data=st.data())
def test_one_that_is_draining_leads_nothing_in_the_end_and_gives_before_anything_else_moves(
    topics: list[TopicShape], data: st.DataObject
) -> None:
    owners = data.draw(tables([1, 2, 3]))
    gateways = [Gateway(1), Gateway(2, draining=True), Gateway(3)]
    moves = all_moves(owners, gateways, topics)
    assert set(moved(owners, moves)) <= {1, 3}
    given_up = [slot for slot, owner in enumerate(owners) if owner == 2]
    draining = because(moves, Why.DRAINING)
    assert sorted(move.slot for move in draining) == given_up
    gone = len(because(moves, Why.GONE))
    assert moves[gone : gone + len(draining)] == draining


def test_where_all_are_draining_they_go_on_leading() -> None:
    gateways = [Gateway(1, draining=True), Gateway(2, draining=True)]
    owners = even_table(gateways)
    assert Counter(owners) == {1: 512, 2: 512}
    assert all_moves(owners, gateways, []) == []


def test_what_a_draining_gateway_led_in_a_life_that_is_over_goes_to_others() -> None:
    gateways = [Gateway(1), Gateway(2, draining=True)]
    owners = [2] * SLOTS
    moves = all_moves(owners, gateways, [], range(SLOTS))
    assert moves == [Move(slot, 2, 1, Why.GONE) for slot in range(SLOTS)]


# free slots -------------------------------------------------------------------------------------------------


def test_free_slots_go_round_the_ring_again_when_a_gateway_comes() -> None:
    one = topic(1, 40)
    owners = even_table(THREE, [one])
    gateways = [*THREE, Gateway(4)]
    moves = all_moves(owners, gateways, [one])
    after = moved(owners, moves)
    occupied = {slot_of(one.id, index) for index in range(40)}
    assert {move.slot for move in because(moves, Why.FREE)}.isdisjoint(occupied)
    assert all(after[slot] == slot % 4 + 1 for slot in set(range(SLOTS)) - occupied)
    assert len(because(moves, Why.UNEVEN)) == 10


# racks ------------------------------------------------------------------------------------------------------


def test_partitions_of_a_topic_are_in_other_racks_where_there_are_some() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    gateways = [Gateway(number, rack) for number, rack in racks.items()]
    topics = apart(*[2] * 40)
    for owners in (even_table(gateways), even_table(gateways, topics)):
        for counts in led(owners, topics).values():
            assert {racks[gateway] for gateway in counts} == {"a", "b"}


def test_slots_of_a_gateway_that_is_gone_go_to_another_rack_than_the_topic_has() -> None:
    gateways = [Gateway(1, "a"), Gateway(2, "b"), Gateway(4, "a"), Gateway(5, "c")]
    turns = set()
    for number in range(1, 20):  # whoever's turn it is round the ring
        one = topic(number, 3)
        first = slot_of(one.id, 0)
        turns.add(first % len(gateways))
        owners = even_table(gateways)
        owners[first : first + 3] = [1, 2, 3]
        gone = because(all_moves(owners, gateways, [one]), Why.GONE)
        assert gone == [Move(first + 2, 3, 5, Why.GONE)]
    assert turns == set(range(len(gateways)))


def test_a_rack_alone_is_no_reason_to_move() -> None:
    one = topic(1, 2)
    first = slot_of(one.id, 0)
    gateways = [Gateway(1, "a"), Gateway(2, "a"), Gateway(3, "b")]
    owners = even_table(gateways)
    owners[first : first + 2] = [1, 2]
    assert because(all_moves(owners, gateways, [one]), Why.UNEVEN) == []


def test_sums_are_those_of_squares() -> None:
    """What the properties above rest on."""
    one, two = apart(2, 1)
    owners = [1] * SLOTS
    assert sums(owners, [one, two]) == Sums(4 + 1, 9)
    owners[slot_of(one.id, 1)] = 2
    assert sums(owners, [one, two]) == Sums(1 + 1 + 1, 4 + 1)
    steps = [Sums(5, 9), Sums(3, 5), Sums(3, 4), Sums(2, 100)]
    assert all(after < before for before, after in pairwise(steps))
