"""Which aborted transactions of a segment a reader must know, beside a filter that looks at all of them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.log.transactions.aborted import ENTRY_BYTES, AbortedTransaction, AbortedTransactions

THREE = (
    AbortedTransaction(1, 10, 15, 12),
    AbortedTransaction(2, 12, 17, 18),
    AbortedTransaction(1, 20, 25, 26),
)
"""The second one was open when the first one ended."""


def entries_of(*aborted: AbortedTransaction) -> AbortedTransactions:
    entries = AbortedTransactions()
    for one in aborted:
        entries.add(one)
    return entries


class Case(NamedTuple):
    """Who reads [offset, end) is told of these, and asks later segments or not."""

    offset: int
    end: int
    found: list[tuple[int, int]]
    goes_on: bool


CASES = {
    "before all": Case(0, 10, [], False),
    "the first offset": Case(0, 11, [(1, 10)], False),
    "as far as the next one's first offset": Case(0, 12, [(1, 10)], False),
    "behind that": Case(0, 13, [(1, 10), (2, 12)], False),
    "up to behind the second one's marker": Case(0, 18, [(1, 10), (2, 12)], False),
    "between two": Case(18, 20, [], False),
    "from the marker": Case(15, 16, [(1, 10), (2, 12)], False),
    "from behind the marker": Case(16, 17, [(2, 12)], False),
    "from behind the second one's marker": Case(18, 26, [(1, 20)], False),
    "up to behind the last marker": Case(0, 26, [(1, 10), (2, 12), (1, 20)], False),
    "as far as later segments": Case(0, 27, [(1, 10), (2, 12), (1, 20)], True),
    "behind all": Case(26, 27, [], True),
}


@pytest.mark.parametrize("name", CASES)
def test_who_reads_a_range_is_told_of_these(name: str) -> None:
    offset, end, expected, goes_on = CASES[name]
    found: list[tuple[int, int, int]] = []
    assert entries_of(*THREE).collect(offset, end, found) is goes_on
    assert [one[:2] for one in found] == expected
    ends = {(one.producer_id, one.first_offset): one.last_offset for one in THREE}
    assert [last for *_, last in found] == [ends[one] for one in expected]


def test_a_segment_without_any_leaves_it_to_later_ones() -> None:
    none = AbortedTransactions()
    found = [(7, 1, 2)]
    assert none.collect(0, 100, found)
    assert (found, len(none), none.bytes, none.lowest) == ([(7, 1, 2)], 0, 0, -1)


def test_what_was_found_in_earlier_segments_stays() -> None:
    found = [(7, 1, 2)]
    entries_of(*THREE).collect(0, 11, found)
    assert [one[:2] for one in found] == [(7, 1), (1, 10)]


@pytest.mark.parametrize(("firsts", "lowest"), [([5], 5), ([0], 0), ([9, 3, 7], 3), ([3, 0, 4], 0)])
def test_the_lowest_first_offset(firsts: list[int], lowest: int) -> None:
    """Markers come in their order, first offsets do not."""
    entries = entries_of(*(AbortedTransaction(1, one, 20 + n, 30) for n, one in enumerate(firsts)))
    assert (entries.lowest, len(entries), entries.bytes) == (lowest, len(firsts), len(firsts) * ENTRY_BYTES)


def test_numbers_of_64_bits_fit() -> None:
    found: list[tuple[int, int, int]] = []
    largest = 2**63 - 1
    entries_of(AbortedTransaction(largest, largest - 2, largest - 1, largest)).collect(0, largest, found)
    assert found == [(largest, largest - 2, largest - 1)]


# Each event is the next batch of a log: a producer, and what it does. What does not fit is passed over.
EVENTS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["write", "abort", "commit"]), st.integers(1, 2)),
    max_size=20,
)


class Written(NamedTuple):
    """A log of interleaved producers, in segments: of each its aborted transactions."""

    segments: list[list[AbortedTransaction]]
    end: int


def write(events: list[tuple[int, str, int]], roll_every: int) -> Written:
    segments: list[list[AbortedTransaction]] = [[]]
    still_open: dict[int, int] = {}
    end = 0
    for number, (producer_id, event, records) in enumerate(events, 1):
        if event == "write":
            still_open.setdefault(producer_id, end)
            end += records
        elif producer_id in still_open:
            first_offset = still_open.pop(producer_id)
            if event == "abort":
                later_begin = min(still_open.values(), default=end + 1)
                segments[-1].append(AbortedTransaction(producer_id, first_offset, end, later_begin))
            end += 1
        if not number % roll_every:
            segments.append([])
    return Written(segments, end)


@given(EVENTS, st.integers(1, 25))
@example([(1, "write", 1), (2, "write", 1), (2, "abort", 1), (1, "abort", 1)], 25)
@example([(1, "write", 1), (2, "write", 1), (2, "abort", 1), (1, "abort", 1)], 3)
def test_every_range_of_any_log_is_told_as_by_a_plain_filter(
    events: list[tuple[int, str, int]], roll_every: int
) -> None:
    """Also how far it is looked for: not behind a segment that says that no later one has any."""
    written = write(events, roll_every)
    everything = [one for segment in written.segments for one in segment]
    segments = [entries_of(*segment) for segment in written.segments]
    for offset in range(written.end + 1):
        for end in range(offset, written.end + 2):
            found: list[tuple[int, int, int]] = []
            for segment in segments:
                if not segment.collect(offset, end, found):
                    break
            assert found == [
                (one.producer_id, one.first_offset, one.last_offset)
                for one in everything
                if one.last_offset >= offset and one.first_offset < end
            ]


@given(EVENTS, st.integers(0, 40), st.integers(0, 20))
def test_later_segments_are_not_asked_where_nothing_can_be(
    events: list[tuple[int, str, int]], offset: int, size: int
) -> None:
    """Once a transaction has ended in the range's wake, with no older one open, all is known."""
    (segment,), end = write(events, 1000).segments, offset + size
    goes_on = entries_of(*segment).collect(offset, end, [])
    assert goes_on == all(one.later_begin < end for one in segment if one.last_offset >= offset)
