"""The order of writes to one partition of an internal topic: one batch is on its way, the next one collects.

Pure. Rules: writes of one client reach the log in the order in which they were added, and clients have turns,
so that nobody waits for all that another one has asked for; the records of one write are in one batch, so a
crash keeps all of them or none; a write is settled once, in the order of the log.

Whose writes have to be in order whoever sends them (a group's) have the turns of nobody, all of them. What a
lane may have waiting is shared as in `gateway.common.shares`, by who has sent it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from typing import Final, TypeAlias

from gateway.common.clients import NOBODY
from gateway.common.marker import Marker
from gateway.common.shares import Shares
from gateway.log.idempotence.guards import Guard
from wireproto.kafka.errors import KafkaError

MAX_BATCH_BYTES: Final = 64 * 1024
"""Writes share a batch up to here, some 500 commits; one that is larger has a batch of its own. The batches
of all 50 partitions of a topic together then take 3 MiB of what may be on its way to the stores."""

MAX_WAITING_BYTES: Final = 1024 * 1024
"""Writes to one partition that wait for the batch before them: some 8,000 commits, of which one client may
have half of what others leave; those that are too large to share a batch are counted apart. Beyond it they
are refused with COORDINATOR_NOT_AVAILABLE, which clients retry."""

MAX_BATCH_WRITES: Final = 1024
"""Writes that go at once. Markers have no records, and each is appended by itself: some 30 us each."""

MAX_WAITING_MARKERS: Final = 4096
"""Markers that wait for one partition: a coordinator has 64 of them on their way, and others may send as many
as they like. Beyond it they are refused as above."""

ANYBODYS_BYTES: Final = MAX_WAITING_BYTES // 4
"""As long as no more waits there is no need to know whose it is: alone one client may have half."""

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
    `repeats`: that marker is in the log already, or a later one of the producer is. It has the turns of
    `client`, and takes from what of the client `sender` may wait.
    """

    __slots__ = (
        "client",
        "is_large",
        "number",
        "part_of",
        "records",
        "repeats",
        "sender",
        "settled",
        "size",
        "waits_for_all",
    )

    def __init__(
        self,
        records: Sequence[KeyValue],
        settled: Callable[[KafkaError | None], None],
        size: int | None = None,
        part_of: TransactionOf | Marker | None = None,
        client: str = NOBODY,
        sender: str | None = None,
    ) -> None:
        self.client = client
        self.sender = client if sender is None else sender
        self.number = 0
        """In the order in which they were added to their lane."""
        self.records = records
        self.settled = settled
        self.part_of = part_of
        self.repeats = False
        self.size = sum(map(size_of, records)) if size is None else size
        self.is_large = self.size > MAX_BATCH_BYTES
        """Whether it is more than others may share a batch with."""
        self.waits_for_all = not records and part_of is None
        """Whether it comes behind all that was added before, whoever asks for that."""


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

    __slots__ = ("_added", "_in_flight", "_large", "_shares", "_waiting", "waiting_bytes", "waiting_markers")

    def __init__(self) -> None:
        self._added = 0
        self._waiting: OrderedDict[str, OrderedDict[Write, None]] = OrderedDict()
        """By client, the one whose turn is next first; so that any of them is found at once."""
        self._in_flight: list[Write] = []
        self.waiting_bytes = 0
        """The bytes of the writes that are not on their way yet."""
        self.waiting_markers = 0
        """The markers among these."""
        self._shares = Shares(MAX_WAITING_BYTES)
        """Those of them that may share a batch."""
        self._large: dict[str, int] = {}
        """By client, those of the writes, waiting or on their way, that may not: each write that is as large
        is admitted by them, when thousands of small ones may wait.
        """

    def has_room(self, client: str, size: int) -> bool:
        """Whether so many bytes more of this client may wait here, in a write that may share a batch."""
        # As long as little waits it is within anybody's share.
        return self.waiting_bytes + size <= ANYBODYS_BYTES or self._shares.has_room(client, size)

    @property
    def has_room_for_marker(self) -> bool:
        """Whether another marker may wait here."""
        return self.waiting_markers < MAX_WAITING_MARKERS

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way, and nothing waits."""
        return not self._in_flight and not self._waiting

    def large_bytes(self, client: str | None = None) -> int:
        """The bytes of the writes, waiting or on their way, that are too large to share a batch; only those
        of this client, if one is named.
        """
        return sum(self._large.values()) if client is None else self._large.get(client, 0)

    def add(self, write: Write) -> bool:
        """Another write, behind all of its client that were added before; whether nothing is on its way, so
        that it can be taken.
        """
        self._added += 1
        write.number = self._added
        self._waiting.setdefault(write.client, OrderedDict())[write] = None
        self._count(write, 1)
        if write.is_large:
            self._count_large(write, write.size)
        return not self._in_flight

    def take(self) -> list[Write]:
        """The next writes, one of each client in turn, which are on their way from now on, in one batch as
        far as they may share one (`runs`); none if some are already, or nothing waits.
        """
        if self._in_flight:
            return []
        batch, waiting = self._in_flight, self._waiting
        room = MAX_BATCH_BYTES
        while waiting:
            client, of_client = next(iter(waiting.items()))
            write = next(iter(of_client))
            if write.waits_for_all and self._is_before(write):
                waiting.move_to_end(client)
                continue
            if batch and (write.size > room or len(batch) >= MAX_BATCH_WRITES):
                break
            room -= write.size
            self._remove(write)
            if of_client:
                waiting.move_to_end(client)
            batch.append(write)
        return batch

    def _is_before(self, write: Write) -> bool:
        """Whether something waits that was added before this one."""
        return any(next(iter(of_client)).number < write.number for of_client in self._waiting.values())

    def _remove(self, write: Write) -> None:
        of_client = self._waiting[write.client]
        del of_client[write]
        if not of_client:
            del self._waiting[write.client]
        self._count(write, -1)

    def _count(self, write: Write, more: int) -> None:
        """It waits from now on (1), or no more (-1)."""
        self.waiting_bytes += more * write.size
        if isinstance(write.part_of, Marker):
            self.waiting_markers += more
        elif not write.is_large:
            self._shares.charge(write.sender, more * write.size)

    def _count_large(self, write: Write, size: int) -> None:
        left = self._large.get(write.sender, 0) + size
        if left:
            self._large[write.sender] = left
        else:
            del self._large[write.sender]

    def settle(self, refused: Mapping[Write, KafkaError] = NOTHING_REFUSED) -> None:
        """What was on its way is durable, but for what was refused: its writes are settled."""
        done, self._in_flight = self._in_flight, []
        for write in done:
            if write.is_large:
                self._count_large(write, -write.size)
        for write in done:
            write.settled(refused.get(write))

    def drop(self, error: KafkaError) -> None:
        """Nobody knows what becomes of the batch on its way: it and all that waits are settled with an
        error.
        """
        waiting = sorted(chain.from_iterable(self._waiting.values()), key=attrgetter("number"))
        self._waiting = OrderedDict()
        self._shares, self.waiting_bytes, self.waiting_markers = Shares(MAX_WAITING_BYTES), 0, 0
        self._large = {}
        in_flight, self._in_flight = self._in_flight, []
        for write in (*in_flight, *waiting):
            write.settled(error)

    def withdraw(self, write: Write, error: KafkaError) -> None:
        """Settle a write with an error if it is not on its way yet: then it never will be."""
        if write in self._waiting.get(write.client, ()):
            self._remove(write)
            if write.is_large:
                self._count_large(write, -write.size)
            write.settled(error)
