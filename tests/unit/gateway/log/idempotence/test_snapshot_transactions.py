"""Transactions in the bytes of a snapshot: those that are open, and what markers have left."""

from __future__ import annotations

import random
import struct
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.idempotence.producer import (
    BATCHES_KEPT,
    MAX_PRODUCERS,
    MAX_SEQUENCE,
    Batch,
    Producer,
    advance_sequence,
)
from gateway.log.idempotence.snapshot import MAX_SNAPSHOT_BYTES, InvalidSnapshot, decode, encode
from gateway.log.idempotence.state import ProducerState
from wireproto.records.control import EndMarker
from wireproto.records.row import Row

NOW = 1_700_000_000_000

ABORT = EndMarker(is_commit=False, coordinator_epoch=9)


def fields(producer: Producer) -> tuple[Any, ...]:
    """Everything of a producer that a snapshot keeps."""
    return (
        producer.epoch,
        producer.used_ms,
        producer.batches,
        producer.coordinator_epoch,
        producer.first_offset,
        producer.last_offset,
        producer.timestamp,
    )


def contents(producers: OrderedDict[int, Producer]) -> list[tuple[int, tuple[Any, ...]]]:
    return [(producer_id, fields(producer)) for producer_id, producer in producers.items()]


def by_id(state: ProducerState) -> list[tuple[int, tuple[Any, ...]]]:
    """Without the order of use: rows that were covered already leave that as the snapshot had it."""
    return contents(OrderedDict(state.active(NOW)))


BYTES_OF_VERSION_2 = bytes.fromhex(
    "02 00000002"  # version, producers
    "0000000000000102 0003 0000018bcfe56800 01"  # id, epoch, last heard, batches
    "ffffffff 0000000000000014 0000000000000015 0000000000000a0b"  # coordinator, first, last offset, time
    "00000008 00000001 0000000000000015 0000000000000a0b"  # last sequence, before, last offset, time
    "0000000000000103 0004 0000018bcfe56801 00"
    "00000009 ffffffffffffffff 0000000000000016 0000000000000c0d"
)


def test_the_bytes_of_version_2() -> None:
    """One producer with an open transaction, and one that is known by its marker alone."""
    state = ProducerState()
    state.applied(0x0102, 3, 7, 21, 2, 0x0A0B, NOW, is_transactional=True)
    state.ended(0x0103, 4, ABORT, 22, 0x0C0D, NOW + 1)
    assert state.snapshot(NOW) == BYTES_OF_VERSION_2
    read = ProducerState.from_snapshot(BYTES_OF_VERSION_2, NOW)
    assert read.open_transactions() == {0x0102: 20}
    assert read.transactions.last_stable_offset(23) == 20
    known = read.find(0x0103)
    assert known is not None
    assert fields(known) == (4, NOW + 1, [], 9, -1, 22, 0x0C0D)


@pytest.mark.parametrize("is_commit", [False, True])
def test_version_1_is_written_where_there_are_no_transactions(is_commit: bool) -> None:
    """An older gateway reads it: what never had a transaction may go back to that."""
    state = ProducerState()
    state.applied(1, 0, 0, 0, 1, 0, NOW)
    state.applied(2, 0, 0, 1, 1, 0, NOW)
    assert state.snapshot(NOW)[0] == 1
    without = decode(state.snapshot(NOW))
    assert [(one.coordinator_epoch, one.first_offset, one.last_offset) for one in without.values()] == [
        (-1, -1, 0),
        (-1, -1, 1),
    ]
    state.applied(2, 0, 1, 2, 1, 0, NOW, is_transactional=True)
    assert state.snapshot(NOW)[0] == 2
    state.ended(2, 0, EndMarker(is_commit, -1), 3, 0, NOW)
    assert state.snapshot(NOW)[0] == 2, "its marker's offset is none of its batches'"
    state.ended(2, 0, EndMarker(is_commit, 0), 4, 0, NOW)
    state.applied(2, 0, 2, 5, 1, 0, NOW)
    assert state.snapshot(NOW)[0] == 2, "it has a coordinator's epoch"


def test_a_marker_that_left_no_batch_is_version_2() -> None:
    state = ProducerState()
    state.ended(1, 0, EndMarker(is_commit=True, coordinator_epoch=-1), 0, 0, NOW)
    assert state.snapshot(NOW)[0] == 2
    assert ProducerState.from_snapshot(state.snapshot(NOW), NOW).check(1, 0, 0, 1) is None


