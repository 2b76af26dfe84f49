"""Disks that lose bits, beside every other fault: found, mended from a member that has them, never spread.

What holds at any time is checked as ever (`tests.sim.invariants`): no other store, no reader and no commit
ever has anything but what was published.
"""

from collections import Counter
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mesh.protocol.address_state import AddressState
from mesh.protocol.scrubbing import Verdict
from mesh.store import mender, ranges, server
from mesh.store.checking import digest_of
from mesh.store.db import Database
from mesh.store.scrub import Scrub
from tests.sim.plan import Fault, make_plan, store_name
from tests.sim.promises import keeps_promises
from wireproto.records.row import Row, row_of

SECONDS = 2.0
FLIPS = 8
SCRUB_SECONDS = 1.0
"""Often enough that passes meet the other faults."""

DISK_IS_LOST = {"wipe", "set back", "empty"}
"""With it the last good copy may go before the other one is mended; what is lost then is no scrub's fault."""


NEEDS_A_STORE_TO_SPARE = {"retire"}
"""Here every store has every segment."""


def run_with_flips(seed: int, stores: int) -> Counter[str]:
    plan = make_plan(seed, stores=stores, seconds=SECONDS)
    faults = [fault for fault in plan.faults if fault.kind not in DISK_IS_LOST | NEEDS_A_STORE_TO_SPARE]
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
    outcome = keeps_promises(plan)
    return outcome.world.reached


def test_flipped_bits_are_mended_and_never_spread() -> None:
    reached: Counter[str] = Counter()
    for seed, stores in ((0, 2), (1, 3), (2, 3), (3, 4)):
        reached += run_with_flips(seed, stores)
    assert reached["bits flipped"] > 10, reached
    assert reached["flipped bits mended"] > 5, reached


def _digest_unchecked(database: Database, state: AddressState, first: int, last: int) -> bytes:
    contents = ranges.read_records(database, state.address, first, last, ranges.MAX_RANGE_BYTES)
    return digest_of(contents) if len(contents) == last - first + 1 else b""


async def _believe_others(self: Scrub, state: AddressState, looked: Any, _told: Any) -> None:
    decided = await self._mender.compare(state, looked.first, looked.last, looked.digest)
    if decided.verdict is Verdict.DIFFERS:
        await self._mender.mend(state, looked.first, looked.last)


def _rows_unchecked(_announcement: Any, before: bytes, _after: bytes, contents: list[bytes]) -> list[bytes]:
    running, rows = Row.unpack(before).running_max_timestamp if before else -1, []
    for content in contents:
        row = row_of(content, running)
        running = row.running_max_timestamp
        rows.append(row.pack())
    return rows


def is_found() -> bool:
    """Whether one of some schedules shows records that nobody published."""
    for seed in (29, 30, *range(1, 29)):
        try:
            run_with_flips(seed, 3)
        except AssertionError as error:
            if "with what was never published" in str(error):
                return True
    return False


def test_a_scrub_that_believes_others_blindly_is_found() -> None:
    """What is good here is replaced by what another store has, good or not."""
    with (
        patch.object(server, "checked_digest", _digest_unchecked),
        patch.object(mender, "rows_between", _rows_unchecked),
        patch.object(Scrub, "_compare", _believe_others),
    ):
        assert is_found()
