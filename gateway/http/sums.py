"""Sums over partitions and rates, made once a second while somebody looks.

What a topic's partitions hold together would take a look at all of them for each page. Here it is made for
all pages, a turn at a time; a partition in which nothing has changed since the last round costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from gateway.http.lost_offsets import LostOffsets
from gateway.http.rounds import Rounds
from gateway.log.partition import Partition, PartitionState

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.common.metrics import Metrics
    from gateway.front.connection import Connection
    from gateway.front.server import Server
    from gateway.http.turns import Turns
    from gateway.log.topic import Topic

NAMED_FAILURES: Final = 3
"""Partitions that failed and are named."""

PARTITIONS_A_BREATH: Final = 64
"""Partitions between two looks at the clock: 0.1 ms."""


class PartitionSums:
    """What was seen of a partition in the last round. Rates are per second, None until they are known."""

    __slots__ = ("appended", "at", "bytes", "bytes_in", "newest", "next_offset", "records_in", "seen")

    def __init__(self) -> None:
        self.seen: tuple[object, ...] = ()
        self.at = 0.0
        self.bytes = 0
        """Of one copy, as far as segments know their sizes."""
        self.next_offset = 0
        self.newest: str | None = None
        """The address of the segment that appends went to, and the bytes that had come to it."""
        self.appended = 0
        self.records_in: float | None = None
        self.bytes_in: float | None = None


class TopicSums:
    """The sums of one topic, of the last round that came to it."""

    __slots__ = (
        "bytes",
        "bytes_in",
        "offline",
        "offsets",
        "partitions",
        "records_in",
        "serving",
        "under_min",
        "under_replicated",
    )

    def __init__(self) -> None:
        self.partitions: dict[Partition, PartitionSums] = {}
        self.bytes = self.offsets = self.serving = self.under_replicated = self.under_min = self.offline = 0
        self.records_in: float | None = None
        self.bytes_in: float | None = None


class ApiRates:
    """What was counted of an API, and its rates per second of the last round."""

    __slots__ = ("answer_bytes", "counted", "mean_seconds", "request_bytes", "requests")

    def __init__(self, counted: tuple[float, ...]) -> None:
        self.counted = counted
        self.requests: float | None = None
        self.request_bytes: float | None = None
        self.answer_bytes: float | None = None
        self.mean_seconds: float | None = None


class Totals:
    """Of all topics together, as of the last whole round."""

    def __init__(self) -> None:
        self.bytes = self.serving = self.recovering = self.failed = 0
        self.under_replicated = self.under_min = self.offline = 0
        self.failures: list[Partition] = []
        """The first of those that failed."""
        self.records_in: float | None = None
        self.bytes_in: float | None = None


class Sums(Rounds):
    """All of one gateway."""

    def __init__(
        self, broker: Broker, metrics: Metrics, kafka: Callable[[], Server | None], turns: Turns
    ) -> None:
        super().__init__(turns)
        self.topics: dict[Topic, TopicSums] = {}
        self.totals: Totals | None = None
        self.apis: dict[str, ApiRates] = {}
        self.served: dict[Connection, int] = {}
        """Requests of each connection, as of the last round."""
        self.requests: dict[Connection, float] = {}
        """Requests per second of each connection that was there in both rounds."""
        self.lost_offsets = LostOffsets(broker)
        self._broker = broker
        self._metrics = metrics
        self._kafka = kafka
        self._api_time = self._served_time = 0.0
        self._live: dict[tuple[str, ...], int] = {}

    def of(self, topic: Topic) -> TopicSums | None:
        """A topic's sums, None if no round has come to it yet."""
        return self.topics.get(topic)

    def forget(self) -> None:
        """See `Rounds`."""
        self.topics, self.totals = {}, None
        self.apis, self.served, self.requests = {}, {}, {}
        self.lost_offsets.forget()

    async def round(self) -> None:
        """See `Rounds`."""
        async with self.turns.working():
            self._count_apis()
            await self._count_connections()
            await self._count_topics()
            await self.lost_offsets.look(self.turns)

    # topics ------------------------------------------------------------------------------------------------

    async def _count_topics(self) -> None:
        totals = Totals()
        topics = self._broker.topics.all()
        self._live = {}
        records = size = 0.0
        known = self.totals is not None
        for topic in topics:
            sums = await self._count(topic, self.topics.get(topic) or TopicSums(), totals)
            totals.bytes += sums.bytes
            totals.under_replicated += sums.under_replicated
            totals.under_min += sums.under_min
            totals.offline += sums.offline
            records += sums.records_in or 0.0
            size += sums.bytes_in or 0.0
        if known:
            totals.records_in, totals.bytes_in = records, size
        if len(self.topics) > len(topics):
            there = set(topics)
            self.topics = {topic: sums for topic, sums in self.topics.items() if topic in there}
        self.totals = totals

    async def _count(self, topic: Topic, sums: TopicSums, totals: Totals) -> TopicSums:
        made = TopicSums()
        records: float | None = None
        size: float | None = None
        now = trio.current_time()
        for done, partition in enumerate(topic.partitions, 1):
            one = sums.partitions.get(partition)
            if one is None:
                one = PartitionSums()
            made.partitions[partition] = one
            look(partition, one, now)
            made.bytes += one.bytes
            made.offsets += max(0, partition.high_watermark - partition.log_start_offset)
            if one.records_in is not None and one.bytes_in is not None:
                records = (records or 0.0) + one.records_in
                size = (size or 0.0) + one.bytes_in
            self._count_state(partition, made, totals)
            if not done % PARTITIONS_A_BREATH and self.turns.spent:
                await self.turns.breathe()
                now = trio.current_time()
        await self.turns.breathe()
        made.records_in, made.bytes_in = records, size
        self.topics[topic] = made
        return made

    def _count_state(self, partition: Partition, made: TopicSums, totals: Totals) -> None:
        if not self._broker.gateways.leads(partition):
            return  # its leader's page shows it
        if partition.available:
            made.serving += 1
            totals.serving += 1
        else:
            made.offline += 1
            if partition.state is PartitionState.FAILED:
                totals.failed += 1
                if len(totals.failures) < NAMED_FAILURES:
                    totals.failures.append(partition)
            else:
                totals.recovering += 1
        stores = self._broker.stores
        if stores.presence is None:
            return
        members = partition.members
        live = self._live.get(members)
        if live is None:
            live = self._live[members] = sum(map(stores.live, members))
        if live < len(members):
            made.under_replicated += 1
            if live < self._broker.context.w_for(partition, members):
                made.under_min += 1

    # connections and APIs ----------------------------------------------------------------------------------

    def _count_apis(self) -> None:
        now = trio.current_time()
        passed = now - self._api_time
        self._api_time = now
        apis: dict[str, ApiRates] = {}
        for stats in self._metrics.apis.values():
            counted = (stats.requests, stats.request_bytes, stats.response_bytes, stats.latency.total)
            rates = apis[stats.name] = ApiRates(counted)
            before = self.apis.get(stats.name)
            if self.rounds and passed > 0:
                seen = (0.0,) * 4 if before is None else before.counted
                requests, sent, answered, seconds = (
                    after - then for after, then in zip(counted, seen, strict=True)
                )
                rates.requests, rates.request_bytes = requests / passed, sent / passed
                rates.answer_bytes = answered / passed
                rates.mean_seconds = seconds / requests if requests else None
        self.apis = apis

    async def _count_connections(self) -> None:
        server = self._kafka()
        connections = [] if server is None else list(server.connections)
        now = trio.current_time()
        passed = now - self._served_time
        self._served_time = now
        served: dict[Connection, int] = {}
        requests: dict[Connection, float] = {}
        for done, connection in enumerate(connections, 1):
            count = served[connection] = connection.served
            before = self.served.get(connection)
            if before is not None and passed > 0:
                requests[connection] = (count - before) / passed
            if not done % PARTITIONS_A_BREATH:
                await self.turns.breathe()
        self.served, self.requests = served, requests


