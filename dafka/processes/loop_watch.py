"""How long the event loop was held up at a time: everybody waits meanwhile.

Between two waits for I/O the loop runs whatever is ready; the processor time of its thread in between is one
stretch. Time in which the machine ran something else is not counted: it says nothing of this program.
"""

import time

import trio

from gateway.common.metrics import Metrics

LONG_SECONDS = 0.05
"""A stretch above this is counted: clients notice it."""

WINDOW_SECONDS = 60.0
"""The longest stretch is that of the last one or two such windows: an old one does not stay for ever."""


class LoopWatch(trio.abc.Instrument):
    """`install` it in the loop that it watches. Two readings of a clock for each turn of the loop."""

    def __init__(self) -> None:
        self.long = 0
        self._longest = [0.0, 0.0]
        self._began = time.thread_time()
        self._window_ends = time.monotonic() + WINDOW_SECONDS

    def install(self, metrics: Metrics) -> None:
        """Watch the loop that this is called in, and show it to Prometheus."""
        trio.lowlevel.add_instrument(self)
        show_loop(metrics, self)

    def longest(self) -> float:
        """Seconds, of the present window and the one before it."""
        self._turn_window(time.monotonic())
        return max(self._longest)

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        self._began = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002
        took = time.thread_time() - self._began
        self._turn_window(time.monotonic())
        self._longest[0] = max(self._longest[0], took)
        if took > LONG_SECONDS:
            self.long += 1

    def _turn_window(self, now: float) -> None:
        if now < self._window_ends:
            return
        # Idle for longer than a window: what the last one had is older than both.
        old = now >= self._window_ends + WINDOW_SECONDS
        self._longest = [0.0, 0.0 if old else self._longest[0]]
        self._window_ends = now + WINDOW_SECONDS


def show_loop(metrics: Metrics, watch: LoopWatch) -> None:
    """Show a watch to Prometheus."""
    metrics.gauge(
        "dafka_loop_longest_stretch_seconds",
        "Longest time in the last minute that the event loop ran without a look at its sockets.",
        watch.longest,
    )
    metrics.counter(
        "dafka_loop_long_stretches_total",
        f"How often that was longer than {LONG_SECONDS:g} s.",
        lambda: watch.long,
    )
