"""A topic, the transactions that wrote it, and what a reader of either isolation has to see of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Producer

from tests.differential.batches import Record
from tests.differential.transactional import add_partitions, end, init
from tests.differential.wire import Connection

COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
"""What a program of Spark's sets to see nothing but what was committed."""

# The largest record fits, in a batch of its own.
_PRODUCER: Final = {"message.max.bytes": 2_000_000, "batch.size": 50_000, "linger.ms": 0}

Place = tuple[int, int]
"""Partition and offset."""
Seen = dict[tuple[str, int], list[tuple[int, Record]]]
"""As `as_records`: by topic and partition, offsets and records."""


class Transactions:
    """All that was written into one topic, by several producers, and how each transaction has ended."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self._all: dict[Place, Record] = {}
        self._aborted: set[Place] = set()
        self._open: list[Transaction] = []
        self._plain = Producer({"bootstrap.servers": bootstrap, **_PRODUCER})

    def put(self, records: Sequence[Record], partition: int = 0) -> None:
        """Records of no transaction."""
        self._all |= _sent(self._plain, self.topic, partition, records)

    def begin(self, name: str) -> Transaction:
        """One more transaction, by a producer of its own, of that `transactional.id`."""
        begun = Transaction(self, name)
        self._open.append(begun)
        return begun

    def committed(self, records: Sequence[Record], *partitions: int) -> None:
        """A whole transaction that writes the same into each of the partitions, and is committed."""
        self._whole(records, partitions).commit()

    def aborted(self, records: Sequence[Record], *partitions: int) -> None:
        self._whole(records, partitions).abort()

    def _whole(self, records: Sequence[Record], partitions: Sequence[int]) -> Transaction:
        begun = self.begin(f"{self.topic}-whole")
        for partition in partitions:
            begun.put(records, partition)
        return begun

    def add(self, places: dict[Place, Record]) -> None:
        self._all |= places

    def ended(self, transaction: Transaction, *, committed: bool) -> None:
        self._open.remove(transaction)
        if not committed:
            self._aborted |= transaction.places.keys()

    @property
    def everything(self) -> Seen:
        """What read_uncommitted sees."""
        return self._seen(self._all.keys())

    @property
    def stable(self) -> Seen:
        """What read_committed sees: nothing that was aborted, nothing at or behind what is open."""
        first: dict[int, int] = {}
        for partition, offset in sorted(place for one in self._open for place in one.places):
            first.setdefault(partition, offset)
        return self._seen(
            (partition, offset)
            for partition, offset in self._all.keys() - self._aborted
            if partition not in first or offset < first[partition]
        )

    def _seen(self, places: Any) -> Seen:
        found: Seen = {}
        for partition, offset in sorted(places):
            found.setdefault((self.topic, partition), []).append((offset, self._all[partition, offset]))
        return found


class Transaction:
    """One that is open until it is told how to end."""

    def __init__(self, of: Transactions, name: str) -> None:
        self._of = of
        self.places: dict[Place, Record] = {}
        settings = {"transactional.id": name, "transaction.timeout.ms": 600_000, **_PRODUCER}
        self._settings = {"bootstrap.servers": of.bootstrap, **settings}
        self._producer = Producer(self._settings)
        self._producer.init_transactions()
        self._producer.begin_transaction()

    def put(self, records: Sequence[Record], partition: int = 0) -> None:
        """The records are durable in the partition once this returns."""
        places = _sent(self._producer, self._of.topic, partition, records)
        self.places |= places
        self._of.add(places)

    def commit(self) -> None:
        """Readers see it once this returns."""
        self._producer.commit_transaction()
        self._await_markers()
        self._of.ended(self, committed=True)

    def abort(self) -> None:
        """Readers go on behind it once this returns."""
        self._producer.abort_transaction()
        self._await_markers()
        self._of.ended(self, committed=False)

    def _await_markers(self) -> None:
        # An end is answered when it is decided; who takes the id over is answered when it is carried out.
        Producer(self._settings).init_transactions()


def marker_alone(bootstrap: str, topic: str, partition: int, name: str) -> None:
    """A transaction that has a partition and never wrote to it: only its end is in the log."""
    with Connection(bootstrap) as connection:
        begun = connection.ask(init(name))
        assert begun.error_code == 0, begun
        ids = (name, begun.producer_id, begun.producer_epoch)
        added = connection.ask(add_partitions(*ids, {topic: [partition]}))
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0, added
        ended = connection.ask(end(*ids))
        assert ended.error_code == 0, ended


def _sent(producer: Producer, topic: str, partition: int, records: Sequence[Record]) -> dict[Place, Record]:
    places: dict[Place, Record] = {}

    def done(error: Any, message: Any, record: Record) -> None:
        assert error is None, error
        places[partition, message.offset()] = record

    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition,
            timestamp=record.timestamp,
            headers=list(record.headers) or None,
            on_delivery=lambda error, message, record=record: done(error, message, record),
        )
    assert producer.flush(60) == 0
    assert len(places) == len(records), "a record was not acknowledged"
    return places
