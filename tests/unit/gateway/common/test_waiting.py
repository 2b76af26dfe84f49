"""The waiter, and awaiting with a call before the first block."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.common.waiting import Waiter, call_before_blocking
from tests.unit.gateway.kafka_wire import run


def test_a_waiter_wakes_the_task_that_waits_and_only_then() -> None:
    async def main() -> None:
        waiter, log = Waiter(), list[str]()

        async def wait() -> None:
            await waiter.wait()
            log.append("woken")

        waiter.wake()  # nobody is there: nothing is kept
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert log == []
            waiter.wake()
            waiter.wake()
        assert log == ["woken"]

    run(main)


def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    async def main() -> None:
        waiter = Waiter()
        with trio.move_on_after(0) as scope:
            await waiter.wait()
        assert scope.cancelled_caught
        waiter.wake()
        await trio.lowlevel.checkpoint()

    run(main)


async def at_once(value: int) -> int:
    return value


async def later(value: int, event: trio.Event, log: list[str]) -> int:
    log.append("begun")
    await event.wait()
    await trio.lowlevel.checkpoint()
    log.append("done")
    return value


def test_what_completes_at_once_is_not_preceded_by_the_call() -> None:
    async def main() -> None:
        calls: list[str] = []
        assert await call_before_blocking(at_once(7), lambda: calls.append("called")) == 7
        assert calls == []

    run(main)


def test_the_call_comes_once_before_the_first_block() -> None:
    async def main() -> None:
        log, event = list[str](), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_set_when_blocked, event, log)
            assert await call_before_blocking(later(7, event, log), lambda: log.append("called")) == 7
        assert log == ["begun", "called", "others ran", "done"]

    run(main)


async def _set_when_blocked(event: trio.Event, log: list[str]) -> None:
    await wait_all_tasks_blocked()
    log.append("others ran")
    event.set()


@pytest.mark.parametrize("blocks", [False, True])
def test_exceptions_come_through(blocks: bool) -> None:
    async def fail() -> None:
        if blocks:
            await trio.lowlevel.checkpoint()
        raise KeyError("x")

    async def main() -> None:
        with pytest.raises(KeyError, match="x"):
            await call_before_blocking(fail(), lambda: None)

    run(main)


def test_cancellation_reaches_what_is_awaited() -> None:
    async def main() -> None:
        log: list[str] = []

        async def wait() -> None:
            try:
                await trio.sleep_forever()
            finally:
                log.append("cleaned up")

        with trio.CancelScope() as scope:
            await call_before_blocking(wait(), scope.cancel)
        assert scope.cancelled_caught
        assert log == ["cleaned up"]

    run(main)
