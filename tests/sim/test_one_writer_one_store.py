"""Seeded schedules of one writer and one store, and of a crowd that keeps the store's queue full: the pure
machines alone, without the shells that `test_cluster` runs.
"""

import pytest

from tests.sim.world import CROWD_COMMIT_RECORDS, BrokenPromise, World

STEPS = 1500


def run(seed: int, *, bugs: frozenset[str] = frozenset(), crowd: bool = False) -> World:
    world = World(seed, bugs=bugs, crowd=crowd)
    for _ in range(STEPS):
        world.step()
    world.settle()
    world.check_all()
    return world


@pytest.mark.parametrize("seed", range(14))
def test_the_promises_hold(seed: int) -> None:
    world = run(seed)
    assert world.counts["acknowledged"] > 20, world.counts
    assert world.counts["lost"] > 10, world.counts


@pytest.mark.parametrize("seed", range(6))
def test_the_promises_hold_in_a_crowd(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others keep the store's queue full: what it is asked is answered all the same, and truly."""
    monkeypatch.setattr("mesh.protocol.commit_queue.MAX_COMMIT_RECORDS", CROWD_COMMIT_RECORDS)
    world = run(seed, crowd=True)
    assert world.counts["acknowledged"] > 20, world.counts
    assert world.counts["closed"], world.counts


def test_the_schedules_reach_every_fault() -> None:
    counts = [run(seed).counts for seed in range(8)]
    for kind in ("store crashes", "gateway crashes", "lost", "closed", "deleted"):
        assert sum(count[kind] for count in counts) > 8, kind


@pytest.mark.parametrize("bug", ["ack before fsync", "no seal", "forgotten deletions"])
def test_a_planted_bug_is_found(bug: str) -> None:
    found = 0
    for seed in range(60):
        try:
            run(seed, bugs=frozenset({bug}))
        except BrokenPromise:
            found += 1
    assert found, "the simulation cannot see this bug"
