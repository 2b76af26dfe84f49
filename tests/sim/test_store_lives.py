"""Stores that are not what they were: set back to a copy of their disk, or emptied while their identity
stayed.

The schedules are those in which it would cost acknowledged records if such a store counted: it and one that
lagged decide where a log ends, while the one that has everything is away.
"""

from dataclasses import replace

import pytest

from tests.sim import cluster
from tests.sim.bugs import planted
from tests.sim.loop import BrokenPromise
from tests.sim.plan import GATEWAY, Fault, Plan, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by
from tests.sim.shrink import describe

PLAN = Plan(1, stores=3, replication_factor=3, clients=3, pace=0.03)

SET_BACK = (Fault("", "set back", 1.0, 1.5, store_name(0)),)
EMPTIED = (
    Fault("", "crash", 0.5, 0.05, GATEWAY, keep=True),  # what was written until then is closed, and confirmed
    Fault("", "empty", 2.5, 0.05, store_name(0)),
)

LAGGING = (Fault("", "isolate", 1.2, 1.3, store_name(2)),)
AWAY = (
    Fault("", "crash", 2.45, 1.0, store_name(1), keep=True),
    Fault("", "crash", 2.45, 0.1, GATEWAY, keep=True),
)


def plan_of(faults: tuple[Fault, ...]) -> Plan:
    return replace(PLAN, faults=tuple(sorted((*faults, *LAGGING, *AWAY), key=lambda fault: fault.at)))


def test_a_store_that_is_set_back_is_refused_until_it_is_another_one() -> None:
    reached = keeps_promises(plan_of(SET_BACK)).world.reached
    assert reached["stores set back"] == reached["stores replaced"] == 1


def test_a_store_that_is_emptied_is_another_one() -> None:
    reached = keeps_promises(plan_of(EMPTIED)).world.reached
    assert reached["empty"] == reached["stores replaced"] == 1


@pytest.mark.parametrize(
    ("bug", "faults"),
    [("a store that was set back counts", SET_BACK), ("a store that was emptied counts", EMPTIED)],
)
def test_the_checks_find_it_if_it_counts(bug: str, faults: tuple[Fault, ...]) -> None:
    with planted(bug):
        outcome = cluster.run(plan_of(faults))
    assert isinstance(outcome.failure, BrokenPromise), describe(outcome)


def test_random_schedules_have_such_stores() -> None:
    reached = reached_by(make_plan(seed, stores=3, seconds=4.0) for seed in range(300, 330))
    assert reached["stores set back"]
    assert reached["empty"]
