"""The values of partitions as native records, out of the batches that a store has. For worker threads.

Rule: an offset is a record here, whatever has become of it: what is no value for readers of what is committed
(a marker, a record of an aborted transaction, one that a compaction has removed, a null) is an empty record,
so that native sequences have no gaps. Nothing outside the piece that a leader told is looked at, and nothing
behind what the store has durably.

Theory of operation: the row of the batch that holds an offset is found by halving, as for a LOOKUP; batches
are read and checked as for a gateway, and split into values. Readers ask for fewer records than a batch may
have, and several of them for the same ones, so what was split last is kept.
"""

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
from wireproto.dafka.additions import LOOKUP_OFFSET, PublishEntry
from wireproto.records.errors import InvalidBatch
from wireproto.records.iteration import values_of
from wireproto.records.row import Row

READ_RECORDS = 2_048
"""Records of one read, empty ones too."""

READ_BYTES = 256 * 1024
"""Batches that one read takes, as they are stored; the one that passes it is the last one."""

SPLIT_BYTES = 16 * 1024 * 1024
"""Values of batches that were split last, with `VALUE_BYTES` for each, that are kept; of one that is larger
nothing else is."""

VALUE_BYTES = 100
"""Counted for each value that is kept, besides its bytes."""

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
        self._lock = Lock()
        """Of the two before it: several threads read."""

    def read(self, piece: PublishEntry, first: int, last: int) -> list[bytes]:
        """The records from offset `first` to `last`, both in the piece, as far as one read goes and they are
        here: none if the first one is not. Raises `StoreCorrupt`.
        """
        last = min(last, piece.last, first + READ_RECORDS - 1)
        state = self._ingest.known(piece.segment) or self._database.load(piece.segment)
        if state is None or state.announcement is None or state.phase is Phase.DELETED:
            return []
        sequence, _ = ranges.search(self._database, piece.segment, LOOKUP_OFFSET, first, state.head)
        if sequence < 0:
            # Of a segment that is whole the last records may have been removed by a compaction.
            is_whole = state.phase is Phase.CLOSED and not is_unfinished(state)
            return [b""] * (last - first + 1) if is_whole else []
        found: list[bytes] = []
        for offset, value in self._values(piece, state, sequence, first, last):
            found += [b""] * (offset - first - len(found))
            found.append(value)
        return found

    def _values(
        self, piece: PublishEntry, state: AddressState, sequence: int, first: int, last: int
    ) -> Values:
        """The values from `first` to `last` in the batches from `sequence` on, as far as one read goes. The
        last of all batches ends with an entry, though it be of an empty record.
        """
        rows = ranges.rows_within(self._database, piece.segment, sequence, state.head, READ_BYTES)
        rows = [row for number, row in enumerate(rows) if not number or row.base_offset <= last]
        contents = self._contents(state, sequence, rows)
        found: Values = []
        for number, (row, content) in enumerate(zip(rows, contents, strict=True), sequence):
            if _is_shown(piece, row):
                values = self._split_once(piece.segment, number, content)
                found += [one for one in values if first <= one[0] <= last]
            end = min(row.last_offset, last)
            if end >= first and (not found or found[-1][0] < end):
                found.append((end, b""))
        return found

    def _contents(self, state: AddressState, sequence: int, rows: Sequence[Row]) -> Sequence[bytes]:
        last = sequence + len(rows) - 1
        bad = self._damage.overlap(state.address, sequence, last)
        if bad is not None:
            raise StoreCorrupt(f"address {state.address}: sequence {bad.first} to {bad.last} is damaged here")
        contents = self._batches.read(state, sequence, last, ranges.MAX_RANGE_BYTES)
        if len(contents) != len(rows):
            raise StoreCorrupt(f"address {state.address}: the rows from {sequence} on tell other sizes")
        return contents

    def _split_once(self, segment: str, sequence: int, content: bytes) -> Values:
        key = segment, sequence
        with self._lock:
            known = self._split.get(key)
            if known is not None:
                self._split.move_to_end(key)
                return known
        try:
            values = values_of(content)
        except InvalidBatch as error:
            raise StoreCorrupt(f"address {segment}: batch {sequence} cannot be read: {error}") from None
        with self._lock:
            if key not in self._split:
                self._split[key] = values
                self._split_bytes += _counted(values)
            while self._split_bytes > SPLIT_BYTES and len(self._split) > 1:
                _, gone = self._split.popitem(last=False)
                self._split_bytes -= _counted(gone)
        return values


def _counted(values: Values) -> int:
    return sum(VALUE_BYTES + len(value) for _, value in values)


def _is_shown(piece: PublishEntry, row: Row) -> bool:
    """Whether a batch's values are for readers of what is committed."""
    if row.is_control:
        return False
    return not row.is_transactional or not any(
        span.producer_id == row.producer_id and span.first <= row.base_offset <= span.last
        for span in piece.aborted
    )
