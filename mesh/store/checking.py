"""Whether what is stored of one address is whole: every record, its row, and the head.

Used on records that are read in order; who reads them, and how fast, is up to the caller.
"""

import hashlib
import struct
from collections.abc import Iterable
from typing import Protocol

from mesh.protocol.address_state import AddressState
from mesh.protocol.copying import fits_epoch
from wireproto.records.batch import check_stored
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import NO_TIMESTAMP
from wireproto.records.row import Row, row_of

_SIZE = struct.Struct(">Q")


class Hash(Protocol):
    """As of `hashlib`."""

    def update(self, data: bytes, /) -> None: ...


def add_to_digest(digest: Hash, content: bytes) -> None:
    """Add one record to a digest of records: each behind its length in eight bytes."""
    digest.update(_SIZE.pack(len(content)))
    digest.update(content)


def digest_of(contents: Iterable[bytes]) -> bytes:
    """SHA-256 of these records, as DIGEST is answered (docs/mesh-protocol.md)."""
    digest = hashlib.sha256()
    for content in contents:
        add_to_digest(digest, content)
    return digest.digest()


class AddressCheck:
    """The records of one address, in order from sequence 0."""

    def __init__(self, state: AddressState) -> None:
        self.state = state
        self.next = 0
        """The sequence that must come next."""
        self.bytes = 0
        self._row = b""
        self._next_offset = state.announcement.start if state.announcement else 0
        self._running_max = NO_TIMESTAMP
        self._epoch = 0
        """The epoch of the record before: epochs never go down."""
        self._skipped = False
        self._digest = hashlib.sha256()

    def begin_behind(self, sequence: int, row: bytes) -> None:
        """Begin behind a record that was not read, of which this is the row."""
        before = Row.unpack(row)
        self.next = sequence + 1
        self._next_offset = before.last_offset + 1
        self._running_max = before.running_max_timestamp

    def take(self, sequence: int, content: bytes, row: bytes | None) -> str:
        """What is wrong with a record, "" for nothing. The checks go on behind it.

        Only an announced address begins at 0: of a native one the oldest records may have gone.
        """
        wrong = []
        if sequence != self.next and (self.next or self.state.announcement is not None):
            wrong.append(f"{self.next} to {sequence - 1} are missing before it")
            self.skip(sequence)
        if sequence > self.state.head:
            wrong.append(f"it lies behind the head {self.state.head}")
        self.next = sequence + 1
        self.bytes += len(content)
        add_to_digest(self._digest, content)
        if self.state.announcement is not None:
            wrong += self._check_batch(content, row)
        return ", ".join(wrong)

    def skip(self, sequence: int) -> None:
        """The records before `sequence` cannot be had."""
        self.next = sequence
        self._skipped = True

    def _check_batch(self, content: bytes, row: bytes | None) -> list[str]:
        announcement = self.state.announcement
        assert announcement is not None
        if self._skipped and row is not None:
            # The maximum of what is missing is only in the row.
            self._running_max = max(self._running_max, _running_max(row))
            self._skipped = False
        try:
            header = check_stored(content)
            made = row_of(content, self._running_max)
        except InvalidBatch as error:
            self._row = row or b""
            self._skipped = True
            return [error.message]
        wrong = []
        if not fits_epoch(announcement, header.leader_epoch):
            wrong.append(f"leader epoch {header.leader_epoch} in a segment of epoch {announcement.epoch}")
        elif header.leader_epoch < self._epoch:
            wrong.append(f"leader epoch {header.leader_epoch} behind {self._epoch}")
        if header.base_offset < self._next_offset:
            wrong.append(f"base offset {header.base_offset}, and {self._next_offset} is the next")
        self._row = made.pack()
        if row is None:
            wrong.append("its row is missing")
        elif row != self._row:
            wrong.append("its row says something else")
        if wrong:
            # What lies behind it is judged by its own row: one bad record must not make all others look bad.
            self._skipped = True
        else:
            self._next_offset = made.last_offset + 1
            self._epoch = header.leader_epoch
            self._running_max = made.running_max_timestamp
        return wrong

    def end(self) -> str:
        """What is wrong with the whole, "" for nothing, when all records were taken.

        Of a native address all of them may have gone; its head stays.
        """
        state = self.state
        if self.next <= state.head and (self.next or state.announcement is not None):
            return f"sequence {self.next} to {state.head} are missing"
        if state.announcement is not None and state.last_row != self._row:
            return "the row of its head is another record's"
        if state.end >= 0 and state.head > state.end:
            return f"its head {state.head} lies behind its end {state.end}"
        return ""

    @property
    def digest(self) -> str:
        """As `digest_of` all contents, in hex: equal on all members."""
        return self._digest.hexdigest()


def _running_max(row: bytes) -> int:
    try:
        return Row.unpack(row).running_max_timestamp
    except InvalidBatch:
        return NO_TIMESTAMP
