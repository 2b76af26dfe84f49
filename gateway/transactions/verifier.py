"""Whether partitions are in a producer's transaction: asked of the id's coordinator, wherever that is.

Rule (KIP-890): a batch that would begin a transaction in a partition is appended only if its coordinator says
that the transaction is open and has the partition. Else a batch that comes late, when its transaction has
ended, would begin one that nobody ends. Clients of the newer protocol have the partition added by this.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.peers.failures import PeerFailed
from gateway.peers.question import Question
from gateway.transactions.adding import AddPartitions
from gateway.transactions.metadata import BUMPS_EPOCH_FROM
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import REQUEST_CLASSES

if TYPE_CHECKING:
    from gateway.peers.peers import Peers
    from gateway.transactions.coordinator import TransactionCoordinator
    from gateway.transactions.metadata import TopicPartition

ASK_SECONDS: Final = 5.0
"""How long another gateway may take to answer; then the producer is to try again."""

BATCHED_SINCE_VERSION: Final = 4

_Request: Any = REQUEST_CLASSES[ApiKey.ADD_PARTITIONS_TO_TXN]
_Transaction: Any = _Request.AddPartitionsToTxnTransaction
_Topic: Any = _Request.AddPartitionsToTxnTopic

Errors = dict["TopicPartition", ErrorCode]


class Producing(NamedTuple):
    """Who writes, and whether what it writes to is added to its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool = False


class Verifier:
    """Of one gateway. `peers` are the others, if there are any."""

    def __init__(self, coordinator: TransactionCoordinator, peers: Peers | None) -> None:
        self._coordinator = coordinator
        self._peers = peers

    async def check(self, who: Producing, partitions: Collection[TopicPartition], client: str) -> Errors:
        """No error for each partition that may be written to, or why not: what the coordinator says, and
        COORDINATOR_NOT_AVAILABLE while it is not to be asked. INVALID_REQUEST: an empty transactional id.
        """
        if not who.transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        try:
            node = self._coordinator.node_of(who.transactional_id)
            if self._peers is None or node == self._coordinator.node_id:
                return await self._check_here(who, partitions, client)
            return await self._ask(node, who, partitions)
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
        answer = await coordinator.answer(coordinator.begin_to_add(name, wanted, client))
        return dict.fromkeys(partitions, answer.error)

    async def _ask(self, node: int, who: Producing, partitions: Collection[TopicPartition]) -> Errors:
        """Raises KafkaError: COORDINATOR_NOT_AVAILABLE."""
        assert self._peers is not None
        topics = [
            _Topic(name=name, partitions=[index for _, index in places])
            for name, places in groupby(sorted(partitions), key=itemgetter(0))
        ]
        one = _Transaction(
            transactional_id=who.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            verify_only=not who.adds,
            topics=topics,
        )
        question = Question(_Request(transactions=[one]), lowest=BATCHED_SINCE_VERSION)
        try:
            answer = await self._peers.ask(node, question, ASK_SECONDS)
        except PeerFailed as failure:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(failure)) from None
        found: Errors = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for result in answer.results_by_transaction:
            for topic in result.topic_results:
                for partition in topic.results_by_partition:
                    place = topic.name, partition.partition_index
                    if place in found:
                        found[place] = ErrorCode(partition.partition_error_code)
        return found
