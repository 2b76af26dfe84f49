"""The ends of what others lead: asked for while somebody looks, and unknown where nobody has said them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.cluster.gateways import NOBODY
from gateway.log.partition import Partition, PartitionState
from gateway.peers import log_ends as log_ends_module
from gateway.peers.failures import PeerUnreachable
from gateway.peers.log_ends import MAX_AGE_SECONDS, ROUND_SECONDS, WANTED_SECONDS, LogEnds
from gateway.peers.question import Question
from tests.unit.gateway.peers.answers import ends_answer
from wireproto.kafka.requests import decode_request

SOON = 0.1


class Cluster:
    """Gateways 2 and 3, which lead what `leaders` says, by partition, where `ends` says."""

    version = 0

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.away: set[int] = set()
        self.silent: set[int] = set()
        self.asked: list[tuple[int, tuple[int, ...]]] = []
        """Whom, and about which partitions' ends."""
        self.topic = SimpleNamespace(name="orders", id=bytes(16))
        self.log_ends = LogEnds(cast("Any", self), cast("Any", self))

    def partition(self, index: int, leader: int, end: int = 0) -> Partition:
        self.leaders[index], self.ends[index], self.starts[index] = leader, end, 0
        made = SimpleNamespace(topic=self.topic, index=index, deleted=False, state=PartitionState.ELSEWHERE)
        return cast("Partition", _Hashable(made))

    def leader(self, topic_id: bytes, index: int) -> int:
        assert topic_id == self.topic.id
        return self.leaders[index]

    async def ask(self, gateway: int, question: Question, deadline_seconds: float) -> Any:
        request = decode_request(2, 11, memoryview(question.body(11)), 0)
        (topic,) = request.topics
        indexes = tuple(one.partition_index for one in topic.partitions)
        starts = topic.partitions[0].timestamp == -2
        if not starts:
            self.asked.append((gateway, indexes))
        await trio.lowlevel.checkpoint()
        if gateway in self.silent:
            await trio.sleep(deadline_seconds)
        if gateway in self.away | self.silent:
            raise PeerUnreachable(f"gateway {gateway}")
        told = self.starts if starts else self.ends
        errors = {index: 6 for index in indexes if self.leaders[index] != gateway}
        return ends_answer(errors, orders={index: told[index] for index in indexes})


class _Hashable:
    """A partition is looked up by what it is."""

    def __init__(self, content: SimpleNamespace) -> None:
        self.__dict__ = content.__dict__


def run(body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = Cluster()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.log_ends.run)
            await body(cluster)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_what_somebody_looks_at_is_heard_soon_and_again_every_second() -> None:
    async def body(cluster: Cluster) -> None:
        await trio.sleep(100)
        assert cluster.asked == []
        first, second = cluster.partition(0, 2, end=10), cluster.partition(1, 3, end=20)
        assert cluster.log_ends.of(first) is cluster.log_ends.of(second) is None, "not known, and not 0"
        await trio.sleep(SOON)
        heard = [cluster.log_ends.of(one) for one in (first, second)]
        assert [one and (one.start, one.end) for one in heard] == [(0, 10), (0, 20)]
        cluster.ends[0] = 11
        await trio.sleep(ROUND_SECONDS)
        found = cluster.log_ends.of(first)
        assert found is not None
        assert found.end == 11
        assert found.times.appended(10) == pytest.approx(101, abs=1)
        assert sorted(cluster.asked) == [(2, (0,))] * 2 + [(3, (1,))] * 2

    run(body)


def test_what_nobody_looks_at_any_more_is_not_asked_for() -> None:
    async def body(cluster: Cluster) -> None:
        one = cluster.partition(0, 2)
        cluster.log_ends.of(one)
        await trio.sleep(2 * WANTED_SECONDS)
        cluster.asked.clear()
        await trio.sleep(WANTED_SECONDS)
        assert cluster.asked == []
        assert cluster.log_ends.of(one) is None
        await trio.sleep(SOON)
        assert cluster.log_ends.of(one) is not None

    run(body)


