"""What is written to a log with transactions, said in a few words; and what must be found in it then."""

from __future__ import annotations

from gateway.log.segment import UNKNOWN, Segment
from tests.unit.gateway.log.fake_log import NOW_MS
from tests.unit.gateway.log.one_store import Life
from tests.unit.gateway.log.transactional import append, marker, transactional
from wireproto.records.builder import build_batch


class Transaction:
    """One that was begun at `first`; ended, or not yet, by a marker at `last`."""

    def __init__(self, pid: int, first: int) -> None:
        self.pid = pid
        self.first = first
        self.last: int | None = None
        self.is_commit = False

    def is_aborted_within(self, start: int, end: int) -> bool:
        """Whether it was aborted, and its marker lies there."""
        return self.last is not None and not self.is_commit and start <= self.last < end

    def is_open_at(self, offset: int) -> bool:
        """Whether it was open before the batch at this offset came."""
        return self.first < offset and (self.last is None or self.last >= offset)


class Script:
    """What was written to a log, whatever life wrote it: `p` is a plain batch, `a` one in a transaction of
    producer a, `-a` its abort and `+a` its commit. `p:k` and `a:k` are of a record with the key k. Each batch
    has one record, whose value is its offset, so that offsets are places.
    """

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.values: dict[int, Transaction | None] = {}
        """Each record's transaction."""
        self.keys: dict[int, bytes | None] = {}
        """Each record's key."""
        self.end = 0
        self._sequences: dict[int, int] = {}

    def still_open(self, pid: int) -> Transaction | None:
        return next((one for one in self.transactions if one.pid == pid and one.last is None), None)

    async def write(self, life: Life, script: str) -> None:
        """These, one after the other durable."""
        for word in script.split():
            what, _, key = word.partition(":")
            if what[0] in "+-":
                self._mark(life, ord(what[1]), commit=what[0] == "+")
            else:
                self.keys[self.end] = key.encode() or None
                if what == "p":
                    self._append_plain(life)
                else:
                    self._append(life, ord(what))
            self.end += 1
            await life.settle()
            assert life.partition.high_watermark == self.end

    def _mark(self, life: Life, pid: int, *, commit: bool) -> None:
        life.partition.append_marker(marker(pid, commit=commit), life.context.now_ms())
        ended = self.still_open(pid)
        if ended is not None:
            ended.last, ended.is_commit = self.end, commit

    def _append_plain(self, life: Life) -> None:
        fields = (self.keys[self.end], b"%d" % self.end, (), NOW_MS)
        append(life.partition, build_batch([fields]), now_ms=life.context.now_ms())
        self.values[self.end] = None

    def _append(self, life: Life, pid: int) -> None:
        sequence, key = self._sequences.get(pid, 0), self.keys[self.end]
        content = transactional(b"%d" % self.end, pid=pid, sequence=sequence, key=key)
        append(life.partition, content, now_ms=life.context.now_ms())
        self._sequences[pid] = sequence + 1
        transaction = self.still_open(pid)
        if transaction is None:
            transaction = Transaction(pid, self.end)
            self.transactions.append(transaction)
        self.values[self.end] = transaction

    # what is to be found ----------------------------------------------------------------------------------

    def aborted(self, offset: int, end: int) -> list[tuple[int, int]]:
        """What who reads [offset, end) must know, by first offsets."""
        found = [one for one in self.transactions if one.is_aborted_within(offset, self.end)]
        return sorted([(one.pid, one.first) for one in found if one.first < end], key=lambda one: one[1])

    def stable(self) -> int:
        return min([one.first for one in self.transactions if one.last is None], default=self.end)

    def shown(self, offset: int, end: int) -> list[tuple[int, bytes]]:
        """What a client shows of [offset, end), which is stable."""
        return [
            (place, b"%d" % place)
            for place, transaction in self.values.items()
            if offset <= place < end and (transaction is None or transaction.is_commit)
        ]

    def counts(self, segment: Segment) -> tuple[int, int, int]:
        """(aborted, lowest aborted, first unstable) of a closed segment."""
        assert segment.end_offset is not None
        start, end = segment.start_offset, segment.end_offset
        firsts = [one.first for one in self.transactions if one.is_aborted_within(start, end)]
        begun = [one.first for one in self.transactions if one.is_open_at(start)]
        return len(firsts), min(firsts, default=UNKNOWN), min(begun, default=UNKNOWN)
