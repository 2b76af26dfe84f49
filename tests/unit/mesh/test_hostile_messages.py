"""Whatever can be decoded and is nonsense: the nodes of a store and of a gateway live, and so do their tasks.

The messages name addresses, requests and stores that there are, in every state that other such messages
bring them into.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from mesh.address_requests import AddressRequests
from mesh.links import Context
from mesh.native.subjects import NativeSubjects
from mesh.node import Node
from mesh.producer import Producer
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.published_address import published_address
from mesh.protocol.recovery import Seal
from mesh.protocol.writer import Writer
from mesh.reader import NotServed, Reader
from mesh.requests import Requests
from mesh.routing import gateway_routes
from mesh.store.native_readers import NativeReaders
from mesh.store.store import Store, StoreSettings
from tests.unit.mesh.producer_asks import closed, opened, sealed
from tests.unit.wireproto.dafka.test_round_trip import (
    BYTES,
    COUNTS,
    MESSAGES,
    NONCES,
    SEGMENTS,
    STATUSES,
    VERIFIED,
    built,
)
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_PIECE,
    KEEP_QUESTION,
    NOTHING_REMEMBERED,
    AbortedSpan,
    AddressStatus,
    Announcement,
    Answer,
    Beginning,
    CloseEntry,
    Copy,
    DeleteEntry,
    DirectRecords,
    End,
    Found,
    Keep,
    Kept,
    Listed,
    OpenEntry,
    Ping,
    Pong,
    PublishEntry,
    Recalled,
    Remembered,
    Request,
    Rows,
    SealedHead,
    SealEntry,
    Verified,
)
from wireproto.dafka.fields import MAX_SEQUENCE
from wireproto.dafka.messages import Fetch, Record, decode
from wireproto.records.header import HEADER, HEADER_BYTES, MAGIC, BatchHeader

STORE = "5" * 32
LIFE = "A" * 16
ADDRESSES = [f"{LIFE}{number:016X}" for number in range(4)]
ASKED_AT_ONCE = 15
"""Requests of the gateway that may wait for an answer; their ids follow those of the addresses."""

REQUESTERS = st.integers(len(ADDRESSES), len(ADDRESSES) + ASKED_AT_ONCE - 1).map(lambda n: f"{LIFE}{n:016X}")
NAMED = st.sampled_from([ADDRESSES[0], ADDRESSES[0], *ADDRESSES])
STORES = st.sampled_from([STORE, STORE, STORE, ADDRESSES[0]])
NAMES = st.one_of(NAMED, REQUESTERS, STORES)
SEQUENCES = st.one_of(
    st.just(0), st.integers(0, 2), st.integers(0, 9999), st.sampled_from([MAX_SEQUENCE - 1, MAX_SEQUENCE])
)
INT64 = st.one_of(st.integers(-1, 9), st.sampled_from([-(2**63), 2**63 - 1]))
INT32 = st.one_of(st.integers(-1, 9), st.sampled_from([-(2**31), 2**31 - 1]))
INT16 = st.one_of(st.integers(-1, 9), st.sampled_from([-(2**15), 2**15 - 1]))

HEADERS = st.builds(
    BatchHeader, INT64, st.just(HEADER_BYTES - 12), INT32, st.just(MAGIC), COUNTS, INT16, INT32, INT64, INT64,
    INT64, INT16, INT32, INT32,
)  # fmt: skip
CONTENTS = st.one_of(BYTES, *[HEADERS.map(lambda header: HEADER.pack(*header))] * 3)

KNOWN = {
    "address": NAMED,
    "requester": st.one_of(REQUESTERS, REQUESTERS, NAMES),
    "store": STORES,
    "subject": st.just("orders"),
    "sequence": SEQUENCES,
    "log": st.sampled_from(["log/0", "log/1"]),
    "cluster_id": st.sampled_from(["cluster", "cluster", "other", ""]),
    "members": st.just((STORE,)),
    "w": st.just(1),
    "content": CONTENTS,
}
"""Fields whose values are mostly such as the nodes know."""


@st.composite
def known(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    value = draw(values)
    if draw(st.integers(0, 9)) == 0:
        return value
    return value._replace(**{name: draw(KNOWN[name]) for name in value._fields if name in KNOWN})


def lists(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, max_size=5).map(tuple)


SOURCES = st.lists(NAMES, max_size=3, unique=True).map(tuple)
ENDS = st.one_of(st.just(-1), SEQUENCES)
PLACES = st.one_of(
    st.just(NOTHING_REMEMBERED),
    built(Remembered, st.just(""), st.just("G1"), st.just(-1)),
    built(Remembered, st.sampled_from(["H1", "H2"]), st.sampled_from(["", "G1"]), SEQUENCES),
)
EPOCHS = st.one_of(st.integers(0, 9), st.just(2**32 - 1))
LOGS_EPOCHS = st.one_of(st.integers(-1, 9), st.just(MAX_SEQUENCE))
ENTRIES = {
    ids.OPEN: built(OpenEntry, known(SEGMENTS), PLACES),
    ids.SEAL: built(SealEntry, NAMES, EPOCHS),
    ids.CLOSE: built(CloseEntry, NAMES, ENDS, PLACES),
    ids.DELETE: built(DeleteEntry, NAMES, st.sampled_from(["", "log/0", "log/1"]), LOGS_EPOCHS, PLACES),
    ids.COPY: built(Copy, known(SEGMENTS), ENDS, SOURCES, PLACES),
    ids.BEGINNINGS: known(STATUSES),
    ids.PUBLISH: known(
        built(
            PublishEntry,
            NAMES,
            st.sampled_from([published_address(bytes(16), 0), *ADDRESSES]),
            st.just("orders"),
            NAMED,
            st.integers(0, 3),
            st.sampled_from([-1, 3, 4, MAX_SEQUENCE]),
            SEQUENCES,
            st.booleans(),
            st.lists(built(AbortedSpan, SEQUENCES, SEQUENCES, SEQUENCES), max_size=3).map(tuple),
        )
    ),
}
KEEPS = built(
    Keep,
    STORES,
    NAMES,
    st.sampled_from(["cluster", "cluster", "other", ""]),
    st.sampled_from([KEEP_QUESTION, KEEP_CHANGES, KEEP_PIECE, KEEP_LAST_PIECE]),
    PLACES,
    st.sampled_from(["", "H1", "H2"]),
    SEQUENCES,
    st.dictionaries(st.sampled_from(["/t/a", "/t/b"]), BYTES),
    st.lists(st.sampled_from(["/t/a", "/t/b"]), max_size=2).map(tuple),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    letter = draw(st.sampled_from(sorted(ENTRIES)))
    entries = draw(lists(ENTRIES[letter]))
    return Request(letter, STORE, draw(NAMES), tuple(entry.pack() for entry in entries))


SEALED_ROWS = st.lists(built(SealedHead, NAMES, ENDS), max_size=3).map(SealedHead.pack_all)
BEGUN_ROWS = st.one_of(BYTES, built(Beginning, known(SEGMENTS), BYTES).map(Beginning.pack))


def answers(answer_id: bytes) -> st.SearchStrategy[Answer]:
    """To a request with a list; the rows in OPEN's are decoded with the message, so they are good ones."""
    statuses = known(STATUSES)
    if answer_id in (ids.OPENED, ids.BEGUN):
        statuses = built(
            AddressStatus,
            NAMED,
            st.one_of(st.just(0), st.integers(0, 255)),
            ENDS,
            SEALED_ROWS if answer_id == ids.OPENED else BEGUN_ROWS,
        )
    return built(Answer, st.just(answer_id), NAMES, NAMES, lists(statuses), NONCES)


