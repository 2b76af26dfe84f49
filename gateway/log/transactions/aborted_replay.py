"""The aborted transactions of a segment, made again from its rows. Pure.

Whoever reads a log under read_committed may ask for those of an old segment: only rows that belong to
transactions are looked at, which takes a small part of what it takes to rebuild the producers' state.
"""

from collections.abc import Mapping
from typing import Final

from gateway.log.transactions.aborted import AbortedTransaction, AbortedTransactions
from gateway.log.transactions.open_transactions import OpenTransactions
from wireproto.records.header import TRANSACTIONAL_FLAG
from wireproto.records.row import ROW_BYTES, Row

_ATTRIBUTES_LOW_BYTE: Final = ROW_BYTES - 5
"""Where the flags of a batch stand in a packed row: before its size, which has four bytes."""


class AbortedReplay:
    """One segment's. `aborted` is what was found."""

    def __init__(self) -> None:
        self.aborted = AbortedTransactions()
        self._firsts: dict[int, int] = {}
        """Producer id -> the first offset of its open transaction."""
        self._open = OpenTransactions()

    def begin(self, firsts: Mapping[int, int]) -> None:
        """These were open when the segment began: producer ids and first offsets."""
        self._firsts = dict(firsts)
        self._open = OpenTransactions(firsts.values())

    def feed(self, rows: bytes) -> None:
        """The next rows, packed one after the other."""
        for start in range(0, len(rows), ROW_BYTES):
            if rows[start + _ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG:
                self._take(Row.unpack(rows[start : start + ROW_BYTES]))

    def _take(self, row: Row) -> None:
        producer_id, marker = row.producer_id, row.marker
        if marker is None:
            if not row.is_control and producer_id not in self._firsts:
                self._firsts[producer_id] = row.base_offset
                self._open.begin(row.base_offset)
            return
        first_offset = self._firsts.pop(producer_id, None)
        if first_offset is None:
            return
        self._open.end(first_offset, row.last_offset)
        if not marker.is_commit:
            first_open = self._open.first_open()
            later_begin = row.last_offset + 1 if first_open is None else first_open
            self.aborted.add(AbortedTransaction(producer_id, first_offset, row.last_offset, later_begin))
