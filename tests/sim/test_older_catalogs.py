"""The stores remember the catalog, and an older one that is put back is refused before it does any harm."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from gateway.cluster.lineage import CatalogHistory, Judgement, Verdict
from tests.sim import cluster
from tests.sim.plan import GATEWAY, Fault, Plan, cleans_quickly, make_plan, store_name
from tests.sim.promises import keeps_promises, reached_by

SECONDS = 2.0


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_the_promises_hold_while_stores_remember_the_catalog(first: int) -> None:
    reached = reached_by(
        replace(cleans_quickly(make_plan(seed, seconds=SECONDS)), remembers=True)
        for seed in range(first, first + 6)
    )
    assert reached["batches acknowledged"] > 100, reached


def goes_back(seed: int, *faults: Fault, stores: int = 3, seconds: float = 1.5) -> Plan:
    """Some seconds of work with compaction and retention, then a catalog from before that."""
    plan = cleans_quickly(make_plan(seed, stores=stores, seconds=5.0, cleans=True, reads=False))
    back = Fault("back", "catalog goes back", 4.0, seconds, GATEWAY)
    return replace(
        plan, remembers=True, faults=(*faults, back), retention_seconds=0.5, compaction_seconds=0.05
    )


@pytest.mark.parametrize("stores", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_an_older_catalog_is_refused_and_nothing_is_lost(seed: int, stores: int) -> None:
    reached = keeps_promises(goes_back(seed, stores=stores)).world.reached
    assert reached["older catalogs put back"] == 1
    assert reached["catalogs refused"] >= 1


@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_when_a_store_comes_later(seed: int) -> None:
    away = Fault("away", "crash", 3.9, 3.0, store_name(seed), keep=True)
    reached = keeps_promises(goes_back(seed, away)).world.reached
    assert reached["catalogs refused"] >= 1


def test_a_gateway_that_does_not_compare_is_found() -> None:
    """The fault tells the difference: without the comparison an older catalog serves on."""
    believing = patch.object(CatalogHistory, "judge", lambda _self, _memory: Judgement(Verdict.VOUCHES))
    plan = goes_back(1)
    with believing:
        outcome = cluster.run(plan)
    assert outcome.failure is not None
