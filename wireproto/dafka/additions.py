"""This project's own mesh messages, invisible to C nodes (which subscribe to none of these ids).

A request has an upper-case id, its answer the same letter in lower case. A request's topic is `@<incarnation>/`, so
that only the store it is meant for receives it; its first field is the requester: 32 upper-case hex characters whose
first sixteen are those of the asking node's life and whose last sixteen number the request. The answer's topic is
`requester/incarnation`, so one subscription per answer id to the sixteen characters brings a node all its answers,
and each answer names its request and its sender. docs/mesh-protocol.md has every message byte by byte.
"""

from typing import NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Cursor
from wireproto.dafka.messages import (
    DIRECTED,
    answer_topic,
    register,
    split_answer_topic,
    split_directed_topic,
)

ANY_STORE = "*"
"""The incarnation in a PING's topic that every one of our stores subscribes to."""

STATUS_DONE = 0
STATUS_NOT_HERE = 1
STATUS_STORAGE_ERROR = 2
STATUS_FOREIGN_CLUSTER = 3
STATUS_STALE_EPOCH = 4
STATUS_SEALED = 5
STATUS_INCOMPLETE = 6

LOOKUP_OFFSET = 0
"""The first row whose last offset is at or after the target."""
LOOKUP_TIMESTAMP = 1
"""The first row whose running maximum timestamp is at or after the target."""
LOOKUP_MAX_TIMESTAMP = 2
"""The first row that carries the highest timestamp up to the bound."""


class Announcement(NamedTuple):
    """One segment, as OPEN announces it and LIST gives it back.

    `log` names the partition for good; `epoch` is its writer's; `start` is the first offset; `members` are
    incarnations; `details` is the writer's own (opaque to the mesh).
    """

    address: str
    subject: str
    cluster_id: str
    log: str
    epoch: int
    start: int
    members: tuple[str, ...]
    w: int
    details: bytes

    def pack(self) -> bytes:
        return b"".join(
            (
                fields.string(self.address),
                fields.string(self.subject),
                fields.string(self.cluster_id),
                fields.string(self.log),
                fields.number4(self.epoch),
                fields.number8(self.start),
                fields.strings(self.members),
                fields.number1(self.w),
                fields.long_bytes(self.details),
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> "Announcement":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(
            cursor.string(),
            cursor.string(),
            cursor.string(),
            cursor.string(),
            cursor.number4(),
            cursor.number8(),
            cursor.strings(),
            cursor.number1(),
            cursor.long_bytes(),
        )
        cursor.finish()
        if not 1 <= value.w <= len(value.members):
            raise MalformedMessage(f"w {value.w} of {len(value.members)} members")
        return value


class AddressStatus(NamedTuple):
    """What a store says of one address: `sequence` is its durable head (or end), -1 for none; `row` its last row."""

    address: str
    status: int
    sequence: int
    row: bytes = b""

    def pack(self) -> bytes:
        return (
            fields.string(self.address)
            + fields.number1(self.status)
            + fields.sequence(self.sequence)
            + fields.long_bytes(self.row)
        )

    @classmethod
    def take(cls, cursor: Cursor) -> "AddressStatus":
        return cls(cursor.string(), cursor.number1(), cursor.sequence(), cursor.long_bytes())


class Request(NamedTuple):
    """A request that carries a list: OPEN, SEAL, CLOSE or DELETE, told apart by `id`.

    `entries` are packed `Announcement`s (OPEN) or `AddressStatus`es (the others; CLOSE's `sequence` is the end).
    """

    id: bytes
    store: str
    requester: str
    entries: tuple[bytes, ...]

    def frames(self) -> list[bytes]:
        return [
            _directed(self.id, self.store)
            + fields.string(self.requester)
            + fields.number4(len(self.entries))
            + b"".join(map(fields.long_bytes, self.entries))
        ]


class Answer(NamedTuple):
    """The answer to a `Request`: one status per address asked about."""

    id: bytes
    requester: str
    store: str
    statuses: tuple[AddressStatus, ...]

    def frames(self) -> list[bytes]:
        return [
            fields.header(self.id, answer_topic(self.requester, self.store))
            + fields.number4(len(self.statuses))
            + b"".join(status.pack() for status in self.statuses)
        ]


class Ping(NamedTuple):
    """PING 'P': asks a store (or every store, `ANY_STORE`) who it is; its answer proves the link both ways."""

    store: str
    requester: str

    def frames(self) -> list[bytes]:
        return [_directed(b"P", self.store) + fields.string(self.requester)]


class Pong(NamedTuple):
    """The answer to PING: the store's incarnation, cluster id ("" before its first OPEN) and name."""

    requester: str
    store: str
    cluster_id: str
    name: str

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"p", answer_topic(self.requester, self.store))
            + fields.string(self.cluster_id)
            + fields.string(self.name)
        ]


