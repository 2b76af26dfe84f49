"""Scrub of a store that is alone: closed segments are read again; damage is told, kept from readers, and
nothing ends. What others can give is in `tests/mesh/test_scrub.py`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.protocol.scrubbing import Decided, Verdict
from mesh.requests import Requests
from mesh.store import keys, scrub, slices
from mesh.store.damage import Damage
from mesh.store.db import Database
from mesh.store.mender import Mender
from mesh.store.ranges import MAX_RANGE_BYTES
from mesh.store.scrub import SCRUB_BYTES_PER_SECOND, SCRUB_FIRST_SECONDS, SCRUB_REST_SECONDS, Scrub
from mesh.store.slices import Slice
from tests.unit.at_once import at_once
from tests.unit.mesh.fake_node import FakeNode
from tests.unit.mesh.store.sample import ADDRESS, BATCHES, OTHER, STORE, batch, fill, request, settle
from wireproto.records.row import Row

LAST = BATCHES - 1
OPEN = "C" * 32


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Database, Ingest, Scrub]]:
    """Two closed segments, one closed that is not whole, and an open one."""
    database = Database(tmp_path / "db")
    ingest = Ingest(STORE, database)
    fill(ingest, database, ADDRESS, OTHER, OPEN, "D" * 32)
    for address, end in ((ADDRESS, LAST), (OTHER, LAST), ("D" * 32, LAST + 5)):
        ingest.on_request(request(b"C", address, end))
    settle(ingest, database)
    requests = Requests(FakeNode().as_node)
    mender = Mender(database, ingest, requests, lambda _store: True, lambda: None)
    yield database, ingest, Scrub(database, Damage(), mender)
    database.close()


def run(scenario: Callable[[], Awaitable[None]]) -> float:
    """Run it; the seconds it took by the clock of the loop."""
    clock = MockClock(autojump_threshold=0)

    async def main() -> float:
        started = trio.current_time()
        await scenario()
        return trio.current_time() - started

    return trio.run(main, clock=clock)


def test_closed_segments_are_read_at_a_bounded_rate_and_get_a_digest(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_RECORDS", 3)
    _, _, scrubber = store
    took = run(scrubber.scrub_all)
    size = 2 * sum(len(batch(number)) for number in range(BATCHES))
    assert (scrubber.passes, scrubber.segments, scrubber.bytes, scrubber.bad_ranges) == (1, 2, size, 0)
    assert took == pytest.approx(size / SCRUB_BYTES_PER_SECOND)
    digest = hashlib.sha256()
    for number in range(BATCHES):
        digest.update(len(batch(number)).to_bytes(8, "big") + batch(number))
    assert scrubber.digests == {ADDRESS: digest.hexdigest(), OTHER: digest.hexdigest()}


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


RECORD_4 = keys.record_prefix(ADDRESS) + keys.sequence_bytes(4)
ROW_4 = keys.row_prefix(ADDRESS) + keys.sequence_bytes(4)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (RECORD_4, damaged(batch(4)), "the CRC"),
        (RECORD_4, None, "near sequence 4 is missing"),
        (ROW_4, None, "near sequence 4 is missing"),
        (ROW_4, b"?", "its row says something else"),
    ],
    ids=["a batch", "no batch", "no row", "a row"],
)
def test_damage_is_told_and_the_rest_goes_on(
    store: tuple[Database, Ingest, Scrub],
    key: bytes,
    value: bytes | None,
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    database, _, scrubber = store
    before = database._db.get(key)
    if value is None:
        database._db.delete(key)
    else:
        database._db.put(key, value)
    run(scrubber.scrub_all)
    assert (scrubber.bad_ranges, list(scrubber.digests)) == (1, [OTHER])
    bad = scrubber.damage.overlap(ADDRESS, 0, LAST)
    assert bad is not None
    assert (bad.first, bad.last, bad.is_irreparable) == (4, 4, True)
    assert text in bad.why
    assert f"address {ADDRESS} (orders) is damaged on this disk, sequence 4 to 4" in caplog.text
    assert "no other store keeps it. No other store has a good copy: restore" in caplog.text
    run(scrubber.scrub_all)
    assert (scrubber.bad_ranges, scrubber.damage.irreparable) == (1, 1), "it is counted once"
    database._db.put(key, before)
    run(scrubber.scrub_all)
    assert (scrubber.bad_ranges, scrubber.damage.addresses, len(scrubber.digests)) == (1, {}, 2)


@pytest.mark.parametrize("address", [ADDRESS, OTHER])
def test_a_head_that_cannot_be_read_is_told(
    store: tuple[Database, Ingest, Scrub], address: str, caplog: pytest.LogCaptureFixture
) -> None:
    database, _, scrubber = store
    database._db.put(keys.head_key(address), b"?")
    run(scrubber.scrub_all)
    assert list(scrubber.unreadable) == [address]
    assert f"address {address} cannot be looked at" in caplog.text
    assert "dafka store replace" in caplog.text
    assert len(scrubber.digests) == 1


def test_one_bad_record_does_not_make_those_behind_it_look_bad(
    store: tuple[Database, Ingest, Scrub],
) -> None:
    """The base offset is not under the CRC: one that is too high is told by the row alone."""
    database, _, scrubber = store
    wrong = bytearray(batch(4))
    wrong[6] = 0x7F
    database._db.put(RECORD_4, bytes(wrong))
    run(scrubber.scrub_all)
    bad = scrubber.damage.overlap(ADDRESS, 0, LAST)
    assert bad is not None
    assert (bad.first, bad.last, bad.why) == (4, 4, "its row says something else")


def test_a_segment_that_is_deleted_meanwhile_is_no_damage(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ingest, scrubber = store
    read = slices.read_slice

    def delete_and_read(database: Database, state: AddressState, first: int) -> Slice:
        ingest.on_request(request(b"X"))
        settle(ingest, database)
        return read(database, state, first)

    monkeypatch.setattr(scrub, "read_slice", delete_and_read)
    run(scrubber.scrub_all)
    assert list(scrubber.digests) == [OTHER]
    assert (scrubber.damage.addresses, scrubber.bad_ranges) == ({}, 0)


def test_it_begins_late_rests_between_passes_and_survives_a_list_that_cannot_be_read(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, _, scrubber = store
    began: list[float] = []
    listed = scrubber._list_behind

    def list_behind(last: str) -> list[str]:
        began.append(trio.current_time())
        if len(began) == 2:
            raise StoreCorrupt("a bad block")
        return listed(last)

    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    monkeypatch.setattr(scrubber, "_list_behind", list_behind)

    async def scenario() -> None:
        started = trio.current_time()
        with trio.move_on_after(SCRUB_FIRST_SECONDS + 2.5 * SCRUB_REST_SECONDS):
            await scrubber.run()
        assert began[0] - started == pytest.approx(SCRUB_FIRST_SECONDS)

    run(scenario)
    assert (len(began), scrubber.passes) == (3, 2)
    assert "a bad block" in caplog.text


def test_a_segment_in_which_a_reader_met_damage_is_looked_at_at_once_and_not_again_for_a_while(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, scrubber = store
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)

    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scrubber.run)
            for expected in (1, 1, 2):
                scrubber.hurry(ADDRESS)
                await trio.sleep(scrub.HURRY_SECONDS / 2 + 1)
                assert scrubber.segments == expected
            assert scrubber.passes == 0
            nursery.cancel_scope.cancel()

    run(scenario)
    assert list(scrubber.digests) == [ADDRESS]


def test_digests_are_bounded(store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "MAX_DIGESTS", 1)
    _, _, scrubber = store
    run(scrubber.scrub_all)
    assert list(scrubber.digests) == [OTHER]


def test_a_disk_that_is_gone_is_not_looked_at_for_ever(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    database, _, scrubber = store
    monkeypatch.setattr("mesh.store.damage.MAX_RANGES", 1)
    database._db.put(RECORD_4, b"")
    run(scrubber.scrub_all)
    assert (scrubber.segments, scrubber.passes) == (1, 0)
    assert "too much is damaged" in caplog.text


@pytest.mark.parametrize("rows_too", [False, True])
def test_a_slice_of_large_records_that_cannot_be_read_is_what_others_can_give(rows_too: bool) -> None:
    """A blob file that is gone takes hundreds of neighbours: nobody tells the digest of more than an answer
    holds, and they would be given up though other stores have them.
    """
    row = Row(0, 0, 0, 0, -1, -1, -1, 0, 1 << 20).pack()

    class Gone:
        def get_many(self, _wanted: Sequence[bytes]) -> list[bytes | None]:
            raise StoreCorrupt("no such file")

        def get(self, key: bytes) -> bytes:
            if rows_too or key.startswith(keys.record_prefix(ADDRESS)):
                raise StoreCorrupt("no such file")
            return row

    state = AddressState(ADDRESS)
    state.head = 999
    piece = slices.read_slice(cast(Any, Gone()), state, 0)
    assert all(content is None for content, _ in piece.records)
    assert 1 <= len(piece.records) << 20 <= MAX_RANGE_BYTES
    assert piece.trouble == "no such file"


def test_what_was_written_again_is_believed_only_when_it_reads_back(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that has other bytes afterwards, each good for itself, is not mended."""
    database, _, scrubber = store
    mender = scrubber._mender
    state = database.load(ADDRESS)
    assert state is not None
    given = [batch(4)]

    async def give(_scrub: object, *_range: object) -> Decided:
        taken = cast(Any, _range[-1])
        taken.contents, taken.rows = given, [b"row"]
        await trio.lowlevel.checkpoint()
        return Decided(Verdict.MENDABLE, "as another store keeps it")

    async def lose(*_: object) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    monkeypatch.setattr(mender, "_run", give)
    monkeypatch.setattr(mender, "_write", lose)
    assert trio.run(mender.mend, state, 4, 4).verdict is Verdict.GOOD, "it is there already"
    given = [batch(5)]
    assert trio.run(mender.mend, state, 4, 4) == Decided(
        Verdict.LATER, "it was written again, and other bytes are read back"
    )


def test_a_member_that_lacks_the_ends_of_many_segments_does_not_fill_the_log(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was put back from a copy: there is one line for the first, and one for all."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    _, _, scrubbing = store
    asked: list[str] = []

    async def compare(*_: Any) -> Decided:
        await trio.lowlevel.checkpoint()
        return Decided(Verdict.ABSENT, "", ("S9",))

    async def refill(state: AddressState, _member: str) -> Phase:
        await trio.lowlevel.checkpoint()
        asked.append(state.address)
        return Phase.SEALED

    monkeypatch.setattr(scrubbing._mender, "compare", compare)
    monkeypatch.setattr(scrubbing._mender, "refill", refill)
    run(scrubbing.scrub_all)
    assert len(asked) == 2
    lines = [record.getMessage() for record in caplog.records if "S9" in record.getMessage()]
    assert lines == [
        f"store S9 did not know the end of segment {asked[0]} (orders)",
        "store S9 did not know the ends of 2 segments in this pass",
    ]
