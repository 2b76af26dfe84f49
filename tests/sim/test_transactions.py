"""Schedules with transactional producers; and planted bugs, each of which such a schedule finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim import cluster
from tests.sim.bugs_of_transactions import OF_GATEWAYS, TRANSACTION_BUGS, WITH_CLEANING, WITH_FEW_PLACES
from tests.sim.gateways import Gateways, make_gateways_plan, world_of
from tests.sim.loop import BrokenPromise
from tests.sim.plan import GATEWAY, Fault, Plan, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by, survives_crashes
from tests.sim.shrink import describe

BLOCK = 10

FIRST = {
    "marker lost at a roll": 5,
    "stable when the marker is appended": 50,
    "a recovered segment has no aborted ones": 5,
    "coordinator epochs ignored": 25,
    "aborted records win keys": 4,
    "compaction passes the last stable offset": 5,
    "a log start forgets an open transaction": 13,
    "the list comes before the records": 13,
}
"""Where the seeds begin, for bugs that show later: so the test is quick."""

SEEDS_OF_A_BUG = 40


def plan_of(seed: int, *, cleans: bool | None = None) -> Plan:
    plan = make_plan(seed, seconds=4.0, cleans=cleans, reads=False)
    return replace(plan, transactions=1 + seed % 3)


def of_gateways(seed: int) -> Plan:
    return replace(make_gateways_plan(seed), transactions=1 + seed % 3)


KINDS = (
    "transactions committed",
    "transactions aborted",
    "transactions that timed out",
    "coordinators that followed another one",
    "committed ranges read from memory",
    "committed ranges read from stores",
)


@pytest.mark.parametrize("first", range(0, 40, BLOCK))
def test_what_is_committed_is_seen_and_nothing_else(first: int) -> None:
    reached = reached_by([plan_of(seed) for seed in range(first, first + BLOCK)], world_of)
    assert not [kind for kind in KINDS if not reached[kind]], reached


@pytest.mark.parametrize("first", range(0, 20, BLOCK))
def test_compaction_and_retention_leave_what_is_committed(first: int) -> None:
    reached = reached_by([plan_of(seed, cleans=True) for seed in range(first, first + BLOCK)], world_of)
    assert reached["compactions"] > 10, reached
    assert reached["transactions aborted"] > 10, reached


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_leaders_move_in_the_middle_of_transactions(first: int) -> None:
    reached = reached_by([of_gateways(seed) for seed in range(first, first + 4)], world_of)
    assert reached["transactions committed"] > 3, reached


def test_a_late_marker_ends_nothing_where_a_partition_came_back_under_the_same_epoch() -> None:
    plan = of_gateways(161)
    keeps_promises(plan, world_of(plan))


def test_what_an_old_leader_was_asked_is_judged() -> None:
    """Often, and all of it may have been answered before any of the rest."""
    reached = reached_by([of_gateways(134)], world_of)
    assert reached["answers of who has led the partition before"] > 10, reached


@pytest.mark.parametrize("target", [GATEWAY, store_name(0)])
def test_a_crash_behind_any_event_leaves_transactions_whole(target: str) -> None:
    short = Plan(
        seed=2, topics=1, partitions=2, clients=1, seconds=0.4, pace=0.03, segment_bytes=700,
        lost=0.05, doubled=0.05, transactions=2,
    )  # fmt: skip
    steps = keeps_promises(short).world.loop.steps
    survives_crashes(short, target, range(1, min(steps, 2000), 19))


def test_a_log_start_moves_into_an_open_transaction() -> None:
    """Also while somebody reads it: what a log start takes along is shown to nobody."""
    trims = tuple(Fault(f"trim {n}", "trim", 0.8 + n / 4, 0.0, GATEWAY) for n in range(12))
    plan = Plan(5, stores=3, replication_factor=3, segment_bytes=700, transactions=3, faults=trims)
    reached = keeps_promises(plan).world.reached
    assert reached["log starts moved"] > 4
    keeps_promises(plan_of(428))


def test_a_seed_is_one_schedule() -> None:
    first, again = (cluster.run(plan_of(3)) for _ in range(2))
    assert first.trace == again.trace
    assert first.world.reached == again.world.reached


def run_for(bug: str, seed: int) -> cluster.Outcome:
    """A schedule of the kind that shows the bug."""
    if bug in OF_GATEWAYS:
        plan = of_gateways(seed)
        return cluster.run(plan, Gateways(plan))
    plan = plan_of(seed, cleans=bug in WITH_CLEANING or None)
    if bug in WITH_FEW_PLACES:
        plan = replace(plan, producers_kept=8)
    return cluster.run(plan)


@pytest.mark.parametrize("bug", TRANSACTION_BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    first = FIRST.get(bug, 0)
    with TRANSACTION_BUGS[bug]():
        outcomes = (run_for(bug, seed) for seed in range(first, first + SEEDS_OF_A_BUG))
        found = next((outcome for outcome in outcomes if outcome.failure is not None), None)
    assert found is not None, f"{SEEDS_OF_A_BUG} schedules do not show it"
    assert isinstance(found.failure, BrokenPromise), describe(found)
