"""How many aborted transactions are kept in memory, and whose go first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from gateway.log.transactions import aborted_cache
from gateway.log.transactions.aborted import ENTRY_BYTES, AbortedTransaction, AbortedTransactions
from gateway.log.transactions.aborted_cache import SEGMENT_BYTES, AbortedCache


def entries(count: int) -> AbortedTransactions:
    of_segment = AbortedTransactions()
    for number in range(count):
        of_segment.add(AbortedTransaction(1, number, number, number + 1))
    return of_segment


def kept(cache: AbortedCache, *addresses: str) -> list[str]:
    """Those of these addresses that are there; they are used by that, in this order."""
    return [address for address in addresses if cache.get(address) is not None]


# closed segments ------------------------------------------------------------------------------------------


def test_what_is_put_is_got() -> None:
    cache, of_segment = AbortedCache(), entries(3)
    assert cache.get("A") is None
    cache.put("A", of_segment)
    assert cache.get("A") is of_segment
    assert cache.bytes == SEGMENT_BYTES + 3 * ENTRY_BYTES


def test_a_segment_without_any_takes_no_place() -> None:
    """Its chain says that it has none."""
    cache = AbortedCache()
    cache.put("A", AbortedTransactions())
    assert (cache.get("A"), cache.bytes) == (None, 0)


def test_the_same_segment_again_counts_once() -> None:
    cache, first = AbortedCache(), entries(3)
    cache.put("A", first)
    cache.put("A", entries(3))
    assert cache.get("A") is first
    assert cache.bytes == SEGMENT_BYTES + 3 * ENTRY_BYTES


def test_beyond_the_bound_the_one_that_was_asked_for_longest_ago_goes() -> None:
    size = SEGMENT_BYTES + ENTRY_BYTES
    cache = AbortedCache(3 * size)
    for address in "ABC":
        cache.put(address, entries(1))
    assert cache.bytes == 3 * size, "the bound itself may be reached"
    assert kept(cache, "A") == ["A"]
    cache.put("D", entries(1))
    assert (kept(cache, *"BCAD"), cache.bytes) == (["C", "A", "D"], 3 * size)
    cache.put("E", entries(1))
    assert kept(cache, *"CADE") == ["A", "D", "E"]


def test_a_large_one_takes_the_places_of_several() -> None:
    size = SEGMENT_BYTES + ENTRY_BYTES
    cache = AbortedCache(3 * size)
    for address in "ABC":
        cache.put(address, entries(1))
    cache.put("D", entries(2))
    assert (kept(cache, *"ABCD"), cache.bytes) == (["C", "D"], 2 * size + ENTRY_BYTES)


def test_one_that_is_larger_than_all_is_not_kept() -> None:
    cache = AbortedCache(SEGMENT_BYTES + ENTRY_BYTES)
    cache.put("A", entries(1))
    cache.put("B", entries(2))
    assert (kept(cache, "A", "B"), cache.bytes) == ([], 0)


# segments that are written now ----------------------------------------------------------------------------


def fill(cache: AbortedCache, count: int, end: Callable[[], None] = lambda: None) -> AbortedTransactions:
    """A segment that is written now, with so many."""
    of_segment = AbortedTransactions()
    for offset in range(count):
        cache.add(of_segment, AbortedTransaction(1, offset, offset, offset + 1), end)
    return of_segment


def test_those_of_open_segments_are_counted() -> None:
    cache = AbortedCache()
    first, second = fill(cache, 5), fill(cache, 1)
    assert (len(first), len(second), cache.of_open_segments) == (5, 1, 6)
    for _ in range(2):
        cache.no_longer_open(first)
        assert cache.of_open_segments == 1
    cache.no_longer_open(second)
    assert (cache.of_open_segments, cache.bytes) == (0, 0)


@pytest.mark.parametrize(("count", "is_full"), [(0, False), (9, False), (10, True), (11, True)])
def test_a_segment_ends_that_has_very_many(
    monkeypatch: pytest.MonkeyPatch, count: int, is_full: bool
) -> None:
    monkeypatch.setattr(aborted_cache, "MAX_OF_SEGMENT", 10)
    cache = AbortedCache()
    assert cache.is_full(fill(cache, count)) is is_full


@pytest.mark.parametrize(
    ("counts", "ended"),
    [
        ([20, 12], []),
        ([20, 13], [0]),
        ([1] * 32, []),
        ([1] * 33, list(range(17))),
        ([9, 7, 17], [2]),
        ([9, 15, 9], [1, 0]),
    ],
)
def test_where_all_have_too_many_the_largest_end(counts: list[int], ended: list[int]) -> None:
    cache, told = AbortedCache(most_open=32), list[int]()
    segments = [fill(cache, count, partial(told.append, place)) for place, count in enumerate(counts)]
    assert told == ended
    assert [place for place, one in enumerate(segments) if cache.is_full(one)] == sorted(ended)
    left = sum(counts) - sum(counts[place] for place in ended)
    for place in ended:
        cache.no_longer_open(segments[place])
    assert cache.of_open_segments == left
    assert not any(cache.is_full(one) for place, one in enumerate(segments) if place not in ended)


def test_who_could_not_end_is_told_so_again_and_not_with_each_that_comes() -> None:
    cache, told = AbortedCache(most_open=32), list[str]()
    first = fill(cache, 32, partial(told.append, "first"))
    second = fill(cache, 1, partial(told.append, "second"))
    assert told == ["first"]
    for more in range(2, 5):
        cache.add(second, AbortedTransaction(1, more, more, more + 1), partial(told.append, "second"))
        assert told == ["first"] * (1 + (more > 3))
    cache.no_longer_open(first)
    third = fill(cache, 28, partial(told.append, "third"))
    assert (cache.of_open_segments, told) == (32, ["first", "first"])
    cache.add(third, AbortedTransaction(1, 28, 28, 29), partial(told.append, "third"))
    assert told == ["first", "first", "third"]
