"""Batches of segments as readers get them: checked by what they have themselves, not by RocksDB's checksum.

RocksDB computes its CRC32C in software, a batch's own takes a processor's instruction: a sixth of the time.
Rule: nothing leaves here that one of the two has not checked. A batch's CRC covers what follows its header's
first fields; what lies before is compared with the row (base offset, length; RocksDB has checked that) and
with what the segment was announced with (leader epoch). What does not fit is read again under RocksDB's
checksum, which tells whether the disk has lost it.
"""

from mesh.protocol.address_state import AddressState
from mesh.store import keys, ranges
from mesh.store.db import Database
from wireproto.records.batch import check_stored
from wireproto.records.errors import InvalidBatch
from wireproto.records.row import Row

CHECKED_HERE_BYTES = 8 * 1024
"""Mean size from which batches are checked here: a look at a batch, and at the table with its key, costs as
much as RocksDB's checksum of some 4 KiB."""

MAX_OF_OLDER_EPOCHS = 4096
"""Segments known to have batches of older epochs; beyond it they are learnt anew."""


class BatchReads:
    """Reads of one store, by any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._older_epochs: set[str] = set()
        """Compacted segments: of an older epoch only RocksDB's checksum says that it is the right one."""

    def read(self, state: AddressState, first: int, last: int, byte_cap: int) -> list[bytes]:
        """As `ranges.read_records`. Raises `StoreCorrupt`."""
        database, address = self._database, state.address
        rows = ranges.rows_within(database, address, first, last, byte_cap)
        if not rows:
            return ranges.read_native(database, address, first, last, byte_cap)
        if (
            state.announcement is None
            or address in self._older_epochs
            or sum(row.size for row in rows) < CHECKED_HERE_BYTES * len(rows)
        ):
            return ranges.read_all(database, address, first, len(rows))
        wanted = keys.keys_between(keys.record_prefix(address), first, first + len(rows) - 1)
        found = database.get_unchecked(wanted)
        epochs = {_epoch_of_whole(content, row) for content, row in zip(found, rows, strict=True)}
        if epochs == {state.announcement.epoch}:
            return found  # type: ignore[return-value]  # what is missing has no epoch
        contents = ranges.read_all(database, address, first, len(rows))
        if None not in epochs:
            self._learn(address)
        return contents

    def _learn(self, address: str) -> None:
        if len(self._older_epochs) >= MAX_OF_OLDER_EPOCHS:
            self._older_epochs.clear()
        self._older_epochs.add(address)


def _epoch_of_whole(content: bytes | None, row: Row) -> int | None:
    """The leader epoch of a batch that is whole and the one that its row tells of, else None."""
    if content is None:
        return None
    try:
        header = check_stored(content)
    except InvalidBatch:
        return None
    told = header.size, header.base_offset, header.last_offset
    return header.leader_epoch if told == (row.size, row.base_offset, row.last_offset) else None