class Lookup(NamedTuple):
    """LOOKUP 'Q': the first row of `address` that satisfies (`kind`, `target`) among sequences up to `bound`."""

    store: str
    requester: str
    address: str
    kind: int
    target: int
    bound: int

    def frames(self) -> list[bytes]:
        return [
            _directed(b"Q", self.store)
            + fields.string(self.requester)
            + fields.string(self.address)
            + fields.number1(self.kind)
            + fields.number8(self.target & 0xFFFF_FFFF_FFFF_FFFF)
            + fields.sequence(self.bound)
        ]


class Found(NamedTuple):
    """The answer to LOOKUP: the row's sequence (-1: no such row) and the row."""

    requester: str
    store: str
    found: AddressStatus

    def frames(self) -> list[bytes]:
        return [fields.header(b"q", answer_topic(self.requester, self.store)) + self.found.pack()]


class GetRows(NamedTuple):
    """ROWS 'R': asks for the rows of `address` from `sequence`, `count` at most."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int

    def frames(self) -> list[bytes]:
        return [
            _directed(b"R", self.store)
            + fields.string(self.requester)
            + fields.string(self.address)
            + fields.number8(self.sequence)
            + fields.number4(self.count)
        ]


class Rows(NamedTuple):
    """The answer to ROWS: status, the first sequence, and the rows, joined, as content."""

    requester: str
    store: str
    status: AddressStatus
    content: bytes

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"r", answer_topic(self.requester, self.store)) + self.status.pack(),
            self.content,
        ]


class ListSegments(NamedTuple):
    """LIST 'I': asks for the announcements that a store keeps, from the address after `after`, `count` at most."""

    store: str
    requester: str
    after: str
    count: int

    def frames(self) -> list[bytes]:
        return [
            _directed(b"I", self.store)
            + fields.string(self.requester)
            + fields.string(self.after)
            + fields.number4(self.count)
        ]


class Listed(NamedTuple):
    """The answer to LIST: pairs of (announcement, status with state in `status` and head in `sequence`).

    Fewer pairs than asked for: that was the end.
    """

    requester: str
    store: str
    segments: tuple[tuple[Announcement, AddressStatus], ...]

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"i", answer_topic(self.requester, self.store))
            + fields.number4(len(self.segments))
            + b"".join(fields.long_bytes(a.pack()) + s.pack() for a, s in self.segments)
        ]


class End(NamedTuple):
    """END 'N': closes the answer to a directed FETCH: the last sequence sent (-1: none), or why there is none."""

    requester: str
    store: str
    last: AddressStatus

    def frames(self) -> list[bytes]:
        return [fields.header(b"N", answer_topic(self.requester, self.store)) + self.last.pack()]


def _directed(message_id: bytes, store: str) -> bytes:
    return fields.header(message_id, f"{DIRECTED}{store}/".encode())


def _store_of(topic: str) -> str:
    store, rest = split_directed_topic(topic)
    if rest:
        raise MalformedMessage("topic is not @incarnation/")
    return store


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _register_list_messages(message_id: bytes) -> None:
    answer_id = message_id.lower()

    def request(topic: str, cursor: Cursor, _: bytes | None) -> Request:
        requester = cursor.string()
        entries = tuple(cursor.long_bytes() for _ in range(cursor.count(4)))
        return Request(message_id, _store_of(topic), requester, entries)

    def answer(topic: str, cursor: Cursor, _: bytes | None) -> Answer:
        statuses = tuple(AddressStatus.take(cursor) for _ in range(cursor.count(14)))
        return Answer(answer_id, *split_answer_topic(topic), statuses)

    register(message_id, request)
    register(answer_id, answer)


def _listed(topic: str, cursor: Cursor, _: bytes | None) -> Listed:
    segments = tuple(
        (Announcement.unpack(cursor.long_bytes()), AddressStatus.take(cursor))
        for _ in range(cursor.count(18))
    )
    return Listed(*split_answer_topic(topic), segments)


def _lookup(topic: str, cursor: Cursor, _: bytes | None) -> Lookup:
    return Lookup(
        _store_of(topic),
        cursor.string(),
        cursor.string(),
        cursor.number1(),
        _signed(cursor.number8()),
        cursor.sequence(),
    )


for _id in (b"O", b"S", b"C", b"X"):
    _register_list_messages(_id)
register(b"P", lambda topic, cursor, _: Ping(_store_of(topic), cursor.string()))
register(b"p", lambda topic, cursor, _: Pong(*split_answer_topic(topic), cursor.string(), cursor.string()))
register(b"Q", _lookup)
register(b"q", lambda topic, cursor, _: Found(*split_answer_topic(topic), AddressStatus.take(cursor)))
register(
    b"R",
    lambda topic, cursor, _: GetRows(
        _store_of(topic), cursor.string(), cursor.string(), cursor.number8(), cursor.number4()
    ),
)
register(
    b"r",
    lambda topic, cursor, content: Rows(
        *split_answer_topic(topic), AddressStatus.take(cursor), content or b""
    ),
    content=True,
)
register(
    b"I",
    lambda topic, cursor, _: ListSegments(
        _store_of(topic), cursor.string(), cursor.string(), cursor.number4()
    ),
)
register(b"i", _listed)
register(b"N", lambda topic, cursor, _: End(*split_answer_topic(topic), AddressStatus.take(cursor)))
