"""What becomes of an id whose coordinator has lost the end of what it knew of it.

Pure. The data may be ahead of the coordinator then: its last transaction may have ended, others may have been
begun, and partitions been added that it does not know of. What it must not do is go on as if nothing had been
lost: it would commit one part of a transaction whose other part is aborted, or tell a producer of the older
protocol, which keeps its epoch, that a transaction is committed that was aborted. The rules:

* where a partition has a later epoch, all that is known is over (the next epoch is used once a transaction
  has ended). The id is at rest, beyond that epoch;
* else a transaction that is open is aborted, and its producer fenced, as after its timeout. So is the
  producer of an id at rest, where some partition has a transaction open that the id does not know of;
* what is decided is carried out, and looked at again when it has ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from gateway.transactions.ending import fence
from gateway.transactions.metadata import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionState,
)
from gateway.transactions.outcomes import BUSY, DONE, Outcome, Write


class InData(NamedTuple):
    """What partitions have of an id's producer."""

    highest_epoch: int = NO_EPOCH
    is_open_elsewhere: bool = False
    """A transaction of it is open in a partition that the id does not name."""

    def with_other(self, other: InData) -> InData:
        """What these partitions and others have."""
        return InData(
            max(self.highest_epoch, other.highest_epoch), self.is_open_elsewhere or other.is_open_elsewhere
        )


def after_lost_end(
    known: TransactionMetadata,
    in_data: InData,
    accepted_ms: int,
    now_ms: int,
    server_version: int,
    new_producer_id: int | None,
) -> Outcome:
    """DONE if it may go on; BUSY if its transaction has to end first. The loss was accepted at `accepted_ms`:
    a transaction that has begun later is known whole.
    """
    if in_data.highest_epoch > known.producer_epoch:
        return _beyond(known, in_data.highest_epoch, now_ms)
    if known.is_prepared:
        return BUSY if in_data.is_open_elsewhere else DONE
    if known.state is TransactionState.ONGOING:
        if known.start_ms > accepted_ms and not in_data.is_open_elsewhere:
            return DONE
        return fence(known, now_ms, server_version, new_producer_id)
    return _beyond(known, known.producer_epoch, now_ms) if in_data.is_open_elsewhere else DONE


def _beyond(known: TransactionMetadata, epoch: int, now_ms: int) -> Write:
    """At rest, with an epoch that no producer has. Whoever asks for an end again is not told of an earlier
    one.
    """
    rests = replace(
        known,
        state=TransactionState.EMPTY,
        producer_epoch=min(epoch + 1, LAST_EPOCH),
        last_producer_epoch=NO_EPOCH,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
    return Write(rests, DONE)
