"""This project's own mesh messages, invisible to C nodes (which subscribe to none of these ids).

A request has an upper-case id, its answer the same letter in lower case. A request's topic is
`@<incarnation>/`, so that only the store it is meant for receives it; its first field is the requester: 32
upper-case hex characters whose first sixteen are those of the asking node's life and whose last sixteen
number the request. The answer's topic is `requester/incarnation`, so one subscription per answer id to the
sixteen characters brings a node all its answers, and each answer names its request and its sender.
docs/mesh-protocol.md has every message byte by byte.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Buffer, Cursor
from wireproto.dafka.messages import (
    Decoder,
    Frames,
    answer_topic,
    directed_topic,
    register,
    register_with_content,
    split_answer_topic,
    split_directed_topic,
)

ANY_STORE = "*"
"""The incarnation in a PING's topic that every one of our stores subscribes to."""

BEGINNINGS = b"B"
"""The id of a `Request` that is about reading."""

STATUS_DONE = 0
STATUS_NOT_HERE = 1
STATUS_STORAGE_ERROR = 2
STATUS_FOREIGN_CLUSTER = 3
STATUS_STALE_EPOCH = 4
STATUS_SEALED = 5
STATUS_INCOMPLETE = 6
STATUS_OPEN = 7
STATUS_BEGINS_LATER = 8
STATUS_ANSWER_FULL = 9

LOOKUP_OFFSET = 0
"""The first row whose last offset is at or after the target."""
LOOKUP_TIMESTAMP = 1
"""The first row whose running maximum timestamp is at or after the target."""
LOOKUP_MAX_TIMESTAMP = 2
"""The first row that carries the highest timestamp up to the bound."""

LOOKUP_KINDS = frozenset((LOOKUP_OFFSET, LOOKUP_TIMESTAMP, LOOKUP_MAX_TIMESTAMP))

DIGEST_BYTES = 32
"""SHA-256."""

LEAST_ENTRY_BYTES = 4
"""Of one entry in a list: its length."""
LEAST_STATUS_BYTES = 1 + 1 + 8 + 4
"""Of one status in a list: an address's length, status, sequence, the row's length."""
LEAST_ASKED_BYTES = 1 + 1
"""Of one entry of VERIFY: the lengths of a log and of an address."""
LEAST_VERIFIED_BYTES = 1 + 8 + 1 + 1
"""Of one entry of its answer: status, epoch, a life's length, phase."""


class Announcement(NamedTuple):
    """One segment, as OPEN announces it and LIST gives it back.

    `log` names the partition for good; `epoch` is its writer's; `start` is the first offset; `members` are
    incarnations, each once; `w` of them make a record count; `details` is the writer's own.
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
        """The fields, as a store keeps them too. Raises ValueError for what `unpack` refuses."""
        self._check(ValueError)
        return b"".join(
            (
                fields.name(self.address),
                fields.string(self.subject),
                fields.string(self.cluster_id),
                fields.string(self.log),
                fields.number4(self.epoch),
                fields.sequence(self.start),
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
            cursor.name(),
            cursor.string(),
            cursor.string(),
            cursor.string(),
            cursor.number4(),
            cursor.sequence(),
            cursor.strings(),
            cursor.number1(),
            cursor.long_bytes(),
        )
        cursor.finish()
        value._check(MalformedMessage)
        return value

    def _check(self, error: type[ValueError]) -> None:
        if not 1 <= self.w <= len(self.members) or len(set(self.members)) != len(self.members):
            raise error(f"w {self.w} of {len(self.members)} members, {len(set(self.members))} different ones")
        if not all(map(fields.is_name, self.members)):
            raise error("a member is not a name")


class AddressStatus(NamedTuple):
    """What a store says of one address: its durable head or end (-1: none), and sometimes its last row."""

    address: str
    status: int
    sequence: int
    row: bytes = b""

    def pack(self) -> bytes:
        """The fields of the wire."""
        return (
            fields.name(self.address)
            + fields.number1(self.status)
            + fields.sequence_or_none(self.sequence)
            + fields.long_bytes(self.row)
        )

    @classmethod
    def take(cls, cursor: Cursor) -> "AddressStatus":
        """The next status of a message. Raises `MalformedMessage`."""
        return cls(cursor.name(), cursor.number1(), cursor.sequence_or_none(), cursor.long_bytes())

    @classmethod
    def unpack(cls, data: bytes) -> "AddressStatus":
        """One status and nothing behind it, as an entry of a `Request`. Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls.take(cursor)
        cursor.finish()
        return value


