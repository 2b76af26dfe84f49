"""A stop that signals ask for: at any moment, so also within a wait for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dafka_pipeline.running.stopping import Stop

SIGNALLED = """
import os, signal, sys, threading
from dafka_pipeline.running.stopping import Stop

for number in range(200):
    stop = Stop()
    stop.catch_signals()
    threading.Timer(0.0002 * (number % 5), os.kill, (os.getpid(), int(sys.argv[1]))).start()
    while not stop.sleep({seconds}):
        pass
    assert stop.asked
"""
"""Signals that come while their own thread goes in and out of a wait, or is in one."""


@pytest.mark.parametrize("seconds", [0, 60])
@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_within_a_wait_ends_it(seconds: float, number: int) -> None:
    program = SIGNALLED.format(seconds=seconds)
    subprocess.run([sys.executable, "-c", program, str(number)], check=True, timeout=50)


def test_a_wait_ends_when_the_stop_is_asked_for_and_each_later_one_at_once() -> None:
    stop = Stop()
    assert [stop.sleep(0), stop.sleep(-1), stop.asked] == [False] * 3
    stop.ask()
    assert [stop.asked, stop.sleep(60), stop.sleep(60)] == [True] * 3
    stop.ask()
    assert [stop.sleep(60), stop.sleep(0)] == [True] * 2
