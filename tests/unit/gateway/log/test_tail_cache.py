"""What one partition has in the tail cache: how much it is, and what is given of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.log.tail_cache import COMPACT_AFTER, ENTRY_OVERHEAD_BYTES, HotBatches, TailCache

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def plain_read(
    batches: list[tuple[int, bytes]], offset: int, high_watermark: int, max_bytes: int, *, whole: bool
) -> list[bytes]:
    """What is to be given, looked at batch by batch: (last offset, bytes) of each."""
    found: list[bytes] = []
    for last, content in batches:
        if last < offset:
            continue
        if last >= high_watermark:
            break
        max_bytes -= len(content)
        if max_bytes < 0 and (found or not whole):
            break
        found.append(content)
    return found


def filled(hot: HotBatches, sizes: list[int], records: int) -> list[tuple[int, bytes]]:
    """Batches of these sizes, of so many records each: (last offset, bytes)."""
    batches = []
    for number, size in enumerate(sizes):
        last = (number + 1) * records - 1
        hot.append(number * records, last, bytes([number]) * size)
        batches.append((last, bytes([number]) * size))
    return batches


@given(SIZES, st.integers(1, 3), st.integers(0, 12), st.integers(0, 30), st.data())
def test_what_is_given_is_what_a_look_at_each_batch_finds(
    sizes: list[int], records: int, evicted: int, below: int, data: st.DataObject
) -> None:
    hot = HotBatches(TailCache(limit_bytes=1 << 30))
    batches = filled(hot, sizes, records)
    for _ in range(evicted):
        hot.evict_first()
    hot.drop_below(below)
    end = len(sizes) * records
    offset, high_watermark = data.draw(st.integers(0, end + 1)), data.draw(st.integers(0, end))
    max_bytes, whole = data.draw(st.integers(0, 60)), data.draw(st.booleans())
    found = hot.read(offset, high_watermark, max_bytes, whole=whole)
    assert (found is None) == (not hot.holds(offset))
    if found is not None:
        assert found == plain_read(batches, offset, high_watermark, max_bytes, whole=whole)
    size = hot.size(offset, high_watermark, max_bytes, whole=whole)
    assert size == (None if found is None else sum(map(len, found)))


def test_sizes_are_right_when_the_places_of_what_left_were_cut() -> None:
    cache = TailCache(limit_bytes=10 * (ENTRY_OVERHEAD_BYTES + 5))
    hot = HotBatches(cache)
    many = 2 * COMPACT_AFTER + 50
    for offset in range(many):
        hot.append(offset, offset, b"%05d" % (offset % 100_000))
    assert len(hot._ends) == len(hot._lasts) < COMPACT_AFTER + 100
    assert hot.size(many - 10, many, 1000, whole=False) == 50
    assert hot.read(many - 10, many, 12, whole=False) == [b"%05d" % (many - 10), b"%05d" % (many - 9)]
