"""What a store answers to reads of what it cannot read: an error, never less than was asked for, and always
something."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from mesh.links import Context
from mesh.node import Node
from mesh.protocol.address_state import Phase
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import keys
from mesh.store import server as server_module
from mesh.store.db import Database
from mesh.store.server import Server
from tests.unit.mesh.store.sample import (
    ADDRESS,
    BATCHES,
    OTHER,
    STORE,
    announcement,
    batch,
    fill,
    request,
    settle,
)
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    LOOKUP_MAX_TIMESTAMP,
    LOOKUP_OFFSET,
    LOOKUP_TIMESTAMP,
    STATUS_ANSWER_FULL,
    STATUS_DONE,
    STATUS_NOT_HERE,
    STATUS_STORAGE_ERROR,
    AddressStatus,
    Answer,
    Beginning,
    GetRows,
    Listed,
    ListSegments,
    Lookup,
    OpenEntry,
    Request,
    Rows,
    Verified,
    Verify,
)
from wireproto.dafka.messages import Fetch, decode

LAST = "C" * 32


class Setup:
    """A server over a real database with three segments; nothing is in memory."""

    def __init__(self, path: Path) -> None:
        self.context = Context()
        self.node = Node(self.context)
        self.database = Database(path)
        fill(Ingest(STORE, self.database), self.database, ADDRESS, OTHER, LAST)
        self.ingest = Ingest(STORE, self.database, "cluster")
        self.server = Server(self.node.publisher, STORE, self.ingest, self.database)

    def close(self) -> None:
        self.node.publisher.close()
        self.node._subscriber.close()
        self.context.close()
        self.database.close()

    def ask(self, asked: Any) -> list[Any]:
        handle: dict[type, Callable[[Any], Any]] = {
            Fetch: self.server._fetch,
            Lookup: self.server._lookup,
            GetRows: self.server._rows,
            ListSegments: self.server._list,
            Verify: self.server._verify,
            Request: self.server._beginnings,
        }
        return [decode([bytes(frame) for frame in frames]) for frames in handle[type(asked)](asked)]

    def addresses(self, asked: ListSegments) -> list[str]:
        (listed,) = self.ask(asked)
        assert isinstance(listed, Listed)
        assert [entry.address for entry, _ in listed.segments] == [
            status.address for _, status in listed.segments
        ]
        return [entry.address for entry, _ in listed.segments]


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    made: list[Setup] = []

    async def main() -> None:
        made.append(Setup(tmp_path / "db"))

    trio.run(main)
    yield made[0]
    made[0].close()


def every_lookup() -> list[Lookup]:
    return [
        Lookup(STORE, "R1", ADDRESS, kind, target, BATCHES - 1)
        for kind, target in ((LOOKUP_OFFSET, 4), (LOOKUP_TIMESTAMP, 1004), (LOOKUP_MAX_TIMESTAMP, 0))
    ]


FETCH = Fetch(ADDRESS, "R1", "orders", 0, BATCHES, STORE, 1 << 20)


@pytest.mark.parametrize("damage", [b"no row", b""])
@pytest.mark.parametrize("asked", [FETCH, *every_lookup()], ids=["FETCH", "offset", "timestamp", "max"])
def test_a_row_that_is_none_is_answered_with_an_error(setup: Setup, asked: Any, damage: bytes) -> None:
    for sequence in range(BATCHES):
        setup.database._db.put(keys.row_prefix(ADDRESS) + keys.sequence_bytes(sequence), damage)
    (answer,) = setup.ask(asked)
    status = answer.last if isinstance(asked, Fetch) else answer.found
    assert (status.address, status.status) == (ADDRESS, STATUS_STORAGE_ERROR)
    assert setup.server.storage_errors == 1


@pytest.mark.parametrize(
    "asked",
    [FETCH, every_lookup()[0], GetRows(STORE, "R1", ADDRESS, 0, 3)],
    ids=["FETCH", "LOOKUP", "ROWS"],
)
@pytest.mark.parametrize("key", [keys.meta_key(ADDRESS), keys.head_key(ADDRESS)], ids=["meta", "head"])
def test_an_address_that_cannot_be_read_is_answered_with_an_error(
    setup: Setup, asked: Any, key: bytes
) -> None:
    setup.database._db.put(key, b"?")
    (answer,) = setup.ask(asked)
    status = getattr(answer, "last", None) or getattr(answer, "found", None) or answer.status
    assert (status.address, status.status) == (ADDRESS, STATUS_STORAGE_ERROR)


def test_what_can_be_read_is_served(setup: Setup) -> None:
    *records, end = setup.ask(FETCH)
    assert [bytes(record.content) for record in records] == [batch(number) for number in range(BATCHES)]
    assert end.last == (ADDRESS, STATUS_DONE, BATCHES - 1, b"")
    assert [setup.ask(lookup)[0].found.sequence for lookup in every_lookup()] == [4, 4, BATCHES - 1]


@pytest.mark.parametrize(
    ("kind", "target", "found"),
    [
        (LOOKUP_OFFSET, 4, 4),
        (LOOKUP_OFFSET, BATCHES, None),
        (LOOKUP_TIMESTAMP, 1004, 4),
        (LOOKUP_TIMESTAMP, 1000 + BATCHES, None),
        (LOOKUP_MAX_TIMESTAMP, 0, None),
    ],
)
def test_a_store_that_has_not_all_of_it_yet_tells_what_it_finds_and_never_that_there_is_nothing(
    setup: Setup, kind: int, target: int, found: int | None
) -> None:
    """What is not in its part may be in the rest, which w others have: they are asked."""
    (answer,) = setup.ask(Lookup(STORE, "R1", ADDRESS, kind, target, BATCHES))
    expected = (STATUS_NOT_HERE, -1) if found is None else (STATUS_DONE, found)
    assert (answer.found.status, answer.found.sequence) == expected
    (whole,) = setup.ask(Lookup(STORE, "R1", ADDRESS, kind, target, BATCHES - 1))
    assert whole.found.status == STATUS_DONE


def test_list_leaves_out_what_cannot_be_read_and_answers(setup: Setup) -> None:
    setup.database._db.put(keys.meta_key(OTHER), b"?")
    assert setup.addresses(ListSegments(STORE, "R1", "", 10)) == [ADDRESS, LAST]
    assert setup.addresses(ListSegments(STORE, "R1", OTHER, 1)) == [LAST]
    assert setup.server.storage_errors == 2


def test_list_answers_when_the_list_itself_cannot_be_read(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def corrupt(*_: Any, **__: Any) -> list[str]:
        raise StoreCorrupt("the list of addresses cannot be read")

    monkeypatch.setattr(setup.database, "addresses", corrupt)
    assert setup.addresses(ListSegments(STORE, "R1", "", 10)) == []
    assert setup.server.storage_errors == 1


@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [
        ("", 10, [ADDRESS, LAST]),
        ("", 1, [ADDRESS]),
        ("", 2, [ADDRESS, LAST]),
        (OTHER, 1, [LAST]),
        (LAST, 1, [LAST]),
    ],
)
def test_list_leaves_deleted_and_never_announced_addresses_out(
    setup: Setup, first: str, count: int, expected: list[str]
) -> None:
    setup.ingest.on_request(request(b"X", OTHER))
    setup.ingest.on_request(request(b"S", "BB"))
    settle(setup.ingest, setup.database)
    assert setup.addresses(ListSegments(STORE, "R1", first, count)) == expected
    (listed,) = setup.ask(ListSegments(STORE, "R1", first, count))
    assert [entry for entry, _ in listed.segments] == [announcement(address) for address in expected]


def test_list_tells_where_a_closed_segment_ends_that_is_not_all_here(setup: Setup) -> None:
    for address, end in ((ADDRESS, BATCHES - 1), (OTHER, BATCHES + 5), (LAST, 2)):
        setup.ingest.on_request(request(b"C", address, end))
    settle(setup.ingest, setup.database)
    (listed,) = setup.ask(ListSegments(STORE, "R1", "", 10))
    told = {
        status.address: (status.status, status.sequence, bool(status.row)) for _, status in listed.segments
    }
    assert told == {
        ADDRESS: (Phase.CLOSED, BATCHES - 1, True),
        OTHER: (Phase.CLOSED, BATCHES + 5, False),
        LAST: (Phase.CLOSED, 2, True),
    }


def verified(setup: Setup, *entries: tuple[str, str]) -> list[Verified]:
    (answer,) = setup.ask(Verify(STORE, "R1", entries))
    assert isinstance(answer, Rows)
    assert answer.status == (STORE, STATUS_DONE, -1, b"")
    return Verified.unpack_all(answer.content)


def test_verify_tells_epochs_and_phases_in_the_order_asked(setup: Setup) -> None:
    for asked in (request(b"S", OTHER), request(b"C", LAST, BATCHES - 1)):
        setup.ingest.on_request(asked)
    settle(setup.ingest, setup.database)
    life = "A" * 16
    assert verified(
        setup,
        (f"log/{LAST}", LAST),
        (f"log/{ADDRESS}", ADDRESS),
        ("log/nobody's", ADDRESS),
        (f"log/{ADDRESS}", ""),
        (f"log/{OTHER}", OTHER),
        (f"log/{OTHER}", "D" * 32),
    ) == [
        (STATUS_DONE, 0, "C" * 16, Phase.CLOSED, LAST, 0, BATCHES),
        (STATUS_DONE, 0, life, Phase.OPEN, ADDRESS, 0, BATCHES),
        (STATUS_DONE, -1, "", Phase.OPEN, "", -1, -1),
        (STATUS_DONE, 0, life, Phase.NATIVE, ADDRESS, 0, BATCHES),
        (STATUS_DONE, 0, "B" * 16, Phase.SEALED, OTHER, 0, BATCHES),
        (STATUS_DONE, 0, "B" * 16, Phase.NATIVE, OTHER, 0, BATCHES),
    ]
    assert verified(setup) == []
    setup.ingest.on_request(request(b"X", OTHER))
    settle(setup.ingest, setup.database)
    assert verified(setup, (f"log/{OTHER}", OTHER)) == [(STATUS_DONE, 0, "B" * 16, Phase.DELETED, "", -1, -1)]


def test_verify_tells_the_segment_of_a_log_that_begins_last(setup: Setup) -> None:
    """Whatever the order in which they came, by OPEN or COPY, and whichever log's are beside it."""
    one, two, three, other = (f"{'D' * 16}{number:016}" for number in range(4))
    starts = {one: 30, two: 70, three: 50, other: 256}
    announcements = {
        address: announcement(address)._replace(log="log/long" if start < 256 else "log/longer", start=start)
        for address, start in starts.items()
    }
    for announced in announcements.values():
        setup.ingest.on_request(Request(b"O", STORE, "R", (OpenEntry(announced).pack(),)))
        settle(setup.ingest, setup.database)
    newest = []
    for deleted in ("", two, one, three):
        if deleted:
            setup.ingest.on_request(request(b"X", deleted))
            settle(setup.ingest, setup.database)
        newest += [known[4:] for known in verified(setup, ("log/long", ""))]
    assert newest == [(two, 70, 70), (three, 50, 50), (three, 50, 50), ("", -1, -1)]
    assert verified(setup, ("log/longer", ""))[0][4:] == (other, 256, 256)
    assert verified(setup, ("log/lon", ""))[0][4:] == ("", -1, -1)


