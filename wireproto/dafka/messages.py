"""The nine messages of Dafka, byte for byte as the C nodes send them.

`frames()` gives the ZeroMQ frames of a message, `decode` the message of its frames; the additions of this
project (`wireproto.dafka.additions`) register themselves in the same table. Sequences are 0, 1, 2, ...

RECORD, DIRECT-RECORD and ACK are on the hot path, one each per batch and member: `RecordEncoder` and
`DirectRecordEncoder` keep what does not change between two records; these three decode without a `Cursor`.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Buffer, Cursor, checked_name, open_header, text

DIRECTED = "@"
"""A FETCH whose topic starts so is meant for one of our stores: `@<incarnation>/<address>`."""

UNANNOUNCED = "~"
"""Before the incarnation in the ACK of one of our stores for an address that no OPEN announced to it: native
producers tell stores apart by it, and no gateway takes it for a member's."""

Frames = list[Buffer]
"""The frames of one ZeroMQ message: the header, then the content if it has one."""

_SEQUENCE = struct.Struct(">q")


class Record(NamedTuple):
    """RECORD 'M': a producer's record, published under its subject. `content` is frame 1."""

    address: str
    subject: str
    sequence: int
    content: Buffer

    def frames(self) -> Frames:
        return RecordEncoder(self.address, self.subject).frames(self.sequence, self.content)


class Head(NamedTuple):
    """HEAD 'H': the highest sequence that a producer has published."""

    address: str
    subject: str
    sequence: int

    def frames(self) -> Frames:
        return [
            fields.header(ids.HEAD, self.subject.encode())
            + fields.name(self.address)
            + fields.string(self.subject)
            + fields.sequence(self.sequence)
        ]


class Ack(NamedTuple):
    """ACK 'K': everything up to `sequence` is kept. `store` is the incarnation of one of ours, "" from C, and
    `nonce` (eight bytes) that of its start, b"" where it is not told.
    """

    address: str
    store: str
    subject: str
    sequence: int
    nonce: bytes = b""

    def frames(self) -> Frames:
        return [
            fields.header(ids.ACK, answer_topic(self.address, self.store), fields.MAX_PAIR_BYTES)
            + fields.string(self.subject)
            + fields.sequence(self.sequence)
            + fields.nonce(self.nonce)
        ]


