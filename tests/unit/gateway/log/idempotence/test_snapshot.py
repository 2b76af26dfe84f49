"""The state of idempotent producers as bytes, and rebuilt from rows."""

import random
import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.idempotence.producer import MAX_PRODUCERS, MAX_SEQUENCE
from gateway.log.idempotence.sequences import Duplicate
from gateway.log.idempotence.snapshot import MAX_SNAPSHOT_BYTES, InvalidSnapshot
from gateway.log.idempotence.state import PRODUCER_ID_EXPIRATION_MS, ProducerState
from wireproto.records.row import Row

NOW = 1_700_000_000_000


def row(
    base_offset: int, count: int, producer_id: int, sequence: int, epoch: int = 0, attributes: int = 0
) -> Row:
    return Row(
        base_offset=base_offset,
        last_offset=base_offset + count - 1,
        max_timestamp=5_000 + base_offset,
        running_max_timestamp=9_999,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=attributes,
        size=100,
    )


def test_the_bytes_of_version_1() -> None:
    state = ProducerState()
    state.applied(0x0102, 3, 7, 21, 2, 0x0A0B, NOW)
    expected = bytes.fromhex(
        "01 00000001"  # version, producers
        "0000000000000102 0003 0000018bcfe56800 01"  # id, epoch, last heard, batches
        "00000008 00000001 0000000000000015 0000000000000a0b"  # last sequence, before, last offset, time
    )
    assert state.snapshot(NOW) == expected
    assert ProducerState.from_snapshot(expected, NOW).check(0x0102, 3, 7, 2) == Duplicate(20, 21, 0x0A0B)


def test_an_empty_state_is_five_bytes() -> None:
    assert ProducerState().snapshot(NOW) == b"\x01\0\0\0\0"
    assert ProducerState.from_snapshot(b"\x01\0\0\0\0", NOW).count == 0


def test_what_has_expired_is_left_out_and_dropped() -> None:
    state = ProducerState()
    state.applied(1, 0, 0, 0, 1, 0, NOW)
    state.applied(2, 0, 0, 1, 1, 0, NOW + 500)
    later = NOW + PRODUCER_ID_EXPIRATION_MS
    both = state.snapshot(NOW + 500)
    only_second = state.snapshot(later)
    assert ProducerState.from_snapshot(both, NOW + 500).snapshot(later) == only_second
    restored = ProducerState.from_snapshot(both, later)
    assert (1 in restored, 2 in restored) == (False, True)


def test_a_full_state_has_the_size_that_the_constant_says() -> None:
    state = ProducerState()
    for batch in range(5):
        for producer_id in range(MAX_PRODUCERS + 10):
            state.applied(producer_id, 0, batch, batch * 10_000 + producer_id, 1, 0, NOW)
    assert state.count == MAX_PRODUCERS
    for producer_id in range(10, MAX_PRODUCERS):
        for batch in range(5):
            state.applied(producer_id, 0, batch, batch * 10_000 + producer_id, 1, 0, NOW)
    assert len(state.snapshot(NOW)) <= MAX_SNAPSHOT_BYTES
    full = state.snapshot(NOW)
    assert ProducerState.from_snapshot(full, NOW).snapshot(NOW) == full
    assert ProducerState.from_snapshot(full, NOW, max_producers=7).count == 7


def test_the_order_of_use_survives() -> None:
    state = ProducerState(max_producers=2)
    state.applied(1, 0, 0, 0, 1, 0, NOW)
    state.applied(2, 0, 0, 1, 1, 0, NOW)
    state.applied(1, 0, 1, 2, 1, 0, NOW)
    restored = ProducerState.from_snapshot(state.snapshot(NOW), NOW, max_producers=2)
    restored.applied(3, 0, 0, 3, 1, 0, NOW)
    assert [n for n in (1, 2, 3) if n in restored] == [1, 3]


GOOD = bytes.fromhex("01 00000001 0000000000000102 0003 0000018bcfe56800 01") + struct.pack(
    ">IIqq", 8, 1, 21, 0
)
DAMAGED = {
    "nothing": b"",
    "a newer version": b"\x02" + GOOD[1:],
    "cut short": GOOD[:-1],
    "left over": GOOD + b"\0",
    "more producers than bytes": b"\x01\xff\xff\xff\xff" + GOOD[5:],
    "a negative producer": GOOD[:5] + b"\xff" + GOOD[6:],
    "a producer twice": b"\x01\0\0\0\x02" + GOOD[5:] * 2,
    "no batch": GOOD[:23] + b"\0",
    "six batches": GOOD[:23] + b"\x06" + GOOD[24:] * 6,
    "a sequence with 32 bits": GOOD[:24] + struct.pack(">IIqq", MAX_SEQUENCE + 1, 1, 21, 0),
    "more records than offsets": GOOD[:24] + struct.pack(">IIqq", 50, 30, 21, 0),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_bytes_are_refused(name: str) -> None:
    assert ProducerState.from_snapshot(GOOD, NOW).count == 1
    with pytest.raises(InvalidSnapshot):
        ProducerState.from_snapshot(DAMAGED[name], NOW)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=90).map(lambda tail: b"\x01\0\0\0\x01" + tail)))
