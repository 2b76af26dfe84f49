"""What a cut of a damaged log takes is named before, whatever is damaged, and a look changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mesh.protocol.copying import Taken
from mesh.protocol.ingest import Ingest
from mesh.store.db import LOG_DIRECTORY, Database
from mesh.store.log_cut import Look, Part, look
from mesh.store.opening import examined
from mesh.store.write_ahead.replaying import cut
from tests.unit.mesh.store.sample import ADDRESS, OTHER, STORE, batch, record, request, settle
from wireproto.records.row import Row

CLOSED = "C" * 32
LATE = "D" * 32
BATCHES = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A killed store's database, all of it in the log: two segments written in turns, one commit for each
    record; one that is closed and whole; one whose announcement is the last thing that was written.
    """
    folder = tmp_path_factory.mktemp("store")
    database = Database(folder / "running")
    ingest = Ingest(STORE, database)
    for address in (CLOSED, ADDRESS, OTHER):
        ingest.on_request(request(b"O", address))
    for sequence in range(3):
        ingest.on_record(record(sequence, CLOSED), 0.0)
    settle(ingest, database)
    ingest.on_request(request(b"C", CLOSED, 2))
    settle(ingest, database)
    for sequence in range(BATCHES):
        for address in (ADDRESS, OTHER):
            ingest.on_record(record(sequence, address), 0.0)
            settle(ingest, database)
    ingest.on_request(request(b"O", LATE))
    settle(ingest, database)
    database.flush()
    shutil.copytree(folder / "running", folder / "killed")
    database.close()
    return folder / "killed"


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "data" / "db"))


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def log_of(path: Path) -> Path:
    (log,) = (path / LOG_DIRECTORY).glob("*.log")
    return log


def offsets(path: Path) -> dict[str, int]:
    """The last offset of each announced segment, as the database opens."""
    database = Database(path)
    found = {}
    for address in database.addresses("", 100):
        state = database.load(address)
        assert state is not None
        found[address] = Row.unpack(state.last_row).last_offset if state.last_row else -1
    database.close()
    return found


def places(path: Path) -> Iterator[int]:
    size = log_of(path).stat().st_size
    return iter(range(100, size - 400, size // 25))


def test_what_is_named_is_what_goes(store: Path, tmp_path: Path) -> None:
    """A bit flipped anywhere: each segment is kept exactly as far as was said, and never was further than
    what was seen.
    """
    true = offsets(Path(shutil.copytree(store, tmp_path / "whole")))
    assert true == {ADDRESS: BATCHES - 1, OTHER: BATCHES - 1, CLOSED: 2, LATE: -1}
    looked = 0
    for place in places(store):
        path = Path(shutil.copytree(store, tmp_path / str(place) / "db"))
        content = bytearray(log_of(path).read_bytes())
        content[place] ^= 0x04
        log_of(path).write_bytes(content)
        before = files(path.parent)
        found = look(path)
        assert files(path.parent) == before, "a look changes nothing"
        if found is None:
            continue
        looked += 1
        cut(examined(path))
        left = offsets(path)
        _check(found, left, true)
        shutil.rmtree(path.parent)
    assert looked > 15


def _check(found: Look, left: dict[str, int], true: dict[str, int]) -> None:
    named = {part.segment: part for part in found.parts}
    for address, end in true.items():
        kept = left.get(address, -1)
        part = named.get(address)
        if part is None:
            assert kept == end, f"{address} loses {kept + 1} to {end}, and is not named"
            continue
        assert part.topic == "orders"
        assert part.kept_to == kept if part.log else part.kept_to >= kept == -1
        assert part.seen_to <= end
        if address in (ADDRESS, OTHER) and found.entries > 40:
            assert part.seen_to == end, "what is whole behind the damage tells how far it went"


def test_a_log_that_is_whole_or_torn_needs_nobody_to_accept_anything(copy: Path) -> None:
    assert look(copy) is None
    log = log_of(copy)
    log.write_bytes(log.read_bytes()[:-5])
    assert look(copy) is not None, "the whole of it was written in this boot of the machine"
    (copy / LOG_DIRECTORY / "come-to").unlink()
    assert look(copy) is None


def test_a_segment_that_only_the_log_behind_the_damage_tells_of(copy: Path) -> None:
    content = bytearray(log_of(copy).read_bytes())
    at = content.index(b"value 11")
    content[at] ^= 1
    log_of(copy).write_bytes(content)
    found = look(copy)
    assert found is not None
    assert Part(LATE, "orders", f"log/{LATE}", 0, -1, -1) in found.parts
    assert examined(copy).verdict.cause == found.cause


def test_a_closed_segment_that_lacks_something_then_is_named(tmp_path: Path) -> None:
    """It was closed at an end that it copied up to later, and that copying is in what goes."""
    database = Database(tmp_path / "running")
    ingest = Ingest(STORE, database)
    ingest.on_request(request(b"O", CLOSED))
    for sequence in range(3):
        ingest.on_record(record(sequence, CLOSED), 0.0)
    settle(ingest, database)
    ingest.on_request(request(b"C", CLOSED, BATCHES - 1))
    settle(ingest, database)
    for sequence in range(3, BATCHES):
        assert ingest.on_copy(CLOSED, sequence, batch(sequence), OTHER, 0.0) is Taken.TAKEN
        settle(ingest, database)
    database.flush()
    shutil.copytree(tmp_path / "running", tmp_path / "killed")
    database.close()
    content = bytearray(log_of(tmp_path / "killed").read_bytes())
    content[content.index(b"value 7")] ^= 1
    log_of(tmp_path / "killed").write_bytes(content)
    found = look(tmp_path / "killed")
    assert found is not None
    assert found.parts == [Part(CLOSED, "orders", f"log/{CLOSED}", 0, 6, BATCHES - 1)]
