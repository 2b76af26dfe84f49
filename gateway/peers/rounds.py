"""What is asked of whom about the ends of logs: questions that stay the same from round to round. Pure.

The same question again is answered by the other gateway from what it has answered before, unless something
has changed (`gateway.api.list_offsets`), and costs nothing to encode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from gateway.log.partition import Partition
from gateway.peers.heard import HeardEnds
from gateway.peers.question import Question
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import REQUEST_CLASSES

PARTITIONS_A_REQUEST: Final = 500
"""Partitions that one request names: to encode them takes 3 ms, once."""

STARTS_EVERY: Final = 10
"""Rounds between two questions where logs begin: only retention and DeleteRecords move that."""

LATEST: Final = -1
EARLIEST: Final = -2
"""Timestamps in a request that ask for a log's end, and for its beginning (`ListOffsetsRequest`)."""

_CONSUMER: Final = -1
"""The replica id of who is no broker, as a consumer: a broker would be told of what is not durable."""

_READ_UNCOMMITTED: Final = 0
"""The high watermark is asked for, as Kafka's tools ask for lag."""

_ListOffsets: Any = REQUEST_CLASSES[ApiKey.LIST_OFFSETS]

Place = tuple[str, int]
"""A topic's name and a partition's index."""


class Asked:
    """Some partitions of one leader, which are asked about together."""

    def __init__(self, heard: Mapping[Place, HeardEnds]) -> None:
        self.heard = heard
        self.places = tuple(heard)
        self._rounds = 0
        self._ends: Question | None = None
        self._starts: Question | None = None

    def questions(self) -> Iterator[Question]:
        """Those of this round: where the logs begin, now and then, and where they end. In this order, so that
        no end is heard that is below a start.
        """
        if self._rounds % STARTS_EVERY == 0:
            if self._starts is None:
                self._starts = self._question(EARLIEST)
            yield self._starts
        self._rounds += 1
        if self._ends is None:
            self._ends = self._question(LATEST)
        yield self._ends

    def _question(self, timestamp: int) -> Question:
        topic, partition = _ListOffsets.ListOffsetsTopic, _ListOffsets.ListOffsetsTopic.ListOffsetsPartition
        topics = [
            topic(
                name=name,
                partitions=[
                    partition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
                    for _, index in places
                ],
            )
            for name, places in groupby(self.places, lambda place: place[0])
        ]
        return Question(
            _ListOffsets(replica_id=_CONSUMER, isolation_level=_READ_UNCOMMITTED, topics=topics, timeout_ms=0)
        )

    def take(self, question: Question, answer: Any, now: float) -> None:
        """Hear what the leader has said; what it was not asked, or does not know, is passed over."""
        starts = question is self._starts
        for topic in answer.topics:
            for partition in topic.partitions:
                heard = self.heard.get((topic.name, partition.partition_index))
                if heard is None or partition.error_code != ErrorCode.NONE or partition.offset < 0:
                    continue
                if starts:
                    heard.start = partition.offset
                else:
                    heard.hear_end(partition.offset, now)


class Plan:
    """Who is asked about what from now on: `add` each partition, then `finish`. `before` is what was asked
    so far; where that is about the same partitions it goes on.
    """

    def __init__(self, before: Mapping[int, list[Asked]]) -> None:
        self._made: dict[int, list[Asked]] = {}
        self._known = {(leader, asked.places): asked for leader, every in before.items() for asked in every}
        self._open: dict[int, dict[Place, HeardEnds]] = {}

    def add(self, leader: int, partition: Partition, heard: HeardEnds) -> None:
        some = self._open.setdefault(leader, {})
        some[partition.topic.name, partition.index] = heard
        if len(some) == PARTITIONS_A_REQUEST:
            self._close(leader)

    def finish(self) -> dict[int, list[Asked]]:
        """By leader."""
        for leader in list(self._open):
            self._close(leader)
        return self._made

    def _close(self, leader: int) -> None:
        some = dict(sorted(self._open.pop(leader).items(), key=itemgetter(0)))
        same = self._known.get((leader, tuple(some)))
        if same is None or any(same.heard[place] is not heard for place, heard in some.items()):
            same = Asked(some)
        self._made.setdefault(leader, []).append(same)
