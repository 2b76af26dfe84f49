"""Clusters for tests of the next table, and what is true of a table, counted without any of its code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from gateway.leadership.balance import Gateway
from gateway.leadership.next_table import NOBODY, Move, Why, next_moves
from gateway.leadership.slots import SLOTS, Occupancy, TopicShape, slot_of

EMPTY = [NOBODY] * SLOTS


class Sums(NamedTuple):
    """What a move makes smaller, the first before the second."""

    by_topic: int
    in_all: int


def led(owners: Sequence[int], topics: Iterable[TopicShape]) -> dict[bytes, Counter[int]]:
    """topic id -> gateway id -> how many of its partitions it leads."""
    counts: defaultdict[bytes, Counter[int]] = defaultdict(Counter)
    for topic in topics:
        for index in range(topic.partitions):
            counts[topic.id][owners[slot_of(topic.id, index)]] += 1
    return counts


def sums(owners: Sequence[int], topics: Iterable[TopicShape]) -> Sums:
    """Both sums of squares, over everybody who leads."""
    counts = led(owners, topics)
    in_all: Counter[int] = Counter()
    for of_topic in counts.values():
        in_all.update(of_topic)
    by_topic = sum(led * led for of_topic in counts.values() for led in of_topic.values())
    return Sums(by_topic, sum(led * led for led in in_all.values()))


def all_moves(
    owners: Sequence[int],
    gateways: Iterable[Gateway],
    topics: Iterable[TopicShape],
    orphans: Collection[int] = (),
    evened: int | None = None,
) -> list[Move]:
    """Every move until nothing is left to do."""
    moves = next_moves(owners, orphans, gateways, Occupancy(topics), evened)
    return [move for move in moves if move is not None]


def moved(owners: Sequence[int], moves: Iterable[Move]) -> list[int]:
    """The table after these moves, each of which says where its slot comes from."""
    after = list(owners)
    for move in moves:
        assert after[move.slot] == move.source
        after[move.slot] = move.target
    return after


def because(moves: Iterable[Move], *reasons: Why) -> list[Move]:
    """Those of the moves."""
    return [move for move in moves if move.why in reasons]


def even_table(gateways: Sequence[Gateway], topics: Iterable[TopicShape] = ()) -> list[int]:
    """The table of a new cluster of these."""
    return moved(EMPTY, all_moves(EMPTY, gateways, topics))


def topic(number: int, partitions: int, **preferred: int) -> TopicShape:
    """A topic that lies where its number says; `p3=7`: gateway 7 is to lead partition 3."""
    wanted = {int(name[1:]): gateway for name, gateway in preferred.items()}
    return TopicShape(number.to_bytes(16), partitions, wanted)


def spread(counts: Counter[int], gateways: Iterable[int]) -> int:
    """By how much the one that leads most is ahead of the one that leads least."""
    of_each = [counts[gateway] for gateway in gateways]
    return max(of_each) - min(of_each)


TOPICS = st.lists(
    st.builds(topic, st.integers(0, 10**6), st.sampled_from((1, 1, 2, 3, 5, 12, 50, 200))),
    max_size=8,
    unique_by=lambda one: one.id,
)

GATEWAYS = st.lists(
    st.builds(Gateway, st.integers(1, 999), st.sampled_from(("", "a", "b")), st.just(False)),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one.id,
)


@st.composite
def tables(draw: st.DrawFn, ids: Sequence[int]) -> list[int]:
    """Who leads each slot, in runs of all lengths: some of them nobody."""
    owners: list[int] = []
    while len(owners) < SLOTS:
        length = draw(st.sampled_from((1, 1, 1, 7, 100, SLOTS)))
        owners += [draw(st.sampled_from((NOBODY, *ids)))] * length
        if len(owners) < SLOTS and draw(st.booleans()):
            owners += [ids[slot % len(ids)] for slot in range(len(owners), SLOTS)]
    return owners[:SLOTS]