class Fetch(NamedTuple):
    """FETCH 'F': asks for `count` records of `address` from `sequence`, to be sent to `requester`.

    With `store` (an incarnation) it goes to that store alone and carries `byte_cap`: the answer stops at the
    record that passes the cap (one record is always sent).
    """

    address: str
    requester: str
    subject: str
    sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    store: str = ""
    byte_cap: int = 0

    def frames(self) -> Frames:
        if self.byte_cap and not self.store:
            raise ValueError("a byte cap needs a store that reads it")
        address = fields.name(self.address)[1:]
        topic = directed_topic(self.store, self.address) if self.store else address
        frame = (
            fields.header(ids.FETCH, topic)
            + fields.name(self.requester)
            + fields.string(self.subject)
            + fields.sequence(self.sequence)
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
    content: Buffer

    def frames(self) -> Frames:
        encoder = DirectRecordEncoder(self.requester, self.store, self.address, self.subject)
        return encoder.frames(self.sequence, self.content)


class DirectHead(NamedTuple):
    """DIRECT-HEAD 'E': an answer to GET-HEADS or CONSUMER-HELLO. `store` as in `Ack`."""

    requester: str
    address: str
    subject: str
    sequence: int
    store: str = ""

    def frames(self) -> Frames:
        return [
            fields.header(ids.DIRECT_HEAD, answer_topic(self.requester, self.store), fields.MAX_PAIR_BYTES)
            + fields.name(self.address)
            + fields.string(self.subject)
            + fields.sequence(self.sequence)
        ]


class GetHeads(NamedTuple):
    """GET-HEADS 'G': asks every store for the heads of a subject."""

    subject: str
    requester: str

    def frames(self) -> Frames:
        return [fields.header(ids.GET_HEADS, self.subject.encode()) + fields.name(self.requester)]


class ConsumerHello(NamedTuple):
    """CONSUMER-HELLO 'W': a consumer tells one store which subjects it wants the heads of."""

    store: str
    requester: str
    subjects: tuple[str, ...]

    def frames(self) -> Frames:
        return [
            fields.header(ids.CONSUMER_HELLO, answer_topic(self.store, ""))
            + fields.name(self.requester)
            + fields.strings(self.subjects)
        ]


class StoreHello(NamedTuple):
    """STORE-HELLO 'L': a store invites a consumer whose subscription it saw."""

    consumer: str
    store: str

    def frames(self) -> Frames:
        return [fields.header(ids.STORE_HELLO, answer_topic(self.consumer, "")) + fields.name(self.store)]


class RecordEncoder:
    """The RECORDs of one address: everything of the header but the sequence is made once.

    Raises ValueError for an address or subject over 255 bytes or with a NUL inside.
    """

    __slots__ = ("_prefix",)

    def __init__(self, address: str, subject: str) -> None:
        self._prefix = (
            fields.header(ids.RECORD, subject.encode()) + fields.name(address) + fields.string(subject)
        )

    def frames(self, sequence: int, content: Buffer) -> Frames:
        """[header, content]; the content is not copied. Raises ValueError for a sequence below 0."""
        if sequence < 0:
            raise ValueError(f"{sequence} is not a sequence")
        return [self._prefix + _SEQUENCE.pack(sequence), content]


class DirectRecordEncoder(RecordEncoder):
    """The DIRECT-RECORDs that answer one FETCH, as `RecordEncoder`; `store` is "" for a requester of C."""

    __slots__ = ()

    def __init__(self, requester: str, store: str, address: str, subject: str) -> None:
        self._prefix = (
            fields.header(ids.DIRECT_RECORD, answer_topic(requester, store), fields.MAX_PAIR_BYTES)
            + fields.name(address)
            + fields.string(subject)
        )


Decoder = Callable[[str, Cursor], Any]
"""(topic, cursor at the fields) -> message."""

MAX_RECORD_PREFIX_BYTES = 1 + fields.MAX_PAIR_BYTES + 2 + 2 * (1 + fields.MAX_NAME_BYTES)
"""Id, topic, NUL and version, address, subject: a record's header without its sequence."""

MAX_KNOWN_PREFIXES = 1024
"""Headers of RECORDs, and of DIRECT-RECORDs, that are remembered as they were read, without their sequence:
those of one address differ in nothing else."""

_DECODERS: dict[int, Callable[[bytes], Any]] = {}
"""Messages of one frame: header frame -> message."""

_CONTENT_DECODERS: dict[int, Callable[[bytes, Buffer], Any]] = {}
"""Messages of two frames: (header frame, content) -> message."""


def register(message_id: bytes, decoder: Decoder, longest_topic: int = fields.MAX_TOPIC_BYTES) -> None:
    """Add a message of one frame to the table that `decode` uses."""
    _refuse_second(message_id)

    def decode_header(header: bytes) -> Any:
        topic, cursor = open_header(header, longest_topic)
        message = decoder(topic, cursor)
        cursor.finish()
        return message

    _DECODERS[message_id[0]] = decode_header


def register_with_content(message_id: bytes, decoder: Callable[[bytes, Buffer], Any]) -> None:
    """Add a message of two frames; its decoder takes the whole header frame, and the content."""
    _refuse_second(message_id)
    _CONTENT_DECODERS[message_id[0]] = decoder


def _refuse_second(message_id: bytes) -> None:
    if message_id[0] in _DECODERS or message_id[0] in _CONTENT_DECODERS:
        raise ValueError(f"message id {message_id!r} is registered twice")


def decode(frames: Sequence[Buffer]) -> Any:
    """The message in these ZeroMQ frames. Raises `MalformedMessage` and nothing else.

    The header frame is best given as bytes (anything else is copied into bytes); a content frame comes back
    as the object that was given.
    """
    if not 1 <= len(frames) <= 2:
        raise MalformedMessage(f"{len(frames)} frames")
    header = frames[0]
    if not isinstance(header, bytes):
        header = bytes(header)
    if not header:
        raise MalformedMessage("empty header frame")
    if len(frames) == 1:
        decoder = _DECODERS.get(header[0])
        if decoder is not None:
            return decoder(header)
    else:
        content_decoder = _CONTENT_DECODERS.get(header[0])
        if content_decoder is not None:
            return content_decoder(header, frames[1])
    raise MalformedMessage(f"no message has id {header[0]} and {len(frames)} frames")


# names in topics -------------------------------------------------------------------------------------------


def answer_topic(requester: str, store: str) -> bytes:
    """Where an answer goes: `requester` (to C) or `requester/incarnation` (from one of our stores).

    Raises ValueError unless both are names (`fields.is_name`).
    """
    if not fields.is_name(requester) or (store and not fields.is_name(store)):
        raise ValueError(f"not names on the mesh: {requester[:64]!r}, {store[:64]!r}")
    return (f"{requester}/{store}" if store else requester).encode()


def split_answer_topic(topic: str) -> tuple[str, str]:
    """The reverse of `answer_topic`: (requester, incarnation or ""). Raises `MalformedMessage`."""
    requester, slash, store = topic.partition("/")
    if slash:
        checked_name(store)
    return checked_name(requester), store


def named_heads_prefix(name: str) -> bytes:
    """What a reader under that name, or a gateway whose life it is, subscribes to for stores to say in
    DIRECT-HEADs and DIRECT-RECORDs who they are.
    """
    return ids.DIRECT_HEAD + f"{name}/".encode()


def directed_topic(store: str, rest: str) -> bytes:
    """`@incarnation/rest`: for that store alone. Raises ValueError unless `store` is a name."""
    if not fields.is_name(store):
        raise ValueError(f"not a name on the mesh: {store[:64]!r}")
    return f"{DIRECTED}{store}/{rest}".encode()


def directed_prefix(message_id: bytes, store: str) -> bytes:
    """How the headers of messages with this id begin that are for that store: what it subscribes to."""
    return message_id + f"{DIRECTED}{store}".encode()


def split_directed_topic(topic: str) -> tuple[str, str]:
    """`@incarnation/rest` -> (incarnation, rest). Raises `MalformedMessage`."""
    store, slash, rest = topic[1:].partition("/")
    if not topic.startswith(DIRECTED) or not slash:
        raise MalformedMessage("topic is not @incarnation/...")
    return checked_name(store), rest


# decoders --------------------------------------------------------------------------------------------------


def _decode_ack(header: bytes) -> Ack:
    nul = header.find(b"\0", 1, fields.MAX_PAIR_BYTES + 2)
    length_at = nul + 2
    subject_at = nul + 3
    if nul < 0 or len(header) < subject_at or header[nul + 1] != fields.VERSION:
        raise MalformedMessage("ACK without NUL, version 1 or subject")
    end = subject_at + header[length_at]
    nonce = header[end + 8 :]
    if len(header) < end + 8 or len(nonce) not in (0, fields.NONCE_BYTES):
        raise MalformedMessage(f"{len(header) - end} bytes where the sequence and a nonce should be")
    sequence: int = _SEQUENCE.unpack_from(header, end)[0]
    if sequence < 0:
        raise MalformedMessage("sequence over 2^63 - 1")
    address, store = split_answer_topic(text(header[1:nul]))
    return Ack(address, store, text(header[subject_at:end]), sequence, nonce)


def _split_sequence(header: bytes) -> tuple[bytes, int]:
    """What is in front of the sequence that ends a header, and the sequence."""
    at = len(header) - _SEQUENCE.size
    if not 0 <= at <= MAX_RECORD_PREFIX_BYTES:
        raise MalformedMessage(f"record with a header of {len(header)} bytes")
    (sequence,) = _SEQUENCE.unpack_from(header, at)
    if sequence < 0:
        raise MalformedMessage("sequence over 2^63 - 1")
    return header[:at], sequence


def _record_fields(prefix: bytes, longest_topic: int) -> tuple[bytes, str, bytes]:
    """(topic, address, subject) of a RECORD's or DIRECT-RECORD's header without its sequence."""
    nul = prefix.find(b"\0", 1, longest_topic + 2)
    address_at = nul + 3
    if nul < 0 or len(prefix) < address_at or prefix[nul + 1] != fields.VERSION:
        raise MalformedMessage("record without NUL, version 1 or address")
    address_end = address_at + prefix[nul + 2]
    if len(prefix) <= address_end:
        raise MalformedMessage("truncated address")
    subject_end = address_end + 1 + prefix[address_end]
    if len(prefix) != subject_end:
        raise MalformedMessage(f"{len(prefix) - subject_end + 8} bytes where the sequence should be")
    address = checked_name(text(prefix[address_at:address_end]))
    return prefix[1:nul], address, prefix[address_end + 1 : subject_end]


@lru_cache(MAX_KNOWN_PREFIXES)
def _record_prefix(prefix: bytes) -> tuple[str, str]:
    """(address, subject) of a RECORD's header without its sequence."""
    topic, address, subject = _record_fields(prefix, fields.MAX_TOPIC_BYTES)
    if subject != topic:
        raise MalformedMessage("RECORD: topic and subject differ")
    return address, text(subject)


@lru_cache(MAX_KNOWN_PREFIXES)
def _direct_record_prefix(prefix: bytes) -> tuple[str, str, str, str]:
    """(requester, store, address, subject) of a DIRECT-RECORD's header without its sequence."""
    topic, address, subject = _record_fields(prefix, fields.MAX_PAIR_BYTES)
    requester, store = split_answer_topic(text(topic))
    return requester, store, address, text(subject)


def _decode_record(header: bytes, content: Buffer) -> Record:
    prefix, sequence = _split_sequence(header)
    address, subject = _record_prefix(prefix)
    return Record(address, subject, sequence, content)


def _decode_direct_record(header: bytes, content: Buffer) -> DirectRecord:
    prefix, sequence = _split_sequence(header)
    requester, store, address, subject = _direct_record_prefix(prefix)
    return DirectRecord(requester, store, address, subject, sequence, content)


def _head(topic: str, cursor: Cursor) -> Head:
    head = Head(cursor.name(), cursor.string(), cursor.sequence())
    if head.subject != topic:
        raise MalformedMessage("HEAD: topic and subject differ")
    return head


def _fetch(topic: str, cursor: Cursor) -> Fetch:
    requester, subject = cursor.name(), cursor.string()
    sequence, count = cursor.sequence(), cursor.number4()
    if not topic.startswith(DIRECTED):
        return Fetch(checked_name(topic), requester, subject, sequence, count)
    store, address = split_directed_topic(topic)
    return Fetch(checked_name(address), requester, subject, sequence, count, store, cursor.number4())


def _direct_head(topic: str, cursor: Cursor) -> DirectHead:
    requester, store = split_answer_topic(topic)
    return DirectHead(requester, cursor.name(), cursor.string(), cursor.sequence(), store)


register_with_content(ids.RECORD, _decode_record)
register_with_content(ids.DIRECT_RECORD, _decode_direct_record)
_DECODERS[ids.ACK[0]] = _decode_ack
register(ids.HEAD, _head)
register(ids.FETCH, _fetch)
register(ids.DIRECT_HEAD, _direct_head, fields.MAX_PAIR_BYTES)
register(ids.GET_HEADS, lambda topic, cursor: GetHeads(topic, cursor.name()))
register(
    ids.CONSUMER_HELLO,
    lambda topic, cursor: ConsumerHello(checked_name(topic), cursor.name(), cursor.strings()),
)
register(ids.STORE_HELLO, lambda topic, cursor: StoreHello(checked_name(topic), cursor.name()))