def test_any_bytes_are_a_snapshot_or_refused(data: bytes) -> None:
    try:
        state = ProducerState.from_snapshot(data, 0)
    except InvalidSnapshot:
        return
    assert ProducerState.from_snapshot(state.snapshot(0), 0).snapshot(0) == state.snapshot(0)


@dataclass
class Written:
    """A log written by several producers: each batch's row, and the state after each of them."""

    rows: list[Row]
    snapshots: list[bytes]


def write_log(seed: int, batches: int) -> Written:
    chance = random.Random(seed)
    state, written, end = ProducerState(), Written([], [ProducerState().snapshot(NOW)]), 0
    standing = dict.fromkeys((10, 11, 12), (0, 0))
    for _ in range(batches):
        producer_id, count = chance.choice([10, 11, 12, -1]), chance.randint(1, 5)
        epoch, sequence = standing.get(producer_id, (-1, -1))
        if producer_id > 0 and chance.random() < 0.1:
            epoch, sequence = epoch + 1, 0
        written.rows.append(row(end, count, producer_id, sequence, epoch))
        end += count
        assert state.check(producer_id, epoch, sequence, count) is None
        state.applied(producer_id, epoch, sequence, end - 1, count, written.rows[-1].max_timestamp, NOW)
        if producer_id > 0:
            standing[producer_id] = (epoch, sequence + count)
        written.snapshots.append(state.snapshot(NOW))
    return written


@pytest.mark.parametrize("seed", range(5))
def test_snapshot_and_rows_give_the_state_that_was(seed: int) -> None:
    """Wherever the snapshot was taken, and also when the rows begin before it."""
    written = write_log(seed, 60)
    for taken in (0, 1, 17, 42, 60):
        for first in (0, taken // 2, taken):
            state = ProducerState.from_snapshot(written.snapshots[taken], NOW)
            for each in written.rows[first:]:
                state.apply_row(each, NOW)
            assert sorted_producers(state.snapshot(NOW)) == sorted_producers(written.snapshots[-1])


def sorted_producers(snapshot: bytes) -> list[bytes]:
    """Each producer's part: rows that were covered already leave the order of use as the snapshot had it."""
    parts, position = [], 5
    while position < len(snapshot):
        size = 19 + 24 * snapshot[position + 18]
        parts.append(snapshot[position : position + size])
        position += size
    return sorted(parts)


def test_rows_without_a_sequence_change_nothing() -> None:
    state = ProducerState()
    state.apply_row(row(0, 3, -1, -1), NOW)
    state.apply_row(row(3, 1, 77, -1, attributes=0x30), NOW)  # a transaction marker
    state.apply_row(row(4, 1, 77, 5, attributes=0x20), NOW)
    assert state.count == 0


def test_a_row_covers_its_offsets_not_its_records() -> None:
    """A compacted batch keeps its range of offsets, so the sequence goes on where the original ended."""
    state = ProducerState()
    state.apply_row(row(100, 50, 7, 0), NOW)
    assert state.check(7, 0, 50, 1) is None
    assert state.check(7, 0, 0, 50) == Duplicate(100, 149, 5_100)


def test_of_more_producers_than_are_kept_those_heard_last_are_read() -> None:
    state = ProducerState()
    for producer_id in range(5):
        state.applied(producer_id, 0, 0, producer_id, 1, 0, NOW + producer_id)
    fewer = ProducerState.from_snapshot(state.snapshot(NOW), NOW, max_producers=3)
    assert [known[0] for known in fewer.active(NOW)] == [2, 3, 4]


def test_what_is_rebuilt_at_one_moment_keeps_those_that_wrote_last() -> None:
    """All rows count as of now; who wrote later than others is kept all the same."""
    state = ProducerState(max_producers=3)
    for offset, (producer_id, sequence) in enumerate(
        [(5, 0), (1, 0), (2, 0), (6, 0), (1, 1), (7, 0), (1, 2)]
    ):
        state.apply_row(row(offset, 1, producer_id, sequence), NOW)
    assert [one in state for one in (5, 2, 6, 7, 1)] == [False, False, True, True, True]
    duplicate = state.check(1, 0, 0, 1)
    assert duplicate is not None
    assert duplicate.base_offset == 1
