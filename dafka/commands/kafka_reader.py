"""Records of Kafka topics, read by partition and offset from any Kafka: for commands, and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dafka.commands.cluster import FETCH_BYTES, FETCH_VERSION, READ_COMMITTED, READ_UNCOMMITTED, Cluster
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import error_name
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import REQUEST_CLASSES
from wireproto.records.batch import read_header
from wireproto.records.control import read_marker
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader
from wireproto.records.iteration import iter_records

NAMES_UNTIL: Final = 12
"""The last version of Fetch that names topics: whoever reads has no use for their ids."""

LENGTH_AT: Final = 8
LENGTH_ENDS: Final = 12
"""Where a batch says how many bytes follow."""

MOVING: Final = frozenset({"NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH"})
"""Over in a moment, most likely: the leader is looked for again."""

Position = tuple[str, int]
"""A topic's name, and a partition's number."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record where it lies. `timestamp` is in milliseconds since 1970, -1 for none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaReader:
    """Goes through partitions, each from an offset on; the position after what was read is in `positions`.

    Records of transactions are read whether they were committed or not; with READ_COMMITTED only those that
    were, up to the oldest transaction that is open. Everything raises KafkaTrouble, and CommandFailed where
    the server refuses.
    """

    def __init__(
        self, cluster: Cluster, starts: Mapping[Position, int], isolation_level: int = READ_UNCOMMITTED
    ) -> None:
        self.positions = dict(starts)
        self.ends: dict[Position, int] = {}
        """The high watermarks, or last stable offsets, as the last answer of each partition had them."""
        self._isolation_level = isolation_level
        self._cluster = cluster
        self._leaders: dict[Position, int] = {}

    def at_end(self) -> bool:
        """Whether every partition is read up to its end as it was last seen."""
        return all(self.ends.get(one, -1) <= position for one, position in self.positions.items()) and len(
            self.ends
        ) == len(self.positions)

    def poll(self, wait_ms: int) -> list[StoredRecord]:
        """The next records, by partition and offset; none if none come within `wait_ms` milliseconds."""
        found: list[StoredRecord] = []
        for where, first, batch in self.poll_batches(wait_ms):
            try:
                found += _records(where, first, batch)
            except InvalidBatch as error:
                base = read_header(batch).base_offset
                raise CommandFailed(f"{where[0]}-{where[1]}, batch at offset {base}: {error}") from error
        return found

    def poll_batches(self, wait_ms: int) -> list[tuple[Position, int, memoryview]]:
        """As `poll`, the batches as they are, and the first offset in each that was not read before."""
        found: list[tuple[Position, int, memoryview]] = []
        for node_id, partitions in self._by_leader().items():
            for topic, partition in self._fetch(node_id, partitions, wait_ms):
                found += self._take((topic, partition.partition_index), partition)
        return found

    def _by_leader(self) -> dict[int, list[Position]]:
        if missing := {topic for topic, index in self.positions if (topic, index) not in self._leaders}:
            for topic in self._cluster.metadata(sorted(missing)).topics:
                if topic.error_code:
                    raise CommandFailed(f"{topic.name}: {error_name(topic.error_code)}")
                for partition in topic.partitions:
                    self._leaders[topic.name, partition.partition_index] = partition.leader_id
        nodes: dict[int, list[Position]] = {}
        for position in self.positions:
            if position not in self._leaders:
                raise CommandFailed(f"{position[0]} has no partition {position[1]}")
            nodes.setdefault(self._leaders[position], []).append(position)
        return nodes

    def _fetch(self, node_id: int, partitions: Iterable[Position], wait_ms: int) -> list[tuple[str, Any]]:
        client = self._cluster.leader(node_id)
        answer = client.ask(
            ApiKey.FETCH,
            min(client.version(ApiKey.FETCH, FETCH_VERSION), NAMES_UNTIL),
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=50 * FETCH_BYTES,
            isolation_level=self._isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[*self._asked(partitions)],
            forgotten_topics_data=[],
            rack_id="",
        )
        if answer.error_code:
            raise CommandFailed(f"cannot read: {error_name(answer.error_code)}")
        return [(topic.topic, partition) for topic in answer.responses for partition in topic.partitions]

    def _asked(self, partitions: Iterable[Position]) -> Iterator[Any]:
        request: Any = REQUEST_CLASSES[ApiKey.FETCH]
        by_topic: dict[str, list[Any]] = {}
        for topic, index in partitions:
            by_topic.setdefault(topic, []).append(
                request.FetchTopic.FetchPartition(
                    partition=index,
                    current_leader_epoch=-1,
                    fetch_offset=self.positions[topic, index],
                    partition_max_bytes=FETCH_BYTES,
                )
            )
        for topic, wanted in by_topic.items():
            yield request.FetchTopic(topic=topic, partitions=wanted)

    def _take(self, where: Position, partition: Any) -> Iterator[tuple[Position, int, memoryview]]:
        if partition.error_code:
            name = error_name(partition.error_code)
            if name not in MOVING:
                raise CommandFailed(f"{where[0]}-{where[1]} from offset {self.positions[where]}: {name}")
            self._leaders.pop(where, None)
            return
        is_committed = self._isolation_level == READ_COMMITTED
        self.ends[where] = partition.last_stable_offset if is_committed else partition.high_watermark
        aborted = AbortedProducers(partition.aborted_transactions or () if is_committed else ())
        for batch in whole_batches(bytes(partition.records or b"")):
            header = read_header(batch)
            is_aborted = aborted.have(header, batch)
            if header.last_offset < self.positions[where]:
                continue
            first, self.positions[where] = self.positions[where], header.last_offset + 1
            if not header.is_control and not is_aborted:
                yield where, first, batch


class AbortedProducers:
    """Whose transactions were aborted, as one goes through the batches of an answer
    (`CompletedFetch.consumeAbortedTransactionsUpTo`).
    """

    def __init__(self, listed: Iterable[Any]) -> None:
        """`listed`: the `aborted_transactions` of the answer."""
        self._to_come = sorted(((one.first_offset, one.producer_id) for one in listed), reverse=True)
        self._aborted: set[int] = set()

    def have(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether this batch, which follows the ones before, is part of an aborted transaction. Raises
        CommandFailed for a marker that cannot be read.
        """
        while self._to_come and self._to_come[-1][0] <= header.last_offset:
            self._aborted.add(self._to_come.pop()[1])
        if not header.is_control:
            return header.is_transactional and header.producer_id in self._aborted
        if header.producer_id in self._aborted:
            try:
                if not read_marker(batch).is_commit:
                    self._aborted.discard(header.producer_id)
            except InvalidBatch as error:
                raise CommandFailed(f"the marker at offset {header.base_offset}: {error}") from error
        return False


def _records(where: Position, first: int, batch: memoryview) -> Iterator[StoredRecord]:
    """The records of a batch from an offset on. Raises InvalidBatch."""
    for record in iter_records(batch):
        if record.offset >= first:
            yield StoredRecord(
                *where, record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
            )


def whole_batches(records: bytes) -> Iterator[memoryview]:
    """The batches of a partition in an answer; what was cut off at its end is left out."""
    view, position = memoryview(records), 0
    while position + LENGTH_ENDS <= len(view):
        size = LENGTH_ENDS + int.from_bytes(view[position + LENGTH_AT : position + LENGTH_ENDS])
        if position + size > len(view):
            return
        yield view[position : position + size]
        position += size
