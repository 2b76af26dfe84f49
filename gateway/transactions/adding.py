"""AddPartitionsToTxn and AddOffsetsToTxn: which partitions a transaction may write to, so that they get its
marker; and whether a partition is one of them (``handleAddPartitionsToTransaction``,
``handleVerifyPartitionsInTransaction``).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.groups.internal_topic import OFFSETS_TOPIC
from gateway.transactions.metadata import TopicPartition, TransactionMetadata, TransactionState
from gateway.transactions.outcomes import BUSY, DONE, FENCED, OTHER_PRODUCER, Answer, Outcome, Write
from wireproto.kafka.errors import ErrorCode

MAX_TRANSACTION_PARTITIONS: Final = 10_000
"""Partitions of one transaction. All of them are in each of its records, and every one gets a marker. Beyond
it a producer is told POLICY_VIOLATION, on which clients abort the transaction and go on; those of
`__consumer_offsets` may go beyond it."""


class AddPartitions(NamedTuple):
    """What a producer is about to write to."""

    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """The `transaction.version` that its client speaks."""


def add(known: TransactionMetadata | None, request: AddPartitions, now_ms: int) -> Outcome:
    """Have the partitions in the transaction, which begins with the first of them."""
    # First of all: the producer may have been told already which id and epoch it has after the markers.
    if known is not None and known.is_prepared:
        return BUSY
    refused = _refusal(known, request.producer_id, request.producer_epoch)
    if refused is not None:
        return refused
    assert known is not None, "an id that is not known is refused"
    is_ongoing = known.state is TransactionState.ONGOING
    if is_ongoing and request.partitions <= known.partitions:
        return DONE
    partitions = known.partitions | request.partitions
    if len(partitions) > MAX_TRANSACTION_PARTITIONS and not _is_of_offsets(request.partitions):
        return Answer(ErrorCode.POLICY_VIOLATION)
    changed = replace(
        known,
        state=TransactionState.ONGOING,
        partitions=partitions,
        start_ms=known.start_ms if is_ongoing else now_ms,
        last_update_ms=now_ms,
        client_version=request.client_version,
    )
    return Write(changed, DONE)


def _is_of_offsets(partitions: frozenset[TopicPartition]) -> bool:
    """They are the offsets of groups, of which there are few; who adds them would not abort for an error, but
    end for good.
    """
    return all(topic == OFFSETS_TOPIC for topic, _ in partitions)


def verify(
    known: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """For each partition whether it is in the producer's transaction; nothing is changed.

    What is on its way to the log is not looked at: the partition was in the transaction before, or its
    producer has not been told yet that it is (KAFKA-14904).
    """
    refused = _refusal(known, producer_id, producer_epoch)
    if known is not None and known.is_prepared:
        is_next = producer_id == known.next_producer_id
        refused = BUSY if refused is None or is_next else refused
    if refused is not None:
        return dict.fromkeys(partitions, refused.error)
    assert known is not None, "an id that is not known is refused"
    inside = known.partitions
    return {one: ErrorCode.NONE if one in inside else ErrorCode.TRANSACTION_ABORTABLE for one in partitions}


def _refusal(known: TransactionMetadata | None, producer_id: int, producer_epoch: int) -> Answer | None:
    """Why this is not the producer of the id."""
    if known is None or known.producer_id != producer_id:
        return OTHER_PRODUCER
    return None if known.producer_epoch == producer_epoch else FENCED
