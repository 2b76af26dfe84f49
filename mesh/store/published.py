"""The values of partitions as native records, out of the batches that a store has. For worker threads.

Rule: an offset is a record here, whatever has become of it: what is no value for readers of what is committed
(a marker, a record of an aborted transaction, one that a compaction has removed, a null, whatever is in a
batch that nobody can read) is an empty record, so that native sequences have no gaps. Nothing outside the
piece that a leader told is looked at, and nothing behind what the store has durably.

Theory of operation: the row of the batch that holds an offset is found by halving, as for a LOOKUP; batches
are read and checked as for a gateway, and split into values. Readers ask for fewer records than a batch may
have, and several of them for the same ones, so what was split last is kept.
"""

import logging
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.copying import is_unfinished
from mesh.protocol.disk import StoreCorrupt
from mesh.protocol.ingest import Ingest
from mesh.store import ranges
from mesh.store.batches import BatchReads
from mesh.store.damage import Damage
from mesh.store.db import Database
from wireproto.dafka.additions import LOOKUP_OFFSET, AbortedSpan, PublishEntry
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import Row
from wireproto.records.values import values_of

READ_RECORDS = 2_048
"""Records of one read, empty ones too."""

READ_BYTES = 256 * 1024
"""Batches that one read takes, as they are stored; one that is larger comes alone."""

READ_VALUES_BYTES = 1024 * 1024
"""Values that one read gives, inflated; the batch that passes it is the last one."""

SPLIT_BYTES = 16 * 1024 * 1024
"""Values of batches that were split last, with `VALUE_BYTES` for each, that are kept; beside a batch that has
more nothing else is."""

VALUE_BYTES = 100
"""Counted for each value that is kept, besides its bytes."""

BATCH_BYTES = 400
"""Counted for each batch of which something is kept, or nothing, since nobody can read it."""

MAX_SAID = 4096
"""Segments of which the log has said that a batch cannot be read; behind them it begins anew."""

logger = logging.getLogger(__name__)

Values = list[tuple[int, bytes]]
"""Offsets and values, ascending."""


class PublishedRecords:
    """Of one store."""

    def __init__(self, database: Database, ingest: Ingest, damage: Damage) -> None:
        self._database = database
        self._ingest = ingest
        self._damage = damage
        self._batches = BatchReads(database)
        self._split: OrderedDict[tuple[str, int], Values] = OrderedDict()
        self._split_bytes = 0
        self._said: set[str] = set()
        """Segments of which the log says that a batch cannot be read."""
        self._lock = Lock()
        """Of the three before it: several threads read."""

    def read(self, piece: PublishEntry, first: int, last: int) -> list[bytes]:
        """The records from offset `first` to `last`, both in the piece, as far as one read goes and they are
        here: none if the first one is not. Raises `StoreCorrupt`.
        """
        last = min(last, piece.last, first + READ_RECORDS - 1)
        state = self._ingest.known(piece.segment) or self._database.load(piece.segment)
        if state is None or state.announcement is None or state.phase is Phase.DELETED:
            return []
        # In this order: the loop may make it whole meanwhile, and then the head is that of the whole.
        is_whole = state.phase is Phase.CLOSED and not is_unfinished(state)
        head = state.head
        sequence, _ = ranges.search(self._database, piece.segment, LOOKUP_OFFSET, first, head)
        if sequence < 0:
            # Of a segment that is whole the last records may have been removed by a compaction.
            return [b""] * (last - first + 1) if is_whole else []
        rows = ranges.rows_within(self._database, piece.segment, sequence, head, READ_BYTES)
        rows = [row for number, row in enumerate(rows) if not number or row.base_offset <= last]
        found: list[bytes] = []
        for offset, value in self._values(piece, state, sequence, rows, first, last):
            found += [b""] * (offset - first - len(found))
            found.append(value)
        return found

    def _values(
        self,
        piece: PublishEntry,
        state: AddressState,
        sequence: int,
        rows: Sequence[Row],
        first: int,
        last: int,
    ) -> Values:
        """The values from `first` to `last` in the batches from `sequence` on that have these rows, as far as
        one read goes. Each batch ends with an entry, though it be of an empty record.
        """
        contents: Sequence[bytes] = ()
        aborted = _by_producer(piece)
        found: Values = []
        size = 0
        for number, row in enumerate(rows):
            if _is_shown(row, aborted):
                values = self._known(piece.segment, sequence + number)
                if values is None:
                    contents = contents or self._contents(state, sequence + number, rows[number:])
                    content = contents[number - len(rows)]
                    values = self._split_once(piece.segment, sequence + number, content)
                some = values[bisect_left(values, (first,)) : bisect_left(values, (last + 1,))]
                found += some
                size += sum(len(value) for _, value in some)
            end = min(row.last_offset, last)
            if end >= first and (not found or found[-1][0] < end):
                found.append((end, b""))
            if size >= READ_VALUES_BYTES:
                break
        return found

    def _contents(self, state: AddressState, sequence: int, rows: Sequence[Row]) -> Sequence[bytes]:
        last = sequence + len(rows) - 1
        self._damage.refuse(state.address, sequence, last)
        contents = self._batches.read(state, sequence, last, ranges.MAX_RANGE_BYTES)
        if len(contents) != len(rows):
            raise StoreCorrupt(f"address {state.address}: the rows from {sequence} on tell other sizes")
        return contents

    def _known(self, segment: str, sequence: int) -> Values | None:
        """The values of a batch that was split lately."""
        key = segment, sequence
        with self._lock:
            known = self._split.get(key)
            if known is not None:
                self._split.move_to_end(key)
        return known

    def _split_once(self, segment: str, sequence: int, content: bytes) -> Values:
        try:
            values = values_of(content)
        except InvalidBatch as error:
            # Its producer wrote it so: its CRC is right. Who waited for it would wait for ever.
            self._say(segment, sequence, error)
            values = []
        key = segment, sequence
        with self._lock:
            if key not in self._split:
                self._split[key] = values
                self._split_bytes += _counted(values)
            while self._split_bytes > SPLIT_BYTES and len(self._split) > 1:
                _, gone = self._split.popitem(last=False)
                self._split_bytes -= _counted(gone)
        return values

    def _say(self, segment: str, sequence: int, error: InvalidBatch) -> None:
        with self._lock:
            is_new = segment not in self._said
            if len(self._said) >= MAX_SAID:
                self._said.clear()
            self._said.add(segment)
        if is_new:
            logger.warning("address %s: batch %d has no records to read: %s", segment, sequence, error)


def _counted(values: Values) -> int:
    return BATCH_BYTES + sum(VALUE_BYTES + len(value) for _, value in values)


def _by_producer(piece: PublishEntry) -> dict[int, list[AbortedSpan]]:
    found: dict[int, list[AbortedSpan]] = {}
    for span in piece.aborted:
        found.setdefault(span.producer_id, []).append(span)
    return found


def _is_shown(row: Row, aborted: dict[int, list[AbortedSpan]]) -> bool:
    """Whether a batch's values are for readers of what is committed."""
    if row.is_control:
        return False
    return not row.is_transactional or not any(
        span.first <= row.base_offset <= span.last for span in aborted.get(row.producer_id, ())
    )
