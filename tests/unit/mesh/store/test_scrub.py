"""Scrub: closed segments are read again; damage is told, once for each pass, and nothing ends."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from mesh.protocol.address_state import AddressState
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import keys, scrub
from mesh.store.db import Database
from mesh.store.scrub import SCRUB_BYTES_PER_SECOND, SCRUB_FIRST_SECONDS, SCRUB_REST_SECONDS, Scrub
from tests.unit.mesh.store.sample import ADDRESS, BATCHES, OTHER, STORE, batch, fill, request, settle

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
    yield database, ingest, Scrub(database)
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
    monkeypatch.setattr(scrub, "SLICE_RECORDS", 3)
    _, _, scrubber = store
    took = run(scrubber.scrub_all)
    size = 2 * sum(len(batch(number)) for number in range(BATCHES))
    assert (scrubber.passes, scrubber.segments, scrubber.bytes, scrubber.problems) == (1, 2, size, 0)
    assert took == pytest.approx(size / SCRUB_BYTES_PER_SECOND)
    digest = hashlib.sha256()
    for number in range(BATCHES):
        digest.update(len(batch(number)).to_bytes(8, "big") + batch(number))
    assert scrubber.digests == {ADDRESS: digest.hexdigest(), OTHER: digest.hexdigest()}


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (keys.record_prefix(ADDRESS) + keys.sequence_bytes(4), damaged(batch(4)), "sequence 4: the CRC"),
        (keys.record_prefix(ADDRESS) + keys.sequence_bytes(4), None, "near sequence 4 is missing"),
        (keys.row_prefix(ADDRESS) + keys.sequence_bytes(4), None, "near sequence 4 is missing"),
        (keys.row_prefix(ADDRESS) + keys.sequence_bytes(4), b"?", "row 4 cannot be read"),
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
    assert (scrubber.problems, list(scrubber.digests)) == (1, [OTHER])
    assert text in scrubber.damaged[ADDRESS]
    assert f"address {ADDRESS} is damaged" in caplog.text
    database._db.put(key, before)
    run(scrubber.scrub_all)
    assert (scrubber.problems, scrubber.damaged, len(scrubber.digests)) == (1, {}, 2)


def test_a_segment_that_is_deleted_meanwhile_is_no_damage(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, ingest, scrubber = store
    read = scrubber._read

    def delete_and_read(state: AddressState, first: int) -> tuple[list[bytes], list[bytes]]:
        ingest.on_request(request(b"X"))
        settle(ingest, database)
        return read(state, first)

    monkeypatch.setattr(scrubber, "_read", delete_and_read)
    run(scrubber.scrub_all)
    assert list(scrubber.digests) == [OTHER]
    assert (scrubber.damaged, scrubber.problems) == ({}, 0)


def test_it_begins_late_rests_between_passes_and_survives_a_list_that_cannot_be_read(
    store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, _, scrubber = store
    began: list[float] = []
    listed = scrubber._list_behind

    async def at_once(function: Callable[..., object], *arguments: object) -> object:
        """The clock must not jump while a thread works."""
        return function(*arguments)

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


def test_digests_are_bounded(store: tuple[Database, Ingest, Scrub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "MAX_DIGESTS", 1)
    _, _, scrubber = store
    run(scrubber.scrub_all)
    assert list(scrubber.digests) == [OTHER]
