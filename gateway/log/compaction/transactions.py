"""What compaction does to transactions, a log's front being gone through once, batch by batch. Pure.

As Kafka's ``CleanedTransactionMetadata``: the batches of an aborted transaction go, whatever their keys, and
never win a key; so nobody needs to know of it any more who reads what is left. A marker stays as long as
something of its transaction was there when the log was gone through, and after that until its delete horizon:
a consumer that is reading the transaction right now is to see its end.
"""

from collections import deque
from collections.abc import Iterable
from operator import itemgetter

from wireproto.records.header import BatchHeader


class TransactionsGoneThrough:
    """Those that a walk over a log's front has met so far."""

    def __init__(self) -> None:
        self._aborted: deque[tuple[int, int]] = deque()
        """(producer id, first offset) of those to come, by their first offsets."""
        self._being_aborted: set[int] = set()
        """The producers whose batches are of an aborted transaction, up to their markers."""
        self._has_records: set[int] = set()
        """The producers of which something was there since their last markers."""

    def begin(self, aborted: Iterable[tuple[int, int]]) -> None:
        """The next segment comes. These are all aborted transactions with something in it, (producer id,
        first offset), in any order.
        """
        self._aborted = deque(sorted(aborted, key=itemgetter(1)))
        self._being_aborted.clear()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the next batch, which is no control batch, is of an aborted transaction."""
        if not header.is_transactional:
            return False
        self._go_on(header)
        self._has_records.add(header.producer_id)
        return header.producer_id in self._being_aborted

    def may_go(self, header: BatchHeader) -> bool:
        """Whether the next batch, which is a marker, is of a transaction of which nothing was left."""
        self._go_on(header)
        self._being_aborted.discard(header.producer_id)
        if header.producer_id in self._has_records:
            self._has_records.discard(header.producer_id)
            return False
        return True

    def _go_on(self, header: BatchHeader) -> None:
        while self._aborted and self._aborted[0][1] <= header.last_offset:
            self._being_aborted.add(self._aborted.popleft()[0])
