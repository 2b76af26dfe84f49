"""How much memory transactional ids may take.

Bounded is what clients send in InitProducerId and AddPartitionsToTxn. What is loaded from the log is taken in
any case, and so is every end of a transaction. An id counts as that of the client whose InitProducerId it
accepted last; after it was loaded, as that of its producer, once that adds a partition. One client may hold
half of what others leave (`gateway.common.shares`), so that nobody shuts others out.
"""

from __future__ import annotations

import logging
from typing import Final

from gateway.common.log_limit import LogLimit
from gateway.common.printable import printable
from gateway.common.shares import Shares
from gateway.transactions.metadata import TransactionMetadata
from wireproto.kafka.errors import ErrorCode, KafkaError

MAX_TRANSACTIONS_BYTES: Final = 256 * 1024 * 1024
"""Memory of all transactional ids, with the partitions of their transactions: 260,000 ids without any, half
of it for those of one client. Beyond it a new id, or a further partition, is COORDINATOR_NOT_AVAILABLE:
clients ask again until their timeout, and ids that nobody uses are forgotten. Kafka has no such limit."""

ID_BYTES: Final = 900
"""Memory of an id without partitions, about, beside four bytes for each character of its name."""

PARTITION_BYTES: Final = 200
"""Memory of a partition of a transaction, about, beside its topic's name."""

ENDING_BYTES: Final = 600
"""Memory of a transaction whose markers are being written, about, beside those."""

MARKER_BYTES: Final = 500
"""Memory of a marker that waits to be written, about."""

logger = logging.getLogger(__name__)


def size_of(transactional_id: str, metadata: TransactionMetadata | None) -> int:
    """Memory of an id, about."""
    size = ID_BYTES + 4 * len(transactional_id)
    if metadata is None or not metadata.partitions:
        return size
    return size + sum(PARTITION_BYTES + len(topic) for topic, _ in metadata.partitions)


class Room:
    """What all transactional ids hold, and who gets nothing more."""

    def __init__(self) -> None:
        self.held = Shares(MAX_TRANSACTIONS_BYTES)
        self.refused = 0
        """Requests that found no room."""
        self._limit = LogLimit(logger)

    def has_room(self, transactional_id: str, client: str) -> bool:
        """Whether this client may have a new id of this name."""
        return self.held.has_room(client, size_of(transactional_id, None))

    def check(self, transactional_id: str, client: str, growth: int) -> None:
        """Whether an id of this client may hold so much more. Raises KafkaError: COORDINATOR_NOT_AVAILABLE,
        which clients try again.
        """
        held = self.held
        if held.has_room(client, growth):
            return
        self.refused += 1
        said = (
            f"those of client {client or 'unknown'} hold {held.held(client)} bytes, {held.share(client)} may"
            f" be; those of all clients {held.used} of {held.total}"
        )
        self._limit.warning(
            "transactional id %s gets nothing more: %s; let producers use their ids again, each has one that "
            "stays the same over restarts",
            printable(transactional_id),
            said,
        )
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, said)
