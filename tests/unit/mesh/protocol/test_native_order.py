"""What a native consumer delivers, and what it asks for."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.protocol import native_order
from mesh.protocol.native_order import (
    CONSUMER_FETCH_COUNT,
    DEFAULT_LIMITS,
    MAX_CONSUMER_FETCHES,
    MAX_REORDER_RECORDS,
    TRIES_BEFORE_SKIP,
    Delivery,
    Limits,
    NativeOrder,
    from_first,
    from_next,
)
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from wireproto.dafka.messages import Fetch

A, B = "A1", "B2"


def content(sequence: int) -> bytes:
    return b"record %d" % sequence


def taken_from(order: NativeOrder) -> list[Delivery]:
    taken = []
    while order.ready:
        taken.append(order.take())
    return taken


def waiting(order: NativeOrder) -> list[tuple[str, int]]:
    return [
        (run.address, run.sequence + number) for run in order.ready for number in range(len(run.contents))
    ]


class Consumer:
    """The machine and its clock."""

    def __init__(self, *, from_beginning: bool = True, limits: Limits = DEFAULT_LIMITS) -> None:
        self.order = NativeOrder("t", "R1", from_first if from_beginning else from_next, limits)
        self.now = 0.0

    def hears(self, *sequences: int, address: str = A) -> None:
        for sequence in sequences:
            self.order.on_record(address, "t", sequence, content(sequence), self.now)

    def head(self, sequence: int, address: str = A) -> None:
        self.order.on_head(address, "t", sequence, self.now)

    def delivered(self, address: str = A) -> list[int]:
        taken = taken_from(self.order)
        assert all(each.content == content(each.sequence) for each in taken)
        return [each.sequence for each in taken if each.address == address]

    def asks(self, after: float = 0.0) -> list[tuple[int, int]]:
        self.now += after
        fetches = self.order.fetches(self.now)
        assert all((f.address, f.requester, f.subject, f.store) == (A, "R1", "t", "") for f in fetches)
        return [(fetch.sequence, fetch.count) for fetch in fetches]


COMPARES = Limits(compared_records=4)


@pytest.mark.parametrize(
    ("heard", "again", "is_found"),
    [
        ((0, 1, 2, 3, 4), 1, True),
        ((0, 1, 2, 3, 4), 4, True),
        ((0, 1, 2, 3, 4), 0, False),  # too long ago
        ((0, 2, 3), 3, True),  # out of turn
        ((0, 1), 2, False),  # it comes for the first time
    ],
)
def test_a_record_with_two_contents_is_found(heard: tuple[int, ...], again: int, is_found: bool) -> None:
    consumer = Consumer(limits=COMPARES)
    consumer.hears(*heard)
    delivered = consumer.delivered()
    consumer.hears(*heard)  # the same once more is none
    assert consumer.order.rewrites == {}
    consumer.order.on_record(A, "t", again, b"another", consumer.now)
    assert consumer.order.rewrites == ({A: again} if is_found else {})
    if again in heard:
        consumer.hears(*range(5))
        assert delivered + consumer.delivered() == list(range(5))  # with the contents that came first


def test_who_compares_nothing_finds_none() -> None:
    consumer = Consumer()
    consumer.hears(0, 1)
    consumer.order.on_record(A, "t", 1, b"another", consumer.now)
    assert consumer.order.rewrites == {}


def test_what_was_skipped_is_not_compared() -> None:
    consumer = Consumer(limits=COMPARES._replace(tries_before_skip=0))
    consumer.hears(0, 1)
    consumer.order.on_start(A, 4, consumer.now)
    consumer.asks(after=10)
    consumer.hears(4)
    consumer.order.on_record(A, "t", 3, b"skipped", consumer.now)
    assert consumer.delivered() == [0, 1, 4]
    assert consumer.order.rewrites == {}


def test_addresses_that_rewrite_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_order, "MAX_REWRITES", 1)
    consumer = Consumer(limits=COMPARES)
    for address in (A, B):
        consumer.hears(0, address=address)
        consumer.order.on_record(address, "t", 0, b"another", consumer.now)
    assert consumer.order.rewrites == {A: 0}


def test_how_far_the_reader_is_behind() -> None:
    consumer = Consumer()
    consumer.hears(0, 1)
    assert consumer.order.behind == 2
    consumer.head(5)
    assert consumer.order.behind == 6
    consumer.hears(4)
    consumer.order.take()
    assert consumer.order.behind == 5
    consumer.hears(2, 3, 5)
    assert consumer.delivered() == [1, 2, 3, 4, 5]
    assert consumer.order.behind == 0


@pytest.mark.parametrize(
    ("heard", "delivered"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0, 0, 1, 1, 0, 2], [0, 1, 2]),
        ([2, 1, 0], [0, 1, 2]),
        ([0, 2, 3, 1, 1, 4], [0, 1, 2, 3, 4]),
        ([0, 2, 3], [0]),
        ([5], []),
    ],
)
def test_in_order_and_each_once(heard: list[int], delivered: list[int]) -> None:
    consumer = Consumer()
    consumer.hears(*heard)
    assert consumer.delivered() == delivered


@pytest.mark.parametrize("seed", range(20))
def test_any_order_and_any_repetition_comes_out_in_order(seed: int) -> None:
    chance = random.Random(seed)
    heard = [*range(50), *(chance.randrange(50) for _ in range(50))]
    chance.shuffle(heard)
    consumer = Consumer()
    consumer.hears(*heard)
    assert consumer.delivered() == list(range(50))
    assert consumer.order._ahead_bytes == consumer.order._ready_bytes == 0


def test_latest_begins_at_the_first_record_or_behind_the_first_head() -> None:
    """A C consumer delivers the record of the first head, too, however old it is."""
    consumer = Consumer(from_beginning=False)
    consumer.hears(7, 8)
    assert consumer.delivered() == [7, 8]
    consumer.head(7, address=B)
    consumer.hears(8, address=B)
    assert consumer.delivered(B) == [8]
    assert consumer.asks(10.0) == []


def test_addresses_have_orders_of_their_own() -> None:
    consumer = Consumer()
    consumer.hears(1)
    consumer.hears(0, 1, address=B)
    assert consumer.delivered(B) == [0, 1]


def test_other_subjects_are_dropped() -> None:
    consumer = Consumer()
    consumer.order.on_record(A, "t10", 0, b"", 0.0)
    consumer.order.on_head(B, "t10", 3, 0.0)
    assert (consumer.delivered(), consumer.asks()) == ([], [])


def test_a_head_has_what_is_missing_fetched_with_back_off() -> None:
    consumer = Consumer()
    consumer.head(4)
    assert consumer.asks() == [(0, 5)]
    assert consumer.asks(0.09) == []
    assert [consumer.asks(wait) for wait in (0.02, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0)] == [[(0, 5)]] * 7
    consumer.hears(0, 1)
    assert consumer.asks(0.05) == []
    assert consumer.asks(0.05) == [(2, 3)]
    consumer.hears(2, 3, 4)
    assert consumer.delivered() == [0, 1, 2, 3, 4]
    assert consumer.asks(100.0) == []


def test_only_what_is_missing_is_fetched() -> None:
    consumer = Consumer()
    consumer.hears(0, 4, 5)
    assert consumer.asks() == [(1, 3)]
    consumer.hears(1, 2, 3)
    assert consumer.delivered() == [0, 1, 2, 3, 4, 5]


def test_a_long_log_is_fetched_range_by_range_without_a_pause() -> None:
    consumer = Consumer()
    consumer.head(2 * CONSUMER_FETCH_COUNT)
    for first, count in (
        (0, CONSUMER_FETCH_COUNT),
        (CONSUMER_FETCH_COUNT,) * 2,
        (2 * CONSUMER_FETCH_COUNT, 1),
    ):
        assert consumer.asks() == [(first, count)]
        # C stores send one more than was asked for.
        consumer.hears(*range(first, min(first + count, 2 * CONSUMER_FETCH_COUNT + 1)))
    assert len(consumer.delivered()) == 2 * CONSUMER_FETCH_COUNT + 1


def test_one_record_more_than_asked_for_does_no_harm() -> None:
    consumer = Consumer()
    consumer.head(CONSUMER_FETCH_COUNT + 10)
    consumer.asks()
    consumer.hears(*range(CONSUMER_FETCH_COUNT + 1))
    assert consumer.asks() == [(CONSUMER_FETCH_COUNT + 1, 10)]


def test_a_dead_producers_gap_is_given_up_until_something_is_heard() -> None:
    consumer = Consumer()
    consumer.head(0)
    asked = [consumer.asks(10.0) for _ in range(MAX_CONSUMER_FETCHES + 5)]
    assert asked == [[(0, 1)]] * MAX_CONSUMER_FETCHES + [[]] * 5
    consumer.head(0)
    assert consumer.asks(10.0) == [(0, 1)]


def test_what_no_store_has_any_more_is_skipped_and_counted() -> None:
    consumer = Consumer()
    consumer.head(9)
    consumer.order.on_start(A, 6, 0.0)
    consumer.order.on_start(A, 4, 0.0)
    for _ in range(TRIES_BEFORE_SKIP):
        assert consumer.asks(3.0) == [(0, 10)]
    assert consumer.asks(3.0) == [(4, 6)]
    consumer.hears(*range(4, 10))
    assert consumer.delivered() == [4, 5, 6, 7, 8, 9]
    assert consumer.order.skipped == 4


def test_another_store_that_has_the_beginning_prevents_the_skip() -> None:
    consumer = Consumer()
    consumer.head(2)
    consumer.order.on_start(A, 2, 0.0)
    consumer.asks()
    consumer.hears(0, 1)
    assert consumer.asks(3.0) == [(2, 1)]
    consumer.hears(2)
    assert (consumer.delivered(), consumer.order.skipped) == ([0, 1, 2], 0)


def test_a_skip_goes_on_with_what_is_here() -> None:
    consumer = Consumer()
    consumer.hears(5, 6)
    consumer.order.on_start(A, 5, 0.0)
    for _ in range(TRIES_BEFORE_SKIP + 1):
        consumer.asks(3.0)
    assert consumer.delivered() == [5, 6]
    assert consumer.order.skipped == 5


def test_records_far_ahead_are_dropped_and_fetched_later() -> None:
    consumer = Consumer()
    consumer.hears(MAX_REORDER_RECORDS + 1, 1)
    assert consumer.order.dropped == 1
    assert consumer.asks() == [(0, 1)]
    consumer.hears(0)
    assert consumer.delivered() == [0, 1]
    assert consumer.asks() == [(2, CONSUMER_FETCH_COUNT)]


def test_the_reorder_buffer_is_bounded_in_bytes() -> None:
    consumer = Consumer(limits=Limits(reorder_bytes=2 * (RECORD_OVERHEAD_BYTES + 8)))
    consumer.hears(1, 2, 3)
    assert consumer.order.dropped == 1
    consumer.hears(0)
    assert consumer.delivered() == [0, 1, 2]
    assert consumer.asks() == [(3, 1)]


def test_a_slow_reader_is_not_flooded() -> None:
    consumer = Consumer(limits=Limits(ready_bytes=2 * (RECORD_OVERHEAD_BYTES + 8)))
    consumer.hears(1, 2, 3)
    consumer.hears(0)
    assert waiting(consumer.order) == [(A, 0), (A, 1)]
    assert consumer.asks(1.0) == []
    assert consumer.delivered() == [0, 1]
    consumer.asks(0.1)
    assert consumer.delivered() == [2, 3], "what was here already needs no FETCH"
    consumer.hears(4, 5, 6)
    assert consumer.order.dropped == 1
    assert consumer.delivered() == [4, 5]
    assert consumer.asks(1.0) == [(6, 1)]


def test_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_order, "MAX_STREAMS", 1)
    consumer = Consumer()
    consumer.hears(0)
    consumer.hears(0, address=B)
    assert consumer.delivered() == [0]
    assert consumer.order.refused_addresses == 1


def test_a_fetch_is_what_every_store_reads() -> None:
    consumer = Consumer()
    consumer.head(0)
    assert consumer.order.fetches(0.0) == [Fetch(A, "R1", "t", 0, 1)]


def test_the_reader_says_where_an_address_begins_or_that_it_does_not_want_it() -> None:
    begins = {A: 3}
    order = NativeOrder("t", "R1", lambda address, _following: begins.get(address))
    for sequence in (1, 2, 3, 4):
        order.on_record(A, "t", sequence, content(sequence), 0.0)
        order.on_record(B, "t", sequence, content(sequence), 0.0)
    assert waiting(order) == [(A, 3), (A, 4)]
    begins[B] = 5
    order.on_record(B, "t", 5, content(5), 0.0)
    assert waiting(order) == [(A, 3), (A, 4), (B, 5)]


def test_what_is_forgotten_begins_anew_and_nothing_of_it_waits() -> None:
    begins = {A: 0, B: 0}
    order = NativeOrder("t", "R1", lambda address, _following: begins[address])
    for sequence in (0, 1, 5):
        order.on_record(A, "t", sequence, content(sequence), 0.0)
        order.on_record(B, "t", sequence, content(sequence), 0.0)
    begins[A] = 1
    order.forget([A])
    assert waiting(order) == [(B, 0), (B, 1)]
    assert all(fetch.address == B for fetch in order.fetches(1.0))
    order.on_record(A, "t", 1, content(1), 1.0)
    assert [order.take()[:2] for _ in range(3)] == [(B, 0), (B, 1), (A, 1)]
    order.forget([A, B, "never heard of"])
    assert order._ahead_bytes == order._ready_bytes == 0


def test_who_has_patience_waits_longer_before_it_skips() -> None:
    consumer = Consumer(limits=Limits(tries_before_skip=2 * TRIES_BEFORE_SKIP))
    consumer.hears(9)
    for _ in range(2 * TRIES_BEFORE_SKIP):
        consumer.order.on_start(A, 5, consumer.now)
        assert consumer.asks(2.0)
        assert not consumer.order.skipped
    consumer.asks(2.0)
    assert consumer.order.skipped == 5


def test_so_many_are_asked_for_at_once_and_others_the_next_time() -> None:
    order = NativeOrder("t", "R1", from_first, Limits(fetches_at_once=2))
    for address in "ABCDE":
        order.on_head(address, "t", 3, 0.0)
    asked = [fetch.address for _ in range(3) for fetch in order.fetches(0.0)]
    assert sorted(asked) == ["A", "B", "C", "D", "E"]


# many at once -----------------------------------------------------------------------------------------------

PARTS = st.lists(
    st.tuples(st.sampled_from((A, B)), st.integers(0, 40), st.integers(1, 12), st.integers(0, 9)), max_size=12
)
"""Address, first sequence, how many, and which of them has another content, if there are so many."""


@given(PARTS, st.sampled_from((0, 16)), st.booleans())
def test_many_at_once_are_as_one_by_one(
    parts: list[tuple[str, int, int, int]], compared: int, takes_at_once: bool
) -> None:
    together = Consumer(limits=Limits(compared_records=min(compared, 4), compared_ahead=compared)).order
    each = Consumer(limits=Limits(compared_records=compared)).order
    delivered: list[list[Delivery]] = [[], []]
    for now, (address, first, count, another) in enumerate(parts):
        contents = [content(sequence) for sequence in range(first, first + count)]
        if another < count:
            contents[another] += b", another"
        together.on_records(address, "t", first, contents, now)
        for sequence, one in enumerate(contents, first):
            each.on_record(address, "t", sequence, one, now)
        assert waiting(together) == waiting(each)
        assert together.behind == each.behind
        assert together.rewrites == each.rewrites
        assert (together.duplicates, together.dropped) == (each.duplicates, each.dropped)
        assert together._ready_bytes == each._ready_bytes
        if takes_at_once:
            delivered[0] += taken_from(together)
            delivered[1] += taken_from(each)
        assert together.fetches(now) == each.fetches(now)
    delivered[0] += taken_from(together)
    delivered[1] += taken_from(each)
    assert delivered[0] == delivered[1]
    assert together._ready_bytes == each._ready_bytes == 0


def test_many_at_once_find_room_together_or_not_at_all() -> None:
    consumer = Consumer(limits=Limits(ready_bytes=1))
    consumer.head(1)
    consumer.order.on_records(A, "t", 0, [content(0), content(1)], 0.0)
    consumer.order.on_records(A, "t", 1, [content(1), content(2), content(3)], 0.0)
    assert (consumer.order.duplicates, consumer.order.dropped) == (1, 2)
    assert consumer.delivered() == [0, 1]
    assert consumer.asks(1.0) == [(2, 2)]


def test_a_far_one_of_many_at_once_is_dropped_and_so_are_all_where_there_is_no_room() -> None:
    consumer = Consumer(limits=Limits(reorder_bytes=3 * (RECORD_OVERHEAD_BYTES + 8)))
    many = [content(sequence) for sequence in range(4096)]
    consumer.head(0)
    consumer.order.on_records(A, "t", 4090, many[:100], 0.0)
    assert consumer.order.dropped == 97, "three fit"
    consumer.order.on_records(A, "t", 5000, many, 0.0)
    assert consumer.order.dropped == 97 + 4096
    assert consumer.order._streams[A].last == 5000 + 4095
    near = Consumer()
    near.head(0)
    near.order.on_records(A, "t", MAX_REORDER_RECORDS - 1, many[:5], 0.0)
    assert near.order.dropped == 3, "as far ahead as each may be"


def test_of_an_address_that_is_not_followed_each_is_asked_for() -> None:
    asked: list[int] = []

    def begin(_address: str, following: int) -> int | None:
        asked.append(following)
        return 4 if following > 4 else None

    order = NativeOrder("t", "R1", begin)
    order.on_records(A, "t", 3, [content(sequence) for sequence in (3, 4, 5)], 0.0)
    assert asked == [3, 4, 5]
    assert order.behind == 2, "it begins at 4, which is asked for"
    order.on_records(A, "another", 4, [b"of another subject"], 0.0)
    assert waiting(order) == []


@pytest.mark.parametrize(("ahead", "again", "is_found"), [(16, 2, True), (16, 0, True), (0, 2, False)])
def test_more_are_compared_of_an_address_whose_records_come_many_at_once(
    ahead: int, again: int, is_found: bool
) -> None:
    consumer = Consumer(limits=Limits(compared_records=4, compared_ahead=ahead))
    consumer.hears(0, 1)
    consumer.order.on_records(A, "t", 2, [content(sequence) for sequence in range(2, 12)], 0.0)
    consumer.order.on_records(A, "t", 0, [content(sequence) for sequence in range(12)], 0.0)
    assert consumer.order.rewrites == {}
    consumer.order.on_records(A, "t", again, [b"another"], 0.0)
    assert consumer.order.rewrites == ({A: again} if is_found else {})
    assert consumer.order._compared_ahead == ahead
    consumer.order.forget([A])
    assert consumer.order._compared_ahead == 0


def test_what_is_remembered_of_many_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_order, "MAX_COMPARED_AHEAD", 24)
    consumer = Consumer(limits=Limits(compared_records=4, compared_ahead=16))
    for address in (A, B):
        consumer.head(9, address)
        consumer.order.on_records(address, "t", 0, [content(sequence) for sequence in range(10)], 0.0)
    assert [len(stream.checksums) for stream in consumer.order._streams.values()] == [16, 4]


def test_a_run_is_taken_as_it_came_and_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer()
    consumer.hears(0, 1)
    consumer.hears(0, address=B)
    consumer.hears(2)
    run = consumer.order.take_run()
    assert (run.address, run.sequence, list(run.contents)) == (A, 0, [content(0), content(1)])
    assert run.size == 2 * (len(content(0)) + RECORD_OVERHEAD_BYTES)
    assert consumer.order.behind == 2
    monkeypatch.setattr(native_order, "MAX_RUN_BYTES", 1)
    consumer.hears(3)
    assert [(run.address, run.sequence) for run in consumer.order.ready] == [(B, 0), (A, 2), (A, 3)]


def test_what_follows_of_one_address_is_asked_for_when_what_was_asked_for_is_here() -> None:
    consumer = Consumer(limits=Limits(fetch_records=2))
    consumer.head(9)
    consumer.head(9, address=B)
    assert [(one.address, one.sequence) for one in consumer.order.fetches(0.0)] == [(A, 0), (B, 0)]
    consumer.order.on_records(A, "t", 0, [content(0)], 0.0)
    assert consumer.order.fetches(0.0, (A,)) == [], "the other one is on its way"
    consumer.order.on_records(A, "t", 1, [content(1)], 0.0)
    assert consumer.order.fetches(0.0, (A, "never heard of")) == [Fetch(A, "R1", "t", 2, 2)]
