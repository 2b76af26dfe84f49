"""Fetches of a session, beside a session that looks at all of its partitions each time, as Kafka's does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gateway.fetch.consumer import SIZE, Consumer, Told, put
from tests.unit.gateway.log.fake_log import FakeLog
from tests.unit.gateway.log.test_partition_appends import logged
from wireproto.kafka.errors import ErrorCode

PARTITIONS = 4
OUT_OF_RANGE = int(ErrorCode.OFFSET_OUT_OF_RANGE)
UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass
class Log:
    """A partition: batches of one record from `start` to `end`, and whether it serves."""

    start: int = 0
    end: int = 0
    serves: bool = True


@dataclass
class Cached:
    offset: int
    high_watermark: int = -1
    start: int = -1


class Model:
    """`FetchSession`, `IncrementalFetchContext` and `ReplicaManager.readFromLog`, for one topic."""

    def __init__(self) -> None:
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.cached: dict[int, Cached] = {}

    def update(self, named: Sequence[tuple[int, int]], forgotten: Sequence[int]) -> None:
        for index, offset in named:
            if index in self.cached:
                self.cached[index].offset = offset
            else:
                self.cached[index] = Cached(offset)
        for index in forgotten:
            self.cached.pop(index, None)

    def fetch(self, max_batches: int, *, full: bool) -> list[Told]:
        told: list[Told] = []
        left, first = max_batches, True
        for index, cached in tuple(self.cached.items()):
            error, batches, high_watermark, start = self._read(index, cached.offset, max(left, first))
            left = max(0, left - batches)
            first = first and not batches
            changed = (cached.high_watermark, cached.start) != (high_watermark, start)
            cached.high_watermark, cached.start = high_watermark, start
            if full or batches or error or changed:
                told.append((index, error, high_watermark, batches))
            if batches and not full:
                self.cached[index] = self.cached.pop(index)
        return sorted(told, key=lambda one: one[0] >= PARTITIONS)  # what does not exist comes last

    def _read(self, index: int, offset: int, room: int) -> tuple[int, int, int, int]:
        if index >= PARTITIONS:
            return UNKNOWN, 0, -1, -1
        log = self.logs[index]
        if not log.serves and offset >= log.end:
            return NOT_LEADER, 0, -1, -1
        if not log.start <= offset <= log.end:
            return OUT_OF_RANGE, 0, -1, -1
        return 0, min(room, log.end - offset), log.end, log.start


INDEX = st.integers(0, PARTITIONS)  # the last one does not exist
NAMED = st.lists(st.tuples(INDEX, st.integers(0, 5)), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=4)),
        st.tuples(st.just("trim"), st.integers(0, PARTITIONS - 1)),
        st.tuples(st.just("fail"), st.integers(0, PARTITIONS - 1)),
        st.tuples(st.just("serve"), st.integers(0, PARTITIONS - 1)),
        st.tuples(
            st.just("fetch"), st.tuples(NAMED, st.lists(INDEX, max_size=3), st.integers(0, 5), st.booleans())
        ),
    ),
    min_size=3,
    max_size=14,
)


class Run:
    """The same steps for both."""

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.model = Model()
        self.consumer = Consumer(log)
        self.came: dict[int, int] = {}

    async def step(self, what: str, which: Any) -> None:
        if what == "fetch":
            await self._fetch(*which)
            return
        if what == "write":
            serving = [index for index in which if self.model.logs[index].serves]
            await put(self.log, *serving)
            for index in serving:
                self.model.logs[index].end += 1
            return
        log, partition = self.model.logs[which], self.log.topic.partitions[which]
        if what == "trim":
            log.start = min(log.end, log.start + 1)
            partition.start_moved(log.start, ())
        elif what == "fail":
            log.serves = False
            partition.fail("a test")
        elif not log.serves:
            log.serves = True
            partition.begin_recovery((), None)
            partition.begin_serving(partition.producers.state)

    async def _fetch(
        self, named: list[tuple[int, int]], forgotten: list[int], max_batches: int, goes_on: bool
    ) -> None:
        named = list(dict(named).items())
        if goes_on:
            # As a client that reads on.
            named += [(i, at) for i, at in self.came.items() if i not in dict(named) and i not in forgotten]
        full = not self.consumer.session_id
        if full:
            forgotten, self.model.cached = [], {}
        self.model.update(named, forgotten)
        answer = await self.consumer.ask(named, forget=forgotten, max_bytes=max_batches * SIZE)
        assert answer.error == 0
        if not self.model.cached and not full:
            # Nothing was left: what is named is all that is read.
            assert (answer.session_id, [told[0] for told in answer.told]) == (0, [i for i, _ in named])
            self.consumer.session_id = self.consumer.epoch = 0
            self.came = {}
            return
        assert answer.told == self.model.fetch(max_batches, full=full)
        self.came = {
            index: self.model.cached[index].offset + batches for index, batches in answer.batches.items()
        }


@settings(max_examples=60)
@given(steps=STEPS)
def test_it_tells_what_one_tells_that_looks_at_everything(steps: list[tuple[str, Any]]) -> None:
    async def body(log: FakeLog) -> None:
        run = Run(log)
        for what, which in steps:
            await run.step(what, which)

    logged(body, partitions=PARTITIONS)
