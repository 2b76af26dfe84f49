"""What a Python client has to be able to do; its folder's adapter says it in the client's own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from python_client.doors import Door

SECONDS = 60.0
"""Patience for one step on a loaded machine; nothing here waits for it."""
LARGE_REQUEST_BYTES = 4_000_000
"""What a producer may send at once: more than a topic takes, so that the server has to refuse."""
SESSION_MS = 6000
"""Of members of groups: the least that Apache Kafka allows."""
TRANSACTION_MS = 60_000
"""A transaction that is open for longer is aborted."""

Header = tuple[str, bytes | None]


class NotInThisClient(Exception):
    """The client has no such thing."""


@dataclass(frozen=True)
class Record:
    """One record; `timestamp` in milliseconds, None for the producer's clock. Read ones have an offset."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = -1


class Producer(Protocol):
    """Its calls are those of every client."""

    def send(self, topic: str, record: Record) -> Callable[[], int]:
        """Hand it over; the answer waits for the acknowledgement and is the offset, or raises."""

    def flush(self) -> None: ...

    def close(self) -> None: ...


class TransactionalProducer(Producer, Protocol):
    """A producer with a transactional id, initialised: what the id had open before is aborted."""

    def begin(self) -> None: ...

    def send_offsets(self, membership: object, topic: str, offsets: Mapping[int, int]) -> None:
        """By partition; `membership` is that of the consumer that has read up to there."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Consumer(Protocol):
    """Reads by assignment, or as a member of a group."""

    def assign(self, topic: str, partitions: Sequence[int]) -> None: ...

    def subscribe(self, topic: str) -> None: ...

    def poll(self, seconds: float) -> list[Record]: ...

    def owned(self) -> set[int]:
        """Partitions now."""

    def seek(self, topic: str, partition: int, offset: int) -> None: ...

    def seek_to_beginning(self, topic: str, partition: int) -> None: ...

    def seek_to_end(self, topic: str, partition: int) -> None:
        """And know where that is when it returns."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset and the one after the last."""

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int | None:
        """Of the first record at or after that time."""

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """And wait until it is."""

    def committed(self, topic: str, partition: int) -> int | None: ...

    def membership(self) -> object:
        """Of its group, now: for the offsets of a transaction."""

    def close(self) -> None: ...


class Admin(Protocol):
    """Each call returns when the server has done it, or raises."""

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None: ...

    def topics(self) -> set[str]: ...

    def partitions(self, topic: str) -> int:
        """How many a topic has. Raises KeyError for one that is not there."""

    def configs(self, topic: str) -> dict[str, str]: ...

    def alter(self, topic: str, configs: Mapping[str, str]) -> None: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """The first offset that is left."""

    def delete(self, topic: str) -> None: ...

    def close(self) -> None: ...


class Adapter(Protocol):
    """A client. `can_be_idempotent` tells whether its producer can, `tells_membership` whether offsets of a
    transaction say whose they are (KIP-447).
    """

    @property
    def can_be_idempotent(self) -> bool: ...

    @property
    def tells_membership(self) -> bool: ...

    @property
    def best_mechanism(self) -> str:
        """Of those by which it comes in with a password."""

    def secured(self, door: Door) -> Adapter:
        """The same client, which comes in there."""

    def refusal(self, error: Exception) -> str:
        """Which it means: AUTHENTICATION, CERTIFICATE, or none of them."""

    def producer(self, *, codec: str = "none", idempotent: bool = False, linger_ms: int = 0) -> Producer:
        """Acknowledged by all; sends again, in order; takes LARGE_REQUEST_BYTES; idempotent if it can be."""

    def transactional(self, name: str, *, timeout_ms: int = TRANSACTION_MS) -> TransactionalProducer:
        """Of this transactional id."""

    def consumer(
        self, group: str | None = None, *, auto_commit: bool = False, read_committed: bool = False
    ) -> Consumer:
        """Reads from the beginning where nothing else is said; SESSION_MS; commits often where asked to."""

    def admin(self) -> Admin: ...

    def error_code(self, error: Exception) -> int | None:
        """Kafka's number of an error that the client raised."""

    def is_fenced(self, error: Exception) -> bool:
        """Whether it says that the producer is over: another one has its id, or its transaction timed out."""

    def is_stale_member(self, error: Exception) -> bool:
        """Whether it says that offsets are of a member that is none any more."""
