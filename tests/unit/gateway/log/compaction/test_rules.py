"""Which logs are compacted, how much of each, and which records stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.compaction.rules import KEY_BYTES, CompactionLimits, NewestOffsets, cleanable
from gateway.log.segment import UNKNOWN, Segment

NOW = 1_000_000
ANY = CompactionLimits(0.0, 0, 2**62)


def chain(*segments: tuple[int, int, int]) -> list[Segment]:
    """Closed segments of ten offsets: (size, age in ms, how far it is clean)."""
    made = []
    for number, (size, age, cleaned_to) in enumerate(segments):
        opened = Segment(str(number), 0, number * 10, ("s",), 1, NOW - age, cleaned_to=cleaned_to)
        made.append(opened.closed(number * 10 + 10, 9, NOW - age, size=size))
    return made


CLEAN, DIRTY = 10_000, UNKNOWN


@pytest.mark.parametrize(
    ("segments", "limits", "expected"),
    [
        ([], {}, (0, 0, 0, False)),
        ([(5, 9, DIRTY)], {}, (1, 0, 5, True)),
        ([(5, 9, 10)], {}, (0, 5, 0, False)),
        ([(6, 9, 10), (4, 5, DIRTY)], {}, (2, 6, 4, True)),
        # more than the ratio, not as much
        ([(6, 9, 10), (4, 5, DIRTY)], {"ratio": 0.4}, (2, 6, 4, False)),
        ([(6, 9, 10), (4, 5, DIRTY)], {"ratio": 0.39}, (2, 6, 4, True)),
        # a segment that is clean to its middle is dirty
        ([(6, 9, 10), (4, 5, 15), (3, 5, DIRTY)], {}, (3, 6, 7, True)),
        # too young: it and all behind it wait
        ([(6, 90, DIRTY), (4, 5, DIRTY), (3, 90, DIRTY)], {"least": 10}, (1, 0, 6, True)),
        ([(6, 5, DIRTY), (4, 90, DIRTY)], {"least": 10}, (0, 0, 0, False)),
        ([(6, 10, DIRTY)], {"least": 10}, (1, 0, 6, True)),
        # what is clean already may be young
        ([(6, 5, 10), (4, 90, DIRTY)], {"least": 10}, (2, 6, 4, True)),
        # overdue: whatever the ratio says
        ([(99, 9, 10), (1, 51, DIRTY), (1, 5, DIRTY)], {"ratio": 0.9, "most": 50}, (3, 99, 2, True)),
        ([(99, 9, 10), (1, 50, DIRTY), (1, 5, DIRTY)], {"ratio": 0.9, "most": 50}, (3, 99, 2, False)),
    ],
)
def test_what_is_compacted_and_when(
    segments: list[tuple[int, int, int]], limits: dict[str, Any], expected: tuple[int, int, int, bool]
) -> None:
    named = CompactionLimits(limits.get("ratio", 0.0), limits.get("least", 0), limits.get("most", 2**62))
    found = cleanable(chain(*segments), NOW, named)
    assert (found.segments, found.clean_bytes, found.dirty_bytes, found.is_due(named)) == expected


def test_an_open_segment_is_never_looked_at() -> None:
    opened = Segment("open", 0, 10, ("s",), 1, NOW)
    assert cleanable([*chain((5, 9, DIRTY)), opened], NOW, ANY).segments == 1


KEYS = st.lists(st.none() | st.binary(max_size=2), max_size=40)


@given(KEYS, st.integers(1, 50))
def test_the_newest_record_of_each_key_stays(keys: list[bytes | None], room: int) -> None:
    newest = NewestOffsets(room * KEY_BYTES)
    fits = newest.add(enumerate(keys))
    known = keys[: newest.upto]
    assert fits == (newest.upto == len(keys))
    assert len(newest) == len({key for key in known if key is not None}) <= room
    kept = [
        offset
        for offset, key in enumerate(keys)
        if newest.keeps(offset, key, has_value=True, keep_tombstones=False)
    ]
    last = {key: offset for offset, key in enumerate(known) if key is not None}
    assert kept == sorted([*last.values(), *range(newest.upto, len(keys))])


@pytest.mark.parametrize(
    ("has_value", "keep_tombstones", "stays"),
    [(True, False, True), (True, True, True), (False, True, True), (False, False, False)],
)
def test_a_tombstone_stays_as_long_as_it_is_told_to(
    has_value: bool, keep_tombstones: bool, stays: bool
) -> None:
    newest = NewestOffsets()
    newest.add([(4, b"key")])
    assert newest.keeps(4, b"key", has_value=has_value, keep_tombstones=keep_tombstones) == stays
    assert not newest.keeps(3, b"key", has_value=has_value, keep_tombstones=keep_tombstones)
    assert newest.keeps(5, b"key", has_value=has_value, keep_tombstones=keep_tombstones)
