"""A native sequence as a Kafka producer's epoch and sequence, and back. Pure.

An address is an idempotent producer: the record with sequence `n` is the one with Kafka's sequence `n`, so
what the log knows of a producer says where its address goes on. Kafka's sequences have 31 bits, and what
follows the last one is 0 of the next epoch: then no two records of an address are alike in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.log.idempotence.producer import MAX_SEQUENCE

if TYPE_CHECKING:
    from gateway.cluster.native_addresses import KnownAddress
    from gateway.log.idempotence.producer import Producer
    from gateway.log.partition import Partition

SEQUENCE_BITS: Final = 31

MAX_EPOCH: Final = 32_766
"""Kafka's last one is for producers that are used up."""

MAX_NATIVE_SEQUENCE: Final = (MAX_EPOCH + 1 << SEQUENCE_BITS) - 1
"""The last record of an address that can be in a topic: 70 million million. (Dafka's own has 63 bits.)"""


class Position(NamedTuple):
    """Where a record stands among its producer's."""

    epoch: int
    sequence: int


def position_of(native_sequence: int) -> Position:
    """The position of a native sequence, MAX_NATIVE_SEQUENCE at most."""
    return Position(native_sequence >> SEQUENCE_BITS, native_sequence & MAX_SEQUENCE)


def native_sequence_of(epoch: int, sequence: int) -> int:
    """The native sequence at a position."""
    return (epoch << SEQUENCE_BITS) + sequence


def left_in_epoch(native_sequence: int) -> int:
    """How many records from this one on have its epoch."""
    return MAX_SEQUENCE + 1 - (native_sequence & MAX_SEQUENCE)


def next_of(known: KnownAddress, producer: Producer | None) -> int:
    """The native sequence with which an address goes on; `producer` as its log knows it, if it does."""
    if producer is None or not producer.batches:
        return known.next
    return max(known.next, native_sequence_of(producer.epoch, producer.last_sequence) + 1)


def next_in(partition: Partition, known: KnownAddress) -> int:
    """The native sequence with which an address goes on in its partition, as far as that is known here."""
    return next_of(known, partition.producers.state.find(known.producer_id))
