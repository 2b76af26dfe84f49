"""Stores that come late, empty or back after a long time: they fetch what they lack and are equal to the
others afterwards, key by key.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from mesh.store import keys
from mesh.store.db import Database
from tests.mesh.stores import Stores, batch, contents, run, until
from wireproto.dafka.additions import STATUS_DONE, STATUS_INCOMPLETE, AddressStatus, Announcement

A, B, C, NEW = "A" * 32, "B" * 32, "C" * 32, "D" * 32
PATIENCE_SECONDS = 100
"""For one of the lives of a store that is killed, on a machine that does other things as well."""
RECORDS = 3000
LAST = RECORDS - 1


async def closed_segment(
    stores: Stores, *members: str, size: int = 100, records: int = RECORDS
) -> Announcement:
    """A segment that its members were written, sealed and closed at its last record."""
    gateway = stores.gateway
    segment = gateway.announcement([*members, C])
    for member in members:
        assert await gateway.open(member, segment) == [STATUS_DONE]
    await gateway.write(stores, segment, 0, records - 1, size)
    for member in members:
        assert (await gateway.seal(member, segment.address)).sequence == records - 1
        assert (await gateway.close(member, segment.address, records - 1)).status == STATUS_DONE
    return segment


async def whole(stores: Stores, store: str, address: str, last: int = LAST) -> None:
    await until(lambda: stores.head(store, address) >= last)


@pytest.mark.parametrize("transport", ["inproc", "tcp"])
@pytest.mark.parametrize("late", [C, NEW], ids=["a member", "no member"])
def test_a_store_that_comes_empty_is_copied_to(tmp_path: Path, transport: str, late: str) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segments = [await closed_segment(stores, A, B) for _ in range(3)]
        await stores.start(late)
        for segment in segments:
            # A request that is repeated may find more than at first.
            status = await stores.gateway.copy(late, segment, LAST, A, B)
            assert status.status in (STATUS_INCOMPLETE, STATUS_DONE)
        for segment in segments:
            await whole(stores, late, segment.address)
            assert (await stores.gateway.copy(late, segment, LAST, A, B)).status == STATUS_DONE
            assert (await stores.gateway.close(late, segment.address, LAST)).status == STATUS_DONE
        assert min(stores[A].server.reads, stores[B].server.reads) > 0, "both are asked"
        expected = await stores.contents(A)
        assert await stores.contents(late) == expected
        assert await stores.contents(B) == expected
        first = segments[0].address
        key = keys.record_prefix(first) + keys.sequence_bytes(LAST)
        assert expected[key] == batch(LAST)

    run(tmp_path, scenario, transport)


def test_a_store_that_was_stopped_for_long_catches_up_when_it_hears_the_end(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        gateway = stores.gateway
        await stores.start(A, B, C)
        segment = gateway.announcement([A, B, C], 2)
        for member in (A, B, C):
            assert await gateway.open(member, segment) == [STATUS_DONE]
        await gateway.write(stores, segment, 0, 99)
        await stores.stop(C)
        await gateway.write(stores, segment, 100, LAST)
        for member in (A, B):
            await gateway.seal(member, segment.address)
            await gateway.close(member, segment.address, LAST)
        await stores.start(C)
        status = await gateway.close(C, segment.address, LAST)
        assert status.status in (STATUS_INCOMPLETE, STATUS_DONE)
        await whole(stores, C, segment.address)
        assert (await gateway.close(C, segment.address, LAST)).status == STATUS_DONE
        assert await stores.contents(C) == await stores.contents(A)

    run(tmp_path, scenario)


def test_what_a_closed_segment_lacks_is_fetched_after_a_restart_though_nobody_asks(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        gateway = stores.gateway
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        await stores.stop(A, B)
        await stores.start(C)
        assert await gateway.open(C, segment) == [STATUS_DONE]
        assert (await gateway.close(C, segment.address, LAST)).status == STATUS_INCOMPLETE
        await stores.stop(C)
        await stores.start(A, B)
        await stores.start(C, greet=False)
        await whole(stores, C, segment.address)
        expected = await stores.contents(A)
        assert await stores.contents(C) == expected
        # The next start finds nothing to look at.
        database = Database(stores.path(C))
        assert database.unfinished("", 10) == []
        database.close()

    run(tmp_path, scenario)


def test_a_member_that_is_told_of_a_live_segment_late_catches_up_with_its_writer(tmp_path: Path) -> None:
    """The writer holds only its last records; it goes on all the time."""

    async def scenario(stores: Stores) -> None:
        gateway = stores.gateway
        await stores.start(A, B, C)
        segment = gateway.announcement([A, B, C], 2)
        for member in (A, B):
            assert await gateway.open(member, segment) == [STATUS_DONE]
        published = 0
        stop = trio.Event()

        async def produce() -> None:
            nonlocal published
            window = gateway.window.setdefault(segment.address, {})
            while not stop.is_set():
                for _ in range(5):
                    window[published] = batch(published)
                    gateway.publish(segment, published, published)
                    published += 1
                await trio.sleep(0.002)
                committed = min(stores.head(member, segment.address) for member in (A, B))
                for number in [number for number in window if number <= committed]:
                    del window[number]
                gateway.head(segment, published - 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            await until(lambda: published >= RECORDS)
            assert stores[C].ingest.unannounced
            assert stores[C].ingest.heads() == {}
            assert await gateway.open(C, segment) == [STATUS_DONE]
            for _ in range(3):
                # At first it catches up, then it keeps up.
                await whole(stores, C, segment.address, published)
            stop.set()
        for member in (A, B, C):
            await whole(stores, member, segment.address, published - 1)
        assert stores[C].ingest.copied_records
        assert await stores.contents(C) == await stores.contents(A)

    run(tmp_path, scenario)


def test_an_open_segment_that_is_silent_is_looked_at_when_it_was_announced_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mesh.protocol.gaps.LOOK_FIRST_SECONDS", 0.05)

    async def scenario(stores: Stores) -> None:
        gateway = stores.gateway
        await stores.start(A, B, C)
        segment = gateway.announcement([A, B, C], 2)
        for member in (A, B):
            await gateway.open(member, segment)
        gateway.publish(segment, 0, 99)
        for member in (A, B):
            await whole(stores, member, segment.address, 99)
        await gateway.open(C, segment)
        await whole(stores, C, segment.address, 99)
        # And when it was away while it went on.
        await stores.stop(C)
        gateway.publish(segment, 100, 150)
        for member in (A, B):
            await whole(stores, member, segment.address, 150)
        await stores.start(C)
        await whole(stores, C, segment.address, 150)
        assert not gateway.fetches, "nothing told it that it lacks something"
        assert await stores.contents(C) == await stores.contents(A)

    run(tmp_path, scenario)


def test_a_source_that_dies_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.protocol.catch_up.ANSWER_SECONDS", 0.2)

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B, size=10_000)
        await stores.start(C)
        await stores.gateway.copy(C, segment, LAST, A, B)
        await whole(stores, C, segment.address, 200)
        await stores.stop(A)
        assert stores.head(C, segment.address) < LAST, "it must die in the middle"
        await whole(stores, C, segment.address)
        await stores.gateway.close(C, segment.address, LAST)
        assert await stores.contents(C) == await stores.contents(A)

    run(tmp_path, scenario)


def spoil(path: Path, address: str, sequence: int, content: bytes) -> None:
    """Alter a record below RocksDB's checksums, as a defect in the program that wrote it would."""
    database = Database(path)
    database._db[keys.record_prefix(address) + keys.sequence_bytes(sequence)] = content
    database.close()