def test_the_largest_snapshot_has_the_size_that_the_constant_says() -> None:
    state = ProducerState()
    for batch in range(BATCHES_KEPT):
        for producer_id in range(MAX_PRODUCERS):
            offset = batch * MAX_PRODUCERS + producer_id
            state.applied(producer_id, 0, batch, offset, 1, 0, NOW, is_transactional=True)
    full = state.snapshot(NOW)
    assert len(full) == MAX_SNAPSHOT_BYTES
    read = ProducerState.from_snapshot(full, NOW)
    assert (read.snapshot(NOW), len(read.transactions)) == (full, MAX_PRODUCERS)


def test_open_ones_are_read_though_more_than_are_kept_and_though_they_are_old() -> None:
    state = ProducerState()
    for producer_id in range(6):
        is_open = producer_id in {0, 1, 4}
        state.applied(producer_id, 0, 0, producer_id, 1, 0, NOW, is_transactional=is_open)
    snapshot = state.snapshot(NOW)
    later = ProducerState.from_snapshot(snapshot, NOW + 10**9)
    assert [one[0] for one in later.active(NOW + 10**9)] == [0, 1, 4]
    fewer = ProducerState.from_snapshot(snapshot, NOW, max_producers=4)
    assert [one[0] for one in fewer.active(NOW)] == [0, 1, 4, 5]
    fewest = ProducerState.from_snapshot(snapshot, NOW, max_producers=2)
    assert [one[0] for one in fewest.active(NOW)] == [0, 1, 4]


# damaged bytes --------------------------------------------------------------------------------------------


def one(  # every part of one producer
    *, version: int = 2, count: int = 1, batches: int = 1, producer_id: int = 7, coordinator: int = 3,
    first: int = 20, last: int = 21, last_of_batch: int = 21, span: int = 1,
) -> bytes:  # fmt: skip
    batch = struct.pack(">IIqq", 8, span, last_of_batch, 0)
    head, producer = struct.pack(">BI", version, count), struct.pack(">qhqB", producer_id, 3, NOW, batches)
    return head + producer + struct.pack(">iqqq", coordinator, first, last, 0) + batch * min(batches, 6)


TWICE = struct.pack(">BI", 2, 2) + one()[5:] + one(producer_id=8)[5:]

