"""When a gateway looks whether what it leads could be shared more evenly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from gateway.leadership.balance import Gateway
from gateway.leadership.evenness import PERIOD_SECONDS, Evenness
from gateway.leadership.slots import SLOTS, Occupancy, TopicShape, first_slot

ONE, TWO = Gateway(1), Gateway(2)
OWNERS = [1 + slot % 2 for slot in range(SLOTS)]
ORDERS = TopicShape(b"orders", 4)
AT = first_slot(ORDERS.id)
NOW = 1000.0


def looked() -> Evenness:
    """Nothing is to be moved."""
    evenness = Evenness()
    assert is_due(evenness), "at first"
    assert is_due(evenness), "until it has looked"
    evenness.looked(NOW)
    assert not is_due(evenness)
    return evenness


def is_due(
    evenness: Evenness,
    owners: Sequence[int] = OWNERS,
    gateways: Sequence[Gateway] = (ONE, TWO),
    topics: Sequence[TopicShape] = (ORDERS,),
) -> bool:
    return evenness.is_due(owners, gateways, Occupancy(topics))


def given(*slots: int) -> list[int]:
    """The table once these have gone to the other gateway."""
    return [3 - owner if slot in slots else owner for slot, owner in enumerate(OWNERS)]


@pytest.mark.parametrize(
    "topics",
    [(), (ORDERS, TopicShape(b"bills", 7)), (TopicShape(ORDERS.id, 9),)],
    ids=["deleted", "created", "more partitions"],
)
def test_topics_alone_are_no_reason(topics: Sequence[TopicShape]) -> None:
    assert not is_due(looked(), topics=topics)


@pytest.mark.parametrize(
    "different",
    [
        lambda one: is_due(one, gateways=(ONE,)),
        lambda one: is_due(one, gateways=(ONE, TWO, Gateway(3))),
        lambda one: is_due(one, gateways=(ONE, Gateway(2, draining=True))),
        lambda one: is_due(one, gateways=(ONE, Gateway(2, rack="b"))),
        lambda one: is_due(one, topics=(TopicShape(ORDERS.id, 4, {3: 1}),)),
        lambda one: is_due(one, owners=given(AT + 3)),
    ],
    ids=["one is gone", "one more", "draining", "another rack", "wanted elsewhere", "a partition has moved"],
)
def test_it_looks_when_gateways_wishes_or_leaders_are_different(
    different: Callable[[Evenness], bool],
) -> None:
    evenness = looked()
    assert different(evenness)
    assert different(evenness), "until it has looked"
    evenness.looked(NOW)
    assert not different(evenness)


def test_a_wish_that_is_taken_back_is_a_reason() -> None:
    evenness, wanted = looked(), (TopicShape(ORDERS.id, 4, {3: 1}),)
    assert is_due(evenness, topics=wanted)
    evenness.looked(NOW)
    assert not is_due(evenness, topics=wanted)
    assert is_due(evenness)


def test_a_slot_that_moves_with_nothing_in_it_is_no_reason() -> None:
    assert not is_due(looked(), owners=given(AT + 4))


def test_a_topic_that_is_created_in_a_slot_that_was_free_as_it_moved_is_no_reason() -> None:
    evenness = looked()
    assert not is_due(evenness, topics=())
    assert not is_due(evenness, owners=given(AT))


def test_it_looks_every_period_and_waits_for_nothing_while_a_look_is_due() -> None:
    evenness = looked()
    assert evenness.next_look == NOW + PERIOD_SECONDS
    evenness.at(NOW + PERIOD_SECONDS - 1)
    assert not is_due(evenness)
    evenness.at(NOW + PERIOD_SECONDS)
    assert evenness.next_look == math.inf, "or who waits until then waits for nothing, again and again"
    assert is_due(evenness)
    evenness.looked(NOW + PERIOD_SECONDS + 5)
    assert evenness.next_look == NOW + 2 * PERIOD_SECONDS + 5
    assert is_due(evenness, gateways=(ONE,))
    assert evenness.next_look == math.inf
