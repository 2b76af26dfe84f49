"""A seed is one schedule in every process: what a failure's repetition and its shrinking live on."""

import os
import subprocess
import sys

SCHEDULES = 4
FIRST_SEED = 16
"""From here on there are clusters of one to five stores, and faults of most kinds."""


def start(hash_seed: str) -> "subprocess.Popen[str]":
    """The simulation in a process whose sets of names have an order of their own."""
    command = [sys.executable, "-m", "tests.sim", "--traces", "--length", "1.5"]
    return subprocess.Popen(
        [*command, "--schedules", str(SCHEDULES), "--seed", str(FIRST_SEED)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_seed_is_the_same_schedule_in_every_process() -> None:
    processes = [start(hash_seed) for hash_seed in ("1", "2")]
    traces = []
    for process in processes:
        out, _ = process.communicate()
        assert process.returncode == 0, out
        traces.append([line for line in out.splitlines() if line.startswith("seed ")])
    assert len(traces[0]) == SCHEDULES
    assert len(set(traces[0])) == SCHEDULES
    assert traces[0] == traces[1]
