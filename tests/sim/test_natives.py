"""Schedules with native producers whose records come into a topic, and planted bugs that they find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim import cluster
from tests.sim.bugs_of_natives import NATIVE_BUGS
from tests.sim.gateways import make_gateways_plan, world_of
from tests.sim.loop import BrokenPromise
from tests.sim.plan import Plan, make_plan
from tests.sim.promises import first_failure, reached_by
from tests.sim.shrink import describe

BLOCK = 10

SEEDS_OF_A_BUG = 20


def plan_of(seed: int) -> Plan:
    plan = make_plan(seed, seconds=4.0, cleans=False, reads=False)
    return replace(plan, natives=1 + seed % 3, drops_natives=bool(seed % 2))


def of_gateways(seed: int) -> Plan:
    return replace(make_gateways_plan(seed), natives=1 + seed % 3, drops_natives=bool(seed % 2))


@pytest.mark.parametrize("first", range(0, 40, BLOCK))
def test_each_record_comes_into_the_topic_once_and_in_order(first: int) -> None:
    reached = reached_by(map(plan_of, range(first, first + BLOCK)))
    assert reached["native producers killed"], reached
    assert reached["native records in a log"], reached
    assert reached["native records dropped"], reached


@pytest.mark.parametrize("first", range(0, 20, BLOCK))
def test_and_where_several_gateways_lead(first: int) -> None:
    reached = reached_by(map(of_gateways, range(first, first + BLOCK)), world_of)
    assert reached["native records in a log"], reached
    assert reached["native records dropped"], reached


def test_a_seed_is_one_schedule() -> None:
    first, again = (cluster.run(plan_of(3)) for _ in range(2))
    assert first.trace == again.trace
    assert first.world.reached == again.world.reached


@pytest.mark.parametrize("bug", NATIVE_BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    with NATIVE_BUGS[bug]():
        found = first_failure(map(plan_of, range(SEEDS_OF_A_BUG)))
    assert found is not None, f"{SEEDS_OF_A_BUG} schedules do not show it"
    assert isinstance(found.failure, BrokenPromise), describe(found)