@pytest.mark.parametrize("told", [b"S", b"C"])
def test_a_segment_that_was_announced_to_another_version_is_told_of_from_its_seal_on(
    setup: Setup, told: bytes
) -> None:
    setup.database._db.delete(keys.log_key(f"log/{OTHER}", 0, OTHER))
    assert verified(setup, (f"log/{OTHER}", ""))[0][4:] == ("", -1, -1)
    setup.ingest.on_request(request(told, OTHER, BATCHES - 1))
    settle(setup.ingest, setup.database)
    assert verified(setup, (f"log/{OTHER}", ""))[0][4:] == (OTHER, 0, BATCHES)


@pytest.mark.parametrize(
    "key", [keys.meta_key(ADDRESS), keys.epoch_key(f"log/{ADDRESS}")], ids=["meta", "epoch"]
)
def test_verify_tells_what_it_cannot_read_and_answers_the_rest(setup: Setup, key: bytes) -> None:
    setup.database._db.put(key, b"?")
    bad, good = verified(setup, (f"log/{ADDRESS}", ADDRESS), (f"log/{OTHER}", OTHER))
    assert bad == (STATUS_STORAGE_ERROR, -1, "", Phase.NATIVE, "", -1, -1)
    assert good == (STATUS_DONE, 0, "B" * 16, Phase.OPEN, OTHER, 0, BATCHES)
    assert setup.server.storage_errors == 1


