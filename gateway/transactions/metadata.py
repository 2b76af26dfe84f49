"""What a coordinator knows of one transactional id (``TransactionMetadata``).

Pure. Values only: the rules by which one follows the other are in `initialising`, `adding` and `ending`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1

FIRST_EPOCH: Final = 0

LAST_EPOCH: Final = 32767
"""No producer is ever told of it: with it the coordinator fences the one that has the epoch before it."""

EXHAUSTED_EPOCH: Final = LAST_EPOCH - 1
"""From here on a producer's next epoch is the first one of another producer id."""

BUMPS_EPOCH_FROM: Final = 2
"""The `transaction.version` from which each transaction has an epoch of its own (KIP-890)."""


class TransactionState(IntEnum):
    """By the numbers that are in the log (``TransactionState``)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Being forgotten; never in the log, where a tombstone is."""
    PREPARE_EPOCH_FENCE = 7
    """Kafka's, between the decision to fence a producer and PREPARE_ABORT; one step here. For filters."""

    @property
    def label(self) -> str:
        """Its name, as clients are told."""
        return "".join(word.capitalize() for word in self.name.split("_"))


STATES: Final = {state.label: state for state in TransactionState}
"""By the names that clients use."""

STORED_STATES: Final = frozenset(
    state
    for state in TransactionState
    if state not in {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}
)
"""Those that the log may have."""

_PREPARED: Final = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
_AT_REST: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)


def is_exhausted(epoch: int) -> bool:
    """Whether a producer of this epoch gets another producer id instead of the next epoch."""
    return epoch >= EXHAUSTED_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """What the log has of a transactional id. Times are ms since 1970."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """After so long an open transaction is aborted."""
    state: TransactionState
    last_update_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    """Those that the open transaction may have written to, and that get its marker."""
    start_ms: int = NO_TIME
    """When its transaction, or the last one, began."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The one before this one, whose epochs were exhausted."""
    next_producer_id: int = NO_PRODUCER_ID
    """The one that its producer goes on with when this transaction has ended, and was told so."""
    next_producer_epoch: int = NO_EPOCH
    """Of two-phase commits (KIP-939), which are not served: read, and written as it was."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before this one, if the same producer has asked for the next: it may ask once more."""
    client_version: int = 0
    """The `transaction.version` by which the transaction is carried out."""

    @property
    def is_prepared(self) -> bool:
        """Its end is decided, and its markers are being written."""
        return self.state in _PREPARED

    @property
    def is_at_rest(self) -> bool:
        """It has no transaction."""
        return self.state in _AT_REST

    @property
    def is_exhausted(self) -> bool:
        """Its producer's next epoch is the first one of another producer id."""
        return is_exhausted(self.producer_epoch)

    @property
    def fencing_epoch(self) -> int:
        """The epoch that fences its producer."""
        return min(self.producer_epoch + 1, LAST_EPOCH)

    @property
    def is_after_loss(self) -> bool:
        """Its transaction is committed after a loss, by `lost_end`: else another producer id follows the last
        epoch alone.
        """
        return self.next_producer_id != NO_PRODUCER_ID and self.producer_epoch < LAST_EPOCH

    def is_timed_out(self, now_ms: int) -> bool:
        """Whether its transaction has been open for longer than its producer wanted."""
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    def is_idle(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether nobody has used it for so long."""
        return self.is_at_rest and self.last_update_ms + expiration_ms <= now_ms
