"""Consumer groups and fetch sessions in simulated clusters: what was committed is there, whoever is asked.

The real coordinator writes to the simulated stores; its log is compacted and loaded again after each start.
What a restart would find is compared with what is served at the end of each schedule (`tests.sim.groups`).
"""

from dataclasses import replace

import pytest

from tests.sim.plan import GATEWAY, Plan, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by, survives_crashes

SECONDS = 2.0

BLOCK = 3


@pytest.mark.parametrize("first", range(0, 6, BLOCK))
def test_the_promises_to_groups_and_sessions_hold(first: int) -> None:
    seeds = range(first, first + BLOCK)
    reached = reached_by(make_plan(seed, seconds=SECONDS, reads=True) for seed in seeds)
    assert reached["offsets committed"] > 20, reached
    assert reached["offsets fetched"] > 10, reached


SHORT = Plan(
    seed=8,
    topics=1,
    partitions=1,
    clients=1,
    seconds=2.0,
    pace=0.02,
    segment_bytes=600,
    policies=("compact",),
    compaction_seconds=0.1,
    dirty_ratio=0.01,
    delete_retention_ms=0,
    groups=2,
    sessions=1,
    lost=0.03,
)
"""Commits, deletions and generations, and compactions of the log that they are in."""

KILLS = 9
"""Crashes in one test case."""


@pytest.mark.parametrize(("target", "stores"), [(GATEWAY, 1), (GATEWAY, 3), (store_name(0), 1)])
def test_a_crash_at_any_step_keeps_the_promises_to_groups(target: str, stores: int) -> None:
    plan = replace(SHORT, stores=stores, replication_factor=stores)
    outcome = keeps_promises(plan)
    assert outcome.world.reached["compactions"] > 1
    assert outcome.world.reached["offsets committed"] > 10
    steps = outcome.world.loop.steps
    survives_crashes(plan, target, range(50, steps, steps // KILLS))
