"""Schedules with programs that work exactly once; and planted bugs, each of which such a schedule finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.sim import cluster
from tests.sim.bugs_of_applications import APPLICATION_BUGS, HURRIED, OF_GATEWAYS, WITH_CRASHES
from tests.sim.gateways import make_gateways_plan, world_of
from tests.sim.loop import BrokenPromise
from tests.sim.plan import GATEWAY, MANY_PRODUCERS, Fault, Plan, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by, survives_crashes
from tests.sim.shrink import describe

BLOCK = 10

FIRST = {
    "any marker ends offsets": 16,
    "markers before the decision is durable": 10,
}
"""Where the seeds begin, for bugs that show later: so the test is quick."""

SEEDS_OF_A_BUG = 40

KINDS = (
    "transactions committed",
    "transactions aborted",
    "offsets committed in transactions",
    "unstable offsets",
    "instances that crashed",
    "instances beside another one",
    "instances ended: PRODUCER_FENCED",
    "instances ended: INVALID_PRODUCER_EPOCH",
    "requests that came late",
    "markers that came again",
    "not verified: PRODUCER_FENCED",
)


def plan_of(seed: int) -> Plan:
    """Producers of both protocols side by side, and in some clusters of the older one alone."""
    plan = make_plan(seed, seconds=5.0, reads=False)
    version = 1 if seed % 5 == 4 else 2
    chooser = random.Random(f"crashes {seed}")
    crashes = [
        Fault(
            f"crash {n}", "crash", chooser.uniform(0.5, 5.0), chooser.uniform(0.02, 0.3), GATEWAY, keep=keep
        )
        for n, keep in enumerate((True, False, True))
    ]
    return replace(
        plan,
        applications=2 + seed % 3,
        transaction_version=version,
        producers_kept=MANY_PRODUCERS,
        faults=tuple(sorted((*plan.faults, *crashes), key=lambda fault: fault.at)),
    )


def busy(seed: int) -> Plan:
    """One store that works well, and a gateway that is killed again and again: all else is quick."""
    chooser = random.Random(f"busy {seed}")
    crashes = tuple(
        Fault(f"crash {n}", "crash", chooser.uniform(0.5, 8.0), 0.02, GATEWAY, keep=True) for n in range(9)
    )
    return Plan(seed, clients=1, pace=0.02, seconds=8.0, applications=4, faults=crashes)


def of_gateways(seed: int) -> Plan:
    return replace(
        make_gateways_plan(seed), applications=2 + seed % 3, transaction_version=1 if seed % 5 == 4 else 2
    )


def hurried(seed: int) -> Plan:
    """Producers of the older protocol alone, whose transactions have one epoch: a batch that comes late may
    be taken for one of the transaction that goes on. Their questions go from one gateway to the other.
    """
    return replace(of_gateways(seed), applications=4, transaction_version=1, hurried=True, faults=())


def run(plan: Plan) -> cluster.Outcome:
    return cluster.run(plan, world_of(plan))


@pytest.mark.parametrize("first", range(0, 40, BLOCK))
def test_each_number_is_written_once_with_its_offset(first: int) -> None:
    reached = reached_by([plan_of(seed) for seed in range(first, first + BLOCK)], world_of)
    assert not [kind for kind in KINDS if not reached[kind]], reached


@pytest.mark.parametrize("first", range(0, 20, BLOCK))
def test_a_gateway_is_killed_again_and_again(first: int) -> None:
    reached = reached_by([busy(seed) for seed in range(first, first + BLOCK)], world_of)
    assert reached["transactions committed"] > 20, reached


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_coordinators_and_leaders_move_in_the_middle(first: int) -> None:
    reached = reached_by([of_gateways(seed) for seed in range(first, first + 6)], world_of)
    assert reached["transactions committed"] > 10, reached
    assert reached["questions between gateways"] > 20, reached


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_batches_come_when_their_transaction_is_ended(first: int) -> None:
    reached = reached_by([hurried(seed) for seed in range(first, first + 8)], world_of)
    assert reached["requests that came late"] > 20, reached
    assert reached["batches given up"] > 5, reached


@pytest.mark.parametrize("target", [GATEWAY, store_name(0)])
def test_a_crash_behind_any_event_loses_and_doubles_nothing(target: str) -> None:
    short = Plan(
        seed=2, topics=1, partitions=2, clients=1, seconds=0.5, pace=0.02, segment_bytes=700,
        lost=0.05, doubled=0.05, applications=2,
    )  # fmt: skip
    steps = keeps_promises(short).world.loop.steps
    survives_crashes(short, target, range(1, min(steps, 2000), 19))


def test_records_are_deleted_within_open_transactions() -> None:
    """What a log start takes along of an open transaction is ended all the same: nothing hangs."""
    trims = tuple(Fault(f"trim {n}", "trim", 0.8 + n / 5, 0.0, GATEWAY) for n in range(15))
    plan = Plan(5, stores=3, replication_factor=3, segment_bytes=700, applications=4, faults=trims)
    reached = keeps_promises(plan).world.reached
    assert reached["log starts moved"] > 4
    assert reached["transactions aborted"], reached


def test_a_seed_is_one_schedule() -> None:
    first, again = (cluster.run(plan_of(3)) for _ in range(2))
    assert first.trace == again.trace
    assert first.world.reached == again.world.reached


def plan_for(bug: str) -> Callable[[int], Plan]:
    """Schedules of the kind that shows the bug."""
    kinds = {busy: WITH_CRASHES, of_gateways: OF_GATEWAYS, hurried: HURRIED}
    return next((make for make, bugs in kinds.items() if bug in bugs), plan_of)


@pytest.mark.parametrize("bug", APPLICATION_BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    first, make = FIRST.get(bug, 0), plan_for(bug)
    with APPLICATION_BUGS[bug]():
        outcomes = (run(make(seed)) for seed in range(first, first + SEEDS_OF_A_BUG))
        found = next((outcome for outcome in outcomes if outcome.failure is not None), None)
    assert found is not None, f"{SEEDS_OF_A_BUG} schedules do not show it"
    assert isinstance(found.failure, BrokenPromise), describe(found)
