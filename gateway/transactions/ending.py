"""EndTxn, and the gateway's own aborts: how a transaction ends (``endTransaction``).

Pure. An end is decided with Prepare*, which is durable before anybody is told; then every partition gets its
marker, and Complete* follows. There are two protocols:

* the older one (EndTxn up to version 4): a producer keeps its epoch. A request that comes twice is told by
  the state, so a late one may hit the producer's next transaction;
* the newer one (version 5, KIP-890): Prepare* has the next epoch, with which the producer goes on. Who comes
  with the epoch before it asks for the end that is complete once more.

While markers are being written Complete* is on its way, and whoever has the id is to ask again: a producer
may have been told already which epoch it has then, and what it asks for may pass. (Kafka's states have
answers of their own for Prepare*, but a pending Complete* is looked at before them.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gateway.transactions.metadata import (
    BUMPS_EPOCH_FROM,
    EXHAUSTED_EPOCH,
    FIRST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionState,
)
from gateway.transactions.outcomes import (
    BUSY,
    DONE,
    FENCED,
    OTHER_PRODUCER,
    WRONG_STATE,
    Answer,
    Needs,
    Outcome,
    Write,
)
from wireproto.kafka.errors import ErrorCode

_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


class EndTxn(NamedTuple):
    """How a producer wants its transaction to end."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int = 0
    """The `transaction.version` that its client speaks."""

    @property
    def prepared(self) -> TransactionState:
        return TransactionState.PREPARE_COMMIT if self.is_commit else TransactionState.PREPARE_ABORT


def end(
    known: TransactionMetadata | None, request: EndTxn, now_ms: int, new_producer_id: int | None
) -> Outcome:
    """End a transaction, by the protocol that its client speaks."""
    if known is None:
        return OTHER_PRODUCER
    if request.client_version < BUMPS_EPOCH_FROM:
        return _end_with_the_same_epoch(known, request, now_ms)
    return _end_with_the_next_epoch(known, request, now_ms, new_producer_id)


def while_pending(known: TransactionMetadata | None, request: EndTxn) -> Answer:
    """What is said while something is on its way to the log: who keeps its epoch is judged by that all the
    same.
    """
    if known is None or request.client_version >= BUMPS_EPOCH_FROM:
        return BUSY
    return _is_another(known, request) or BUSY


def _is_another(known: TransactionMetadata, request: EndTxn) -> Answer | None:
    """Why the request is not that of the id's producer, by the older protocol."""
    if request.producer_id != known.producer_id:
        return OTHER_PRODUCER
    return None if request.producer_epoch == known.producer_epoch else FENCED


def _end_with_the_same_epoch(known: TransactionMetadata, request: EndTxn, now_ms: int) -> Outcome:
    refused = _is_another(known, request)
    if refused is not None:
        return refused
    prepared = request.prepared
    if known.state is TransactionState.ONGOING:
        ended = replace(known, state=prepared, last_update_ms=now_ms, client_version=request.client_version)
        return Write(ended, DONE)
    if known.is_prepared:
        return BUSY
    return DONE if known.state is _COMPLETE[prepared] else WRONG_STATE


def _end_with_the_next_epoch(
    known: TransactionMetadata, request: EndTxn, now_ms: int, new_producer_id: int | None
) -> Outcome:
    if known.is_prepared:
        return BUSY
    is_present = (request.producer_id, request.producer_epoch) == (known.producer_id, known.producer_epoch)
    is_again = _is_again(known, request)
    if request.producer_id != known.producer_id and not is_again:
        return OTHER_PRODUCER
    if is_again:
        return _once_more(known, request)
    if not is_present:
        return FENCED
    is_ongoing = known.state is TransactionState.ONGOING
    if not is_ongoing and request.is_commit:
        return WRONG_STATE
    # An abort of nothing: its client cannot know whether any partition was added.
    began = known if is_ongoing else replace(known, partitions=frozenset(), start_ms=now_ms)
    return _prepare(began, request.prepared, request.client_version, now_ms, new_producer_id)


def _is_again(known: TransactionMetadata, request: EndTxn) -> bool:
    """Whether it was sent before, and has led to the epoch that there is now."""
    if request.producer_id == known.producer_id and request.producer_epoch == known.producer_epoch - 1:
        return True
    return (
        request.producer_id == known.previous_producer_id
        and request.producer_epoch == EXHAUSTED_EPOCH
        and known.producer_epoch == FIRST_EPOCH
    )


def _once_more(known: TransactionMetadata, request: EndTxn) -> Answer:
    """The answer to a request of the epoch before this one."""
    if known.state in {TransactionState.EMPTY, TransactionState.ONGOING}:
        return FENCED  # InitProducerId made this epoch, or its transaction has begun
    if known.state is _COMPLETE[request.prepared]:
        return Answer(ErrorCode.NONE, known.producer_id, known.producer_epoch)
    return WRONG_STATE


def _prepare(
    known: TransactionMetadata,
    state: TransactionState,
    version: int,
    now_ms: int,
    new_producer_id: int | None,
) -> Outcome:
    """Decide the end by the newer protocol: with the next epoch, or the producer id that follows."""
    following = NO_PRODUCER_ID
    if known.is_exhausted:
        if new_producer_id is None:
            return Needs.PRODUCER_ID
        following = new_producer_id
    ended = replace(
        known,
        state=state,
        producer_epoch=known.fencing_epoch,
        last_producer_epoch=known.producer_epoch,
        next_producer_id=following,
        last_update_ms=now_ms,
        client_version=version,
    )
    if following == NO_PRODUCER_ID:
        return Write(ended, Answer(ErrorCode.NONE, ended.producer_id, ended.producer_epoch))
    return Write(ended, Answer(ErrorCode.NONE, following, FIRST_EPOCH))


def fence(
    known: TransactionMetadata,
    now_ms: int,
    server_version: int,
    new_producer_id: int | None,
    answer: Answer = DONE,
) -> Outcome:
    """Abort an open transaction without its producer, which is fenced by the next epoch: one epoch for both
    (KAFKA-19367). Nothing is changed before that is durable, so one that fails uses no epoch (KAFKA-9666).
    """
    if server_version < BUMPS_EPOCH_FROM:
        fenced = replace(
            known,
            state=TransactionState.PREPARE_ABORT,
            producer_epoch=known.fencing_epoch,
            last_producer_epoch=NO_EPOCH,
            last_update_ms=now_ms,
            client_version=server_version,
        )
        return Write(fenced, answer)
    outcome = _prepare(known, TransactionState.PREPARE_ABORT, server_version, now_ms, new_producer_id)
    return Write(outcome.metadata, answer) if isinstance(outcome, Write) else outcome


def complete(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """What follows when every partition has its marker."""
    ended = replace(
        known,
        state=_COMPLETE[known.state],
        partitions=frozenset(),
        last_update_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
    )
    if known.next_producer_id == NO_PRODUCER_ID:
        return ended
    return replace(
        ended,
        producer_id=known.next_producer_id,
        producer_epoch=FIRST_EPOCH,
        # After a loss what its last epoch has ended is not known: nobody is told of an end once more.
        previous_producer_id=NO_PRODUCER_ID if known.is_after_loss else known.producer_id,
    )