class Copy(NamedTuple):
    """One segment that a store is to have up to sequence `end` (-1: it is empty), as COPY names it.

    `sources` are incarnations that may have it, each once; none: the members of the announcement.
    """

    announcement: Announcement
    end: int
    sources: tuple[str, ...]

    @property
    def address(self) -> str:
        return self.announcement.address

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `unpack` refuses."""
        self._check(ValueError)
        return b"".join(
            (
                fields.long_bytes(self.announcement.pack()),
                fields.sequence_or_none(self.end),
                fields.strings(self.sources),
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> "Copy":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(Announcement.unpack(cursor.long_bytes()), cursor.sequence_or_none(), cursor.strings())
        cursor.finish()
        value._check(MalformedMessage)
        return value

    def _check(self, error: type[ValueError]) -> None:
        if len(set(self.sources)) != len(self.sources):
            raise error(f"{len(self.sources)} sources, {len(set(self.sources))} different ones")
        if not all(map(fields.is_name, self.sources)):
            raise error("a source is not a name")


class Beginning(NamedTuple):
    """What one segment began with, as the answer to BEGINNINGS has it in a status's `row`: what OPEN
    announced, and the first rows, joined (the status's `sequence` is the last one's).
    """

    announcement: Announcement
    rows: bytes

    def pack(self) -> bytes:
        """The fields of the wire."""
        return fields.long_bytes(self.announcement.pack()) + fields.long_bytes(self.rows)

    @classmethod
    def unpack(cls, data: bytes) -> "Beginning":
        """Raises `MalformedMessage`."""
        cursor = Cursor(data, 0)
        value = cls(Announcement.unpack(cursor.long_bytes()), cursor.long_bytes())
        cursor.finish()
        return value


class Request(NamedTuple):
    """A request that carries a list: OPEN 'O', SEAL 'S', CLOSE 'C', DELETE 'X', COPY 'Y' or BEGINNINGS 'B',
    told apart by `id`.

    `entries` are packed `Announcement`s (OPEN), `Copy`s (COPY) or `AddressStatus`es (the others; CLOSE: the
    end, BEGINNINGS: the last row that is wanted).
    Those of a decoded request have been read once, so unpacking them raises nothing.
    """

    id: bytes
    store: str
    requester: str
    entries: tuple[bytes, ...]

    def frames(self) -> Frames:
        return [
            _directed(self.id, self.store)
            + fields.name(self.requester)
            + fields.entries([fields.long_bytes(entry) for entry in self.entries])
        ]


class Answer(NamedTuple):
    """The answer to a `Request`: one status per address asked about."""

    id: bytes
    requester: str
    store: str
    statuses: tuple[AddressStatus, ...]

    def frames(self) -> Frames:
        statuses = fields.entries([status.pack() for status in self.statuses])
        return [_answering(self.id, self.requester, self.store) + statuses]


class Ping(NamedTuple):
    """PING 'P': asks one store, or `ANY_STORE`, who it is; its answer proves the link both ways."""

    store: str
    requester: str

    def frames(self) -> Frames:
        return [_directed(b"P", self.store) + fields.name(self.requester)]


class Pong(NamedTuple):
    """The answer to PING: the store's incarnation, cluster id ("" before its first OPEN) and name, and the
    bytes that are free on its disk and its disk's size (0: not known).
    """

    requester: str
    store: str
    cluster_id: str
    name: str
    free_bytes: int = 0
    disk_bytes: int = 0

    def frames(self) -> Frames:
        return [
            _answering(b"p", self.requester, self.store)
            + fields.string(self.cluster_id)
            + fields.string(self.name)
            + fields.sequence(self.free_bytes)
            + fields.sequence(self.disk_bytes)
        ]


class Lookup(NamedTuple):
    """LOOKUP 'Q': the first row of `address` that satisfies (`kind`, `target`), up to sequence `bound`."""

    store: str
    requester: str
    address: str
    kind: int
    target: int
    bound: int

    def frames(self) -> Frames:
        return [
            _directed(b"Q", self.store)
            + fields.name(self.requester)
            + fields.name(self.address)
            + fields.number1(self.kind)
            + fields.signed8(self.target)
            + fields.sequence_or_none(self.bound)
        ]


class Found(NamedTuple):
    """The answer to LOOKUP: the row's sequence (-1: no such row) and the row."""

    requester: str
    store: str
    found: AddressStatus

    def frames(self) -> Frames:
        return [_answering(b"q", self.requester, self.store) + self.found.pack()]


