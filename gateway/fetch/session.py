"""One fetch session (KIP-227): which partitions a client reads, and what it was told of each. Pure.

A client with a session names a partition again only when it asks for something else of it, and is answered
about a partition only when there is something new (`FetchSession`, `CachedPartition` in Kafka's
`FetchSession.scala`). Kafka looks at all partitions of the session in each Fetch. Here a session knows which
ones are *active*: those may have something to tell, all others said that they will call
(`SessionPartition.advanced`) when they have. So a Fetch costs what its active partitions cost, however many
the session has.

    active  --read, and nothing is there: it is armed--> idle  --the log calls--> active
    idle    --the client names it again--> active

Partitions have an order: they are read in it, and one that gave records goes to its end. So an answer that is
too small for all of them starves none.

Nothing here refers to the bytes of a request: a session lives for days.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from gateway.common.clients import NOBODY
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.fetch import FetchPartition

PARTITION_BYTES: Final = 768
"""Memory that a partition takes in a session, rounded up (670 measured): what was asked, what was told, and
its places here and at the log."""

TOPIC_BYTES: Final = 512
"""Memory that a topic takes in a session besides its name, rounded up."""

NOTHING_TOLD: Final = -1
"""High watermark and log start of a partition whose client knows neither."""

FORGOTTEN: Final = -1
"""Place of a partition that left its session."""

TopicKey = str | bytes
"""A topic's name up to Fetch 12, its id from 13 on."""


class SessionTopic:
    """One topic of a session. `name` is its own, as far as it is known: clients may give only its id."""

    __slots__ = ("key", "name", "partitions")

    def __init__(self, key: TopicKey) -> None:
        self.key = key
        self.name = key if isinstance(key, str) else None
        self.partitions: dict[int, SessionPartition] = {}


class SessionReader(Protocol):
    """The Fetch that reads a session now."""

    def called(self, partition: SessionPartition, /) -> None:
        """A partition became active."""

    def hurry(self) -> None:
        """Do not wait for more."""


class SessionPartition:
    """One partition of a session: what the client asked last (`ask`) and what it was told last."""

    __slots__ = ("armed", "ask", "high_watermark", "log_start_offset", "place", "session", "source", "topic")

    def __init__(self, session: FetchSession, topic: SessionTopic, ask: FetchPartition, place: int) -> None:
        self.session = session
        self.topic = topic
        self.ask = ask
        self.place = place
        self.high_watermark = NOTHING_TOLD
        self.log_start_offset = NOTHING_TOLD
        self.source: Any = None
        """The log's partition; None while there is none. Nothing is asked of it here."""
        self.armed = False
        """The log will call `advanced` once, at its partition's next change."""

    def advanced(self, _source: Any = None, /) -> None:
        """Something of the log's partition is not as it was when this was armed."""
        self.armed = False
        session = self.session
        if not session.closed:
            session.active.add(self)
            if session.reader is not None:
                session.reader.called(self)

    def tell(self, high_watermark: int, log_start_offset: int, size: int, error: int) -> bool:
        """Whether the client is to be told this, which counts as told from then on
        (`CachedPartition.maybeUpdateResponseData`).

        `size`: bytes of records. What comes with an error is -1 each, so that it is told when the error goes.
        """
        changed = (
            size > 0
            or error != ErrorCode.NONE
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
        )
        self.high_watermark = NOTHING_TOLD if error != ErrorCode.NONE else high_watermark
        self.log_start_offset = log_start_offset
        return changed


class FetchSession:
    """The partitions of one client. `bytes` is the memory that they take.

    Topics go by name or by id: `by_id` says which, and a Fetch of the other kind does not fit
    (FETCH_SESSION_TOPIC_ID_ERROR).
    """

    __slots__ = (
        "_next_place",
        "active",
        "basis",
        "by_id",
        "bytes",
        "client",
        "closed",
        "counted_bytes",
        "counted_size",
        "created_ms",
        "epoch",
        "id",
        "isolation",
        "last_used_ms",
        "privileged",
        "reader",
        "size",
        "topics",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        now_ms: float,
        *,
        by_id: bool,
        privileged: bool = False,
        client: str = NOBODY,
    ) -> None:
        self.id = session_id
        self.client = client
        """Whose it is (`gateway.common.clients`)."""
        self.by_id = by_id
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = 1
        """The session epoch that the next Fetch has."""
        self.isolation = 0
        """The isolation level of the last Fetch: what was idle under it need not be under another one."""
        self.basis: object = None
        """What the client of the last Fetch might do (`Access.basis`): what is idle is not asked about."""
        self.topics: dict[TopicKey, SessionTopic] = {}
        self.size = 0
        """How many partitions it has."""
        self.bytes = 0
        self.active: set[SessionPartition] = set()
        self.closed = False
        self.reader: SessionReader | None = None
        self.counted_size = 0
        self.counted_bytes = 0
        """What the cache has counted for it."""
        self._next_place = 0

    def name(self, key: TopicKey, ask: FetchPartition) -> SessionPartition:
        """The client asks for a partition, anew or with other values; it is active."""
        topic = self.topics.get(key)
        if topic is None:
            topic = self.topics[key] = SessionTopic(key)
            self.bytes += TOPIC_BYTES + len(key)
        partition = topic.partitions.get(ask.index)
        if partition is None:
            partition = topic.partitions[ask.index] = SessionPartition(self, topic, ask, self._place())
            self.size += 1
            self.bytes += PARTITION_BYTES
        else:
            partition.ask = ask
        self.active.add(partition)
        return partition

    def forget(self, key: TopicKey, index: int) -> SessionPartition | None:
        """The client does not want a partition any more: the one that left, or None if it was not there."""
        topic = self.topics.get(key)
        if topic is None:
            return None
        partition = topic.partitions.pop(index, None)
        if partition is None:
            return None
        partition.place = FORGOTTEN
        self.size -= 1
        self.bytes -= PARTITION_BYTES
        self.active.discard(partition)
        if not topic.partitions:
            del self.topics[key]
            self.bytes -= TOPIC_BYTES + len(key)
        return partition

    def close(self) -> None:
        """No further Fetch goes on with it; one that waits is answered."""
        self.closed = True
        self.active.clear()
        if self.reader is not None:
            self.reader.hurry()

    def gave_records(self, partition: SessionPartition) -> None:
        """The next answer has room for the others first."""
        partition.place = self._place()

    def used(self) -> None:
        """A Fetch of the present epoch came (`FetchMetadata.nextEpoch`)."""
        self.epoch = next_epoch(self.epoch)

    def __iter__(self) -> Iterator[SessionPartition]:
        """Every partition, in no order that matters."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def _place(self) -> int:
        self._next_place += 1
        return self._next_place


def place_of(partition: SessionPartition) -> int:
    """For sorting partitions into their session's order."""
    return partition.place


LAST_EPOCH: Final = 2**31 - 1
"""After it comes 1: 0 begins a session."""


def next_epoch(epoch: int) -> int:
    """The epoch of the Fetch after that of `epoch`."""
    return 1 if epoch == LAST_EPOCH else epoch + 1
