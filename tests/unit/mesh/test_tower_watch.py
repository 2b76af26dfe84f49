"""What is said of a tower that is not reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from mesh.attempts import Event
from mesh.log_bounds import AGAIN_SECONDS
from mesh.protocol.endpoints import TowerAddress
from mesh.tower_watch import LOOK_SECONDS, UNREACHED_SECONDS, TowerWatch

ADDRESS = TowerAddress("10.0.0.1", 5556, 5557)


class Reached:
    def __init__(self) -> None:
        self.now = False

    def __call__(self) -> bool:
        return self.now


def run(test: Callable[[TowerWatch, Reached], Awaitable[None]]) -> None:
    async def main() -> None:
        reached = Reached()
        watch = TowerWatch(ADDRESS, None, reached)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            await trio.testing.wait_all_tasks_blocked()
            await test(watch, reached)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_it_is_said_within_ten_seconds_and_again_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def test(watch: TowerWatch, reached: Reached) -> None:
        await trio.sleep(UNREACHED_SECONDS - LOOK_SECONDS / 2)
        assert caplog.messages == []
        await trio.sleep(LOOK_SECONDS)
        (line,) = caplog.messages
        assert "at 10.0.0.1:5556:5557 is not reached for 8 s: nothing answers there. Start it, or" in line
        side = watch.side()
        side.happened(Event.OTHER_MECHANISM, trio.current_time())
        await trio.sleep(AGAIN_SECONDS)
        assert len(caplog.messages) == 2
        assert "is not reached for 608 s: it has keys, and this process has none" in caplog.messages[1]
        reached.now = True
        await trio.sleep(LOOK_SECONDS)
        assert caplog.messages[2:] == ["the tower at 10.0.0.1:5556:5557 is reached"]

    run(test)


def test_nothing_is_said_of_a_tower_that_comes_back_soon(caplog: pytest.LogCaptureFixture) -> None:
    async def test(_watch: TowerWatch, reached: Reached) -> None:
        for _ in range(10):
            await trio.sleep(UNREACHED_SECONDS / 2)
            reached.now = not reached.now
        assert caplog.messages == []

    run(test)
