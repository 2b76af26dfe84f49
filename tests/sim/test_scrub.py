"""Disks that lose bits, beside every other fault: found, mended from a member that has them, never spread.

What holds at any time is checked as ever (`tests.sim.invariants`): no other store, no reader and no commit
ever has anything but what was published.
"""

from collections import Counter
from dataclasses import replace

from tests.sim import cluster
from tests.sim.plan import Fault, make_plan, store_name
from tests.sim.shrink import describe

SECONDS = 2.0
FLIPS = 8
SCRUB_SECONDS = 1.0
"""Often enough that passes meet the other faults."""

DISK_IS_LOST = {"wipe"}
"""With it the last good copy may go before the other one is mended; what is lost then is no scrub's fault."""


def run_with_flips(seed: int, stores: int) -> Counter[str]:
    plan = make_plan(seed, stores=stores, seconds=SECONDS)
    faults = [fault for fault in plan.faults if fault.kind not in DISK_IS_LOST]
    for number in range(FLIPS):
        at = SECONDS * (0.2 + 0.75 * number / FLIPS)
        faults.append(Fault(f"flip {number}", "flipped bit", at, 0.0, store_name(number % stores)))
    plan = replace(
        plan,
        replication_factor=stores,
        segment_bytes=600,
        scrub_seconds=SCRUB_SECONDS,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )
    outcome = cluster.run(plan)
    assert outcome.failure is None, describe(outcome)
    return outcome.world.reached


def test_flipped_bits_are_mended_and_never_spread() -> None:
    reached: Counter[str] = Counter()
    for seed, stores in ((0, 2), (1, 3), (2, 3), (3, 4)):
        reached += run_with_flips(seed, stores)
    assert reached["bits flipped"] > 10, reached
    assert reached["flipped bits mended"] > 5, reached