DAMAGED = {
    "a newer version": one(version=3),
    "the version before": one(version=1),
    "cut short in the transaction": one()[:40],
    "cut short in the batch": one()[:-1],
    "left over": one() + b"\0",
    "more producers than bytes": one(count=2),
    "a negative producer": one(producer_id=-1),
    "six batches": one(batches=6),
    "a first offset below none": one(first=-2),
    "a first offset behind the last one": one(first=22),
    "a last offset before the last batch": one(last=20),
    "a last offset below none": one(batches=0, first=-1, last=-2),
    "more records than offsets": one(span=30, last_of_batch=21),
    "two open transactions with one first offset": TWICE,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_bytes_are_refused(name: str) -> None:
    assert decode(one())[7].first_offset == 20
    with pytest.raises(InvalidSnapshot):
        ProducerState.from_snapshot(DAMAGED[name], NOW)


def test_producers_without_open_transactions_share_no_first_offset() -> None:
    both = struct.pack(">BI", 2, 2) + one(first=-1)[5:] + one(first=-1, producer_id=8)[5:]
    assert list(decode(both)) == [7, 8]


@given(st.binary(max_size=120).map(lambda tail: b"\x02\0\0\0\x01" + tail))
def test_any_bytes_are_a_snapshot_or_refused(data: bytes) -> None:
    try:
        state = ProducerState.from_snapshot(data, 0)
    except InvalidSnapshot:
        return
    assert ProducerState.from_snapshot(state.snapshot(0), 0).snapshot(0) == state.snapshot(0)


# what is written is read ----------------------------------------------------------------------------------


@st.composite
def producers(draw: st.DrawFn) -> Producer:
    end = draw(st.integers(0, 2**40))
    batches = []
    for _ in range(draw(st.integers(0, BATCHES_KEPT))):
        sequence, span = draw(st.integers(0, MAX_SEQUENCE)), draw(st.integers(0, 50))
        last_offset = end + span
        last_sequence = advance_sequence(sequence, span)
        batches.append(Batch(sequence, last_sequence, end, last_offset, draw(st.integers(-1, 2**50))))
        end = last_offset + draw(st.integers(1, 50))
    producer = Producer(draw(st.integers(-1, 2**15 - 1)), draw(st.integers(0, 2**50)), batches)
    if draw(st.booleans()) or not batches:
        marked = EndMarker(draw(st.booleans()), draw(st.integers(-1, 2**31 - 1)))
        producer.end(producer.epoch, marked.coordinator_epoch, end, draw(st.integers(0, 2**50)), 5)
    elif draw(st.booleans()):
        producer.first_offset = batches[0].base_offset
    return producer


@given(st.dictionaries(st.integers(0, 2**63 - 1), producers(), max_size=5))
def test_what_is_written_is_read(drawn: dict[int, Producer]) -> None:
    written: OrderedDict[int, Producer] = OrderedDict()
    begun: set[int] = set()
    for producer_id, producer in drawn.items():
        if producer.has_open and producer.first_offset in begun:
            continue  # no two transactions begin with one record
        begun.add(producer.first_offset)
        written[producer_id] = producer
    assert contents(decode(encode(written))) == contents(written)


# rebuilt from rows ----------------------------------------------------------------------------------------


class Written:
    """A log of transactional and other producers: its rows, and the state after each."""

    def __init__(self, seed: int, batches: int) -> None:
        self.chance = random.Random(seed)
        self.state = ProducerState()
        self.rows: list[Row] = []
        self.states = [self.state.snapshot(NOW)]
        self.end = 0
        self.next = dict.fromkeys((10, 11, 12), (0, 0))
        """Epoch and sequence with which each producer goes on."""
        for _ in range(batches):
            self.write()
            self.states.append(self.state.snapshot(NOW))

    def write(self) -> None:
        producer_id = self.chance.choice([10, 11, 12])
        epoch, sequence = self.next[producer_id]
        known = self.state.find(producer_id)
        is_open = known is not None and known.has_open
        if self.chance.random() < (0.4 if is_open else 0.1):
            self.end_transaction(producer_id, epoch + self.chance.randint(0, 1))
            return
        count = self.chance.randint(1, 4)
        is_transactional = is_open or self.chance.random() < 0.6
        self.add_row(producer_id, epoch, sequence, count, 0x10 if is_transactional else 0)
        last_offset = self.end - 1
        self.state.applied(
            producer_id, epoch, sequence, last_offset, count, last_offset, NOW,
            is_transactional=is_transactional,
        )  # fmt: skip
        self.next[producer_id] = epoch, sequence + count

    def end_transaction(self, producer_id: int, epoch: int) -> None:
        marker = EndMarker(self.chance.random() < 0.5, len(self.rows))
        ended = 0x0200 if marker.is_commit else 0x0100
        self.add_row(producer_id, epoch, marker.coordinator_epoch, 1, 0x30 | ended)
        self.state.ended(producer_id, epoch, marker, self.end - 1, self.end - 1, NOW)
        if epoch > self.next[producer_id][0]:
            self.next[producer_id] = epoch, 0

    def add_row(self, producer_id: int, epoch: int, sequence: int, count: int, attributes: int) -> None:
        last = self.end + count - 1
        self.rows.append(Row(self.end, last, last, last, producer_id, epoch, sequence, attributes, 100))
        self.end += count


@pytest.mark.parametrize("seed", range(8))
def test_snapshot_and_rows_give_the_state_that_was(seed: int) -> None:
    """Wherever the snapshot was taken, and also when the rows begin before it."""
    written = Written(seed, 60)
    assert any(snapshot[0] == 2 for snapshot in written.states)
    for taken in (0, 1, 9, 17, 33, 42, 60):
        for first in (0, taken // 2, taken):
            state = ProducerState.from_snapshot(written.states[taken], NOW)
            for row in written.rows[first:]:
                state.apply_row(row, NOW)
            expected = ProducerState.from_snapshot(written.states[-1], NOW)
            assert by_id(state) == by_id(expected)
            assert state.transactions.last_stable_offset(written.end) == (
                expected.transactions.last_stable_offset(written.end)
            )
