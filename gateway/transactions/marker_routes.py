"""Markers to the leaders of their partitions: this gateway, or others, which are sent many at a time.

What is to be sent to a leader while a request is on its way to it goes into the next one. So markers of many
transactions share requests, and one that is alone leaves at once.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.cluster.gateways import NOBODY
from gateway.peers.failures import PeerFailed
from gateway.peers.question import Question
from gateway.peers.refusals import say_if_refused
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import REQUEST_CLASSES

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster
    from gateway.common.marker import Marker
    from gateway.peers.peers import Peers
    from gateway.transactions.local_markers import LocalMarkers
    from gateway.transactions.metadata import TopicPartition

MARKERS_A_REQUEST: Final = 500
"""Markers in one request to another gateway, each of one partition."""

ASK_SECONDS: Final = 10.0
"""How long another gateway may take: its stores have to keep what it is sent. Then they are sent again."""

CHANNEL: Final = "markers"
"""They wait for stores, and nothing else is to wait for them (`gateway.peers.peers`)."""

_Request: Any = REQUEST_CLASSES[ApiKey.WRITE_TXN_MARKERS]
_Marker: Any = _Request.WritableTxnMarker
_Topic: Any = _Marker.WritableTxnMarkerTopic


class _Sent:
    """A marker for a partition that another gateway leads."""

    __slots__ = ("done", "error", "leader_epoch", "marker", "partition")

    def __init__(self, partition: TopicPartition, marker: Marker, leader_epoch: int) -> None:
        self.partition = partition
        self.marker = marker
        self.leader_epoch = leader_epoch
        self.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        """What it was answered; this, if it was not."""
        self.done = trio.Event()


class MarkerRoutes:
    """See `gateway.transactions.markers.MarkerTarget`. `peers` are the other gateways, if there are any;
    `run` has to run where there are.
    """

    def __init__(self, cluster: Cluster, here: LocalMarkers, peers: Peers | None) -> None:
        self.exists = here.exists
        self._cluster = cluster
        self._here = here
        self._peers = peers
        self._waiting: defaultdict[int, deque[_Sent]] = defaultdict(deque)
        self._sending: set[int] = set()
        """Leaders to which a task sends."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Send to others, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    async def write(self, partition: TopicPartition, marker: Marker) -> ErrorCode:
        """Have it appended by the partition's leader, as far as that is known."""
        name, index = partition
        topic = self._cluster.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        leader = self._cluster.gateways.leader(topic.id, index)
        if self._peers is None or leader == self._cluster.node_id:
            return await self._here.write(partition, marker)
        if leader == NOBODY or self._nursery is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        sent = _Sent(partition, marker, topic.partitions[index].leader_epoch)
        self._waiting[leader].append(sent)
        if leader not in self._sending:
            self._sending.add(leader)
            self._nursery.start_soon(self._send_all, leader, self._peers)
        await sent.done.wait()
        return sent.error

    async def _send_all(self, leader: int, peers: Peers) -> None:
        """Send what waits for this leader, one request after the other."""
        waiting = self._waiting[leader]
        try:
            while waiting:
                some = _next_of(waiting)
                try:
                    answer = await peers.ask(leader, Question(_request_of(some)), ASK_SECONDS, CHANNEL)
                    _take(some, answer)
                    for error in {sent.error for sent in some}:
                        say_if_refused(leader, ApiKey.WRITE_TXN_MARKERS, error)
                except PeerFailed:
                    pass  # they are answered as they were made: to be sent again, to whoever leads then
                finally:
                    for sent in some:
                        sent.done.set()
        finally:
            self._sending.discard(leader)


def _next_of(waiting: deque[_Sent]) -> list[_Sent]:
    """Those that go with the next request, taken out. Of one producer one for each partition: the answer
    tells no more apart, and an earlier one may still be there whose sender was cancelled.
    """
    some: dict[tuple[int, TopicPartition], _Sent] = {}
    while waiting and len(some) < MARKERS_A_REQUEST:
        key = waiting[0].marker.producer_id, waiting[0].partition
        if key in some:
            break
        some[key] = waiting.popleft()
    return list(some.values())


def _request_of(some: list[_Sent]) -> Any:
    """One request for these; those of a transaction are together."""
    by_marker: defaultdict[Marker, defaultdict[str, list[_Sent]]] = defaultdict(lambda: defaultdict(list))
    for sent in some:
        by_marker[sent.marker][sent.partition[0]].append(sent)
    markers = []
    for marker, topics in by_marker.items():
        of_topics = [
            _Topic(
                name=name,
                partition_indexes=[sent.partition[1] for sent in ones],
                leader_epochs=[sent.leader_epoch for sent in ones],
            )
            for name, ones in topics.items()
        ]
        markers.append(
            _Marker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.is_commit,
                topics=of_topics,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                number=marker.number,
            )
        )
    return _Request(markers=markers)


def _take(some: list[_Sent], answer: Any) -> None:
    """Note what was answered. A producer has one marker in a request for a partition."""
    errors = {
        (one.producer_id, topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for one in answer.markers
        for topic in one.topics
        for partition in topic.partitions
    }
    for sent in some:
        error = errors.get((sent.marker.producer_id, *sent.partition))
        if error is not None:
            sent.error = error
