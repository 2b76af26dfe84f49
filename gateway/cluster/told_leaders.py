"""Which leaders one answer names to a client that has asked another gateway (KIP-951): so it need not ask for
Metadata first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wireproto.kafka.leaders import CurrentLeader, NodeEndpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.cluster.gateways import Gateways
    from gateway.log.topic import Topic


class ToldLeaders:
    """Of one answer, to who has come in on this advertised address."""

    def __init__(self, gateways: Gateways, local_address: tuple[str, int]) -> None:
        self._gateways = gateways
        self._local_address = local_address
        self._told: set[int] = set()

    def of(self, topic: Topic | None, index: int) -> CurrentLeader | None:
        """The leader of a partition that this gateway does not lead; None where the client knows no less."""
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        partition = topic.partitions[index]
        leader = self._gateways.leader(topic.id, index)
        if self._gateways.leads(partition) or leader not in self._gateways.reached(self._local_address):
            return None
        self._told.add(leader)
        return CurrentLeader(leader, partition.leader_epoch)

    @property
    def nodes(self) -> Sequence[NodeEndpoint]:
        """Where those are that were told."""
        if not self._told:
            return ()
        brokers = self._gateways.brokers(self._local_address)
        return [NodeEndpoint(*one) for one in brokers if one.id in self._told]
