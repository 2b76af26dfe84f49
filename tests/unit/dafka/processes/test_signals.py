"""Signals, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

PROGRAM = """
import sys, trio
from dafka.processes.signals import watch_signals

async def main(slow):
    stopping = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, stopping.set)
        print("watching", flush=True)
        await stopping.wait()
        print("stopping", flush=True)
        if slow:
            await trio.sleep_forever()
    print("stopped", flush=True)

trio.run(main, sys.argv[1] == "slow")
"""


@contextmanager
def program(how: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "watching\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_stops_in_order(number: signal.Signals) -> None:
    with program("fast") as process:
        process.send_signal(number)
        assert process.communicate(timeout=60) == ("stopping\nstopped\n", "")
        assert process.returncode == 0


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_process_at_once(first: signal.Signals, second: signal.Signals) -> None:
    with program("slow") as process:
        process.send_signal(first)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(second)
        assert process.wait(timeout=60) == -second


def test_a_closed_terminal_does_not_stop_it() -> None:
    with program("fast") as process:
        os.kill(process.pid, signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("stopping\nstopped\n", "")
        assert process.returncode == 0
