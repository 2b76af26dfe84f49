"""A native sequence as a Kafka producer's epoch and sequence, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cluster.native_addresses import KnownAddress
from gateway.log.idempotence.producer import MAX_SEQUENCE, Batch, Producer
from gateway.native.positions import (
    MAX_NATIVE_SEQUENCE,
    Position,
    left_in_epoch,
    native_sequence_of,
    next_of,
    position_of,
)

SEQUENCES = st.integers(0, MAX_NATIVE_SEQUENCE)


@pytest.mark.parametrize(
    ("native", "position", "left"),
    [
        (0, Position(0, 0), 2**31),
        (2**31 - 1, Position(0, 2**31 - 1), 1),
        (2**31, Position(1, 0), 2**31),
        (2**33 + 5, Position(4, 5), 2**31 - 5),
        (MAX_NATIVE_SEQUENCE, Position(32_766, 2**31 - 1), 1),
    ],
)
def test_positions(native: int, position: Position, left: int) -> None:
    assert position_of(native) == position
    assert native_sequence_of(*position) == native
    assert left_in_epoch(native) == left


@given(SEQUENCES, SEQUENCES)
def test_positions_have_the_order_of_sequences(one: int, other: int) -> None:
    assert (position_of(one) < position_of(other)) == (one < other)
    assert native_sequence_of(*position_of(one)) == one
    assert 0 <= position_of(one).sequence <= MAX_SEQUENCE


def written(epoch: int, last_sequence: int) -> Producer:
    return Producer(epoch, 0, [Batch(last_sequence, last_sequence, 7, 7, 0)])


@pytest.mark.parametrize(
    ("noted", "producer", "following"),
    [
        (0, None, 0),
        (40, None, 40),
        (0, written(0, 9), 10),
        (40, written(0, 9), 40),
        (5, written(0, 9), 10),
        (5, written(1, 0), 2**31 + 1),
        (5, written(0, MAX_SEQUENCE), 2**31),
        (5, Producer(0, 0, []), 5),
    ],
)
def test_an_address_goes_on_behind_what_the_log_and_the_catalog_know(
    noted: int, producer: Producer | None, following: int
) -> None:
    assert next_of(KnownAddress(0, 1, noted), producer) == following