@pytest.mark.parametrize("how", ["away", "silent"])
def test_a_leader_that_says_nothing_holds_up_no_other_and_what_it_said_grows_old(how: str) -> None:
    async def body(cluster: Cluster) -> None:
        gone, there = cluster.partition(0, 2, end=5), cluster.partition(1, 3, end=6)
        for one in (gone, there):
            cluster.log_ends.of(one)
        await trio.sleep(SOON)
        getattr(cluster, how).add(2)
        for _ in range(int(MAX_AGE_SECONDS) - 1):
            await trio.sleep(1)
            found, other = cluster.log_ends.of(gone), cluster.log_ends.of(there)
            assert found is not None
            assert other is not None
            assert found.end == 5, "what was heard last"
        cluster.ends[1] = 7
        await trio.sleep(10)
        assert cluster.log_ends.of(gone) is None
        other = cluster.log_ends.of(there)
        assert other is not None
        assert other.end == 7

    run(body)


def test_the_next_leader_is_asked_as_soon_as_there_is_one() -> None:
    async def body(cluster: Cluster) -> None:
        one = cluster.partition(0, 2, end=5)
        cluster.log_ends.of(one)
        await trio.sleep(SOON)
        cluster.leaders[0], cluster.version = NOBODY, 1
        cluster.asked.clear()
        await trio.sleep(3)
        assert cluster.asked == []
        cluster.leaders[0], cluster.version, cluster.ends[0] = 3, 2, 8
        await trio.sleep(ROUND_SECONDS + SOON)
        assert set(cluster.asked) == {(3, (0,))}
        found = cluster.log_ends.of(one)
        assert found is not None
        assert found.end == 8

    run(body)


def test_what_is_led_here_by_now_or_was_deleted_is_forgotten() -> None:
    async def body(cluster: Cluster) -> None:
        here, deleted, there = (cluster.partition(index, 2) for index in range(3))
        for one in (here, deleted, there):
            cluster.log_ends.of(one)
        await trio.sleep(SOON)
        here._state = here.state = PartitionState.READY  # type: ignore[misc]
        deleted.deleted = True
        cluster.version = 1
        cluster.asked.clear()
        await trio.sleep(ROUND_SECONDS + SOON)
        assert set(cluster.asked) == {(2, (2,))}

    run(body)


def test_partitions_are_bounded_and_many_of_them_make_rounds_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends_module, "MAX_PARTITIONS", 30)
    monkeypatch.setattr(log_ends_module, "PARTITIONS_A_SECOND", 10)

    async def body(cluster: Cluster) -> None:
        every = [cluster.partition(index, 2, end=index) for index in range(31)]
        for one in every:
            cluster.log_ends.of(one)
        await trio.sleep(60)
        heard = [cluster.log_ends.of(one) for one in every]
        assert [one and one.end for one in heard] == [*range(30), None]
        assert 15 <= len(cluster.asked) <= 20, "one in three seconds, and one in six with the starts"

    run(body)


def test_a_round_that_fails_is_logged_and_the_next_one_works(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(cluster: Cluster) -> None:
        one = cluster.partition(0, 2, end=5)
        with monkeypatch.context() as patched:
            patched.setattr(cluster, "ask", None)
            cluster.log_ends.of(one)
            await trio.sleep(SOON)
        assert "a round of questions where logs end failed" in caplog.text
        await trio.sleep(ROUND_SECONDS)
        assert cluster.log_ends.of(one) is not None

    run(body)


def test_a_gateway_that_is_alone_asks_nobody() -> None:
    async def main() -> None:
        cluster = Cluster()
        alone = LogEnds(cast("Any", cluster), None)
        one = cluster.partition(0, 2)
        assert alone.of(one) is None
        await wait_all_tasks_blocked()
        assert cluster.asked == []

    trio.run(main)
