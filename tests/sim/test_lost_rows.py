"""A catalog that has lost a row: what cannot be told from it is refused, and nothing is lost."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from gateway.catalog import keys
from gateway.log.recovery import one_partition, verification
from tests.sim import cluster
from tests.sim.loop import BrokenPromise
from tests.sim.plan import GATEWAY, Fault, Plan, cleans_quickly, make_plan
from tests.sim.promises import keeps_promises

OTHERS_HAVE_THEM = {"wipe", "retire", "delete topic"}
"""Faults after which a row that is put back is not what it was: an operator does not do both."""

SEEDS = 3
SEEDS_WITHOUT = 60
"""Schedules in one of which at least the want of a check is seen."""

KINDS = (
    keys.SEGMENTS,
    keys.PARTITIONS,
    keys.TOPICS,
    keys.CLOSING,
    keys.SEGMENT_TOMBSTONES,
    keys.COMPACTING,
)


def loses(kind: str, seed: int, *, cleans: bool) -> Plan:
    plan = cleans_quickly(make_plan(seed, seconds=4.0, cleans=cleans, reads=False))
    faults = [fault for fault in plan.faults if fault.kind not in OTHERS_HAVE_THEM]
    faults += [Fault(f"loss {at}", "lose row", at, 1.5, GATEWAY, kind) for at in (1.0, 3.0)]
    return replace(plan, faults=tuple(faults), segment_bytes=min(plan.segment_bytes, 3000))


@pytest.mark.parametrize("cleans", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_lost_and_nothing_else(kind: str, cleans: bool) -> None:
    reached: Counter[str] = Counter()
    for seed in range(SEEDS):
        reached += keeps_promises(loses(kind, seed, cleans=cleans)).world.reached
    assert reached["gateway lose row"] == 2 * SEEDS
    if kind in (keys.SEGMENTS, keys.PARTITIONS):
        assert reached["partitions refused"] >= SEEDS, reached


@pytest.mark.parametrize(("seed", "cleans"), [(14, False), (27, False), (19, True)])
def test_a_log_start_inside_a_segment_that_is_lost(seed: int, cleans: bool) -> None:
    """It begins below everything that the catalog has left, and has records beyond."""
    keeps_promises(loses(keys.SEGMENTS, seed, cleans=cleans))


def chains_are_believed() -> AbstractContextManager[object]:
    return patch.object(one_partition, "what_contradicts", lambda _segments, _record: "")


@contextmanager
def stores_are_not_believed() -> Iterator[None]:
    with (
        patch.object(verification, "_further", lambda _address, _verified, _known: None),
        patch.object(verification, "_unknown", lambda _verified, _known: None),
    ):
        yield


@pytest.mark.parametrize("without", [chains_are_believed, stores_are_not_believed])
def test_without_a_check_the_loss_is_found(without: Callable[[], AbstractContextManager[object]]) -> None:
    """The fault tells the difference: the same schedule keeps its promises with it."""
    for seed in range(SEEDS_WITHOUT):
        plan = loses(keys.SEGMENTS, seed, cleans=False)
        with without():
            failure = cluster.run(plan).failure
        if isinstance(failure, BrokenPromise):
            break
    else:
        raise AssertionError(f"{SEEDS_WITHOUT} schedules do not show it")
    keeps_promises(plan)