@pytest.mark.parametrize("sources", [(A, B), (B, A)])
def test_a_source_with_a_damaged_batch_is_named_and_another_one_asked(
    tmp_path: Path, sources: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        await stores.stop(A)
        damaged = bytearray(batch(700))
        damaged[-1] ^= 1
        spoil(stores.path(A), segment.address, 700, bytes(damaged))
        await stores.start(A, C)
        await stores.gateway.copy(C, segment, LAST, *sources)
        await whole(stores, C, segment.address)
        await stores.gateway.close(C, segment.address, LAST)
        # The first range is asked of the first source, and record 700 is in it.
        assert stores[C].ingest.bad_copies == (1 if sources[0] == A else 0)
        if sources[0] == A:
            assert f"store {A} gave a bad copy of {segment.address}, sequence 700" in caplog.text
        assert await stores.contents(C) == await stores.contents(B)

    run(tmp_path, scenario)


def test_only_a_damaged_source_leaves_it_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mesh.protocol.catch_up.BAD_COPY_SECONDS", 0.05)
    monkeypatch.setattr("mesh.protocol.copied_address.REST_FIRST_SECONDS", 0.05)

    async def scenario(stores: Stores) -> None:
        await stores.start(A)
        segment = await closed_segment(stores, A)
        await stores.stop(A)
        spoil(stores.path(A), segment.address, 700, batch(700)[:-1])
        await stores.start(A, C)
        await stores.gateway.copy(C, segment, LAST, A)
        await until(lambda: stores[C].ingest.bad_copies >= 2)
        assert stores.head(C, segment.address) == 699
        assert (await stores.gateway.copy(C, segment, LAST, A)).status == STATUS_INCOMPLETE
        assert "lacks the records from 700 to" in caplog.text

    run(tmp_path, scenario)


class StoreProcess:
    """Store C as a process of its own, killed at its `commits`-th commit."""

    def __init__(self, stores: Stores, commits: int) -> None:
        peers = [stores.gateway_endpoint, *(running.endpoint for running in stores.running.values())]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        if commits:
            environment["DAFKA_TEST_CRASH_POINT"] = f"after-write:{commits}"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("store_process.py")), stores.path(C), C, *peers],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().decode().strip()
        self.nodes = [stores.gateway.node, *(running.store.node for running in stores.running.values())]
        for node in self.nodes:
            node.connect(self.endpoint)

    async def gone(self) -> None:
        await until(lambda: self.process.poll() is not None)
        for node in self.nodes:
            node.disconnect(self.endpoint)

    async def kill(self) -> None:
        self.process.kill()
        await self.gone()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def answered_done(ask: Callable[[], Awaitable[AddressStatus]]) -> None:
    while (await ask()).status != STATUS_DONE:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("asked", ["COPY", "CLOSE"])
