"""The longest stretch of the loop, on clocks that only the test moves."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel

from dafka.processes import loop_watch
from dafka.processes.loop_watch import LONG_SECONDS, WINDOW_SECONDS, LoopWatch
from gateway.common.metrics import Metrics


class Clocks:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def thread_time(self) -> float:
        return self.cpu

    def monotonic(self) -> float:
        return self.wall


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(loop_watch, "time", clocks)
    return clocks


def stretch(watch: LoopWatch, clocks: Clocks, seconds: float) -> None:
    watch.after_io_wait(0)
    clocks.cpu += seconds
    watch.before_io_wait(0)


def test_the_longest_stretch_is_that_of_the_last_minutes(clocks: Clocks) -> None:
    watch = LoopWatch()
    for seconds in (0.01, 0.04, 0.02):
        stretch(watch, clocks, seconds)
    assert watch.longest() == pytest.approx(0.04)
    clocks.wall += WINDOW_SECONDS
    stretch(watch, clocks, 0.03)
    assert watch.longest() == pytest.approx(0.04)
    clocks.wall += WINDOW_SECONDS
    assert watch.longest() == pytest.approx(0.03)
    clocks.wall += 2 * WINDOW_SECONDS
    assert watch.longest() == 0


def test_long_ones_are_counted(clocks: Clocks) -> None:
    watch = LoopWatch()
    for seconds in (LONG_SECONDS / 2, LONG_SECONDS * 2, LONG_SECONDS * 3):
        stretch(watch, clocks, seconds)
    assert watch.long == 2


def test_time_in_which_the_loop_waits_does_not_count(clocks: Clocks) -> None:
    watch = LoopWatch()
    stretch(watch, clocks, 0.01)
    clocks.cpu += 5  # of another loop of the same thread, say
    stretch(watch, clocks, 0.01)
    assert watch.longest() == pytest.approx(0.01)


def test_a_real_loop_is_watched() -> None:
    metrics, watch = Metrics(with_process=False), LoopWatch()

    async def main() -> None:
        watch.install(metrics)
        await trio.lowlevel.checkpoint()
        sum(range(2_000_000))
        await trio.lowlevel.checkpoint()

    trio.run(main)
    assert watch.longest() > 0.001
    assert b"dafka_loop_longest_stretch_seconds" in metrics.text()
