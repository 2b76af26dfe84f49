"""Whether partitions are in a producer's transaction: asked of the id's coordinator, wherever that is.

Rule (KIP-890): a batch that would begin a transaction in a partition is appended only if its coordinator says
that the transaction is open and has the partition. Else a batch that comes late, when its transaction has
ended, would begin one that nobody ends. Clients of the newer protocol have the partition added by this.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.common.costs import HASHED_CHARACTER, TRANSACTION_PARTITION
from gateway.transactions.adding import AddPartitions
from gateway.transactions.coordinator import UNTIL_FREE_SECONDS
from gateway.transactions.metadata import BUMPS_EPOCH_FROM
from gateway.transactions.outcomes import BUSY
from gateway.transactions.verification_routes import VerificationRoutes
from wireproto.kafka.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from gateway.peers.peers import Peers
    from gateway.transactions.coordinator import TransactionCoordinator
    from gateway.transactions.metadata import TopicPartition

Errors = dict["TopicPartition", ErrorCode]


class Producing(NamedTuple):
    """Who writes, and whether what it writes to is added to its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool = False


class Verifier:
    """Of one gateway. `peers` are the others, if there are any; `run` has to run where there are."""

    def __init__(self, coordinator: TransactionCoordinator, peers: Peers | None) -> None:
        self._coordinator = coordinator
        self._routes = None if peers is None else VerificationRoutes(peers)

    async def run(self) -> None:
        """Ask others, for ever."""
        if self._routes is not None:
            await self._routes.run()

    def cost(self, transactional_id: str, partitions: int, *, adds: bool) -> int:
        """What it costs to check so many partitions: all of a transaction are written anew when one is added,
        and a long id is hashed where there are other gateways, to find its coordinator.
        """
        written = self._coordinator.partitions_of(transactional_id) if adds else 0
        hashed = 0 if self._routes is None else 2 * len(transactional_id)
        return TRANSACTION_PARTITION * (partitions + written) + HASHED_CHARACTER * hashed

    async def check(self, who: Producing, partitions: Collection[TopicPartition], client: str) -> Errors:
        """No error for each partition that may be written to, or why not: what the coordinator says, and
        COORDINATOR_NOT_AVAILABLE while it is not to be asked. INVALID_REQUEST: an empty transactional id.

        Who adds, and whose last transaction has not ended yet, waits for that for a moment.
        """
        if not who.transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        try:
            node = self._coordinator.node_of(who.transactional_id)
            if self._routes is None or node == self._coordinator.node_id:
                return await self._check_here(who, partitions, client)
            return await self._ask(self._routes, node, who, partitions, client)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)

    async def _check_here(
        self, who: Producing, partitions: Collection[TopicPartition], client: str
    ) -> Errors:
        """Raises KafkaError. A checkpoint only if something is added."""
        name, producer_id, epoch, adds = who
        coordinator = self._coordinator
        if not adds:
            return coordinator.verify(name, producer_id, epoch, partitions)
        wanted = AddPartitions(producer_id, epoch, frozenset(partitions), BUMPS_EPOCH_FROM)
        answer = await coordinator.add(name, wanted, client)
        return dict.fromkeys(partitions, answer.error)

    @staticmethod
    async def _ask(
        routes: VerificationRoutes,
        node: int,
        who: Producing,
        partitions: Collection[TopicPartition],
        client: str,
    ) -> Errors:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE."""
        found = await routes.ask(node, who, partitions, client)
        deadline = trio.current_time() + UNTIL_FREE_SECONDS
        while who.adds and BUSY.error in found.values() and trio.current_time() < deadline:
            found = await routes.ask(node, who, partitions, client, when_free=True)
        return found
