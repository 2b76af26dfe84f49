"""What a log holds, record by record, as it was written: what compaction may take of it, and what not.

A partition's ledger gets each record once it can be lost no more: when its batch was shown, or when its
segment is closed in the catalog. It never forgets: what a log no longer has is held against this.
"""

from __future__ import annotations

from bisect import insort
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tests.sim.loop import BrokenPromise
from tests.sim.plan import COORDINATED
from tests.sim.transactions import State
from wireproto.records.header import BatchHeader, read_header
from wireproto.records.iteration import iter_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.sim.applications import Work
    from tests.sim.clients import PartitionName
    from tests.sim.transactions import Transaction


class Logged(NamedTuple):
    """One record, with the leader epoch of its batch."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    epoch: int


@lru_cache(maxsize=20_000)
def opened(content: bytes) -> tuple[BatchHeader, dict[int, Logged]]:
    """A batch's header, and its records by offset."""
    header = read_header(content)
    return header, {
        record.offset: Logged(
            # What a marker has for key and value is none: it goes by its offset.
            None if header.is_control else record.key,
            None if header.is_control else record.value,
            tuple(record.headers),
            record.timestamp,
            header.leader_epoch,
        )
        for record in iter_records(content)
    }


class Ledger:
    """One partition's."""

    def __init__(
        self,
        partition: PartitionName,
        *,
        compacted: bool,
        keeps_tombstones: bool,
        logged: Callable[[BatchHeader, bytes], Transaction | Work | None],
    ) -> None:
        """`logged` is told of each batch, and says which transaction it is part of."""
        self.records: dict[int, Logged] = {}
        self._of_key: dict[bytes, list[int]] = {}
        """Key -> offsets of its records, ascending."""
        self._logged = logged
        self._transactions: dict[int, Transaction | Work] = {}
        """Offset -> the transaction that it is part of."""
        self.gone: dict[int, float] = {}
        """Offset -> when the log was seen without it, for the first time."""
        self.compacted = compacted
        self._partition = partition
        self._keeps_tombstones = keeps_tombstones
        self.bases: set[int] = set()
        """Where its batches begin."""
        self._producers: dict[tuple[int, int, int], int] = {}

    def add(self, content: bytes) -> None:
        """A batch as it was produced is in the log for good."""
        header, records = opened(content)
        if header.base_offset in self.bases:
            return
        self.bases.add(header.base_offset)
        if header.producer_id >= 0 and not header.is_control and self._partition[0] not in COORDINATED:
            name = header.producer_id, header.producer_epoch, header.base_sequence
            known = self._producers.setdefault(name, header.base_offset)
            if known != header.base_offset:
                raise BrokenPromise(
                    f"producer {header.producer_id}'s batch {header.base_sequence} came into"
                    f" {self._partition} at offset {known} and {header.base_offset}"
                )
        transaction = self._logged(header, content)
        for offset, record in records.items():
            self.records[offset] = record
            if transaction is not None:
                self._transactions[offset] = transaction
            if record.key is not None:
                insort(self._of_key.setdefault(record.key, []), offset)

    def newest(self, key: bytes) -> int:
        """The offset of the newest record of a key that counts: it is part of no transaction, or of one that
        was committed. -1: none does.
        """
        counting = (offset for offset in reversed(self._of_key[key]) if self.counts(offset))
        return next(counting, -1)

    def counts(self, offset: int) -> bool:
        transaction = self._transactions.get(offset)
        return transaction is None or transaction.state is State.COMMITTED

    def must_stay(self, offset: int) -> bool:
        """Whether compaction may not take this record: the newest of its key, and not an old tombstone; or
        nobody knows yet whether it counts.
        """
        if not self.compacted:
            return True
        record, transaction = self.records[offset], self._transactions.get(offset)
        if transaction is not None and transaction.state is State.ABORTED:
            return False
        if record.key is None or self.newest(record.key) > offset:
            return False
        return record.value is not None or self._keeps_tombstones

    def check_same(self, offset: int, record: Logged, where: str) -> None:
        """What was found at an offset is what was written there. Raises `BrokenPromise`."""
        known = self.records.get(offset)
        if known is not None and known != record:
            raise BrokenPromise(f"offset {offset} of {self._partition} {where} as {record}, it was {known}")

    def check_log(self, contents: Iterable[bytes], log_start: int, now: float) -> None:
        """All that a log holds. Raises `BrokenPromise`."""
        present: dict[int, Logged] = {}
        end = -1
        for content in contents:
            header, records = opened(content)
            if header.base_offset < end:
                raise BrokenPromise(f"offset {header.base_offset} of {self._partition} comes behind {end}")
            end = header.last_offset + 1
            for offset, record in records.items():
                self.check_same(offset, record, "is kept")
            present.update(records)
        for offset in self.records:
            if offset < log_start:
                continue
            if offset not in present:
                if self.must_stay(offset):
                    raise BrokenPromise(f"offset {offset} of {self._partition} is not kept any more")
                self.gone.setdefault(offset, now)
            elif offset in self.gone:
                raise BrokenPromise(f"offset {offset} of {self._partition} was gone, and is back")
        self._check_superseded(present, log_start)

    def _check_superseded(self, present: dict[int, Logged], log_start: int) -> None:
        """A key whose newest record is gone has no older one: it would come back."""
        for offset, record in present.items():
            if record.key is None or offset < log_start or offset not in self.records:
                continue
            newest = self.newest(record.key)
            if newest in self.gone and self.counts(offset):
                raise BrokenPromise(
                    f"{record.key!r} of {self._partition} was deleted at offset {newest}, and is back as it"
                    f" was at {offset}"
                )

    def check_read(
        self, asked: int, contents: Iterable[bytes], log_start: int, began: float, *, stale: bool
    ) -> None:
        """What a consumer was given that asked for an offset `began` seconds since the world's beginning.

        `stale`: by a gateway that was taken for dead. Raises `BrokenPromise`.
        """
        present: dict[int, Logged] = {}
        end = asked
        for content in contents:
            header, records = opened(content)
            if header.last_offset < end or (present and header.base_offset < end):
                raise BrokenPromise(
                    f"offset {header.base_offset} of {self._partition} was read behind {end - 1}"
                )
            end = header.last_offset + 1
            present.update(records)
        for offset, record in present.items():
            self.check_same(offset, record, "was read")
            if not stale and offset >= asked and self.gone.get(offset, began) < began:
                raise BrokenPromise(f"offset {offset} of {self._partition} was gone, and was read")
        for offset in range(max(asked, log_start), end):
            if offset in self.records and offset not in present and self.must_stay(offset):
                raise BrokenPromise(
                    f"offset {offset} of {self._partition} was not read from {asked} to {end - 1}"
                )