ANSWERS = st.one_of([answers(ids.answer_id(letter)) for letter in ENTRIES])
LISTS = built(Listed, NAMES, NAMES, lists(st.tuples(known(SEGMENTS), known(STATUSES))), NONCES)
TOGETHER = st.one_of(
    built(DirectRecords, NAMES, NAMED, st.just("orders"), SEQUENCES, CONTENTS.map(lambda one: (one,))),
    built(DirectRecords, NAMES, NAMED, st.just("orders"), st.integers(0, 9), lists(CONTENTS).filter(bool)),
)
OTHERS = [
    *(known(made) for kind, made in MESSAGES.items() if kind not in (Request, Answer, Listed, DirectRecords)),
    TOGETHER,
]
TYPES = [
    answers(ids.OPENED),
    answers(ids.SEALED),
    answers(ids.CLOSED),
    answers(ids.DELETED),
    *(known(MESSAGES[kind]) for kind in (Pong, End, Found, Rows)),
    answers(ids.BEGUN),
    LISTS,
    built(
        Rows, NAMES, STORES, STATUSES, st.lists(VERIFIED, max_size=3).map(Verified.pack_all) | BYTES, NONCES
    ),
    answers(ids.COPIED),
    known(MESSAGES[Kept]),
    known(MESSAGES[Recalled]),
    answers(ids.PUBLISHED),
]
"""An answer for each of `Gateway.tasks`, in their order."""


