"""Consumers of the simulated cluster that read with fetch sessions (KIP-227), through the real Fetch handler.

Such a consumer is told of a partition only when something of it is new. So it has to know, after each answer,
all that a Fetch of all partitions would have told it when it asked: log starts, high watermarks, errors and
records. That is compared with the partitions as they were when it asked.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from gateway.api.fetch import INITIAL_EPOCH, fetch
from gateway.common.work import Work
from gateway.fetch.session import next_epoch
from gateway.log.partition import Partition, PartitionState
from gateway.security.access import UNRESTRICTED
from tests.sim.loop import BrokenPromise
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from wireproto.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gateway.common.handlers import Request
    from tests.sim.gateway_node import Life
    from wireproto.kafka.fetch import TopicResults

VERSION = 17
"""Of Fetch; topics come by id."""

MANY_BYTES = 1 << 20
FEW_BYTES = 2500
"""What a consumer takes in one answer."""

PATIENCE = 6
"""Answers with records of others and none of a partition that has some, for each partition of the session,
however little an answer holds.
"""

READ_SECONDS = 60.0
"""How long a partition that has records may give none at all: each message that is lost costs a read from a
store 5 s.
"""

Place = tuple[bytes, int]
"""Topic id and index."""


class Told(NamedTuple):
    """What a consumer knows of a partition."""

    error: int
    high_watermark: int
    log_start: int


class Answer(NamedTuple):
    """What the Fetch handler would encode."""

    results: Sequence[TopicResults]
    error: ErrorCode
    session_id: int


async def plain_answer(
    _request: Request,
    _broker: object,
    results: Sequence[TopicResults],
    *,
    error: ErrorCode = ErrorCode.NONE,
    session_id: int = 0,
) -> Answer:
    """In the place of `gateway.api.fetch._answer`."""
    return Answer(results, error, session_id)


class SessionConsumer:
    """One consumer of one gateway life."""

    def __init__(self, life: Life, number: int) -> None:
        self._life = life
        self._world = life.world
        self._number = number
        self._session = 0
        self._epoch = INITIAL_EPOCH
        self._positions: dict[Place, int] = {}
        self._asked: dict[Place, int] = {}
        """What the session knows of the positions."""
        self._told: dict[Place, Told] = {}
        self._starved: dict[Place, tuple[int, float]] = {}
        """How often in a row a partition gave nothing, and since when."""

    async def run(self) -> None:
        """Read for ever."""
        while True:
            await trio.sleep(0.02 + 0.1 * self._world.random.random())
            await self._step()

    async def _step(self) -> None:
        wanted, forgotten = self._choose()
        if not self._positions and not forgotten:
            return
        draw = self._world.random.random()
        max_bytes = FEW_BYTES if draw < 0.3 else MANY_BYTES
        wait_ms = 200 if draw > 0.8 else 0
        before = self._state(self._positions)
        positions = dict(self._positions)
        answer = await self._fetch(wanted, forgotten, max_bytes, wait_ms)
        if self._life.over:
            return
        if answer.error is not ErrorCode.NONE:
            if answer.error is not ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                raise BrokenPromise(f"the session of a consumer ended with {answer.error.name}")
            self._begin_anew()
            return
        self._epoch = next_epoch(self._epoch)
        self._session = answer.session_id
        if not answer.session_id:
            self._begin_anew()  # it has forgotten all
            return
        given = self._take(answer.results)
        self._world.reached["fetches of sessions"] += 1
        self._compare(before, positions, given, few=max_bytes == FEW_BYTES)

    def _begin_anew(self) -> None:
        self._session, self._epoch = 0, INITIAL_EPOCH
        self._asked.clear()
        self._told.clear()

    # what it asks -----------------------------------------------------------------------------------------

    def _choose(self) -> tuple[list[Place], list[Place]]:
        """The partitions that the session has to be told of, and those that it is to forget."""
        forgotten: list[Place] = []
        for partition in self._life.partitions():
            place = partition.topic.id, partition.index
            if place not in self._positions:
                if self._world.random.random() < 0.5:
                    self._positions[place] = 0
            elif self._world.random.random() < 0.01:
                del self._positions[place]
                self._told.pop(place, None)
                self._starved.pop(place, None)
                if self._asked.pop(place, None) is not None:
                    forgotten.append(place)
        changed = [p for p, position in self._positions.items() if self._asked.get(p) != position]
        return changed if self._session else list(self._positions), forgotten if self._session else []

    async def _fetch(
        self, wanted: list[Place], forgotten: list[Place], max_bytes: int, wait_ms: int
    ) -> Answer:
        for place in wanted:
            self._asked[place] = self._positions[place]
        topics = [
            FetchTopic(
                None,
                topic,
                [FetchPartition(i, -1, self._positions[topic, i], -1, -1, MANY_BYTES) for i in some],
            )
            for topic, some in _by_topic(wanted).items()
        ]
        gone = [ForgottenTopic(None, topic, tuple(some)) for topic, some in _by_topic(forgotten).items()]
        body = FetchRequest(-1, wait_ms, 1, max_bytes, 0, self._session, self._epoch, topics, "", gone)
        request: Any = SimpleNamespace(
            body=body,
            header=SimpleNamespace(api_version=VERSION),
            frame=b"",
            client="simulation",
            shutting_down=trio.Event(),
            try_reserve=lambda _size: True,
            park=lambda _give_up: None,
            unpark=lambda: None,
            gone=False,
            work=Work(),
            access=UNRESTRICTED,
            charges=None,
        )
        answer: Any = await fetch(request, self._life.broker)
        found: Answer = answer
        return found

    # what it is told --------------------------------------------------------------------------------------

    def _take(self, results: Iterable[TopicResults]) -> set[Place]:
        """Note what an answer says; the partitions that gave records."""
        given: set[Place] = set()
        for _, topic_id, partitions in results:
            assert topic_id is not None
            for result in partitions:
                place = topic_id, result.index
                if place not in self._positions:
                    raise BrokenPromise(f"a session tells of {place}, which is not in it")
                self._told[place] = Told(result.error_code, result.high_watermark, result.log_start_offset)
                if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._reset(place)
                elif result.records:
                    given.add(place)
                    self._read(place, result)
        return given

    def _reset(self, place: Place) -> None:
        partition = self._partition(place)
        if partition is not None:
            if partition.log_start_offset <= self._positions[place] < partition.high_watermark:
                raise BrokenPromise(f"{self._positions[place]} is out of the range of {partition}")
            self._positions[place] = partition.log_start_offset

    def _read(self, place: Place, result: FetchPartitionResult) -> None:
        partition, position = self._partition(place), self._positions[place]
        batches = list(_batches(result.records))
        self._positions[place] = read_header(batches[-1]).last_offset + 1
        if partition is not None:
            self._world.history.on_read(
                (partition.topic.name, partition.index),
                position,
                batches,
                partition.log_start_offset,
                self._world.loop.now,
                stale=True,  # it may have waited with what it read
            )

    def _partition(self, place: Place) -> Partition | None:
        topic = self._life.broker.topics.by_id(place[0])
        return None if topic is None else topic.partitions[place[1]]

    # what it should know ----------------------------------------------------------------------------------

    def _state(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """High watermark and log start of those that serve."""
        found = {}
        for place in places:
            partition = self._partition(place)
            if partition is not None and partition.state is PartitionState.READY and not partition.deleted:
                found[place] = partition.high_watermark, partition.log_start_offset
        return found

    def _compare(
        self,
        before: dict[Place, tuple[int, int]],
        positions: dict[Place, int],
        given: set[Place],
        *,
        few: bool,
    ) -> None:
        for place, (high_watermark, log_start) in before.items():
            told = self._told.get(place)
            if told is None:
                raise BrokenPromise(f"a session was never told of {self._partition(place)}")
            partition = self._partition(place)
            serves = partition is not None and partition.state is PartitionState.READY
            if told.error != ErrorCode.NONE:
                # It may have failed since; or the position was outside of the log.
                if told.error == ErrorCode.NOT_LEADER_OR_FOLLOWER and serves and not few:
                    self._starve(place, "is told that it does not serve", counts=True)
                continue
            if told.high_watermark < high_watermark or told.log_start < log_start:
                raise BrokenPromise(
                    f"a session was told of {partition} that it has {told.log_start} to"
                    f" {told.high_watermark}, and it had {log_start} to {high_watermark} when it asked"
                )
            if place in given or positions.get(place, high_watermark) >= high_watermark:
                self._starved.pop(place, None)
            else:
                self._starve(place, "was given no records", counts=bool(given))

    def _starve(self, place: Place, how: str, *, counts: bool) -> None:
        now = self._world.loop.now
        count, since = self._starved.get(place, (0, now))
        count += counts
        self._starved[place] = count, since
        if count > PATIENCE * len(self._positions) or now - since > READ_SECONDS:
            raise BrokenPromise(
                f"{count} times in a row, for {now - since:.1f} s, a session {how} of"
                f" {self._partition(place)}"
            )


def _batches(records: Iterable[Any]) -> Iterator[bytes]:
    """Each batch; many small ones come as one buffer."""
    content = b"".join(records)
    while content:
        size = read_header(content).size
        yield content[:size]
        content = content[size:]


def _by_topic(places: Iterable[Place]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic, index in places:
        found.setdefault(topic, []).append(index)
    return found
