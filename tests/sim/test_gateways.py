"""Schedules of two gateways over one catalog; and planted bugs, each of which such a schedule finds."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from tests.sim import cluster
from tests.sim.bugs_of_gateways import GATEWAY_BUGS
from tests.sim.gateways import Gateways, make_gateways_plan
from tests.sim.loop import BrokenPromise
from tests.sim.plan import Fault, Plan, gateway_name
from tests.sim.promises import keeps_promises

SEEDS = 24
SEEDS_OF_A_BUG = 60

FIRST = {
    "nothing of leadership is compared": 10,
    "nothing of partitions is compared": 10,
    "the chain as it was": 30,
    "no SEAL": 6,
}
"""Where the seeds begin, for bugs that show later: so the test is quick."""


def run(plan: Plan) -> cluster.Outcome:
    return keeps_promises(plan, Gateways(plan))


@pytest.mark.parametrize("block", range(4))
def test_two_gateways_keep_all_promises(block: int) -> None:
    reached: Counter[str] = Counter()
    for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4):
        reached += run(make_gateways_plan(seed)).world.reached
    both = {f"segments of {gateway_name(number)}" for number in (1, 2)}
    others = {
        "gateway crash",
        "taken for dead",
        "lease lost",
        "leases that ended",
        "lives that heard nothing",
    }
    assert both | others | {"clients that asked any gateway"} <= reached.keys()


def test_one_gateway_leads_everything_while_the_other_one_is_away() -> None:
    away = Fault("", "crash", 1.0, 2.5, gateway_name(1))
    plan = Plan(5, gateways=2, stores=3, replication_factor=3, partitions=4, pace=0.1, faults=(away,))
    world = Gateways(plan)
    seen: dict[int, set[int]] = {before: set() for before in (0, 1, 2)}
    acknowledged = world.history.on_acknowledged

    def note(log: Any, name: bytes, offset: int) -> None:
        leader = world.leader_of((log.topic.name, log.index))
        assert leader is not None, "an acknowledgement of what nobody leads"
        now = world.loop.now
        if now < 1.0 or 2.0 < now < 3.4:
            seen[0 if now < 1.0 else leader.gateway].add(log.index)
        acknowledged(log, name, offset)

    with patch.object(world.history, "on_acknowledged", note):
        keeps_promises(plan, world)
    assert seen == {0: {0, 1, 2, 3}, 1: set(), 2: {0, 1, 2, 3}}
    leaders = [world.leader(bytes.fromhex(topic), index) for topic in world.topic_names for index in range(4)]
    assert {leader.gateway for leader in leaders} == {1, 2}, "it has its share again"


@pytest.mark.parametrize("seed", [322, 416])
def test_notes_leave_though_the_log_was_read_before_it_came(seed: int) -> None:
    """A gateway that gains a log takes up its notes at once: by the record as it is now."""
    run(make_gateways_plan(seed))


def test_a_start_of_a_store_counts_that_another_gateway_has_kept() -> None:
    """What both have seen of it is the same, so there is nothing more to keep."""
    run(make_gateways_plan(902))


def test_a_seed_is_one_schedule() -> None:
    plan = make_gateways_plan(3)
    first, again = (cluster.run(plan, Gateways(plan)) for _ in range(2))
    assert first.trace == again.trace
    assert first.world.reached == again.world.reached


@pytest.mark.parametrize("bug", GATEWAY_BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    with GATEWAY_BUGS[bug]():
        first = FIRST.get(bug, 0)
        plans = map(make_gateways_plan, range(first, first + SEEDS_OF_A_BUG))
        failures = (cluster.run(plan, Gateways(plan)).failure for plan in plans)
        found = next((failure for failure in failures if failure is not None), None)
    assert isinstance(found, BrokenPromise), f"{SEEDS_OF_A_BUG} schedules do not show it"
