"""What gateways tell all stores of native records that come into topics: which subjects, and how far."""

from typing import NamedTuple

from wireproto.dafka import fields, ids
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import Cursor
from wireproto.dafka.messages import Frames, register

MAX_NATIVE_TOPICS_TOLD = 255
"""Topics in one TAKEN-UP: addresses say by one byte of which they are told."""

STORES_OWN = -1
"""In the place of a retention: as the store is set."""


class NativeTopic(NamedTuple):
    """A topic that takes up a subject; `retention_ms` is how long stores keep a record after its arrival that
    the topic has, `STORES_OWN`: as long as any other.
    """

    topic: str
    subject: str
    retention_ms: int = STORES_OWN

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `read` refuses."""
        return (
            fields.name(self.topic) + fields.string(self.subject) + fields.sequence_or_none(self.retention_ms)
        )

    @classmethod
    def read(cls, cursor: Cursor) -> "NativeTopic":
        """Raises `MalformedMessage`."""
        return cls(cursor.name(), cursor.string(), cursor.sequence_or_none())


class TakenAddress(NamedTuple):
    """How far an address has come into a topic: its records before `following` are there, on as many stores
    as count. `topic` is the place of the topic in the message.
    """

    topic: int
    address: str
    following: int

    def pack(self) -> bytes:
        """The fields of the wire. Raises ValueError for what `read` refuses."""
        return fields.number1(self.topic) + fields.name(self.address) + fields.sequence(self.following)

    @classmethod
    def read(cls, cursor: Cursor) -> "TakenAddress":
        """Raises `MalformedMessage`."""
        return cls(cursor.number1(), cursor.name(), cursor.sequence())


class TakenUp(NamedTuple):
    """TAKEN-UP 'Z', which all stores get and nobody answers: all topics of a cluster that take up a subject,
    as a gateway sees them, and how far some addresses have come into them.
    """

    cluster_id: str
    topics: tuple[NativeTopic, ...] = ()
    addresses: tuple[TakenAddress, ...] = ()

    def frames(self) -> Frames:
        """Raises ValueError for what decoding refuses."""
        self._check(ValueError)
        return [
            fields.header(ids.TAKEN_UP, self.cluster_id.encode())
            + pack_topics(self.topics)
            + fields.entries([one.pack() for one in self.addresses])
        ]

    def _check(self, error: type[ValueError]) -> None:
        if len(self.topics) > MAX_NATIVE_TOPICS_TOLD:
            raise error(f"{len(self.topics)} topics take up a subject")
        if any(one.topic >= len(self.topics) for one in self.addresses):
            raise error("an address of a topic that is not told of")


def pack_topics(topics: tuple[NativeTopic, ...]) -> bytes:
    """A list of topics. Raises ValueError for what `read_topics` refuses."""
    return fields.entries([topic.pack() for topic in topics])


def read_topics(cursor: Cursor) -> tuple[NativeTopic, ...]:
    """What `pack_topics` made. Raises `MalformedMessage`."""
    return tuple(NativeTopic.read(cursor) for _ in range(cursor.count(_TOPIC_BYTES)))


_TOPIC_BYTES = len(NativeTopic("t", "").pack())
_ADDRESS_BYTES = len(TakenAddress(0, "a", 0).pack())


def _taken_up(topic: str, cursor: Cursor) -> TakenUp:
    topics = read_topics(cursor)
    addresses = tuple(TakenAddress.read(cursor) for _ in range(cursor.count(_ADDRESS_BYTES)))
    message = TakenUp(topic, topics, addresses)
    message._check(MalformedMessage)
    return message


register(ids.TAKEN_UP, _taken_up)
