"""The nine messages of Dafka, byte for byte as the C nodes send them.

`encode` gives the ZeroMQ frames of a message, `decode` the message of its frames; the additions of this project
(`wireproto.dafka.additions`) register themselves in the same table. Sequences are 0, 1, 2, ... ; -1 is "none".
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wireproto.dafka import fields
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Cursor

DIRECTED = "@"
"""A FETCH whose topic starts so is meant for one of our stores: `@<incarnation>/<address>`."""


class Record(NamedTuple):
    """RECORD 'M': a producer's record, published under its subject. `content` is frame 1."""

    address: str
    subject: str
    sequence: int
    content: bytes

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"M", self.subject.encode())
            + fields.string(self.address)
            + fields.string(self.subject)
            + fields.number8(self.sequence),
            self.content,
        ]


class Head(NamedTuple):
    """HEAD 'H': the highest sequence that a producer has published."""

    address: str
    subject: str
    sequence: int

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"H", self.subject.encode())
            + fields.string(self.address)
            + fields.string(self.subject)
            + fields.number8(self.sequence)
        ]


class Ack(NamedTuple):
    """ACK 'K': everything up to `sequence` is kept. `store` is the incarnation of one of ours, "" from C."""

    address: str
    store: str
    subject: str
    sequence: int

    def frames(self) -> list[bytes]:
        topic = f"{self.address}/{self.store}" if self.store else self.address
        return [
            fields.header(b"K", topic.encode()) + fields.string(self.subject) + fields.number8(self.sequence)
        ]


class Fetch(NamedTuple):
    """FETCH 'F': asks for `count` records of `address` from `sequence`, to be sent to `requester`.

    With `store` (an incarnation) it goes to that store alone and carries `byte_cap`: the answer stops at the record
    that passes the cap (one record is always sent).
    """

    address: str
    requester: str
    subject: str
    sequence: int
    count: int
    store: str = ""
    byte_cap: int = 0

    def frames(self) -> list[bytes]:
        topic = f"{DIRECTED}{self.store}/{self.address}" if self.store else self.address
        frame = (
            fields.header(b"F", topic.encode())
            + fields.string(self.requester)
            + fields.string(self.subject)
            + fields.number8(self.sequence)
            + fields.number4(self.count)
        )
        return [frame + fields.number4(self.byte_cap) if self.store else frame]


class DirectRecord(NamedTuple):
    """DIRECT-RECORD 'D': an answer to FETCH. `store` as in `Ack`."""

    requester: str
    store: str
    address: str
    subject: str
    sequence: int
    content: bytes

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"D", answer_topic(self.requester, self.store))
            + fields.string(self.address)
            + fields.string(self.subject)
            + fields.number8(self.sequence),
            self.content,
        ]


class DirectHead(NamedTuple):
    """DIRECT-HEAD 'E': an answer to GET-HEADS or CONSUMER-HELLO."""

    requester: str
    address: str
    subject: str
    sequence: int

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"E", self.requester.encode())
            + fields.string(self.address)
            + fields.string(self.subject)
            + fields.number8(self.sequence)
        ]


class GetHeads(NamedTuple):
    """GET-HEADS 'G': asks every store for the heads of a subject."""

    subject: str
    requester: str

    def frames(self) -> list[bytes]:
        return [fields.header(b"G", self.subject.encode()) + fields.string(self.requester)]


class ConsumerHello(NamedTuple):
    """CONSUMER-HELLO 'W': a consumer tells one store which subjects it wants the heads of."""

    store: str
    requester: str
    subjects: tuple[str, ...]

    def frames(self) -> list[bytes]:
        return [
            fields.header(b"W", self.store.encode())
            + fields.string(self.requester)
            + fields.strings(self.subjects)
        ]


class StoreHello(NamedTuple):
    """STORE-HELLO 'L': a store invites a consumer whose subscription it saw."""

    consumer: str
    store: str

    def frames(self) -> list[bytes]:
        return [fields.header(b"L", self.consumer.encode()) + fields.string(self.store)]


