"""How many aborted transactions are kept in memory, and whose go first."""

from __future__ import annotations

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


def test_those_of_open_segments_are_counted() -> None:
    cache, first, second = AbortedCache(), AbortedTransactions(), AbortedTransactions()
    for number in range(5):
        cache.add(first, AbortedTransaction(1, number, number, number + 1))
    cache.add(second, AbortedTransaction(1, 0, 1, 2))
    assert (len(first), len(second), cache.of_open_segments) == (5, 1, 6)
    cache.no_longer_open(first)
    assert cache.of_open_segments == 1
    cache.no_longer_open(second)
    assert (cache.of_open_segments, cache.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("count", "of_others", "is_full"),
    [
        (0, 0, False),
        (9, 0, False),
        (10, 0, True),
        (11, 0, True),
        (3, 17, False),
        (3, 18, True),
        (2, 100, False),
    ],
)
def test_a_segment_ends_that_has_very_many_or_many_where_all_have_too_many(
    monkeypatch: pytest.MonkeyPatch, count: int, of_others: int, is_full: bool
) -> None:
    monkeypatch.setattr(aborted_cache, "MAX_OF_SEGMENT", 10)
    monkeypatch.setattr(aborted_cache, "MANY", 3)
    monkeypatch.setattr(aborted_cache, "MAX_OF_OPEN_SEGMENTS", 20)
    cache, of_segment, others = AbortedCache(), AbortedTransactions(), AbortedTransactions()
    for segment, number in ((of_segment, count), (others, of_others)):
        for offset in range(number):
            cache.add(segment, AbortedTransaction(1, offset, offset, offset + 1))
    assert cache.is_full(of_segment) is is_full
