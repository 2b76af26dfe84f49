"""What becomes of an id whose coordinator has lost the end of what it knew of it.

Pure. The data may be ahead of the coordinator then: its last transaction may have ended, others may have been
begun, and partitions been added that it does not know of. What it must not do is go on as if nothing had been
lost: it would commit one part of a transaction whose other part is aborted, or tell a producer of the older
protocol, which keeps its epoch, that a transaction is committed that was aborted. What was lost cannot be
told from the data either: they may have lost their ends, too. So no producer goes on that was there before.
The rules:

* an id at rest gets the last epoch, which no producer ever has: who comes next gets another producer id;
* a transaction that is open, or being aborted, is aborted with that epoch, in all partitions that are known;
* one that is decided to be committed is committed where it is open, with the epoch that it has, so that no
  part of a later one is: a partition that refuses the marker needs none (`is_after_loss`). Then the id has
  another producer id. By the older protocol a later transaction has the same epoch: where one is open in a
  partition that the id does not name, what is known is over, and the id is at rest.

What is open elsewhere is nobody's then, and aborted as such (`after_loss`).
"""

from __future__ import annotations

from dataclasses import replace

from gateway.transactions.metadata import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionState,
)


def fenced_for_good(known: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """At rest, or being aborted, with the epoch that no producer has."""
    fenced = replace(
        known,
        state=TransactionState.EMPTY if known.is_at_rest else TransactionState.PREPARE_ABORT,
        producer_epoch=LAST_EPOCH,
        last_producer_epoch=NO_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset() if known.is_at_rest else known.partitions,
    )
    return known if fenced == known else replace(fenced, last_update_ms=now_ms)


def needs_producer_id(known: TransactionMetadata) -> bool:
    """Whether `after_lost_end` takes a producer id that was never given before."""
    return known.state is TransactionState.PREPARE_COMMIT and not known.is_after_loss


def after_lost_end(
    known: TransactionMetadata, now_ms: int, *, is_over: bool, new_producer_id: int
) -> TransactionMetadata:
    """What is to be written; the same as `known` if that is written already. `is_over`: it is known that its
    transaction has ended.
    """
    if is_over:
        return fenced_for_good(replace(known, state=TransactionState.EMPTY), now_ms)
    if needs_producer_id(known):
        return replace(known, next_producer_id=new_producer_id, last_update_ms=now_ms)
    return known if known.state is TransactionState.PREPARE_COMMIT else fenced_for_good(known, now_ms)
