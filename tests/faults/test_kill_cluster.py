"""What random faults of a whole cluster are made of; and some of them, drawn by seeds that stay the same."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.faults.clocks import Clocks
from tests.faults.cluster_faults import KINDS, draw
from tests.faults.kill_cluster import Round
from tests.faults.serving import Serving, distribution

CLOCK = """
import sys, time
for _ in sys.stdin:
    seconds = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
    print(*(int(one) for one in seconds), flush=True)
"""


def test_a_seed_draws_the_same_faults_and_all_kinds_come() -> None:
    one, other = random.Random(7), random.Random(7)
    faults = [draw(one) for _ in range(1000)]
    assert faults == [draw(other) for _ in range(1000)]
    assert Counter(fault.kind for fault in faults).keys() == KINDS.keys()
    assert len({str(fault) for fault in faults}) > len(KINDS)


def test_what_counts_as_serving_again() -> None:
    """A record that was sent after the fault, to each partition."""
    serving = Serving(2)
    serving.begin(10)
    serving.acknowledged(0, 9)
    assert serving.missing == [0, 1]
    serving.acknowledged(0, 10)
    assert serving.missing == [1]
    with pytest.raises(AssertionError, match=r"partitions \[1\] do not go on"):
        serving.wait(0.0, lambda: None)
    serving.wait(60.0, lambda: serving.acknowledged(1, 11))
    serving.begin(20)
    assert serving.missing == [0, 1]


def test_a_distribution() -> None:
    took = {"b": [float(number) for number in range(10, 0, -1)], "a": [0.5]}
    assert distribution(took) == "a 1: 0.50 0.50 0.50\nb 10: 6.00 10.00 10.00"


def test_clocks_of_a_process_are_moved_while_it_runs(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path / "clock")
    with subprocess.Popen(
        [*clocks.prefix, sys.executable, "-c", CLOCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask() -> list[int]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return [int(one) for one in process.stdout.readline().split()]

        wall, boot, monotonic = ask()
        clocks.set_wall(-100_000)
        moved = ask()
        assert moved[0] < wall - 50_000
        assert moved[1] < boot + 50_000
        clocks.set_wall(0)
        clocks.sleep(100_000)
        slept = ask()
        assert slept[0] > wall + 50_000
        assert slept[1] > boot + 50_000
        assert slept[2] < monotonic + 50_000, "this one rests while the machine sleeps"
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces take root")
@pytest.mark.parametrize("seed", [1, 2])
def test_some_faults(tmp_path: Path, seed: int) -> None:
    took: defaultdict[str, list[float]] = defaultdict(list)
    some = Round(took, tmp_path, seed, 6)
    problems = some.run()
    some.history.save(tmp_path / "history.jsonl")
    assert problems == [], f"all of it: {tmp_path / 'history.jsonl'}"
    assert took
    assert some.acked > 0
