"""What answers tell of topics, at one moment: what Metadata and DescribeTopicPartitions are built from."""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.cluster.gateways import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from gateway.cluster.cluster import Cluster
    from gateway.cluster.stores import Replicas
    from gateway.log.partition import Partition
    from gateway.log.topic import Topic

_EPOCH: Final = attrgetter("leader_epoch")
_AVAILABLE: Final = attrgetter("available")


class TopicState(NamedTuple):
    """All that an answer tells of a topic, at one moment: answers are built from this and nothing else."""

    name: str
    id: bytes
    internal: bool
    partitions: tuple[tuple[int, bool, Replicas | None, int], ...]
    """Leader epoch, whether the leader takes produces, the stores that keep it, and the leader's id."""


class Hidden(NamedTuple):
    """In place of a topic of which the client is not told whether it exists; or which does not, and which it
    may not create: then it is told whether that would be an internal one.
    """

    is_internal: bool = False


HIDDEN: Final = Hidden()


def states(
    cluster: Cluster, topics: Iterable[Topic | Hidden | None], local_address: tuple[str, int]
) -> list[TopicState | Hidden | None]:
    """What is to be told of these topics to who has come in on this address. What is no topic stays so."""
    stores = cluster.stores
    if stores.presence is None:
        return [_alone(topic, cluster.node_id) for topic in topics]
    known: dict[tuple[str, ...], Replicas] = {}

    def replicas(partition: Partition) -> Replicas:
        members = partition.members
        found = known.get(members)
        if found is None:
            found = known[members] = stores.replicas(members)
        return found

    reached = cluster.gateways.reached(local_address)
    return [_state(topic, replicas, cluster, reached) for topic in topics]


def _alone(topic: Topic | Hidden | None, node_id: int) -> TopicState | Hidden | None:
    """As `_state`, where the broker is the only replica there is."""
    if topic is None or isinstance(topic, Hidden):
        return topic
    partitions = topic.partitions
    told = tuple(zip(map(_EPOCH, partitions), map(_AVAILABLE, partitions), repeat(None), repeat(node_id)))
    return TopicState(topic.name, topic.id, topic.internal, told)


def _state(
    topic: Topic | Hidden | None,
    replicas: Callable[[Partition], Replicas | None],
    cluster: Cluster,
    reached: Collection[int],
) -> TopicState | Hidden | None:
    if topic is None or isinstance(topic, Hidden):
        return topic
    own = cluster.node_id
    partitions = []
    for one, leader in zip(topic.partitions, cluster.gateways.leaders(topic), strict=True):
        if leader == own:
            told = one.leader_epoch, one.available, replicas(one), own
        elif leader in reached:
            told = one.leader_epoch, True, replicas(one), leader
        else:
            told = one.leader_epoch, False, replicas(one), NOBODY
        partitions.append(told)
    return TopicState(topic.name, topic.id, topic.internal, tuple(partitions))
