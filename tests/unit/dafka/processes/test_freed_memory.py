"""When memory is given back: only where it may help, and ever more seldom while it does not."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from dafka.processes import freed_memory
from dafka.processes.freed_memory import (
    GROWN_BYTES,
    LONGEST_PAUSE_SECONDS,
    LOOK_SECONDS,
    STARTED_SECONDS,
    give_back_freed_memory,
    resident_bytes,
)

ROOT = Path(__file__).parents[4]
SMALL = 100 << 20


class FakeProcess:
    """A process of `held` bytes that cannot be given back, and `free` ones that can."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held, self.free = SMALL, 0
        self.tries: list[float] = []
        monkeypatch.setattr(freed_memory, "resident_bytes", lambda: self.held + self.free)
        monkeypatch.setattr(freed_memory, "_malloc_trim", lambda: self._trim)
        # The clock of the test would jump while a real thread is at work.
        monkeypatch.setattr(trio.to_thread, "run_sync", self._in_thread)

    async def _in_thread(self, function: Callable[[int], None], padding: int) -> None:
        await trio.lowlevel.checkpoint()
        function(padding)

    def _trim(self, padding: int) -> None:
        assert padding == 0
        self.free = 0
        self.tries.append(trio.current_time())


def run(process: FakeProcess, *steps: tuple[float, int, int]) -> list[float]:
    """Have it hold and keep so many bytes from these times on; when it was tried."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_back_freed_memory)
            for seconds, held, free in steps:
                await trio.sleep_until(seconds)
                process.held, process.free = held, free
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return process.tries


def test_what_is_free_after_a_peak_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    process = FakeProcess(monkeypatch)
    peak = SMALL, 10 * GROWN_BYTES
    assert run(process, (15, *peak), (35, *peak), (59, *peak), (100, SMALL, 0)) == [1, 21, 41, 61]
    assert process.free == 0


def test_a_small_growth_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    process = FakeProcess(monkeypatch)
    assert run(process, (5, SMALL, GROWN_BYTES - 1), (1000, SMALL, 0)) == [STARTED_SECONDS]


def test_what_is_held_is_tried_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as soon as something of it was free it is looked at as often as before."""
    process = FakeProcess(monkeypatch)
    held = SMALL + 2 * GROWN_BYTES
    first, *tries = run(process, (5, held, 0), (460, held, GROWN_BYTES), (700, SMALL, 0))
    assert first == STARTED_SECONDS
    assert tries[:5] == [11, 31, 71, 151, 311]
    assert tries[5:7] == [471, 481]
    assert tries[-1] - tries[-2] <= LONGEST_PAUSE_SECONDS
    assert tries[6] - tries[5] == LOOK_SECONDS


def given_back() -> int:
    """Bytes that the C library gives back of 125 MiB that are free."""
    trim = freed_memory._malloc_trim()
    assert trim is not None
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks, kept = [], []
    for _ in range(2000):
        blocks.append(libc.malloc(ctypes.c_size_t(64 * 1024)))
        ctypes.memset(blocks[-1], 1, 64 * 1024)
        kept.append(libc.malloc(ctypes.c_size_t(2048)))  # the C library cannot shrink its heap by itself
    for block in blocks:
        libc.free(block)
    before = resident_bytes()
    trim(0)
    return before - resident_bytes()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library can be asked")
def test_the_real_thing_gives_memory_back() -> None:
    """In a process of its own: in one that has run other tests the blocks would fill holes."""
    program = f"from {__name__} import given_back; print(given_back())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 64 << 20


def test_where_it_cannot_be_asked_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_malloc_trim", lambda: None)
    trio.run(give_back_freed_memory)
