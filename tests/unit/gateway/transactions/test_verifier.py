"""Adding what is written to: what passes soon is waited for, as some clients ask again only seconds later."""

from __future__ import annotations

from typing import Any

import trio

from gateway.transactions.metadata import TopicPartition
from gateway.transactions.verifier import AGAIN_FOR_SECONDS, Producing, Verifier
from tests.unit.gateway.transactions.home import Home, run
from wireproto.kafka.errors import ErrorCode

ONE: TopicPartition = ("orders", 0)
OTHER: TopicPartition = ("orders", 1)
NONE, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


async def _check(home: Home, place: TopicPartition, *, adds: bool = True, epoch: int = 0) -> Any:
    verifier = Verifier(home.coordinator, None)
    return await verifier.check(Producing("t", 1001, epoch, adds), [place], "client")


def test_a_write_waits_for_another_one_that_is_being_added() -> None:
    """Two gateways add for one producer at once: the log has one change of an id at a time."""

    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init()
            home.journal.held = True
            await home.begin("first", home.add(1001, 0, frozenset((ONE,))))

            async def settle() -> None:
                await trio.sleep(AGAIN_FOR_SECONDS / 2)
                home.journal.held = False
                home.journal.settle()

            home.nursery.start_soon(settle)
            assert await _check(home, OTHER) == {OTHER: NONE}
            assert home.answers == {"first": NONE}
            assert set(home.coordinator.verify("t", 1001, 0, [ONE, OTHER]).values()) == {NONE}

    run(main)


def test_a_write_waits_for_the_markers_of_the_transaction_before() -> None:
    async def main() -> None:
        home = Home()
        home.version = 2
        async with home.running():
            await home.init()
            assert await home.add(1001, 0) is NONE
            home.target.go = trio.Event()
            await home.end(1001, 0, version=2)

            async def write() -> None:
                await trio.sleep(AGAIN_FOR_SECONDS / 2)
                home.target.go.set()

            home.nursery.start_soon(write)
            assert await _check(home, ONE, epoch=1) == {ONE: NONE}
            assert home.state() == "Ongoing"

    run(main)


def test_what_takes_longer_is_told() -> None:
    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init()
            home.journal.held = True
            await home.begin("first", home.add(1001, 0, frozenset((ONE,))))
            began = trio.current_time()
            assert await _check(home, OTHER) == {OTHER: BUSY}
            assert trio.current_time() - began == AGAIN_FOR_SECONDS

    run(main)


def test_what_is_only_verified_is_told_at_once() -> None:
    """Its client knows nothing of the transaction yet, or asks again by itself."""

    async def main() -> None:
        home = Home()
        async with home.running():
            await home.init()
            assert await home.add(1001, 0) is NONE
            home.target.go = trio.Event()
            await home.end(1001, 0)
            began = trio.current_time()
            assert await _check(home, ONE, adds=False) == {ONE: BUSY}
            assert trio.current_time() == began

    run(main)
