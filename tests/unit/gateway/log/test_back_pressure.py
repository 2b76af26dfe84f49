"""Clients of a log that has no room: who waits, until when, and who is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.common.metrics import Metrics
from gateway.front.listener_sockets import open_listeners
from gateway.front.listeners import parse_listener
from gateway.front.server import Server
from gateway.log import context as context_module
from gateway.log import pending
from tests.in_process.in_process import RawClient, produce_request
from tests.unit.gateway.kafka_wire import run
from tests.unit.gateway.log.fake_log import REGISTRY, FakeLog, batch


@asynccontextmanager
async def serving(log: FakeLog) -> AsyncIterator[int]:
    """The port of a server in front of `log`."""
    server = Server(
        registry=REGISTRY,
        broker=log.broker,
        metrics=Metrics(with_process=False),
        produce_gate=log.context.window_gate,
    )
    sockets = await open_listeners([parse_listener("127.0.0.1:0")])
    async with log.running(), trio.open_nursery() as nursery:
        await nursery.start(server.serve, sockets)
        yield sockets[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def served(body: Callable[[FakeLog, int], Awaitable[None]], clock: MockClock | None = None) -> None:
    async def main() -> None:
        log = FakeLog()
        async with serving(log) as port:
            await body(log, port)

    run(main, clock=clock)


async def produce(port: int, errors: list[int], **options: Any) -> None:
    from kafka.protocol.producer import ProduceResponse

    async with await RawClient.connect(port) as client:
        answer = await client.ask(produce_request(batch(b"a" * 100), **options), ProduceResponse)
        errors.append(answer.responses[0].partition_responses[0].error_code)


async def settled() -> None:
    """Until everything that can happen has, the kernel's part included."""
    for _ in range(5):
        await wait_all_tasks_blocked(0.01)


def test_who_comes_too_late_at_the_gate_waits_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog, port: int) -> None:
        size = len(batch(b"a" * 100)) + 400
        monkeypatch.setattr(context_module, "MAX_WINDOW_BYTES", 2 * size)
        errors: list[int] = []
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(lambda: produce(port, errors, timeout_ms=20_000))
            appended = 0
            while len(errors) < 12:
                await settled()
                # Some got in and closed the gate; the others wait, and are not refused.
                assert appended < log.partition.next_offset < 12 or log.partition.next_offset == 12
                appended = log.partition.next_offset
                assert 19 not in errors
                log.acknowledge()
                await settled()
        assert errors == [0] * 12

    served(body)


def test_at_the_gate_the_requests_own_time_is_all_there_is() -> None:
    async def body(log: FakeLog, port: int) -> None:
        log.context.window_gate.close()
        errors: list[int] = []
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: produce(port, errors, timeout_ms=3000))
            await wait_all_tasks_blocked(0.05)
            clock.autojump_threshold = 0.02
        assert errors == [19]
        assert 3 <= trio.current_time() - began < 4  # the clock is the test's own

    clock = MockClock()
    served(body, clock)


def test_a_full_partition_holds_back_a_client_that_wants_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(log: FakeLog, port: int) -> None:
        size = len(batch(b"a" * 100)) + 400
        monkeypatch.setattr(pending, "MAX_PARTITION_WINDOW_BYTES", 2 * size)
        async with await RawClient.connect(port) as client:
            for _ in range(5):
                await client.send(produce_request(batch(b"a" * 100), acks=0))
            for expected in (2, 4, 5):
                await settled()
                assert log.partition.next_offset == expected
                log.acknowledge()
            # The connection is still there, and the next request is answered.
            errors: list[int] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(produce, port, errors)
                await settled()
                log.acknowledge()
            assert errors == [0]

    served(body)
