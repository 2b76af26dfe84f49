"""Compaction, retention and DeleteRecords in simulated clusters: what they may take, kills in their middle.

The real compaction and retention run beside producers, faults and recoveries. What a log holds is compared
record by record with what was written (`tests.sim.ledger`).
"""

from dataclasses import replace

import pytest

from gateway.catalog import keys
from gateway.catalog.mirror import Plan as Transaction
from tests.sim import cluster
from tests.sim.plan import GATEWAY, Plan, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by, survives_crashes

SECONDS = 2.0

BLOCK = 4
"""Schedules in one test case, so that a failure names few."""


@pytest.mark.parametrize("first", range(1, 13, BLOCK))
def test_the_promises_hold_while_logs_are_cleaned(first: int) -> None:
    seeds = range(first, first + BLOCK)
    reached = reached_by(make_plan(seed, seconds=SECONDS, cleans=True) for seed in seeds)
    assert reached["records removed by compaction"] > 5, reached
    assert reached["batches acknowledged"] > 100, reached


@pytest.mark.parametrize("first", range(5, 13, BLOCK))
def test_the_promises_hold_where_segments_have_more_rows_than_an_answer(first: int) -> None:
    """As one of more than 4,096 batches: a start and a compaction ask for its rows several times."""
    plans = [make_plan(seed, stores=1, seconds=SECONDS, cleans=True) for seed in range(first, first + BLOCK)]
    reached = reached_by(replace(plan, rows_in_an_answer=2) for plan in plans)
    assert reached["batches acknowledged"] > 100, reached


@pytest.mark.parametrize("first", range(1, 9, BLOCK))
def test_the_promises_hold_where_more_producers_write_than_a_log_remembers(first: int) -> None:
    plans = [make_plan(seed, stores=1, seconds=SECONDS, cleans=True) for seed in range(first, first + BLOCK)]
    reached = reached_by(replace(plan, producers_kept=8) for plan in plans)
    assert reached["producers that passed by"] > 60, reached


SHORT = Plan(
    seed=27,
    topics=1,
    partitions=1,
    clients=2,
    seconds=1.0,
    pace=0.02,
    segment_bytes=600,
    policies=("compact",),
    compaction_seconds=0.1,
    dirty_ratio=0.01,
    lost=0.03,
    doubled=0.03,
)
"""Some segments, and compactions of them, one of which goes through more than one transaction."""

STRIDE = 5
"""Behind every so many events of a swap a crash, times the number of stores."""

KILLS = 12
"""Crashes in one test case at most."""


def swap_steps(plan: Plan) -> tuple[int, int]:
    """From the first new segment that is noted to the last old one that every member has forgotten."""
    steps: list[int] = []
    world = cluster.World(plan)

    on_transaction = world.catalog_file.on_transaction

    def look(transaction: Transaction) -> None:
        on_transaction(transaction)
        if any(key.startswith((keys.COMPACTING, keys.SEGMENT_TOMBSTONES)) for key in transaction.entries):
            steps.append(world.loop.steps)

    world.catalog_file.on_transaction = look
    outcome = keeps_promises(plan, world)
    assert outcome.world.reached["compactions"] > 1
    return steps[0], steps[-1]


@pytest.mark.parametrize("stores", [1, 3])
@pytest.mark.parametrize("target", [GATEWAY, store_name(0)])
def test_a_crash_at_any_step_of_a_swap_keeps_the_promises(target: str, stores: int) -> None:
    plan = replace(SHORT, stores=stores, replication_factor=stores)
    first, last = swap_steps(plan)
    assert last - first > 50
    stride = max(STRIDE * stores, (last - first) // KILLS)
    survives_crashes(plan, target, range(first, last, stride))
