"""Seeded schedules of whole clusters: the real gateway log and the real stores, over links, disks and clocks
that fail in every way. `make sim` runs more of them, and shows a failing one as small as it can be made.
"""

from collections import Counter
from dataclasses import replace

import pytest

from tests.sim import cluster
from tests.sim.plan import GATEWAY, Fault, Plan, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by

SECONDS = 2.0
"""Work and faults in one schedule here; `make sim` gives them more."""

BLOCK = 10
"""Schedules in one test case, so that a failure names few."""


def run_all(seeds: range, *, stores: int | None = None) -> Counter[str]:
    return reached_by(make_plan(seed, stores=stores, seconds=SECONDS) for seed in seeds)


@pytest.mark.parametrize("stores", [2, 3, 4, 5])
def test_the_promises_hold_with_several_stores(stores: int) -> None:
    reached = run_all(range(stores * 100, stores * 100 + BLOCK - stores), stores=stores)
    assert reached["batches acknowledged"] > 100, reached


@pytest.mark.parametrize("first", range(0, 50, BLOCK))
def test_the_promises_hold_with_one_store(first: int) -> None:
    reached = run_all(range(first, first + BLOCK), stores=1)
    assert reached["batches acknowledged"] > 300, reached


EVERY_KIND = (
    Fault("", "crash", 0.3, 0.3, store_name(0)),
    Fault("", "crash", 0.7, 0.2, GATEWAY, keep=True),
    Fault("", "pause", 1.0, 0.4, store_name(1)),
    Fault("", "cut link", 1.1, 0.3, GATEWAY, store_name(2)),
    Fault("", "isolate", 1.5, 0.4, store_name(0)),
    Fault("", "disk full", 2.0, 0.3, store_name(2)),
    Fault("", "slow disk", 2.4, 0.5, store_name(1)),
    Fault("", "taken for dead", 2.5, 2.0, GATEWAY),
    Fault("", "wipe", 3.0, 0.2, store_name(0)),
    Fault("", "clock step", 3.5, -3600.0, GATEWAY),
    Fault("", "power loss", 3.6, 0.2, "all stores"),
    Fault("", "alter topic", 4.0, 0.0, "topic-0", "2"),
    Fault("", "delete topic", 4.5, 0.0, "topic-1"),
)


def test_every_kind_of_fault_happens() -> None:
    plan = Plan(
        1, stores=3, replication_factor=3, topics=2, tail_cache_bytes=2000, lost=0.02, doubled=0.02, late=0.02
    )
    outcome = keeps_promises(replace(plan, segment_bytes=3000, faults=EVERY_KIND))
    reached = outcome.world.reached
    kinds = {fault.kind if fault.target != GATEWAY else f"gateway {fault.kind}" for fault in EVERY_KIND}
    messages = {"messages lost", "messages doubled", "messages late", "sent into a cut link"}
    ends = {
        "gateway ended by its catalog",
        "store ended by its disk",
        "stores replaced",
        "ranges read from stores",
    }
    assert not (kinds | messages | ends) - reached.keys()


@pytest.mark.parametrize("crash", [0.0, 0.002, 0.01, 0.05, 0.2])
def test_log_starts_move_and_the_gateway_dies_behind_it(crash: float) -> None:
    faults = (
        Fault("", "trim", 1.0, 0.0, GATEWAY),
        Fault("", "crash", 1.8, 0.5, store_name(1)),
        Fault("", "trim", 2.0, 0.0, GATEWAY),
        Fault("", "crash", 2.0 + crash, 0.3, GATEWAY),
        Fault("", "trim", 3.5, 0.0, GATEWAY),
    )
    plan = Plan(4, stores=3, replication_factor=3, segment_bytes=2000, faults=faults)
    outcome = keeps_promises(plan)
    assert outcome.world.reached["log starts moved"] >= 4
    assert max(outcome.world.log_starts.values()) > 0


def test_a_store_is_taken_out_of_service() -> None:
    faults = (Fault("", "retire", 1.0, 0.0, store_name(1)), Fault("", "crash", 1.6, 0.3, GATEWAY))
    plan = Plan(1, stores=4, replication_factor=3, segment_bytes=3000, faults=faults)
    outcome = keeps_promises(plan)
    assert outcome.world.reached["stores taken out of service"] == 1


def test_a_seed_is_one_schedule() -> None:
    """What the shrinking of a failing schedule, and its repetition, live on."""
    first, again = (cluster.run(make_plan(7, stores=1, seconds=SECONDS)) for _ in range(2))
    assert first.world.reached == again.world.reached
    assert first.world.loop.steps == again.world.loop.steps
    assert first.world.history.shown == again.world.history.shown