class GetRows(NamedTuple):
    """ROWS 'R': asks for the rows of `address` from `sequence`, `count` at most."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return [
            _directed(b"R", self.store)
            + fields.name(self.requester)
            + fields.name(self.address)
            + fields.sequence(self.sequence)
            + fields.number4(self.count)
        ]


class Rows(NamedTuple):
    """The answer to ROWS: status with the last row's sequence, and the rows, joined, as content."""

    requester: str
    store: str
    status: AddressStatus
    content: Buffer

    def frames(self) -> Frames:
        return [
            _answering(b"r", self.requester, self.store) + self.status.pack(),
            self.content,
        ]


class Verify(NamedTuple):
    """VERIFY 'V': asks what is known of logs, so that a catalog that is older than its stores is noticed.

    `entries` are pairs of a log and an address of it, or "" for none. The answer has the shape of ROWS'
    answer, with `Verified` entries as content.
    """

    store: str
    requester: str
    entries: tuple[tuple[str, str], ...]

    def frames(self) -> Frames:
        return [
            _directed(b"V", self.store)
            + fields.name(self.requester)
            + fields.entries([fields.string(log) + fields.string(address) for log, address in self.entries])
        ]


class Verified(NamedTuple):
    """What a store knows of one entry of a VERIFY.

    `epoch` is the highest that any OPEN announced for the log (-1: none), `life` the gateway life that did,
    `phase` that of the address (0: nothing is known of it, or it was not asked for).
    """

    status: int
    epoch: int
    life: str
    phase: int

    @staticmethod
    def pack_all(entries: Sequence["Verified"]) -> bytes:
        """The content of the answer: one entry for each that was asked for, in the same order."""
        return fields.entries(
            [
                fields.number1(status)
                + fields.sequence_or_none(epoch)
                + fields.string(life)
                + fields.number1(phase)
                for status, epoch, life, phase in entries
            ]
        )

    @classmethod
    def unpack_all(cls, content: Buffer) -> list["Verified"]:
        """The entries in the content of an answer. Raises `MalformedMessage`."""
        cursor = Cursor(bytes(content), 0)
        found = [
            cls(cursor.number1(), cursor.sequence_or_none(), cursor.string(), cursor.number1())
            for _ in range(cursor.count(LEAST_VERIFIED_BYTES))
        ]
        cursor.finish()
        return found


class Digest(NamedTuple):
    """DIGEST 'T': asks for a digest of the records of `address` from `sequence` on, `count` of them."""

    store: str
    requester: str
    address: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return [
            _directed(b"T", self.store)
            + fields.name(self.requester)
            + fields.name(self.address)
            + fields.sequence(self.sequence)
            + fields.number4(self.count)
        ]


class Digested(NamedTuple):
    """The answer to DIGEST: status with the range's last sequence and, in the place of a row, the digest
    (`DIGEST_BYTES`; empty if the status is not `STATUS_DONE`).
    """

    requester: str
    store: str
    digested: AddressStatus

    def frames(self) -> Frames:
        self._check(ValueError)
        return [_answering(b"t", self.requester, self.store) + self.digested.pack()]

    def _check(self, error: type[ValueError]) -> None:
        size = len(self.digested.row)
        if size != (DIGEST_BYTES if self.digested.status == STATUS_DONE else 0):
            raise error(f"a digest of {size} bytes")


class ListSegments(NamedTuple):
    """LIST 'I': asks for the announcements a store keeps, from address `first` on, `count` at most.

    `first` itself comes first if it is here, so one known address can be asked for; "" is the beginning.
    """

    store: str
    requester: str
    first: str
    count: int  # type: ignore[assignment]  # tuple.count is of no use here

    def frames(self) -> Frames:
        return [
            _directed(b"I", self.store)
            + fields.name(self.requester)
            + fields.string(self.first)
            + fields.number4(self.count)
        ]


class Listed(NamedTuple):
    """The answer to LIST: pairs of (announcement, status with state in `status` and head in `sequence`).

    Fewer pairs than asked for: that was the end.
    """

    requester: str
    store: str
    segments: tuple[tuple[Announcement, AddressStatus], ...]

    def frames(self) -> Frames:
        return [
            _answering(b"i", self.requester, self.store)
            + fields.entries([fields.long_bytes(a.pack()) + s.pack() for a, s in self.segments])
        ]


class End(NamedTuple):
    """END 'N' closes the answer to a directed FETCH: the last sequence sent (-1: none), or why none."""

    requester: str
    store: str
    last: AddressStatus

    def frames(self) -> Frames:
        return [_answering(b"N", self.requester, self.store) + self.last.pack()]


def _directed(message_id: bytes, store: str) -> bytes:
    return fields.header(message_id, directed_topic(store, ""), fields.MAX_PAIR_BYTES)