def test_a_store_that_is_killed_in_the_middle(tmp_path: Path, asked: str) -> None:
    """Three times, each somewhat later; after the last start it goes on where the disk says that it was."""

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B, size=10_000)
        heads = []
        for commits in (3, 2, 2, 0):
            process = StoreProcess(stores, commits)
            try:
                with trio.fail_after(PATIENCE_SECONDS):
                    async with trio.open_nursery() as asking:
                        asking.start_soon(ask_for_all, stores, segment, asked)
                        if commits:
                            await process.gone()
                        else:
                            await done(stores, segment)
                        asking.cancel_scope.cancel()
            finally:
                await process.kill()
            database = Database(stores.path(C))
            state = database.load(segment.address)
            database.close()
            heads.append(-1 if state is None else state.head)
        assert heads == sorted(heads)
        assert any(-1 < head < LAST for head in heads[:-1]), heads
        assert heads[-1] == LAST
        assert contents(stores.path(C)) == await stores.contents(A)

    async def ask_for_all(stores: Stores, segment: Announcement, asked: str) -> None:
        """Any of these may be the process's last: its answer does not come then."""
        gateway = stores.gateway
        await gateway.greet(C)
        if asked == "COPY":
            await gateway.copy(C, segment, LAST)
        else:
            await gateway.open(C, segment)
            await gateway.close(C, segment.address, LAST)

    async def done(stores: Stores, segment: Announcement) -> None:
        gateway = stores.gateway
        await gateway.greet(C)
        if asked == "COPY":
            await answered_done(partial(gateway.copy, C, segment, LAST))
        await answered_done(partial(gateway.close, C, segment.address, LAST))

    run(tmp_path, scenario, "tcp")
