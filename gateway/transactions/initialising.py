"""InitProducerId: who gets a transactional id, and with which epoch (``prepareInitProducerIdTransit``).

Pure. Each new producer of an id gets a higher epoch, or another producer id when the epochs are exhausted,
and so fences those before it. One that names what it has gets the next epoch only if nobody came in between;
it may ask for that once more, when the answer was lost.

A producer id that is not to be kept (`gateway.transactions.coordinator` says which) counts as exhausted, with
whatever epoch; Kafka has no such ids. An open transaction is aborted first, with its own id's next epoch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gateway.transactions.ending import fence
from gateway.transactions.metadata import (
    FIRST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionMetadata,
    TransactionState,
    is_exhausted,
)
from gateway.transactions.outcomes import BUSY, FENCED, Answer, Needs, Outcome, Write
from wireproto.kafka.errors import ErrorCode


class InitProducerId(NamedTuple):
    """What a producer asks for; its present id and epoch are both given, or neither."""

    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH

    @property
    def names_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


def refusal(request: InitProducerId, max_timeout_ms: int) -> ErrorCode:
    """What is wrong with the request, whatever is known of the id."""
    if request.names_producer != (request.producer_epoch != NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.timeout_ms <= max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def initialise(
    known: TransactionMetadata | None,
    request: InitProducerId,
    now_ms: int,
    server_version: int,
    new_producer_id: int | None,
    *,
    keeps_id: bool = True,
) -> Outcome:
    """What becomes of the id. `server_version`: the `transaction.version` by which the gateway itself aborts
    a transaction. `keeps_id`: its producer id is good for another epoch, if there is one.
    """
    if known is None:
        if new_producer_id is None:
            return Needs.PRODUCER_ID
        first = TransactionMetadata(
            new_producer_id, FIRST_EPOCH, request.timeout_ms, TransactionState.EMPTY, now_ms
        )
        return _given(first)
    if known.is_prepared:
        return BUSY
    if request.names_producer and not _is_known(known, request):
        return FENCED
    if known.state is TransactionState.ONGOING:
        # The one that asks is told to ask again, and gets its epoch when the transaction is aborted.
        return fence(known, now_ms, server_version, new_producer_id, BUSY)
    return _next(known, request, now_ms, new_producer_id, has_next=keeps_id and not known.is_exhausted)


def _is_known(known: TransactionMetadata, request: InitProducerId) -> bool:
    """Whether this is the present producer id, or the one before it with the last of its epochs."""
    if request.producer_id == known.producer_id:
        return True
    if request.producer_id != known.previous_producer_id:
        return False
    # One that was not kept had any epoch at last: the one before the first of this id.
    is_last = known.producer_epoch == FIRST_EPOCH and request.producer_epoch == known.last_producer_epoch
    return is_last or is_exhausted(request.producer_epoch)


def _next(
    known: TransactionMetadata,
    request: InitProducerId,
    now_ms: int,
    new_producer_id: int | None,
    *,
    has_next: bool,
) -> Outcome:
    """The next epoch of an id without a transaction, or the first one of another producer id."""
    empty = replace(
        known,
        state=TransactionState.EMPTY,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )
    is_present = (request.producer_id, request.producer_epoch) == (known.producer_id, known.producer_epoch)
    if request.names_producer and not is_present:
        if request.producer_epoch == known.last_producer_epoch:
            return _given(empty)  # once more: nobody came in between, or there would be no last epoch
        return FENCED
    last = known.producer_epoch if request.names_producer else NO_EPOCH
    if has_next:
        return _given(replace(empty, producer_epoch=known.producer_epoch + 1, last_producer_epoch=last))
    if new_producer_id is None:
        return Needs.PRODUCER_ID
    return _given(
        replace(
            empty,
            producer_id=new_producer_id,
            producer_epoch=FIRST_EPOCH,
            previous_producer_id=known.producer_id,
            last_producer_epoch=last,
        )
    )


def _given(metadata: TransactionMetadata) -> Write:
    return Write(metadata, Answer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch))
