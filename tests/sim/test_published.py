"""Schedules with native readers of topics whose values are published, and planted bugs that they find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.log.partition import Partition
from tests.sim import cluster
from tests.sim.bugs_of_published import PUBLISHING_BUGS
from tests.sim.gateways import make_gateways_plan, world_of
from tests.sim.loop import BrokenPromise
from tests.sim.plan import Plan, make_plan
from tests.sim.promises import first_failure, reached_by
from tests.sim.shrink import describe

BLOCK = 10

SEEDS_OF_A_BUG = 20


def plan_of(seed: int) -> Plan:
    """Every other schedule has transactions, others compaction, retention, or nothing of the kind."""
    plan = make_plan(seed, seconds=4.0, reads=False)
    return replace(plan, publishes=1 + seed % 2, transactions=2 if seed % 2 else 0)


def of_gateways(seed: int) -> Plan:
    return replace(make_gateways_plan(seed), publishes=1 + seed % 2)


@pytest.mark.parametrize("first", range(0, 40, BLOCK))
def test_native_readers_are_given_what_is_in_the_log(first: int) -> None:
    reached = reached_by(map(plan_of, range(first, first + BLOCK)))
    assert reached["native readers killed"], reached
    assert reached["records given to native readers"], reached


@pytest.mark.parametrize("first", range(0, 20, BLOCK))
def test_and_where_several_gateways_lead(first: int) -> None:
    reached = reached_by(map(of_gateways, range(first, first + BLOCK)), world_of)
    assert reached["records given to native readers"], reached


def test_a_seed_is_one_schedule() -> None:
    first, again = (cluster.run(plan_of(3)) for _ in range(2))
    assert first.trace == again.trace
    assert first.world.reached == again.world.reached


@pytest.mark.parametrize("bug", PUBLISHING_BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    before = dict(vars(Partition))
    with PUBLISHING_BUGS[bug]():
        found = first_failure(map(plan_of, range(SEEDS_OF_A_BUG)))
    assert dict(vars(Partition)) == before, "the bug stays for the tests that follow"
    assert found is not None, f"{SEEDS_OF_A_BUG} schedules do not show it"
    assert isinstance(found.failure, BrokenPromise), describe(found)
