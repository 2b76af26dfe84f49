"""Writes transactional ids to `__transaction_state`, and reads them back.

Rule: nobody is told that something was written before it is durable as with acks=all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.common.clients import NOBODY
from gateway.journal.fields import TooLong
from gateway.journal.group_commit import Effect, GroupCommit, Pending
from gateway.journal.lane import size_of
from gateway.journal.loading import load_partition
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.metadata import TransactionMetadata, TransactionState
from gateway.transactions.records import transaction_key, transaction_value
from gateway.transactions.replay import LoadedTransaction, Replay
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster

ENDING_BYTES: Final = 64
"""Bytes that a transaction may grow by when it ends: it has tagged fields more then. So much room is left in
a batch, or a transaction that was just small enough could never end."""


class TransactionJournal:
    """The log of all transactional ids. Writes of one id are in the log in the order of the calls, as long as
    one is settled before the next one comes.
    """

    def __init__(self, cluster: Cluster, lost: Callable[[int], None]) -> None:
        """`lost` is called with a partition whose last writes may be kept or not: it has to be loaded again.
        It neither blocks nor raises.
        """
        self.group_commit = GroupCommit(cluster, TRANSACTION_TOPIC, lost)
        self.unreadable_records = 0
        """Records that could not be read when partitions were loaded."""
        self.unreadable_batches = 0
        """The same of batches."""

    async def run(self) -> None:
        """Send what is written, for ever: without this nothing is."""
        await self.group_commit.run()

    def enter(
        self,
        index: int,
        transactional_id: str,
        metadata: TransactionMetadata | None,
        effect: Effect,
        client: str = NOBODY,
    ) -> Pending:
        """Have an id written to partition `index`, or a tombstone of it; `effect` is told what becomes of it.
        `client` asks for it: clients have turns.

        Raises KafkaError, and nothing is written: COORDINATOR_NOT_AVAILABLE, to be tried again;
        UNKNOWN_SERVER_ERROR, it is too large.
        """
        place = self.group_commit.place_at(index)
        try:
            value = None if metadata is None else transaction_value(metadata)
            record = transaction_key(transactional_id), value
        except TooLong as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
        size = size_of(record)
        if metadata is not None and metadata.state is TransactionState.ONGOING:
            size += ENDING_BYTES
        return self.group_commit.enter(place, (record,), effect, size, client=client)

    async def durable(self, pending: Pending) -> None:
        """Return when a write is durable. Raises KafkaError if it failed, or takes too long."""
        await self.group_commit.durable(pending)

    async def load(self, index: int) -> dict[str, LoadedTransaction]:
        """The ids of a partition, as its log has them up to its high watermark.

        Raises KafkaError if it cannot be read now: to be tried again.
        """
        # What is on its way would take effect where nobody looks any more.
        place = self.group_commit.place_at(index)
        await self.group_commit.settle(place)
        replay = Replay(index)
        await load_partition(place.partition, replay)
        self.unreadable_records += replay.unreadable_records
        self.unreadable_batches += replay.unreadable_batches
        return replay.transactions