def test_verify_reads_all_epochs_at_once(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    get_many = setup.database.get_many

    def counting(wanted: list[bytes]) -> list[bytes | None]:
        reads.append(len(wanted))
        return get_many(wanted)

    monkeypatch.setattr(setup.database, "get_many", counting)
    assert len(verified(setup, *[(f"log/{number}", "") for number in range(1000)])) == 1000
    assert reads == [1000]


def beginnings(setup: Setup, *asked: tuple[str, int]) -> list[AddressStatus]:
    entries = tuple(AddressStatus(address, STATUS_DONE, last).pack() for address, last in asked)
    (answer,) = setup.ask(Request(ids.BEGINNINGS, STORE, "R1", entries))
    assert isinstance(answer, Answer)
    assert [status.address for status in answer.statuses] == [address for address, _ in asked]
    return list(answer.statuses)


def rows(setup: Setup, address: str, last: int) -> bytes:
    (answer,) = setup.ask(GetRows(STORE, "R1", address, 0, last + 1))
    return bytes(answer.content)


def test_beginnings_tell_what_was_announced_and_the_first_rows(setup: Setup) -> None:
    asked = ((ADDRESS, 3), (OTHER, -1), ("D" * 32, 5), (LAST, BATCHES + 50))
    some, none, unknown, whole = beginnings(setup, *asked)
    assert (some.status, some.sequence) == (STATUS_DONE, 3)
    assert Beginning.unpack(some.row) == (announcement(ADDRESS), rows(setup, ADDRESS, 3))
    assert (none.status, none.sequence) == (STATUS_DONE, -1)
    assert Beginning.unpack(none.row) == (announcement(OTHER), b"")
    assert unknown == ("D" * 32, STATUS_NOT_HERE, -1, b"")
    assert whole.sequence == BATCHES - 1
    assert Beginning.unpack(whole.row).rows == rows(setup, LAST, BATCHES - 1)


def test_beginnings_of_what_cannot_be_read_are_errors_and_the_others_are_told(setup: Setup) -> None:
    setup.database._db.put(keys.meta_key(ADDRESS), b"?")
    setup.database._db.delete(keys.row_prefix(OTHER) + keys.sequence_bytes(2))
    first, second, third = beginnings(setup, (ADDRESS, 3), (OTHER, 3), (LAST, 3))
    assert (first.status, second.status, third.status) == (
        STATUS_STORAGE_ERROR,
        STATUS_STORAGE_ERROR,
        STATUS_DONE,
    )


def test_an_answer_of_beginnings_is_bounded_and_never_empty(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "BEGINNINGS_BYTES", 1)
    first, second, third = beginnings(setup, (ADDRESS, 9), (OTHER, 9), (LAST, 9))
    assert (first.status, second.status, third.status) == (
        STATUS_DONE,
        STATUS_ANSWER_FULL,
        STATUS_ANSWER_FULL,
    )
