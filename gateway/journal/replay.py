"""What a partition of an internal topic says: of each key the last record counts that is not aborted.

Pure. A partition may have a million records, of which a thousand count, so it is fed by batches, and only
what counts is decoded, at the end. Both are done in slices: who does them lets others have their turn at each
`yield`. Nothing else looks at a replay before it is finished.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from wireproto.records.control import EndMarker
from wireproto.records.errors import InvalidBatch
from wireproto.records.header import BatchHeader
from wireproto.records.keyed import Keyed, keyed_slices

SLICE: Final = 250
"""Records that are gone through, or decoded, before others have their turn: half a millisecond."""

Slices: TypeAlias = Iterator[None]
"""Work that may be much: others may have their turn whenever it gives control."""

LOGGED_RECORDS = 10
"""Records and batches of a partition that could not be read are named in the log up to here."""

logger = logging.getLogger(__name__)


class Replay(ABC):
    """The records of one partition, `name`, as far as it was fed. What they mean is the business of
    `finish`.
    """

    def __init__(self, name: str, in_order_from: bytes | None = None) -> None:
        """`in_order_from`: once a key has begun so, records count in the log's order and not by the first
        time that their keys came.
        """
        self._name = name
        self._in_order_from = in_order_from
        self._in_order = False
        self._latest: dict[bytes | None, tuple[int, bytes | None]] = {}
        """The last record of each key: its offset and value."""
        self._pending: dict[int, dict[bytes | None, tuple[int, bytes | None]]] = {}
        """As `_latest`, of what is part of a transaction that is still open; by its producer's id."""
        self._since_slice = 0
        self.unreadable_records = 0
        """Records that count and could not be read, so far."""
        self.unreadable_batches = 0
        """Batches that could not be read, so far."""

    @property
    def keys(self) -> int:
        """How many records count, so far."""
        return len(self._latest)

    def feed(self, header: BatchHeader, body: bytes, first_offset: int) -> Slices:
        """Take the records of a batch from `first_offset` on; `body` are its records, inflated. One that
        cannot be read has none.
        """
        slices: deque[list[Keyed]] = deque()
        try:
            for records in keyed_slices(header, body, SLICE):
                slices.append(records)
                if self._is_slice(len(records)):
                    yield
        except InvalidBatch as error:
            self.set_aside(header, error)
            return
        latest, pending = self._latest, list(self._pending.values())
        if header.is_transactional:
            latest, pending = self._pending.setdefault(header.producer_id, {}), []
        while slices:
            self._note(latest, slices.popleft(), first_offset, pending)
            if self._is_slice(SLICE // 4):
                yield

    def _note(
        self,
        latest: dict[bytes | None, tuple[int, bytes | None]],
        records: list[Keyed],
        first_offset: int,
        pending: list[dict[bytes | None, tuple[int, bytes | None]]],
    ) -> None:
        """Note records among the latest ones; a tombstone deletes what is `pending` of its key as well."""
        in_order_from = self._in_order_from
        for offset, key, value in records:
            if offset >= first_offset:
                if in_order_from is not None and key is not None and key.startswith(in_order_from):
                    self._in_order = True
                if self._in_order:
                    latest.pop(key, None)  # what comes last is last in the order of the keys, too
                latest[key] = offset, value
                if value is None and pending:
                    for one in pending:
                        one.pop(key, None)

    def end(self, header: BatchHeader, marker: EndMarker) -> Slices:
        """A transaction of the batch's producer ends here. What it has committed counts by its own place in
        the log: a later record of the same key stays.
        """
        pending = self._pending.pop(header.producer_id, {})
        if not marker.is_commit:
            return
        latest = self._latest
        for key, (offset, value) in pending.items():
            known = latest.get(key)
            if known is None or known[0] < offset:
                if self._in_order:
                    latest.pop(key, None)
                latest[key] = offset, value
            if self._is_slice(1):
                yield

    @abstractmethod
    def finish(self) -> Slices:
        """Say what there is at the end."""

    def _forget_records(self) -> Slices:
        while self._latest:  # a million at once would take a tenth of a second
            self._latest.popitem()
            if self._is_slice(1):
                yield

    def _is_slice(self, records: int) -> bool:
        """So many more are done: whether others are to have their turn."""
        self._since_slice += records
        if self._since_slice < SLICE:
            return False
        self._since_slice = 0
        return True

    def _pass_over(self, offset: int, error: Exception) -> None:
        """One record that cannot be read must not take all others of the partition away."""
        self.unreadable_records += 1
        if self.unreadable_records <= LOGGED_RECORDS:
            logger.warning("%s: the record at offset %d is passed over: %s", self._name, offset, error)

    def set_aside(self, header: BatchHeader, error: InvalidBatch) -> None:
        """One batch that cannot be read must not keep a coordinator from all else of the partition. It stays
        where it is: compaction leaves it alone.
        """
        self.unreadable_batches += 1
        if self.unreadable_batches <= LOGGED_RECORDS:
            logger.error(
                "%s: the batch of %d bytes at offsets %d to %d cannot be read and is "
                "passed over; it stays in the log: %s",
                self._name,
                header.size,
                header.base_offset,
                header.last_offset,
                error,
            )
