"""One Fetch on its way to its answer: it reads, waits if there is too little, and reads on what advanced."""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from gateway.common.handlers import Request
from gateway.common.work import BREATH
from gateway.fetch.fetched_partition import FetchedPartition, bytes_of
from gateway.fetch.reading import Reading
from gateway.security.acls import CLUSTER_NAME, Operation, ResourceType
from wireproto.kafka.fetch import FetchRequest, TopicResults

if TYPE_CHECKING:
    from gateway.cluster.cluster import Cluster

MAX_WAIT_MS = 300_000
"""Longest that a Fetch is parked, whatever it asks for; Java's default is 500 ms."""

CONSUMER_REPLICA_ID = -1
"""Whoever gives a higher one is a follower, as Kafka sees it."""

LITTLE_BYTES = 64 * 1024
"""Records of an answer that waits for no turn: of the smallest batches that is a quarter of a millisecond."""

_Changed = TypeVar("_Changed")


class ClientLeft(Exception):
    """Nobody is there any more who could be answered: nothing more is read for him."""


class OverQuota(Exception):
    """Its client has fetched too much lately: the answer has no records, and is not to be waited for."""


class Job(abc.ABC, Generic[_Changed]):
    """What a Fetch of all its partitions and one of a session have in common.

    Everything is read once. If that is too little, the job is parked: the log says what advanced, and only
    that is read again, in the log's own call: most of the time it is still too little, and the job's task
    sleeps on. A client may name 100,000 partitions: whatever is done for each of them lets others have their
    turn after every `BREATH`.
    """

    def __init__(self, request: Request, broker: Cluster) -> None:
        self.reading = Reading(request)
        self._request = request
        self._body: FetchRequest = request.body
        self._broker = broker
        self._hurried = request.shutting_down.is_set()
        self._changed: dict[_Changed, None] = {}
        """What said that it is not as it was read."""
        self._asleep = False
        """Nothing else happens to what was read: what says so is read again at once."""
        self._woken = trio.Event()

    async def run(self) -> list[TopicResults]:
        """Read, waiting if there is too little, and give the results. Raises ClientLeft and OverQuota."""
        reading, body = self.reading, self._body
        await self._read_all()
        if not self._enough() and body.max_wait_ms > 0:
            await self._wait(min(body.max_wait_ms, MAX_WAIT_MS) / 1000)
        wanted = self._wanted_in_order()
        if reading.found > LITTLE_BYTES:
            await self._settle()
        await reading.reserve(len(wanted))
        if reading.waited and self._request.gone:
            raise ClientLeft
        await reading.take()
        await reading.read_cold(wanted)
        charges = self._request.charges
        if charges is not None and not charges.may_fetch(sum(bytes_of(one.records) for one in wanted)):
            raise OverQuota
        return await self._results(wanted)

    def _may_read(self, topic: str | None) -> bool:
        """Whether the client may read this topic's records; None: one whose id is not known, which is no
        secret. A follower, as Kafka sees it, has to act for the cluster, and may then read all.
        """
        access = self._request.access
        if access.is_unrestricted:
            return True
        if self._body.replica_id > CONSUMER_REPLICA_ID:
            return access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return topic is None or access.may(Operation.READ, ResourceType.TOPIC, topic)

    @property
    def client(self) -> str:
        """Whose it is (`gateway.common.clients`)."""
        return self._request.client

    def hurry(self) -> None:
        """Answer with what there is: the gateway stops, others wait for this request's memory, or the client
        has gone.
        """
        self._hurried = True
        self._woken.set()

    def _change(self, what: _Changed) -> None:
        if self._asleep:
            self._read_changed(what)
            if not self._enough():
                return
        else:
            self._changed[what] = None
        self._woken.set()

    def _enough(self) -> bool:
        return self.reading.enough or self._hopeless()

    async def _wait(self, seconds: float) -> None:
        parked = self._broker.parked
        parked.add(self)
        self.reading.waited = True
        self._request.park(self.hurry)
        try:
            await self._park()
            with trio.move_on_after(seconds):
                while not self._enough() and not self._hurried:
                    await self._sleep()
                    changed, self._changed = self._changed, {}
                    await _with_breaths(changed, self._read_changed)
        finally:
            self._request.unpark()
            parked.discard(self)
            self._unpark()

    async def _settle(self) -> None:
        """Before memory is held: how many batches there are in an answer is known when it is made."""
        work = self._request.work
        if work.turns.left < 0:
            self.reading.waited = True
            await work.settle()

    async def _sleep(self) -> None:
        """Until something is to be done; at once if something changed meanwhile."""
        if not self._changed:
            self._asleep = True
            try:
                await self._woken.wait()
            finally:
                self._asleep = False
        self._woken = trio.Event()

    @abc.abstractmethod
    async def _read_all(self) -> None:
        """Find what is wanted, and read all of it."""

    @abc.abstractmethod
    def _hopeless(self) -> bool:
        """There is no partition whose records could be waited for."""

    @abc.abstractmethod
    async def _park(self) -> None:
        """Have the log call; what advanced since it was read is changed already."""

    @abc.abstractmethod
    def _unpark(self) -> None:
        """The log need not call any more."""

    @abc.abstractmethod
    def _read_changed(self, what: _Changed) -> None:
        """Read again what changed."""

    @abc.abstractmethod
    def _wanted_in_order(self) -> Collection[FetchedPartition]:
        """Everything that was read, in the order of the answer."""

    @abc.abstractmethod
    async def _results(self, wanted: Collection[FetchedPartition]) -> list[TopicResults]:
        """The answer."""


async def _with_breaths(items: Iterable[_Changed], act: Any) -> None:
    for done, item in enumerate(items, 1):
        act(item)
        if not done % BREATH:
            await trio.lowlevel.checkpoint()
