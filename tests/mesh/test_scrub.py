"""Damage on one store's disk is found, mended from the others, and never spreads: three real stores."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from mesh.store import keys
from tests.entries import entry_of
from tests.mesh.stores import EPOCH, Stores, batch, run, until
from wireproto.dafka.additions import (
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    Announcement,
    Digest,
    GetRows,
    Request,
)
from wireproto.dafka.messages import Fetch
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch
from wireproto.records.row import Row, row_of

A, B, C = "A" * 32, "B" * 32, "C" * 32
RECORDS = 600
LAST = RECORDS - 1

Damage = Callable[[Any, str], None]


async def closed_segment(stores: Stores, *members: str) -> Announcement:
    """A segment that all of its members have whole."""
    gateway = stores.gateway
    segment = gateway.announcement(members)
    for member in members:
        assert await gateway.open(member, segment) == [STATUS_DONE]
    await gateway.write(stores, segment, 0, LAST)
    for member in members:
        assert (await gateway.seal(member, segment.address)).sequence == LAST
        assert (await gateway.close(member, segment.address, LAST)).status == STATUS_DONE
    return segment


def key_of(letter: Callable[[str], bytes], address: str, sequence: int) -> bytes:
    return letter(address) + keys.sequence_bytes(sequence)


def flip(database: Any, address: str, sequence: int) -> None:
    """A bit of a batch, as a disk loses it where only the batch's own CRC tells."""
    key = key_of(keys.record_prefix, address, sequence)
    content = bytearray(database._db.get(key))
    content[-1] ^= 1
    database._db.put(key, bytes(content))


def flip_run(database: Any, address: str) -> None:
    for sequence in range(300, 320):
        flip(database, address, sequence)


def flip_ends(database: Any, address: str) -> None:
    flip(database, address, 0)
    flip(database, address, LAST)


def lose_records(database: Any, address: str) -> None:
    for sequence in (5, 6, 250):
        database._db.delete(key_of(keys.record_prefix, address, sequence))


def lose_rows(database: Any, address: str) -> None:
    for sequence in (0, 7, LAST):
        database._db.delete(key_of(keys.row_prefix, address, sequence))


def move_offset(database: Any, address: str) -> None:
    """A bit of the base offset: no CRC covers it."""
    key = key_of(keys.record_prefix, address, 40)
    content = bytearray(database._db.get(key))
    content[7] ^= 0x80
    database._db.put(key, bytes(content))


def wrong_last_row(database: Any, address: str) -> None:
    """The row that the head carries."""
    key = keys.head_key(address)
    head = bytearray(database._db.get(key))
    head[-12] ^= 1  # the subject is behind the row
    database._db.put(key, bytes(head))


EVERY = [flip_run, flip_ends, lose_records, lose_rows, move_offset, wrong_last_row]


@pytest.mark.parametrize("damage", EVERY)
def test_damage_is_mended_from_the_others(tmp_path: Path, damage: Damage) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B, C)
        segment = await closed_segment(stores, A, B, C)
        store = stores[A]
        damage(store.database, segment.address)
        await store.scrub.scrub_all()
        assert store.scrub.bad_ranges == store.scrub.repaired_ranges > 0
        assert store.damage.addresses == {}
        await store.scrub.scrub_all()
        assert store.scrub.bad_ranges == store.scrub.repaired_ranges
        for other in (B, C):
            await stores[other].scrub.scrub_all()
            assert (stores[other].scrub.bad_ranges, stores[other].scrub.differing) == (0, {})
        assert len({stores[one].scrub.digests[segment.address] for one in (A, B, C)}) == 1
        expected = await stores.contents(B)
        assert await stores.contents(A) == expected
        assert await stores.contents(C) == expected
        assert expected[key_of(keys.record_prefix, segment.address, LAST)] == batch(LAST)

    run(tmp_path, scenario)