@st.composite
def fitting_answers(draw: st.DrawFn) -> Any:
    """An answer of the right type, from the right store, to a request that may still wait for it."""
    number = draw(st.integers(0, len(TYPES) - 1))
    requester = f"{LIFE}{len(ADDRESSES) + number:016X}"
    return draw(TYPES[number])._replace(requester=requester, store=STORE)


RECORDS = known(MESSAGES[Record])
ANY = st.one_of(
    requests(), requests(), KEEPS, fitting_answers(), ANSWERS, LISTS, st.one_of(OTHERS), RECORDS, RECORDS
)


class Owner:
    def progressed(self, writer: Writer, /) -> None: ...

    def fenced(self, writer: Writer, reason: str, /) -> None: ...


def announcement(address: str) -> Announcement:
    return Announcement(address, "orders", "cluster", "log/0", 3, 0, (STORE,), 1, b"{}")


OPENED = Request(b"O", STORE, "R1", (OpenEntry(announcement(ADDRESSES[0])).pack(),))
COPY = Copy(announcement(ADDRESSES[0]), 3, (STORE,))
PIECE = PublishEntry("piece", published_address(bytes(16), 0), "orders", ADDRESSES[0], 0, 3, 0, True)


class Gateway:
    """The gateway's side, with a request of each kind on its way and an open writer."""

    def __init__(self, context: Context) -> None:
        self.node = Node(context)
        self.requests = Requests(self.node)
        self.requests.prefix = LIFE
        self.requests._count = len(ADDRESSES) - 1
        self.producer = Producer(self.node, self.requests)
        subjects = NativeSubjects(self.node, self.requests)
        self.node.route(gateway_routes(self.requests, self.producer, subjects))
        self.reader = Reader(self.requests)
        self.publishing = AddressRequests(self.requests, ids.PUBLISH)

    def tasks(self) -> list[Callable[[], Awaitable[Any]]]:
        first, second, *_ = ADDRESSES
        producer, reader = self.producer, self.reader
        return [  # the first of them has the id behind the addresses
            lambda: opened(producer, [announcement(first), announcement(second)]),
            lambda: sealed(producer, [Seal(address, [STORE], 1) for address in ADDRESSES]),
            lambda: closed(producer, STORE, [(first, 3), (second, -1)]),
            lambda: producer.segments.delete(STORE, [DeleteEntry(first), DeleteEntry(second)]),
            lambda: self.requests.ask(STORE, lambda requester: Ping(STORE, requester)),
            lambda: reader.read([STORE], first, "orders", 0, 3, 1000),
            lambda: reader.lookup([STORE], first, 0, 3, 9),
            lambda: reader.rows([STORE], first, 0, 9),
            lambda: reader.beginning([STORE], first, 9),
            lambda: reader.segments(STORE),
            lambda: reader.verify(STORE, [("log/0", first), ("log/1", "")]),
            lambda: producer.segments.copies.answer(STORE, first, COPY.pack()),
            lambda: self.requests.ask(
                STORE, lambda requester: Keep(STORE, requester, "cluster", KEEP_QUESTION)
            ),
            lambda: reader.recall(STORE, ""),
            lambda: self.publishing.answer(STORE, "piece", PIECE.pack()),
        ]

    async def expects(self, task: Callable[[], Awaitable[Any]]) -> None:
        with contextlib.suppress(NotServed):
            await task()

    def write(self) -> None:
        writer = self.producer.start(ADDRESSES[0], "orders", [STORE], 1, Owner())
        writer.opened(trio.current_time())
        for _ in range(3):
            self.producer.append(writer, b"content")