Decoder = Callable[[str, Cursor, bytes | None], Any]
"""(topic, cursor at the fields, content frame or None) -> message."""

_DECODERS: dict[int, tuple[Decoder, bool]] = {}


def register(message_id: bytes, decoder: Decoder, *, content: bool = False) -> None:
    """Add a message to the table that `decode` uses. `content`: it has a second frame."""
    if message_id[0] in _DECODERS:
        raise ValueError(f"message id {message_id!r} is registered twice")
    _DECODERS[message_id[0]] = (decoder, content)


def decode(frames: Sequence[bytes]) -> Any:
    """The message in these ZeroMQ frames. Raises `MalformedMessage` and nothing else."""
    if not frames or len(frames) > 2:
        raise MalformedMessage(f"{len(frames)} frames")
    message_id, topic, cursor = fields.open_header(frames[0])
    entry = _DECODERS.get(message_id)
    if entry is None:
        raise MalformedMessage(f"unknown message id {message_id}")
    decoder, has_content = entry
    if has_content != (len(frames) == 2):
        raise MalformedMessage("content frame missing" if has_content else "unexpected content frame")
    message = decoder(topic, cursor, frames[1] if has_content else None)
    cursor.finish()
    return message


def answer_topic(requester: str, store: str) -> bytes:
    """Where an answer goes: `requester` (from C) or `requester/incarnation` (from one of our stores)."""
    return (f"{requester}/{store}" if store else requester).encode()


def split_answer_topic(topic: str) -> tuple[str, str]:
    """The reverse of `answer_topic`: (requester, incarnation or "")."""
    requester, _, store = topic.partition("/")
    return requester, store


def split_directed_topic(topic: str) -> tuple[str, str]:
    """`@incarnation/rest` -> (incarnation, rest). Raises `MalformedMessage`."""
    store, slash, rest = topic[1:].partition("/")
    if not topic.startswith(DIRECTED) or not slash or not store:
        raise MalformedMessage("topic is not @incarnation/...")
    return store, rest


def _record(topic: str, cursor: Cursor, content: bytes | None) -> Record:
    address, subject, number = cursor.string(), cursor.string(), cursor.number8()
    if subject != topic:
        raise MalformedMessage("RECORD: topic and subject differ")
    return Record(address, subject, number, content or b"")


def _head(topic: str, cursor: Cursor, _: bytes | None) -> Head:
    head = Head(cursor.string(), cursor.string(), cursor.number8())
    if head.subject != topic:
        raise MalformedMessage("HEAD: topic and subject differ")
    return head


def _ack(topic: str, cursor: Cursor, _: bytes | None) -> Ack:
    address, store = split_answer_topic(topic)
    return Ack(address, store, cursor.string(), cursor.number8())


def _fetch(topic: str, cursor: Cursor, _: bytes | None) -> Fetch:
    requester, subject, number, count = (
        cursor.string(),
        cursor.string(),
        cursor.number8(),
        cursor.number4(),
    )
    if not topic.startswith(DIRECTED):
        return Fetch(topic, requester, subject, number, count)
    store, address = split_directed_topic(topic)
    return Fetch(address, requester, subject, number, count, store, cursor.number4())


def _direct_record(topic: str, cursor: Cursor, content: bytes | None) -> DirectRecord:
    requester, store = split_answer_topic(topic)
    return DirectRecord(
        requester, store, cursor.string(), cursor.string(), cursor.number8(), content or b""
    )


def _direct_head(topic: str, cursor: Cursor, _: bytes | None) -> DirectHead:
    return DirectHead(topic, cursor.string(), cursor.string(), cursor.number8())


register(b"M", _record, content=True)
register(b"H", _head)
register(b"K", _ack)
register(b"F", _fetch)
register(b"D", _direct_record, content=True)
register(b"E", _direct_head)
register(b"G", lambda topic, cursor, _: GetHeads(topic, cursor.string()))
register(b"W", lambda topic, cursor, _: ConsumerHello(topic, cursor.string(), cursor.strings()))
register(b"L", lambda topic, cursor, _: StoreHello(topic, cursor.string()))