def test_one_of_two_is_mended_from_the_other(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        flip_run(stores[B].database, segment.address)
        await stores[B].scrub.scrub_all()
        assert stores[B].scrub.repaired_ranges > 0
        assert await stores.contents(A) == await stores.contents(B)

    run(tmp_path, scenario)


def test_known_damage_is_served_to_nobody(tmp_path: Path) -> None:
    """Both are damaged in the same place: neither readers nor the other store are given anything there."""

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        for one in (A, B):
            flip(stores[one].database, segment.address, 100)
        for one in (A, B):
            await stores[one].scrub.scrub_all()
            assert (stores[one].scrub.repaired_ranges, stores[one].damage.irreparable) == (0, 1)
        requests, address = stores.gateway.requests, segment.address

        async def fetched(first: int, count: int) -> int:
            _, end = await requests.ask_range(
                A, lambda requester: Fetch(address, requester, "orders", first, count, A, 1 << 20)
            )
            status: int = end.last.status
            return status

        async def digested(first: int, count: int) -> int:
            answer = await requests.ask(A, lambda requester: Digest(A, requester, address, first, count))
            status: int = answer.digested.status
            return status

        async def rows(first: int, count: int) -> int:
            answer = await requests.ask(A, lambda requester: GetRows(A, requester, address, first, count))
            status: int = answer.status.status
            return status

        for ask in (fetched, digested, rows):
            assert await ask(90, 10) == await ask(101, 10) == STATUS_DONE
            assert await ask(90, 11) == await ask(100, 1) == await ask(99, 5) == STATUS_STORAGE_ERROR
        for first, count in ((0, 0), (LAST, 2), (0, 5000)):
            assert await digested(first, count) == STATUS_NOT_HERE

    run(tmp_path, scenario)


def test_stores_that_differ_and_are_good_for_themselves_are_told_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B, C)
        segment = await closed_segment(stores, A, B, C)
        other = bytearray(build_batch([(b"k", b"another", [], 1000)]))
        assign_offsets(other, 70, EPOCH)
        key = key_of(keys.record_prefix, segment.address, 70)
        row = key_of(keys.row_prefix, segment.address, 70)
        database = stores[A].database
        database._db.put(key, bytes(other))
        before = Row.unpack(database._db.get(key_of(keys.row_prefix, segment.address, 69)))
        database._db.put(row, row_of(bytes(other), before.running_max_timestamp).pack())
        for one in (A, B, C):
            await stores[one].scrub.scrub_all()
            assert list(stores[one].scrub.differing) == [segment.address]
            assert (stores[one].scrub.bad_ranges, stores[one].scrub.repaired_ranges) == (0, 0)
        assert "Each copy is good for itself, so nothing is changed" in caplog.text
        # A third one, damaged there, is told that there is no good copy.
        flip(stores[B].database, segment.address, 70)
        await stores[B].scrub.scrub_all()
        assert (stores[B].scrub.repaired_ranges, stores[B].damage.irreparable) == (0, 1)
        assert "differ, and each is good for itself" in caplog.text
        assert (await stores.contents(A))[key] == bytes(other)
        assert (await stores.contents(C))[key] == batch(70)

    run(tmp_path, scenario)


def test_while_the_others_are_away_it_waits_for_them(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        await stores.stop(B)
        flip(stores[A].database, segment.address, 5)
        with trio.fail_after(30):
            await stores[A].scrub.scrub_all()
        assert (stores[A].scrub.repaired_ranges, stores[A].damage.irreparable) == (0, 0)
        assert stores[A].damage.overlap(segment.address, 5, 5)
        await stores.start(B)
        stores[A].mender._silent_until.clear()
        while stores[A].scrub.repaired_ranges == 0:
            await stores[A].scrub.scrub_all()
        assert stores[A].damage.addresses == {}
        assert await stores.contents(A) == await stores.contents(B)

    run(tmp_path, scenario)


def test_a_reader_that_meets_damage_has_it_mended_at_once(tmp_path: Path) -> None:
    """RocksDB's own checksums are as good as a record that is gone: the read fails, and the scrub looks."""

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        lose_records(stores[A].database, segment.address)

        async def fetch() -> int:
            _, end = await stores.gateway.requests.ask_range(
                A, lambda requester: Fetch(segment.address, requester, "orders", 0, 20, A, 1 << 20)
            )
            status: int = end.last.status
            return status

        assert await fetch() == STATUS_STORAGE_ERROR
        await until(lambda: stores[A].scrub.segments == 1)
        assert await fetch() == STATUS_DONE
        assert stores[A].scrub.passes == 0
        assert await stores.contents(A) == await stores.contents(B)

    run(tmp_path, scenario)


def test_a_segment_that_is_deleted_while_it_is_mended_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        flip_run(stores[A].database, segment.address)
        repair = stores[A].ingest.on_repair
        entry = entry_of(b"X", segment.address)
        deleted: list[Any] = []

        def delete_first(*arguments: Any) -> bool:
            stores[A].ingest.on_request(Request(b"X", A, "R" * 32, (entry,)))
            deleted.append(repair(*arguments))
            return bool(deleted[-1])

        monkeypatch.setattr(stores[A].ingest, "on_repair", delete_first)
        await stores[A].scrub.scrub_all()
        stores[A]._pump()
        await stores.gateway.ask(b"X", A, entry)
        assert deleted == [False] * len(deleted) != []
        prefix = keys.record_prefix(segment.address)
        left = await stores.contents(A)
        assert not [key for key in left if key.startswith(prefix)]

    run(tmp_path, scenario)


async def empty(stores: Stores, incarnation: str) -> None:
    """Its database is gone, and its name stayed: as where a disk is not mounted."""
    await stores.stop(incarnation)
    shutil.rmtree(stores.path(incarnation))
    await stores.start(incarnation)


async def until_it_has(stores: Stores, incarnation: str, address: str) -> None:
    with trio.fail_after(30):
        await until(lambda: stores.head(incarnation, address) == LAST)


def test_a_copy_that_is_gone_is_not_good_and_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B, C)
        segment = await closed_segment(stores, A, B, C)
        expected = dict(stores[A].database.scan(b"", b"\xff"))
        await empty(stores, B)
        await stores[A].scrub.scrub_all()
        assert list(stores[A].scrub.absent) == [segment.address]
        assert f"store {B} does not have it" in stores[A].scrub.absent[segment.address]
        assert f"store {B} lacks a segment that it should keep, {segment.address} (orders)" in caplog.text
        await until_it_has(stores, B, segment.address)
        await stores[A].scrub.scrub_all()
        await stores[B].scrub.scrub_all()
        for one in (A, B):
            assert (stores[one].scrub.absent, stores[one].scrub.bad_ranges) == ({}, 0)
        assert stores[A].scrub.digests == stores[B].scrub.digests
        found = await stores.contents(B)
        assert {key: found.get(key) for key in expected if key[:1] in b"ahlmr"} == {
            key: value for key, value in expected.items() if key[:1] in b"ahlmr"
        }

    run(tmp_path, scenario)


