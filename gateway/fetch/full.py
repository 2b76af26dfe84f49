"""A Fetch that names all of its partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from gateway.common.handlers import Request
from gateway.common.work import BREATH
from gateway.fetch.fetched_partition import FetchedPartition, missing_rank
from gateway.fetch.job import Job
from gateway.fetch.session import TopicKey
from gateway.log.partition import Partition
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartitionResult, FetchTopic, ForgottenTopic, TopicResults

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster


def key_of(topic: FetchTopic | ForgottenTopic) -> TopicKey:
    """A topic's name, or its id where the request has that."""
    if topic.name is not None:
        return topic.name
    assert topic.topic_id is not None
    return topic.topic_id


class FetchJob(Job[Partition]):
    """A Fetch without a session, or the first one of a session.

    A partition that is named twice has one place in the answer, its first, and is read as it was named last:
    `FetchRequest.fetchData` is a LinkedHashMap.
    """

    def __init__(self, request: Request, broker: Cluster) -> None:
        super().__init__(request, broker)
        self._answered: list[TopicResults] = []
        self._topics: list[tuple[FetchTopic, list[FetchedPartition]]] = []
        """What the answer tells of, in its order."""
        self._wanted: dict[tuple[TopicKey, int], FetchedPartition] = {}
        """All partitions, by topic and index, in the order in which they were named first."""
        self._wanted_of: dict[Partition, FetchedPartition] = {}
        """While this is parked."""
        self._unknown = 0

    def advanced(self, partition: Partition, /) -> None:
        """A partition that this waits for has something new (`gateway.log.listeners.FetchWaiter`)."""
        self._change(partition)

    @property
    def partitions(self) -> int:
        """How many partitions the answer tells of."""
        return len(self._wanted)

    def answered(self) -> Iterator[tuple[TopicKey, FetchedPartition, FetchPartitionResult]]:
        """Every partition with what the answer says of it: for the session that begins with it."""
        for (topic, group), (_, _, results) in zip(self._topics, self._answered, strict=True):
            key = key_of(topic)
            for wanted, result in zip(group, results, strict=True):
                yield key, wanted, result

    async def _read_all(self) -> None:
        await self._resolve()
        read = self.reading.read
        for done, wanted in enumerate(self._wanted.values(), 1):
            if wanted.partition is None:
                self._unknown += 1
            else:
                read(wanted, wanted.partition)
            if not done % BREATH:
                await self._request.work.breath()

    async def _resolve(self) -> None:
        """Find the partitions that are named, each once."""
        all_wanted = self._wanted
        ranks: tuple[list[tuple[FetchTopic, list[FetchedPartition]]], ...] = (self._topics, [], [])
        named = 0
        for topic in self._body.topics:
            named += 1
            if not named % BREATH:
                await self._request.work.breath()
            known, missing = self._partitions_of(topic)
            key = key_of(topic)
            groups: tuple[list[FetchedPartition], ...] = ([], [], [])
            for ask in topic.partitions:
                named += 1
                if not named % BREATH:
                    await self._request.work.breath()
                wanted = all_wanted.get((key, ask.index))
                if wanted is not None:
                    wanted.ask = ask
                    continue
                if 0 <= ask.index < len(known):
                    wanted = FetchedPartition(ask, known[ask.index], ErrorCode.NONE)
                else:
                    wanted = FetchedPartition(ask, None, missing)
                all_wanted[key, ask.index] = wanted
                groups[missing_rank(wanted)].append(wanted)
            for topics, group in zip(ranks, groups, strict=True):
                _add(topics, topic, group)
        for topic, group in (*ranks[1], *ranks[2]):
            _add(self._topics, topic, group)

    def _partitions_of(self, topic: FetchTopic) -> tuple[Sequence[Partition], ErrorCode]:
        """The partitions of a topic, and the error for those it has not."""
        if topic.name is not None:
            found = self._broker.topics.get(topic.name)
        else:
            assert topic.topic_id is not None
            found = self._broker.topics.by_id(topic.topic_id)
        name = topic.name if found is None else found.name
        if not self._may_read(name):
            return (), ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if name is None:
            return (), ErrorCode.UNKNOWN_TOPIC_ID
        return () if found is None else found.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _hopeless(self) -> bool:
        # An unknown partition alone hurries nobody, if there are others: its client would ask in a loop.
        return self._unknown == len(self._wanted)

    async def _park(self) -> None:
        """Wait at all partitions, noting for each what it is wanted for."""
        committed = self.reading.committed
        for done, wanted in enumerate(self._wanted.values(), 1):
            partition = wanted.partition
            if partition is not None:
                self._wanted_of[partition] = wanted
                partition.listeners.add(self)
                if partition.visible_end(committed) != wanted.end or partition.deleted:
                    self.advanced(partition)  # since it was read
            if not done % BREATH:
                await self._request.work.breath()

    def _unpark(self) -> None:
        for partition in self._wanted_of:
            partition.listeners.remove(self)

    def _read_changed(self, what: Partition) -> None:
        self.reading.read(self._wanted_of[what], what)

    def _wanted_in_order(self) -> Collection[FetchedPartition]:
        return self._wanted.values()

    async def _results(self, wanted: Collection[FetchedPartition]) -> list[TopicResults]:  # noqa: ARG002
        answered = self._answered
        done = 0
        for topic, group in self._topics:
            results: list[FetchPartitionResult] = []
            answered.append((topic.name, topic.topic_id, results))
            for one in group:
                if one.error is not ErrorCode.NONE:
                    self._broker.context.errors.count("Fetch", one.error.name)
                results.append(one.result(committed=self.reading.committed))
                done += 1
                if not done % BREATH:
                    await self._request.work.breath()
        return answered


def _add(
    topics: list[tuple[FetchTopic, list[FetchedPartition]]], topic: FetchTopic, group: list[FetchedPartition]
) -> None:
    """Add partitions of a topic after the others, to its last entry if that comes last
    (`FetchResponse.toMessage`).
    """
    if not group:
        return
    if topics and key_of(topics[-1][0]) == key_of(topic):
        topics[-1][1].extend(group)
    else:
        topics.append((topic, group))
