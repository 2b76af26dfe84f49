"""The order of writes to one partition of an internal topic: one batch is on its way, the next one collects.

Pure. Rules: writes reach the log in the order in which they were added; the records of one write are in one
batch, so a crash keeps all of them or none; a write is settled once, in the same order.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, TypeAlias

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.log.idempotence.guards import Guard
from wireproto.kafka.errors import KafkaError

MAX_BATCH_BYTES: Final = 64 * 1024
"""Writes share a batch up to here, some 500 commits; one that is larger has a batch of its own. The batches
of all 50 partitions of a topic together then take 3 MiB of what may be on its way to the stores."""

RECORD_OVERHEAD_BYTES: Final = 24
"""Bytes of a record beside its key and value, rounded up: its length, attributes, deltas, and their
lengths."""

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""Key and value of a record; no value is a tombstone."""


def size_of(record: KeyValue) -> int:
    """Bytes that a record takes in a batch at most."""
    key, value = record
    return len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class TransactionOf:
    """The producer whose transaction a write is part of; and what must hold in the partition if that is to
    begin with it. `client` has sent it.
    """

    producer_id: int
    producer_epoch: int
    guard: Guard
    client: str = field(default=NOBODY, compare=False)


class Write:
    """Records that are written together. `settled` is called once: with None when they are durable, else with
    why they are not, or may not be. One without records waits for those before it.

    `part_of`: the transaction that the records are part of, or the marker that ends one (it has no records);
    `repeats`: that marker is in the log already, or a later one of the producer is.
    """

    __slots__ = ("part_of", "records", "repeats", "settled", "size")

    def __init__(
        self,
        records: Sequence[KeyValue],
        settled: Callable[[KafkaError | None], None],
        size: int | None = None,
        part_of: TransactionOf | Marker | None = None,
    ) -> None:
        self.records = records
        self.settled = settled
        self.part_of = part_of
        self.repeats = False
        self.size = sum(map(size_of, records)) if size is None else size

    @property
    def is_large(self) -> bool:
        """Whether it is more than others may share a batch with."""
        return self.size > MAX_BATCH_BYTES


NOTHING_REFUSED: Final[Mapping[Write, KafkaError]] = {}


def runs(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """Writes that may share a batch: those of no transaction, or of one. Each marker is alone."""
    for _, run in groupby(enumerate(writes), key=_shares_with):
        yield [write for _, write in run]


def _shares_with(numbered: tuple[int, Write]) -> object:
    number, write = numbered
    return (number, write.part_of) if isinstance(write.part_of, Marker) else write.part_of


class Lane:
    """The writes of one partition."""

    __slots__ = ("_in_flight", "_waiting", "waiting_bytes")

    def __init__(self) -> None:
        self._waiting: OrderedDict[Write, None] = OrderedDict()  # so that any of them is found at once
        self._in_flight: list[Write] = []
        self.waiting_bytes = 0
        """The bytes of the writes that are not on their way yet."""

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way, and nothing waits."""
        return not self._in_flight and not self._waiting

    @property
    def large_bytes(self) -> int:
        """The bytes of the writes, waiting or on their way, that are too large to share a batch."""
        return sum(w.size for writes in (self._waiting, self._in_flight) for w in writes if w.is_large)

    def add(self, write: Write) -> bool:
        """Another write, behind all that were added before; whether nothing is on its way, so that it can be
        taken.
        """
        self._waiting[write] = None
        self.waiting_bytes += write.size
        return not self._in_flight

    def take(self) -> list[Write]:
        """The next writes, which are on their way from now on, in one batch as far as they may share one
        (`runs`); none if some are already, or nothing waits.
        """
        if self._in_flight:
            return []
        batch, waiting = self._in_flight, self._waiting
        room = MAX_BATCH_BYTES
        while waiting and (not batch or next(iter(waiting)).size <= room):
            write, _ = waiting.popitem(last=False)
            room -= write.size
            self.waiting_bytes -= write.size
            batch.append(write)
        return batch

    def settle(self, refused: Mapping[Write, KafkaError] = NOTHING_REFUSED) -> None:
        """What was on its way is durable, but for what was refused: its writes are settled."""
        done, self._in_flight = self._in_flight, []
        for write in done:
            write.settled(refused.get(write))

    def drop(self, error: KafkaError) -> None:
        """Nobody knows what becomes of the batch on its way: it and all that waits are settled with an
        error.
        """
        waiting, self._waiting = self._waiting, OrderedDict()
        in_flight, self._in_flight = self._in_flight, []
        self.waiting_bytes = 0
        for write in (*in_flight, *waiting):
            write.settled(error)

    def withdraw(self, write: Write, error: KafkaError) -> None:
        """Settle a write with an error if it is not on its way yet: then it never will be."""
        if write in self._waiting:
            del self._waiting[write]
            self.waiting_bytes -= write.size
            write.settled(error)
