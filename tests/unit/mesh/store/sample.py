"""What the tests of the store share: a segment of ten batches, and an ingest over a real database."""

from mesh.protocol.commit import Commit
from mesh.protocol.ingest import Ingest
from mesh.store.db import Database
from tests.entries import entry_of
from wireproto.dafka.additions import AddressStatus, Announcement, Answer, OpenEntry, Request
from wireproto.dafka.messages import Record
from wireproto.records.batch import assign_offsets
from wireproto.records.builder import build_batch

STORE = "5" * 32
ADDRESS = "A" * 32
OTHER = "B" * 32
BATCHES = 10


def batch(number: int) -> bytes:
    content = bytearray(build_batch([(None, b"value %d" % number, [], 1000 + number)]))
    assign_offsets(content, number, 0)
    return bytes(content)


def record(sequence: int, address: str = ADDRESS) -> Record:
    return Record(address, "orders", sequence, batch(sequence))


def announcement(address: str = ADDRESS, *, epoch: int = 0) -> Announcement:
    return Announcement(address, "orders", "cluster", f"log/{address}", epoch, 0, (STORE,), 1, b"{}")


def request(message_id: bytes, address: str = ADDRESS, sequence: int = -1) -> Request:
    requester = f"R{address}"
    if message_id == b"O":
        return Request(b"O", STORE, requester, (OpenEntry(announcement(address)).pack(),))
    return Request(message_id, STORE, requester, (entry_of(message_id, address, sequence),))


def settle(ingest: Ingest, database: Database) -> list[AddressStatus]:
    """Commit whatever is there; the statuses that were answered."""
    statuses: list[AddressStatus] = []
    while (commit := ingest.take_commit()) is not None:
        statuses += finish(ingest, database, commit)
    return statuses


def finish(ingest: Ingest, database: Database, commit: Commit) -> list[AddressStatus]:
    database.write(commit)
    effects = ingest.committed(commit)
    return [status for effect in effects if isinstance(effect, Answer) for status in effect.statuses]


def fill(ingest: Ingest, database: Database, *addresses: str) -> None:
    """Segments of `BATCHES` each."""
    for address in addresses:
        ingest.on_request(request(b"O", address))
        for sequence in range(BATCHES):
            ingest.on_record(record(sequence, address), 0.0)
    settle(ingest, database)