@pytest.mark.parametrize("told", ["sealed", "closed"])
def test_a_copy_whose_announcement_is_gone_is_made_again_though_its_phase_is_known(
    tmp_path: Path, told: str
) -> None:
    """A gateway tells the end, or has it sealed, before the scrub comes by: nothing says what to copy."""

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        await empty(stores, B)
        if told == "sealed":
            await stores.gateway.seal(B, segment.address)
        else:
            await stores.gateway.close(B, segment.address, LAST)
        await stores[A].scrub.scrub_all()
        await until_it_has(stores, B, segment.address)
        found = stores[B].database.load(segment.address)
        assert found is not None
        assert found.announcement == segment
        await stores[A].scrub.scrub_all()
        assert stores[A].scrub.absent == {}

    run(tmp_path, scenario)


def test_a_copy_that_goes_back_to_before_its_end_is_made_whole(tmp_path: Path) -> None:
    """A store that was put back from a copy: nobody would tell it the end of the segment again."""

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        gateway = stores.gateway
        segment = gateway.announcement((A, B))
        for member in (A, B):
            await gateway.open(member, segment)
        await gateway.write(stores, segment, 0, 99)
        await stores.stop(B)
        shutil.copytree(stores.path(B), tmp_path / "copy")
        await stores.start(B)
        await gateway.write(stores, segment, 100, LAST)
        for member in (A, B):
            await gateway.seal(member, segment.address)
            await gateway.close(member, segment.address, LAST)
        await stores.stop(B)
        shutil.rmtree(stores.path(B))
        shutil.copytree(tmp_path / "copy", stores.path(B))
        await stores.start(B)
        await stores[A].scrub.scrub_all()
        assert list(stores[A].scrub.absent) == [segment.address]
        await until_it_has(stores, B, segment.address)
        await stores[A].scrub.scrub_all()
        assert stores[A].scrub.absent == {}
        assert await stores.contents(A) == await stores.contents(B)

    run(tmp_path, scenario)


def test_a_copy_that_was_deleted_is_not_made_again(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        segment = await closed_segment(stores, A, B)
        entry = entry_of(b"X", segment.address)
        await stores.gateway.requests.ask(B, lambda requester: Request(b"X", B, requester, (entry,)))
        await stores[A].scrub.scrub_all()
        assert stores[A].scrub.absent == {}
        found = await stores.contents(B)
        assert key_of(keys.record_prefix, segment.address, 0) not in found

    run(tmp_path, scenario)


def test_a_copy_that_is_being_made_is_no_loss(tmp_path: Path) -> None:
    """It was told the end, and fetches what it lacks by itself."""

    async def scenario(stores: Stores) -> None:
        await stores.start(A, B)
        gateway = stores.gateway
        segment = gateway.announcement((A, B))
        for member in (A, B):
            await gateway.open(member, segment)
        await gateway.write(stores, segment, 0, LAST)
        await gateway.seal(A, segment.address)
        await gateway.close(A, segment.address, LAST)
        lose_records(stores[B].database, segment.address)
        await gateway.close(B, segment.address, LAST)
        await stores[A].scrub.scrub_all()
        assert stores[A].scrub.absent == {}

    run(tmp_path, scenario)