def commit_all(store: Store) -> None:
    """As the shell does it, but that no fsync is waited for."""
    for effect in store.ingest.take_effects(trio.current_time()):
        store.node.send(effect)
    while (commit := store.ingest.take_commit()) is not None:
        store.database.write(commit)
        for again in store.ingest.committed(commit):
            store.node.send(again)


def read_values(readers: NativeReaders, asked: Fetch) -> None:
    publication = readers.publications.get(asked.address)
    piece = None if publication is None else publication.piece_at(asked.sequence)
    if piece is not None:
        with contextlib.suppress(StoreCorrupt):
            readers._published.read(piece, asked.sequence, asked.sequence + asked.count - 1)


def serve_all(store: Store) -> None:
    """What readers asked for, as the threads of the server do it."""
    readers = store.native.readers
    with contextlib.suppress(trio.WouldBlock):
        while asked := readers._work.receive_nowait():
            if isinstance(asked, Fetch):
                read_values(readers, asked)
    while True:
        try:
            serve, request = store.server._work.receive_nowait()
        except trio.WouldBlock:
            return
        for frames in serve(request):
            decode(frames)


def batch_at_the_last_offset() -> bytes:
    return HEADER.pack(MAX_SEQUENCE, HEADER_BYTES - 12, 0, MAGIC, 0, 0, 1, 0, 0, -1, -1, -1, 1)


def test_every_request_with_a_list_is_among_them() -> None:
    assert set(ENTRIES) == set(ids.LIST_REQUESTS)
    assert len(TYPES) == ASKED_AT_ONCE


@given(st.lists(st.tuples(ANY, st.booleans()), min_size=10, max_size=40))
@example([(Record(ADDRESSES[0], "orders", 0, batch_at_the_last_offset()), True)])
@example([(Answer(b"o", f"{LIFE}{4:016X}", STORE, (AddressStatus("F" * 32, 0, 1),)), False)])
def test_nothing_but_a_malformed_message_escapes_a_handler(messages: list[tuple[Any, bool]]) -> None:
    """A malformed one is counted by the node; all these can be decoded."""

    async def main() -> None:
        context = Context()
        with tempfile.TemporaryDirectory() as directory:
            store = Store(context, StoreSettings(Path(directory), STORE))
            gateway = Gateway(context)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(gateway.producer.run)
                    nursery.start_soon(gateway.reader.run)
                    for task in gateway.tasks():
                        nursery.start_soon(gateway.expects, task)
                        await wait_all_tasks_blocked()
                    gateway.write()
                    store.ingest.on_request(OPENED)
                    for message, committed in messages:
                        frames = [bytes(frame) for frame in message.frames()]
                        store.node._on_frames(frames)
                        gateway.node._on_frames(frames)
                        if committed:
                            commit_all(store)
                        serve_all(store)
                        await wait_all_tasks_blocked()
                    commit_all(store)
                    nursery.cancel_scope.cancel()
                assert store.node.malformed == gateway.node.malformed == 0
            finally:
                store.database.close()
                context.close()

    trio.run(main)
