"""Windows that wait for stores that are away: they must not stop what moves, nor fill the memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.log import context as context_module
from gateway.log.partition import PartitionState
from mesh.producer import STUCK_SECONDS
from tests.unit.gateway.log.fake_log import FakeLog, batch, header_of
from wireproto.kafka.errors import ErrorCode, KafkaError

STORES = ("store-1", "store-2", "store-3")


class FakePresence:
    """All are there but those that a test takes away."""

    def __init__(self) -> None:
        self.live_stores = set(STORES)
        self.seen: dict[str, Any] = {}

    def live(self, incarnation: str) -> bool:
        return incarnation in self.live_stores

    def free_bytes(self, _incarnation: str) -> None:
        return None

    def silence(self, incarnation: str) -> float:
        return 0.0 if self.live(incarnation) else 100.0


class Setup:
    def __init__(self, partitions: int = 4) -> None:
        self.log = FakeLog(partitions=partitions, stores=STORES)
        self.presence = FakePresence()
        self.log.stores.presence = cast(Any, self.presence)
        self.lost: list[Any] = []
        self.log.context.on_recovery(self.lost.append, lambda _: None)

    def append(self, index: int, size: int) -> ErrorCode:
        view = memoryview(bytearray(batch(bytes(size))))
        try:
            self.log.topic.partitions[index].append(
                header_of(view), view, -1, self.log.now_ms,
                gateway_has_room=self.log.context.window_gate.is_open,
            )  # fmt: skip
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def acknowledge(self, index: int) -> None:
        await wait_all_tasks_blocked()
        for store in STORES[:2]:
            self.log.acknowledge(self.log.topic.partitions[index], store=store)


def run(body: Callable[[Setup], Awaitable[None]]) -> None:
    async def main() -> None:
        setup = Setup()
        async with setup.log.running():
            await body(setup)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "MAX_WINDOW_BYTES", 100_000)
    monkeypatch.setattr(context_module, "MAX_STUCK_BYTES", 100_000)


def test_a_window_without_progress_gives_its_room_to_others() -> None:
    async def body(setup: Setup) -> None:
        gate = setup.log.context.window_gate
        assert setup.append(0, 60_000) is ErrorCode.NONE
        assert setup.append(0, 60_000) is ErrorCode.NONE
        assert not gate.is_open
        assert setup.append(1, 10) is ErrorCode.NOT_ENOUGH_REPLICAS
        await trio.sleep(STUCK_SECONDS + 1)
        assert gate.is_open
        assert setup.append(1, 10) is ErrorCode.NONE
        # All of its stores are there: it is only slow, and goes on.
        assert setup.lost == []
        await setup.acknowledge(0)
        assert setup.log.producer.stuck_bytes == 0
        assert setup.log.partition.high_watermark == 2

    run(body)


def test_beyond_the_bound_the_gate_stays_closed_as_long_as_the_stores_are_only_slow() -> None:
    async def body(setup: Setup) -> None:
        for index in range(3):
            setup.append(index, 90_000)
            await trio.sleep(STUCK_SECONDS + 1)
        assert setup.log.producer.window_bytes > 200_000
        assert not setup.log.context.window_gate.is_open
        assert setup.append(3, 10) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert setup.lost == []

    run(body)


def test_segments_of_stores_that_are_away_are_given_up_largest_first() -> None:
    async def body(setup: Setup) -> None:
        partitions = setup.log.topic.partitions
        for index, size in enumerate((30_000, 90_000, 40_000)):
            assert setup.append(index, size) is ErrorCode.NONE
            await trio.sleep(STUCK_SECONDS + 1)
        setup.presence.live_stores = {"store-1"}
        await trio.sleep(STUCK_SECONDS + 1)
        assert setup.lost == [partitions[1], partitions[2]]
        assert [partition.state for partition in partitions] == [
            PartitionState.READY,
            PartitionState.FAILED,
            PartitionState.FAILED,
            PartitionState.READY,
        ]
        assert "store-2, store-3" in partitions[1].reason
        assert setup.log.context.window_gate.is_open
        assert setup.log.context.given_up == 2
        assert setup.log.producer.window_bytes < 50_000

    run(body)


def test_with_too_few_stores_nothing_is_appended_whatever_acks_says() -> None:
    async def body(setup: Setup) -> None:
        setup.presence.live_stores = {"store-1"}
        partition = setup.log.partition
        view = memoryview(bytearray(batch(b"value")))
        for acks in (-1, 0, 1):
            with pytest.raises(KafkaError, match="not there: store-2, store-3") as refused:
                partition.append(header_of(view), view, acks, setup.log.now_ms)
            assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.next_offset == 0
        setup.presence.live_stores = {"store-1", "store-3"}
        assert setup.append(0, 10) is ErrorCode.NONE

    run(body)
