"""Seeded schedules of whole clusters: the real gateway log and the real stores, over links, disks and clocks
that fail in every way. `make sim` runs more of them, and shows a failing one as small as it can be made.
"""

from collections import Counter

import pytest

from tests.sim import cluster
from tests.sim.plan import make_plan
from tests.sim.shrink import describe

SECONDS = 2.0
"""Work and faults in one schedule here; `make sim` gives them more."""

BLOCK = 10
"""Schedules in one test case, so that a failure names few."""


def run_all(seeds: range, *, stores: int | None = None) -> Counter[str]:
    reached: Counter[str] = Counter()
    for seed in seeds:
        outcome = cluster.run(make_plan(seed, stores=stores, seconds=SECONDS))
        assert outcome.failure is None, describe(outcome)
        reached += outcome.world.reached
    return reached


@pytest.mark.parametrize("first", range(0, 100, BLOCK))
def test_the_promises_hold_with_one_store(first: int) -> None:
    reached = run_all(range(first, first + BLOCK), stores=1)
    assert reached["batches acknowledged"] > 300, reached


def test_the_schedules_reach_every_fault() -> None:
    reached = run_all(range(1000, 1060), stores=1)
    for kind in (
        "crash",
        "cut link",
        "delete topic",
        "disk full",
        "gateway crash",
        "gateway taken for dead",
        "gateway ended by its catalog",
        "isolate",
        "messages doubled",
        "messages late",
        "messages lost",
        "pause",
        "power loss",
        "ranges read from stores",
        "slow disk",
        "store ended by its disk",
    ):
        assert reached[kind], kind


def test_a_seed_is_one_schedule() -> None:
    """What the shrinking of a failing schedule, and its repetition, live on."""
    first, again = (cluster.run(make_plan(7, stores=1, seconds=SECONDS)) for _ in range(2))
    assert first.world.reached == again.world.reached
    assert first.world.loop.steps == again.world.loop.steps
    assert first.world.history.shown == again.world.history.shown
