"""Which transactions are open, and up to where all is decided, beside a model that looks at everything."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.transactions.open_transactions import OpenTransactions


class Case(NamedTuple):
    """Begun at these offsets, ended (first offset, its marker's) in this order; stable then, by high
    watermark.
    """

    begun: list[int]
    ended: list[tuple[int, int]]
    stable: dict[int, int]
    first_open: int | None


CASES = {
    "nothing": Case([], [], {0: 0, 7: 7}, None),
    "one is open": Case([5], [], {3: 3, 5: 5, 9: 5}, 5),
    "the log's first record opens one": Case([0], [], {0: 0, 9: 0}, 0),
    "the oldest of several": Case([5, 8], [], {7: 5, 20: 5}, 5),
    "a marker that is not durable decides nothing": Case([5], [(5, 9)], {5: 5, 9: 5}, None),
    "a durable one does": Case([5], [(5, 9)], {10: 10, 12: 12}, None),
    "the next open one": Case([5, 7], [(5, 9)], {9: 5, 10: 7, 20: 7}, 7),
    "the younger one ends first": Case([5, 7], [(7, 9)], {9: 5, 20: 5}, 5),
    "both end, the younger one first": Case([5, 7], [(7, 9), (5, 10)], {10: 5, 11: 11}, None),
    "both end, the older one first": Case([5, 7], [(5, 9), (7, 12)], {9: 5, 10: 7, 12: 7, 13: 13}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_decided(name: str) -> None:
    case = CASES[name]
    transactions = OpenTransactions()
    for first_offset in case.begun:
        transactions.begin(first_offset)
    for first_offset, marker in case.ended:
        transactions.end(first_offset, marker)
    assert transactions.first_open() == case.first_open
    assert len(transactions) == len(case.begun) - len(case.ended)
    assert {end: transactions.last_stable_offset(end) for end in sorted(case.stable)} == case.stable


def test_one_is_undecided_until_its_marker_is_durable() -> None:
    transactions = OpenTransactions()
    assert not transactions
    transactions.begin(3)
    assert transactions
    transactions.end(3, 5)
    assert (bool(transactions), len(transactions)) == (True, 0)
    transactions.last_stable_offset(5)
    assert transactions
    transactions.last_stable_offset(6)
    assert not transactions


@given(st.sets(st.integers(0, 50)))
def test_those_that_were_open_are_read_in_any_order(first_offsets: set[int]) -> None:
    read = OpenTransactions(first_offsets)
    begun = OpenTransactions()
    for first_offset in sorted(first_offsets):
        begun.begin(first_offset)
    for transactions in (read, begun):
        for left in range(len(first_offsets), 0, -1):
            oldest = transactions.first_open()
            assert oldest == sorted(first_offsets)[-left]
            assert (len(transactions), transactions.last_stable_offset(60)) == (left, oldest)
            transactions.end(oldest, 60 - left)
        assert transactions.first_open() is None
        assert transactions.last_stable_offset(60) == 60


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.integers(1, 3)),
            st.tuples(st.just("end"), st.integers(0, 100)),
            st.tuples(st.just("durable"), st.integers(0, 6)),
        ),
        max_size=60,
    )
)
def test_any_order_of_events_is_as_a_plain_model_says(events: list[tuple[str, int]]) -> None:
    """The model keeps all that ever was, and looks through it."""
    transactions = OpenTransactions()
    ever: dict[int, int | None] = {}
    end = durable = stable = 0
    for event, number in events:
        still_open = [first for first, marker in ever.items() if marker is None]
        if event == "begin":
            transactions.begin(end)
            ever[end] = None
            end += number
        elif event == "end" and still_open:
            first_offset = still_open[number % len(still_open)]
            transactions.end(first_offset, end)
            ever[first_offset] = end
            end += 1
        elif event == "durable":
            durable = min(end, durable + number)
        undecided = [first for first, marker in ever.items() if marker is None or marker >= durable]
        was, stable = stable, transactions.last_stable_offset(durable)
        assert stable == min([durable, *undecided])
        assert stable >= was, "it never goes back"
        assert bool(transactions) == bool(undecided)
        still_open = [first for first, marker in ever.items() if marker is None]
        assert (len(transactions), transactions.first_open()) == (
            len(still_open),
            min(still_open, default=None),
        )
