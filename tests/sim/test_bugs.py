"""Planted bugs, each a way to lose or double data: the simulation has to find them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.sim import cluster
from tests.sim.bugs import BUGS, CLEANING, READING, planted
from tests.sim.loop import BrokenPromise
from tests.sim.plan import MANY_PRODUCERS, MANY_ROWS, Plan, make_plan
from tests.sim.shrink import describe

SEEDS = 150
"""Schedules in which each bug must show; most show in the first ones."""

FIRST = {
    "n-w answers accepted": 51,
    "skipped SEAL": 39,
    "deleted topic comes back": 45,
    "DeleteRecords takes whole segments": 3,
    "dropped segments stay on disks": 3,
    "memory shows what compaction took": 49,
    "tombstone goes before its value": 20,
    "commit shown before it is durable": 6,
    "a group's end leaves its offsets": 3,
    "generation is not written": 1,
    "log start is no news to a session": 6,
    "session reads its first partitions first": 7,
}
"""Where the seeds begin, for bugs that show seldom: so the test is quick."""

AS_EVER: dict[str, Any] = {"rows_in_an_answer": MANY_ROWS, "producers_kept": MANY_PRODUCERS}
"""`FIRST` is of schedules like that."""

STORES = {"n-w answers accepted": 3, "high watermark at one store": 3}
"""Of the clusters in which a bug shows; the others show with one store already."""


def plan_for(bug: str, seed: int) -> Plan:
    if bug in READING:
        return replace(make_plan(seed, stores=1, seconds=4.0, reads=True), **AS_EVER)
    plan = make_plan(seed, stores=STORES.get(bug, 1), seconds=3.0, cleans=bug in CLEANING, reads=False)
    return replace(plan, **AS_EVER)


def found_by(bug: str) -> cluster.Outcome:
    first = FIRST.get(bug, 0)
    with planted(bug):
        for seed in range(first, first + SEEDS):
            plan = plan_for(bug, seed)
            outcome = cluster.run(plan)
            if outcome.failure is not None:
                return outcome
    raise AssertionError(f"{SEEDS} schedules do not show: {bug}")


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    outcome = found_by(bug)
    assert isinstance(outcome.failure, BrokenPromise), describe(outcome)