def _answering(message_id: bytes, requester: str, store: str) -> bytes:
    if not store:
        raise ValueError("an answer names its store")
    return fields.header(message_id, answer_topic(requester, store), fields.MAX_PAIR_BYTES)


def _store_of(topic: str) -> str:
    store, rest = split_directed_topic(topic)
    if rest:
        raise MalformedMessage("topic is not @incarnation/")
    return store


def _parties_of(topic: str) -> tuple[str, str]:
    """(requester, incarnation) of an answer."""
    requester, store = split_answer_topic(topic)
    if not store:
        raise MalformedMessage("answer without a store in its topic")
    return requester, store


def _register(message_id: bytes, decoder: Decoder) -> None:
    register(message_id, decoder, fields.MAX_PAIR_BYTES)


def _register_list_messages(message_id: bytes, unpack_entry: Callable[[bytes], object]) -> None:
    answer_id = message_id.lower()

    def request(topic: str, cursor: Cursor) -> Request:
        requester = cursor.name()
        entries = tuple(cursor.long_bytes() for _ in range(cursor.count(LEAST_ENTRY_BYTES)))
        for entry in entries:
            unpack_entry(entry)
        return Request(message_id, _store_of(topic), requester, entries)

    def answer(topic: str, cursor: Cursor) -> Answer:
        statuses = tuple(AddressStatus.take(cursor) for _ in range(cursor.count(LEAST_STATUS_BYTES)))
        return Answer(answer_id, *_parties_of(topic), statuses)

    _register(message_id, request)
    _register(answer_id, answer)


def _listed(topic: str, cursor: Cursor) -> Listed:
    segments = tuple(
        (Announcement.unpack(cursor.long_bytes()), AddressStatus.take(cursor))
        for _ in range(cursor.count(LEAST_ENTRY_BYTES + LEAST_STATUS_BYTES))
    )
    return Listed(*_parties_of(topic), segments)


def _lookup(topic: str, cursor: Cursor) -> Lookup:
    store, requester, address, kind = _store_of(topic), cursor.name(), cursor.name(), cursor.number1()
    if kind not in LOOKUP_KINDS:
        raise MalformedMessage(f"LOOKUP of kind {kind}")
    return Lookup(store, requester, address, kind, cursor.signed8(), cursor.sequence_or_none())


def _rows(header: bytes, content: Buffer) -> Rows:
    topic, cursor = fields.open_header(header, fields.MAX_PAIR_BYTES)
    rows = Rows(*_parties_of(topic), AddressStatus.take(cursor), content)
    cursor.finish()
    return rows


def _verify(topic: str, cursor: Cursor) -> Verify:
    store, requester = _store_of(topic), cursor.name()
    entries = tuple((cursor.string(), cursor.string()) for _ in range(cursor.count(LEAST_ASKED_BYTES)))
    return Verify(store, requester, entries)


def _get_rows(topic: str, cursor: Cursor) -> GetRows:
    return GetRows(_store_of(topic), cursor.name(), cursor.name(), cursor.sequence(), cursor.number4())


def _digest(topic: str, cursor: Cursor) -> Digest:
    return Digest(_store_of(topic), cursor.name(), cursor.name(), cursor.sequence(), cursor.number4())


def _digested(topic: str, cursor: Cursor) -> Digested:
    answer = Digested(*_parties_of(topic), AddressStatus.take(cursor))
    answer._check(MalformedMessage)
    return answer


def _pong(topic: str, cursor: Cursor) -> Pong:
    parties, about, free = _parties_of(topic), (cursor.string(), cursor.string()), cursor.sequence()
    # A store of an older version does not tell the size.
    return Pong(*parties, *about, free, cursor.sequence() if cursor.left else 0)


_register_list_messages(b"O", Announcement.unpack)
_register_list_messages(b"Y", Copy.unpack)
for _id in (b"S", b"C", b"X", b"B"):
    _register_list_messages(_id, AddressStatus.unpack)
_register(b"P", lambda topic, cursor: Ping(_store_of(topic), cursor.name()))
_register(b"p", _pong)
_register(b"Q", _lookup)
_register(b"q", lambda topic, cursor: Found(*_parties_of(topic), AddressStatus.take(cursor)))
_register(b"R", _get_rows)
register_with_content(b"r", _rows)
_register(b"V", _verify)
_register(b"T", _digest)
_register(b"t", _digested)
_register(
    b"I",
    lambda topic, cursor: ListSegments(_store_of(topic), cursor.name(), cursor.string(), cursor.number4()),
)
_register(b"i", _listed)
_register(b"N", lambda topic, cursor: End(*_parties_of(topic), AddressStatus.take(cursor)))
