"""The shrinking of a failing schedule, on schedules that fail for a known reason."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.sim import cluster
from tests.sim.bugs import planted
from tests.sim.plan import Fault, Plan, make_plan
from tests.sim.shrink import as_found, describe, shrink

FAULTS = tuple(Fault(f"fault {number}", "pause", number / 10, 0.1, "store 0") for number in range(40))


def failing_with(needed: set[str], plan: Plan) -> cluster.Outcome:
    """As `cluster.run`: the schedule fails as long as all of `needed` happen."""
    happening = {fault.id for fault in plan.happening}
    fates = [
        fate for fate in ("lost gateway>store 0 1", "late gateway>store 0 2") if fate not in plan.left_out
    ]
    failure = AssertionError(f"step {len(happening)}") if needed <= happening | set(fates) else None
    world = SimpleNamespace(network=SimpleNamespace(fates=fates), loop=SimpleNamespace(now=1.0, steps=1))
    return cluster.Outcome(plan, cast("Any", world), failure)


@pytest.mark.parametrize(
    "needed", [{"fault 7"}, {"fault 0", "fault 39"}, {"fault 3", "fault 20", "late gateway>store 0 2"}, set()]
)
def test_only_what_is_needed_is_left(needed: set[str]) -> None:
    smallest = shrink(replace(make_plan(1), faults=FAULTS), lambda plan: failing_with(needed, plan))
    assert {fault.id for fault in smallest.plan.happening} | set(smallest.world.network.fates) == needed


def test_a_schedule_that_does_not_fail_is_not_shrunk() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(Plan(seed=1), lambda plan: failing_with({"nothing"}, plan))


def test_a_cluster_is_made_smaller_as_far_as_it_still_fails() -> None:
    """This one fails with two clients, one topic, and messages that are lost; nothing else is needed."""
    large = replace(make_plan(1), topics=2, partitions=3, clients=3, segment_bytes=600, lost=0.1, late=0.1)
    needs = {"topics": 1, "partitions": 1, "clients": 3, "late": 0.0, "lost": 0.1, "segment_bytes": 1 << 30}

    def run(plan: Plan) -> cluster.Outcome:
        failure = AssertionError("again") if plan.clients > 1 and plan.lost else None
        world = SimpleNamespace(network=SimpleNamespace(fates=[]), loop=SimpleNamespace(now=1.0, steps=1))
        return cluster.Outcome(plan, cast("Any", world), failure)

    smallest = shrink(large, run).plan
    assert {name: getattr(smallest, name) for name in needs} == needs


def test_what_happened_is_a_plan_that_does_the_same() -> None:
    plan = replace(make_plan(3, stores=3, seconds=1.0), lost=0.05, doubled=0.05, late=0.05)
    first = cluster.run(plan)
    left_out = frozenset((first.world.network.fates[3], plan.faults[0].id))
    outcome = cluster.run(plan.without(left_out))
    found = as_found(outcome)
    assert not found.left_out
    assert cluster.run(found).trace == outcome.trace != first.trace
    assert cluster.run(replace(found, only_fates=frozenset())).trace != outcome.trace


def test_a_real_failure_is_described_with_what_runs_it_again() -> None:
    with planted("sequence reused"):
        smallest = shrink(make_plan(0, stores=1, seconds=1.0))
    assert smallest.failure is not None
    assert not smallest.plan.happening
    assert describe(smallest).startswith("seed 0: BrokenPromise: sequence 10 of ")
