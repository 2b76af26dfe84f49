"""What becomes of transactions where a restore cuts logs short: all end, and no producer's epoch is behind
the data. Pure.

All of a backup is of one moment, so its transactions are whole. A restore to an earlier time, or one that
accepts a loss, ends each log at a place of its own. The rules:

* `__transaction_state` is kept whatever the time is. So every coordinator knows the last epochs of its
  producers, and those who were there before come back as after any failure, by InitProducerId;
* a transaction that is open at a log's end is aborted there, by a marker that the restore appends, unless its
  coordinator as restored still has it and ends it;
* a coordinator aborts what has lost a part: a transaction that is open and has written to a log that is cut,
  or before a hole behind which its log begins, and one that was decided to be committed after the time that
  is restored. So none is committed in part by a producer that is still there;
* where the end of `__transaction_state` itself is lost, what was open or decided there is aborted: how it
  ended is not known. None of its producers goes on: the next ones get other producer ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dafka.backup.appended import batched
from gateway.journal.fields import MalformedRecord, UnknownRecord
from gateway.log.idempotence.state import ProducerState
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.lost_end import fenced_for_good
from gateway.transactions.metadata import (
    NO_EPOCH,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from gateway.transactions.records import decode_record, transaction_key, transaction_value
from wireproto.records.batch import assign_offsets
from wireproto.records.control import EndMarker, marker_batch
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import NO_TIMESTAMP, Buffer, read_header
from wireproto.records.keyed import keyed_records
from wireproto.records.row import row_of

TRANSACTIONS_TOPIC: Final = TRANSACTION_TOPIC

RECORDS_IN_BATCH: Final = 50
"""Ids in one batch: a transaction of many partitions is some kilobytes."""


class States:
    """What a partition of `__transaction_state` says in the end."""

    def __init__(self) -> None:
        self.by_id: dict[str, TransactionMetadata] = {}

    def feed(self, batches: Iterable[Buffer]) -> None:
        """The next batches of it. What cannot be read is passed over, as the gateway does that loads it."""
        for batch in batches:
            try:
                records = [] if read_header(batch).is_control else keyed_records(batch)
            except InvalidBatch:
                continue
            for _, key, value in records:
                try:
                    record = decode_record(key, value)
                except (MalformedRecord, UnknownRecord):
                    continue
                self.by_id.pop(record.transactional_id, None)
                if record.metadata is not None:
                    self.by_id[record.transactional_id] = record.metadata


class End:
    """The producers at the end of a partition: the snapshot that its last segment began with, and what is in
    that.
    """

    def __init__(self, snapshot: bytes, now_ms: int) -> None:
        """Raises InvalidSnapshot."""
        self.producers = ProducerState.from_snapshot(snapshot, now_ms) if snapshot else ProducerState()
        self._now_ms = now_ms

    def feed(self, batches: Iterable[Buffer]) -> None:
        """The next batches of its last segment, if that is not compacted: one that is was announced with the
        producers at its end. What cannot be read is passed over.
        """
        for batch in batches:
            try:
                row = row_of(batch, NO_TIMESTAMP)
            except InvalidBatch:
                continue
            self.producers.apply_row(row, self._now_ms)


@dataclass(frozen=True, slots=True)
class Cut:
    """How logs are cut apart. `partitions` lack something at their ends; `stale` are those of
    `__transaction_state` that do. What was appended after `before_ms` is left out; None: no time was asked
    for.
    """

    partitions: Collection[TopicPartition]
    stale: Collection[int]
    before_ms: int | None
    now_ms: int
    begun_before: Collection[int] = ()
    """Producers that have begun a transaction before or in a hole, behind which its partition begins now."""


@dataclass(slots=True)
class Endings:
    """What is appended so that all transactions end: new states of ids, by the partitions of
    `__transaction_state`, and the open transactions that are aborted at the end of each partition, as
    (producer id, its epoch).
    """

    states: dict[int, dict[str, TransactionMetadata]] = field(default_factory=dict)
    aborted: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)


def endings(
    states: Mapping[int, Mapping[str, TransactionMetadata]],
    ends: Mapping[TopicPartition, ProducerState],
    cut: Cut,
) -> Endings:
    """What has to be appended, where `states` are those of all ids, by partition of `__transaction_state`,
    and `ends` the producers at the end of each partition.
    """
    found = Endings()
    epochs = _highest_epochs(ends.values(), cut.now_ms)
    left: dict[int, frozenset[TopicPartition]] = {}
    for index, by_id in states.items():
        for name, known in by_id.items():
            ended = _ended(known, cut, epochs.get(known.producer_id, NO_EPOCH), is_stale=index in cut.stale)
            if ended != known:
                found.states.setdefault(index, {})[name] = ended
            if not ended.is_at_rest:
                left[ended.producer_id] = ended.partitions
    for partition, producers in ends.items():
        for producer_id in producers.open_transactions():
            if partition in cut.partitions or partition not in left.get(producer_id, ()):
                producer = producers.find(producer_id)
                assert producer is not None, "its transaction is open"
                found.aborted.setdefault(partition, []).append((producer_id, producer.epoch))
    return found


def _highest_epochs(ends: Iterable[ProducerState], now_ms: int) -> dict[int, int]:
    """The highest epoch of each producer id that any partition has."""
    highest: dict[int, int] = {}
    for producers in ends:
        for producer_id, producer in producers.active(now_ms):
            highest[producer_id] = max(producer.epoch, highest.get(producer_id, NO_EPOCH))
    return highest


def _ended(
    known: TransactionMetadata, cut: Cut, highest_epoch: int, *, is_stale: bool
) -> TransactionMetadata:
    """What becomes of an id."""
    lost = known.partitions & frozenset(cut.partitions)
    if is_stale:
        ended = fenced_for_good(known, cut.now_ms)
    elif not known.is_at_rest and _has_lost(known, lost, cut):
        ended = replace(
            known,
            state=TransactionState.PREPARE_ABORT,
            producer_epoch=known.fencing_epoch,
            last_producer_epoch=NO_EPOCH,
            last_update_ms=cut.now_ms,
        )
    else:
        ended = known
    if ended.is_prepared:
        ended = replace(ended, partitions=known.partitions - lost)
    if ended.producer_epoch < highest_epoch:
        ended = replace(ended, producer_epoch=highest_epoch, last_producer_epoch=NO_EPOCH)
    return ended


def _has_lost(known: TransactionMetadata, lost: Collection[TopicPartition], cut: Cut) -> bool:
    """Whether a part of its transaction is left out, or the decision to commit it."""
    if known.state is TransactionState.ONGOING:
        return bool(lost) or known.producer_id in cut.begun_before
    is_later = cut.before_ms is not None and known.last_update_ms > cut.before_ms
    return known.state is TransactionState.PREPARE_COMMIT and is_later


def state_batches(
    states: Mapping[str, TransactionMetadata], base_offset: int, leader_epoch: int, now_ms: int
) -> list[bytes]:
    """These ids as batches of a log that goes on at `base_offset`."""
    records = [
        (transaction_key(name), transaction_value(metadata), (), now_ms)
        for name, metadata in sorted(states.items())
    ]
    return batched(records, RECORDS_IN_BATCH, base_offset, leader_epoch)


def abort_batches(
    aborted: Sequence[tuple[int, int]], base_offset: int, leader_epoch: int, now_ms: int
) -> list[bytes]:
    """The markers that abort the transactions of these producers, in a log that goes on at `base_offset`.
    They have the epochs that their transactions have: it is the coordinator that fences.
    """
    made: list[bytes] = []
    for producer_id, epoch in aborted:
        batch = bytearray(marker_batch(producer_id, epoch, EndMarker(False, leader_epoch), now_ms))
        assign_offsets(batch, base_offset + len(made), leader_epoch)
        made.append(bytes(batch))
    return made
