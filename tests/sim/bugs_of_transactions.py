"""Bugs of transactions in partitions, each of which a schedule with transactional producers finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from gateway.common.marker import Marker
from gateway.log.compaction import reading, run
from gateway.log.compaction.transactions import TransactionsGoneThrough
from gateway.log.idempotence import markers, producers, snapshot
from gateway.log.idempotence.ended import EndedTransactions
from gateway.log.idempotence.producer import NOTHING_OPEN, Producer
from gateway.log.idempotence.state import ProducerState
from gateway.log.partition import Partition
from gateway.log.segment import UNKNOWN, Segment
from gateway.log.transactions.aborted_reading import AbortedReader
from gateway.log.transactions.open_transactions import OpenTransactions
from wireproto.records.header import BatchHeader
from wireproto.records.row import Row

Plant = Callable[[], AbstractContextManager[object]]


def _snapshot_without_open_ones() -> AbstractContextManager[object]:
    encode = snapshot.encode

    def forgetful(producers: Any) -> bytes:
        bare = {}
        for key, one in producers.items():
            copy = bare[key] = Producer(one.epoch, one.used_ms, list(one.batches))
            copy.coordinator_epoch, copy.last_offset = one.coordinator_epoch, one.last_offset
            copy.timestamp = one.timestamp
        return encode(bare)

    return patch.object(snapshot, "encode", forgetful)


def _rows_without_markers() -> AbstractContextManager[object]:
    return patch.object(Row, "marker", property(lambda _row: None))


def _marker_lost_at_a_roll() -> AbstractContextManager[object]:
    """The marker that begins a segment counts as covered by its snapshot."""
    load = ProducerState._load_transactions

    def hasty(self: ProducerState) -> None:
        load(self)
        for _, producer in self.active(0):
            producer.last_offset += 1

    return patch.object(ProducerState, "_load_transactions", hasty)


def _stable_when_appended() -> AbstractContextManager[object]:
    def hasty(self: OpenTransactions, high_watermark: int) -> int:
        self._ended.clear()
        self._undecided = self._open.copy()
        return min(high_watermark, next(iter(self._open), high_watermark))

    return patch.object(OpenTransactions, "last_stable_offset", hasty)


def _first_offset_of_the_last_batch() -> AbstractContextManager[object]:
    """An open transaction begins with its newest batch."""
    applied = ProducerState.applied

    def late(self: ProducerState, producer_id: int, *arguments: Any, **more: Any) -> None:
        applied(self, producer_id, *arguments, **more)
        known = self.find(producer_id)
        if known is not None and known.has_open and known.batches:
            before, known.first_offset = known.first_offset, known.batches[-1].base_offset
            for kept in (self.transactions._open, self.transactions._undecided):
                del kept[before]
                kept[known.first_offset] = None

    return patch.object(ProducerState, "applied", late)


def _next_segment_not_asked() -> AbstractContextManager[object]:
    to_ask = AbortedReader._to_ask

    def fewer(self: AbortedReader, partition: Partition, offset: int, end: int) -> Any:
        for segment, of_segment in to_ask(self, partition, offset, end):
            if segment.start_offset >= end:
                return
            yield segment, of_segment

    return patch.object(AbortedReader, "_to_ask", fewer)


def _recovered_segment_has_none() -> AbstractContextManager[object]:
    closed = Segment.closed

    def counted(self: Segment, *arguments: Any, **more: Any) -> Segment:
        made = closed(self, *arguments, **more)
        return replace(made, aborted=0) if made.aborted == UNKNOWN else made

    return patch.object(Segment, "closed", counted)


def _numbers_ignored() -> AbstractContextManager[object]:
    return patch.object(EndedTransactions, "find", lambda _self, _marker: None)


def _coordinator_epoch_ignored() -> AbstractContextManager[object]:
    check = markers.check_marker

    def blind(known: Producer | None, marker: Marker) -> None:
        if known is not None and marker.coordinator_epoch < known.coordinator_epoch:
            marker = marker._replace(coordinator_epoch=known.coordinator_epoch)
        check(known, marker)

    return patch.object(producers, "check_marker", blind)


def _aborted_wins_a_key() -> AbstractContextManager[object]:
    learn = reading.learn

    def all_count(newest: Any, batches: Any, first_dirty: int, _transactions: Any) -> bool:
        return learn(newest, batches, first_dirty, TransactionsGoneThrough())

    return patch.object(run, "learn", all_count)


def _compaction_past_open_ones() -> AbstractContextManager[object]:
    """Compaction takes the high watermark for the last stable offset."""
    from gateway.log.compaction import compactor

    look = compactor.Compaction._look

    async def everything(self: Any, topic: Any, partition: Partition) -> Any:
        stable, partition.last_stable_offset = partition.last_stable_offset, partition.high_watermark
        try:
            return await look(self, topic, partition)
        finally:
            partition.last_stable_offset = stable

    return patch.object(compactor.Compaction, "_look", everything)


def _aborted_records_stay() -> AbstractContextManager[object]:
    def none(_self: TransactionsGoneThrough, _header: BatchHeader) -> bool:
        return False

    return patch.object(TransactionsGoneThrough, "is_aborted", none)


def _open_ones_expire() -> AbstractContextManager[object]:
    """A producer that is idle makes room for others in the middle of its transaction."""
    take_new = ProducerState._take_new

    def anybody(self: ProducerState, *arguments: Any, **more: Any) -> bool:
        if self._is_full(is_short=False):
            producer_id, producer = next(iter(self._producers.items()))
            if producer.has_open:
                self.transactions.end(producer.first_offset, producer.first_offset)
                self._open_of.charge(producer.client, -1)
                producer.first_offset = NOTHING_OPEN
                if self._idle is not None:
                    self._idle.add(producer_id, producer)
                self._forget(producer_id)
        return take_new(self, *arguments, **more)

    return patch.object(ProducerState, "_take_new", anybody)


def _open_one_cut_by_log_start() -> AbstractContextManager[object]:
    """A log start that moves into an open transaction has it forgotten: nothing ends it any more."""
    start_moved = Partition.start_moved

    def forgetful(self: Partition, offset: int, dropped: Any) -> None:
        for _, producer in self.producers.state.active(0):
            if NOTHING_OPEN < producer.first_offset < offset:
                producer.first_offset = NOTHING_OPEN
        start_moved(self, offset, dropped)

    return patch.object(Partition, "start_moved", forgetful)


def _list_before_the_records() -> AbstractContextManager[object]:
    """The aborted transactions are looked up before the records are read, in the chain as it is then."""
    from gateway.log.cold import ColdReader

    async def early(
        self: ColdReader, partition: Partition, offset: int, max_bytes: int
    ) -> tuple[Sequence[Any], Any]:
        if offset >= partition.last_stable_offset:
            return (), []
        aborted = await self._context.aborted.between(partition, offset, partition.last_stable_offset)
        batches = await self.read(partition, offset, max_bytes)
        stable = partition.last_stable_offset
        from wireproto.records.header import read_header

        return [batch for batch in batches if read_header(batch).last_offset < stable], aborted

    return patch.object(ColdReader, "read_committed", early)


TRANSACTION_BUGS: dict[str, Plant] = {
    "snapshot without open transactions": _snapshot_without_open_ones,
    "rows without markers": _rows_without_markers,
    "marker lost at a roll": _marker_lost_at_a_roll,
    "stable when the marker is appended": _stable_when_appended,
    "a transaction begins with its newest batch": _first_offset_of_the_last_batch,
    "aborted list of the next segment missed": _next_segment_not_asked,
    "a recovered segment has no aborted ones": _recovered_segment_has_none,
    "numbers of markers ignored": _numbers_ignored,
    "coordinator epochs ignored": _coordinator_epoch_ignored,
    "aborted records win keys": _aborted_wins_a_key,
    "compaction passes the last stable offset": _compaction_past_open_ones,
    "compaction leaves aborted records": _aborted_records_stay,
    "an open transaction's producer makes room": _open_ones_expire,
    "a log start forgets an open transaction": _open_one_cut_by_log_start,
    "the list comes before the records": _list_before_the_records,
}

WITH_CLEANING = frozenset(
    {
        "aborted records win keys",
        "compaction passes the last stable offset",
        "compaction leaves aborted records",
        "a log start forgets an open transaction",
        "the list comes before the records",
    }
)
"""Schedules with compaction and retention show these."""

WITH_FEW_PLACES = frozenset({"an open transaction's producer makes room"})
"""Schedules in which logs remember few producers show these."""

OF_GATEWAYS = frozenset({"coordinator epochs ignored"})
"""Schedules of several gateways show these."""
