"""A node is killed behind each single event of a short schedule, with and without what it had written.

Random schedules meet the common interleavings often and the narrow ones seldom; here they come in a row.
"""

import os
from dataclasses import replace

import pytest

from tests.sim.plan import GATEWAY, Plan, store_name
from tests.sim.promises import keeps_promises, survives_crashes

SHORT = Plan(
    seed=1,
    topics=1,
    partitions=1,
    clients=2,
    seconds=0.25,
    pace=0.02,
    segment_bytes=600,
    lost=0.05,
    doubled=0.05,
)
"""Some openings, rolls, gaps and closes; no other faults than messages that fare badly."""


STRIDE = 1 if os.environ.get("EVERY_STEP") else 9
"""Behind every so many events a crash, times the number of stores; `EVERY_STEP=1` in the environment tries
all (with one store)."""


@pytest.mark.parametrize("stores", [1, 3])
@pytest.mark.parametrize("target", [GATEWAY, store_name(0)])
def test_a_crash_behind_any_event_keeps_the_promises(target: str, stores: int) -> None:
    plan = replace(SHORT, stores=stores, replication_factor=stores)
    steps, stride = keeps_promises(plan).world.loop.steps, STRIDE * stores
    assert steps > 100
    survives_crashes(plan, target, range(1, steps, stride))