def look(partition: Partition, sums: PartitionSums, now: float) -> None:
    """See what has changed since the last look."""
    chain = partition.chain
    current, closed = chain.current, chain.closed
    # Sizes of closed segments change only with the list, or when somebody has counted: then a roll shows it.
    seen = (
        partition.next_offset,
        current,
        len(closed),
        closed[0] if closed else None,
        closed[-1] if closed else None,
    )
    passed = now - sums.at
    if seen == sums.seen:
        if passed > 0:
            sums.records_in = sums.bytes_in = 0.0
        sums.at = now
        return
    first = not sums.at
    before, held, came = sums.next_offset, sums.newest, sums.appended
    sums.seen, sums.at, sums.next_offset = seen, now, partition.next_offset
    rolled = chain.rolling
    sums.bytes = chain.known_bytes()
    sums.newest, sums.appended = None, 0
    if current is not None:
        sums.newest, sums.appended = current.segment.address, current.bytes
    if first or passed <= 0:
        return
    sums.records_in = max(0, partition.next_offset - before) / passed
    if sums.newest == held:
        appended = sums.appended - came
    else:
        ended = next((one.bytes for one in rolled if one.segment.address == held), None)
        if ended is None:
            ended = next((one.size for one in reversed(closed) if one.address == held), came)
        appended = max(0, ended - came) + sums.appended
    sums.bytes_in = max(0, appended) / passed
