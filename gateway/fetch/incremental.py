"""A Fetch that goes on with a session: it reads the session's active partitions, and no others.

An active partition is one that was named again, gave records or an error last time, or called because the log
moved. What is found idle is *armed*: the log's partition keeps it, and calls once. It stays active until the
answer is made and it is sure that nothing happened meanwhile, so nothing is forgotten when a client goes away
in the middle.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from gateway.answers.encoding import encoded
from gateway.common.handlers import Request
from gateway.common.work import BREATH
from gateway.fetch.fetched_partition import FetchedPartition, bytes_of, missing_rank
from gateway.fetch.job import Job, OverQuota
from gateway.fetch.session import FORGOTTEN, FetchSession, SessionPartition, place_of
from gateway.log.partition import Partition
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartitionResult, TopicResults

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster


class SessionTaken(Exception):
    """Another Fetch went on with the session while this one waited."""


class SessionJob(Job[SessionPartition]):
    """One Fetch of a session whose partitions are up to date. `run` raises SessionTaken."""

    def __init__(self, request: Request, broker: Cluster, session: FetchSession) -> None:
        super().__init__(request, broker)
        self._session = session
        self._epoch = session.epoch
        self._wanted: dict[SessionPartition, FetchedPartition] = {}
        """What was read, at first in the session's order."""
        self._called_later = False
        """And then others, in the order in which they called."""
        self._unknown = 0

    async def run(self) -> list[TopicResults]:
        session = self._session
        if session.reader is not None:
            session.reader.hurry()
        session.reader = self
        try:
            return await super().run()
        except OverQuota:
            self._check_epoch()
            raise
        finally:
            if session.reader is self:
                session.reader = None

    def _check_epoch(self) -> None:
        """Raises SessionTaken."""
        if self._session.epoch != self._epoch:
            raise SessionTaken

    def called(self, partition: SessionPartition) -> None:
        """A partition of the session became active (`gateway.fetch.session.SessionReader`)."""
        self._change(partition)

    async def _read_all(self) -> None:
        active = list(self._session.active)
        for done, place in enumerate(await _in_order(active), 1):
            self._look(place)
            if not done % BREATH:
                await self._request.work.breath()

    def _look(self, place: SessionPartition) -> FetchedPartition:
        """Read one partition of the session, again or for the first time."""
        wanted = self._wanted.get(place)
        partition, error = self._resolve(place)
        if not self._may_read(_name_of(place)):
            partition, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if wanted is None:
            wanted = self._wanted[place] = FetchedPartition(place.ask, partition, error, place)
            self._unknown += missing_rank(wanted) > 0
        if partition is None:
            self.reading.drop(wanted, error)
            if error is ErrorCode.INCONSISTENT_TOPIC_ID:
                self.reading.failed = True
            return wanted
        wanted.partition = partition
        self.reading.read(wanted, partition)
        if wanted.error is ErrorCode.NONE and not wanted.size:
            self._arm(place, partition)
        return wanted

    def _arm(self, place: SessionPartition, partition: Partition) -> None:
        if not place.armed and not self._session.closed and place.place != FORGOTTEN:
            place.armed = True
            partition.listeners.watch(place)

    def _resolve(self, place: SessionPartition) -> tuple[Partition | None, ErrorCode]:
        """The log's partition, or why there is none.

        A topic that is deleted and made again has another log: a session that names it goes on with that one,
        one that has its id does not (`ReplicaManager.readFromLog`).
        """
        found: Partition | None = place.source
        if found is not None and not found.deleted:
            return found, ErrorCode.NONE
        disarm(place)  # the call that the deleted one owes may be yet to come
        place.source = None
        topics, topic = self._broker.topics, place.topic
        key, index = topic.key, place.ask.index
        now = topics.get(key) if isinstance(key, str) else topics.by_id(key)
        if now is not None:
            topic.name = now.name
        if topic.name is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        named = now or topics.get(topic.name)
        if named is None or not 0 <= index < len(named.partitions):
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if now is None:
            return None, ErrorCode.INCONSISTENT_TOPIC_ID
        place.source = now.partitions[index]
        return place.source, ErrorCode.NONE

    def _hopeless(self) -> bool:
        return self._unknown >= self._session.size

    async def _park(self) -> None:
        """Have those call that gave too little, too. The idle ones do already."""
        committed = self.reading.committed
        for done, (place, wanted) in enumerate(tuple(self._wanted.items()), 1):
            partition = wanted.partition
            if partition is not None and not place.armed:
                self._arm(place, partition)
                if partition.visible_end(committed) != wanted.end or partition.deleted:
                    self._change(place)  # since it was read
            if not done % BREATH:
                await self._request.work.breath()

    def _unpark(self) -> None:
        """Who is armed stays so: that is for the Fetches to come."""

    def _read_changed(self, what: SessionPartition) -> None:
        self._called_later = self._called_later or what not in self._wanted
        wanted = self._look(what)
        if wanted.partition is None:
            self.reading.failed = True  # it was there before
        else:
            self._arm(what, wanted.partition)

    def _wanted_in_order(self) -> Collection[FetchedPartition]:
        wanted: Collection[FetchedPartition] = self._wanted.values()
        if self._called_later:
            wanted = [self._wanted[place] for place in sorted(self._wanted, key=place_of)]
        if not self._unknown:
            return wanted
        return sorted(wanted, key=missing_rank)

    async def _results(self, wanted: Collection[FetchedPartition]) -> list[TopicResults]:
        answered: list[TopicResults] = []
        for done, one in enumerate(wanted, 1):
            self._check_epoch()
            place = one.place
            assert place is not None
            result = one.result(committed=self.reading.committed)
            if one.error is not ErrorCode.NONE:
                self._broker.context.errors.count("Fetch", one.error.name)
            self._tell(place, result, answered)
            if not done % BREATH:
                await self._request.work.breath()
        self._check_epoch()
        return answered

    def _tell(
        self, place: SessionPartition, result: FetchPartitionResult, answered: list[TopicResults]
    ) -> None:
        """Answer of one partition, if there is something new."""
        size = bytes_of(result.records)
        if place.tell(result.high_watermark, result.log_start_offset, size, result.error_code):
            key = place.topic.key
            name, topic_id = (key, None) if isinstance(key, str) else (None, key)
            if answered and answered[-1][:2] == (name, topic_id):
                answered[-1][2].append(result)
            else:
                answered.append((name, topic_id, [result]))
        session = self._session
        if size:
            session.gave_records(place)
        elif (
            place.armed
            and result.error_code == ErrorCode.NONE
            and place.ask.fetch_offset >= self.reading.end_of(result)
        ):
            session.active.discard(place)


def _name_of(place: SessionPartition) -> str | None:
    """The name of its topic; None: the id was never known."""
    key = place.topic.key
    return key if isinstance(key, str) else place.topic.name


def disarm(place: SessionPartition) -> None:
    """The log's partition need not call any more."""
    if place.armed:
        place.source.listeners.unwatch(place)
        place.armed = False


async def _in_order(active: list[SessionPartition]) -> list[SessionPartition]:
    return await encoded(len(active), partial(sorted, active, key=place_of))
