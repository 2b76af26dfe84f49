"""Fences all producers of a coordinator that has lost the end of what it knew, before its ids are served.

Rules: `gateway.transactions.lost_end`. It is done when the ids are loaded, from what the log has of them, and
is durable before anybody is answered from it. If it cannot be written the partition is loaded again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from gateway.common.costs import COUNTED
from gateway.common.work import Work
from gateway.journal.group_commit import NoEffect
from gateway.log.partition import PartitionState
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.lost_end import after_lost_end, needs_producer_id
from gateway.transactions.metadata import BUMPS_EPOCH_FROM, NO_PRODUCER_ID, TransactionMetadata
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.journal.group_commit import Pending
    from gateway.log.partition import Partition
    from gateway.transactions.journal import TransactionJournal
    from gateway.transactions.metadata import TopicPartition
    from gateway.transactions.replay import LoadedTransaction

AT_ONCE: Final = 100
"""Ids that are written together, and waited for: few enough for one batch."""

RECOVERY_SECONDS: Final = 15.0
"""How long partitions are waited for that are recovered, and may have something open that says that a commit
is over: those that wait for stores may do so for days."""

logger = logging.getLogger(__name__)


class Fencing:
    """`journal` is that of the ids."""

    def __init__(self, cluster: Cluster, journal: TransactionJournal) -> None:
        self._cluster = cluster
        self._journal = journal

    async def fence(self, index: int, found: Mapping[str, LoadedTransaction], deadline: float) -> None:
        """Write what becomes of the ids that were found in partition `index`. Raises KafkaError if some could
        not be written, or other partitions have something to say and are not recovered, until `deadline` on
        trio's clock: to be done again, with what is found then.
        """
        fenced, changes = 0, list[tuple[str, TransactionMetadata]]()
        places = await self._open_places(found, deadline)
        for name, (known, _) in found.items():
            changed = await self._changed(name, known, places)
            if changed is not known:
                changes.append((name, changed))
            if len(changes) == AT_ONCE:
                fenced += await self._write(index, changes)
        fenced += await self._write(index, changes)
        logger.warning(
            "%s-%d has lost its end: the producers of %d transactional ids are fenced",
            TRANSACTION_TOPIC, index, fenced,
        )  # fmt: skip

    async def _changed(
        self, name: str, known: TransactionMetadata, places: Mapping[int, set[TopicPartition]]
    ) -> TransactionMetadata:
        new_producer_id = NO_PRODUCER_ID
        is_over = bool(places.get(known.producer_id, set()) - known.partitions)
        if not is_over and needs_producer_id(known):
            new_producer_id = await self._cluster.allocate_producer_id(name)
        now_ms = self._cluster.context.now_ms()
        return after_lost_end(known, now_ms, is_over=is_over, new_producer_id=new_producer_id)

    async def _open_places(
        self, found: Mapping[str, LoadedTransaction], deadline: float
    ) -> dict[int, set[TopicPartition]]:
        """Where transactions are open of the producers that keep their epochs and are about to commit."""
        epochs = {
            known.producer_id: known.producer_epoch
            for known, _ in found.values()
            if needs_producer_id(known) and known.client_version < BUMPS_EPOCH_FROM
        }
        places: dict[int, set[TopicPartition]] = {producer_id: set() for producer_id in epochs}
        work = Work()
        for topic in self._cluster.topics.all() if places else ():
            for partition in topic.partitions:
                await work.before(COUNTED * len(epochs))
                if partition.state is PartitionState.RECOVERING and trio.current_time() < deadline:
                    raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, partition.reason)
                for producer_id in _open(partition, epochs):
                    places[producer_id].add((topic.name, partition.index))
        return places

    async def _write(self, index: int, changes: list[tuple[str, TransactionMetadata]]) -> int:
        """Write these, and return how many they were, once they are durable; `changes` is empty then."""
        pending: list[Pending] = [
            self._journal.enter(index, name, metadata, NoEffect()) for name, metadata in changes
        ]
        changes.clear()
        for one in pending:
            await self._journal.durable(one)
        return len(pending)


def _open(partition: Partition, epochs: Mapping[int, int]) -> list[int]:
    """Those of these producers, by id, that have a transaction open here of this epoch or a later one."""
    if not partition.available:
        return []
    find = partition.producers.state.find
    return [
        producer_id
        for producer_id, epoch in epochs.items()
        if (producer := find(producer_id)) is not None and producer.has_open and producer.epoch >= epoch
    ]
