"""Signals, each in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.peers.requirements import unavailable

PROGRAM = """
import sys, trio
from dafka.processes.signals import watch_signals

async def main(slow):
    stopping = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, stopping.set, lambda: print("read again", flush=True))
        print("watching", flush=True)
        await stopping.wait()
        print("stopping", flush=True)
        if slow:
            await trio.sleep_forever()
    print("stopped", flush=True)

trio.run(main, sys.argv[1] == "slow")
"""


@contextmanager
def program(how: str, *prefix: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", PROGRAM, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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


def test_a_closed_terminal_does_not_stop_it_but_has_it_read_again() -> None:
    with program("fast") as process:
        assert process.stdout is not None
        for _ in range(2):
            os.kill(process.pid, signal.SIGHUP)
            assert process.stdout.readline() == "read again\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("stopping\nstopped\n", "")
        assert process.returncode == 0


def test_the_first_process_of_a_container_can_be_ended_at_once() -> None:
    """The system gives process 1 no actions of its own: without a handler the second signal does nothing."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        unavailable("process namespaces take root and unshare (apt-get install util-linux)")
    with program("slow", "unshare", "--pid", "--fork", "--kill-child=SIGKILL") as outside:
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text().split()
        first = int(children[0])
        os.kill(first, signal.SIGTERM)
        assert outside.stdout is not None
        assert outside.stdout.readline() == "stopping\n"
        os.kill(first, signal.SIGTERM)
        assert outside.wait(timeout=60) == 128 + signal.SIGTERM
