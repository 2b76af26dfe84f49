"""Schedules of gateways that lose the catalog; and bugs of leases, which such a schedule finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from gateway.cluster.alive import Alive
from tests.sim import cluster
from tests.sim.leases import LeasedGateways, make_leased_plan
from tests.sim.loop import BrokenPromise
from tests.sim.promises import keeps_promises

SEEDS = 8
SEEDS_OF_A_BUG = 12


@pytest.mark.parametrize("block", range(2))
def test_gateways_with_leases_keep_all_promises(block: int) -> None:
    reached: Counter[str] = Counter()
    for seed in range(block * SEEDS // 2, (block + 1) * SEEDS // 2):
        plan = make_leased_plan(seed)
        reached += keeps_promises(plan, LeasedGateways(plan)).world.reached
    assert {"catalog cut", "gateways suspended", "places lost", "answers to DeleteRecords"} <= reached.keys()


def _suspended_and_answers() -> AbstractContextManager[object]:
    return patch.object(Alive, "_suspend", lambda _: None)


def _who_is_down_never_comes_back() -> AbstractContextManager[object]:
    """As it was once: only gateways count that are alive by a view that may be old."""
    alone = property(lambda self: len(self._catalog.range("/alive/", limit=2)) > 1)
    return patch.object(Alive, "_is_followed", alone)


@pytest.mark.parametrize(
    "plant", [_suspended_and_answers, _who_is_down_never_comes_back], ids=["suspended", "down"]
)
def test_a_planted_bug_is_found(plant: Callable[[], AbstractContextManager[object]]) -> None:
    with plant():
        plans = map(make_leased_plan, range(SEEDS_OF_A_BUG))
        failures = (cluster.run(plan, LeasedGateways(plan)).failure for plan in plans)
        found = next((failure for failure in failures if failure is not None), None)
    assert isinstance(found, BrokenPromise), f"{SEEDS_OF_A_BUG} schedules do not show it"
    assert "which it lost" in str(found)
