"""Ten planted bugs, each a way to lose or double data: the simulation has to find them."""

import pytest

from tests.sim import cluster
from tests.sim.bugs import BUGS, planted
from tests.sim.loop import BrokenPromise
from tests.sim.plan import make_plan
from tests.sim.shrink import describe, shrink

SEEDS = 60
"""Schedules in which each bug must show."""

STORES = {"n-w answers accepted": 3, "high watermark at one store": 3}
"""Of the clusters in which a bug shows; the others show with one store already."""


def found_by(bug: str, first: int = 0) -> cluster.Outcome:
    with planted(bug):
        for seed in range(first, first + SEEDS):
            outcome = cluster.run(make_plan(seed, stores=STORES.get(bug, 1), seconds=3.0))
            if outcome.failure is not None:
                return outcome
    raise AssertionError(f"{SEEDS} schedules do not show: {bug}")


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug not in STORES])
def test_a_planted_bug_is_found(bug: str) -> None:
    outcome = found_by(bug)
    assert isinstance(outcome.failure, BrokenPromise), describe(outcome)


def test_a_failing_schedule_is_made_smaller() -> None:
    with planted("skipped SEAL"):
        outcome = found_by("skipped SEAL")
        smallest = shrink(outcome.plan)
    assert smallest.failure is not None
    assert len(smallest.plan.happening) + len(smallest.world.network.fates) < 6, describe(smallest)
    assert "gateway" in describe(smallest)
