"""What was appended to one partition and is not durable yet: who waits for it, and how much room is left.

Rule: a duplicate is as durable as its original before it is answered. What a failure leaves undecided is
answered with an error, never as written.
"""

from collections import deque
from typing import NamedTuple

import trio

from gateway.log.appends import Append
from gateway.log.chain import SegmentChain
from mesh.protocol.writer import MAX_WINDOW_RECORDS, RECORD_OVERHEAD_BYTES, Writer
from wireproto.records.header import BatchHeader

MAX_PARTITION_WINDOW_BYTES = 32 * 1024 * 1024
"""Appended and not yet durable, per partition, with `RECORD_OVERHEAD_BYTES` for each batch. At the cap its
producers get NOT_ENOUGH_REPLICAS, which they retry; those with acks=0 are not read."""


class InFlight:
    """A batch that is appended and not yet durable on w members. `first_only`: its producer waits for the
    first of them.
    """

    __slots__ = ("append", "first_only", "header", "sequence", "writer")

    def __init__(
        self, writer: Writer, sequence: int, header: BatchHeader, append: Append, first_only: bool
    ) -> None:
        self.writer = writer
        self.sequence = sequence
        self.header = header
        self.append = append
        self.first_only = first_only


class AwaitedDuplicate(NamedTuple):
    """A batch that came again; its original ends with `last_offset`."""

    last_offset: int
    append: Append


class PendingAppends:
    """What is pending in one partition. All methods but `wait_for_progress` return at once."""

    __slots__ = ("_chain", "_duplicates", "_progress", "_put_off", "in_flight")

    def __init__(self, chain: SegmentChain) -> None:
        self.in_flight: deque[InFlight] = deque()
        """In the order of offsets; `append` to it what is appended to a window of the chain."""
        self._chain = chain
        self._duplicates: list[AwaitedDuplicate] = []
        self._put_off: list[Append] = []
        self._progress: trio.lowlevel.ParkingLot | None = None
        """Who waits for room in the window, or for the partition to serve, if somebody ever did."""

    # room --------------------------------------------------------------------------------------------------

    def has_room(self, size: int) -> bool:
        """Whether there is room for a batch of `size` bytes."""
        batches = len(self.in_flight)
        # As `_held`, written out: this is on the way of every batch.
        held = batches * RECORD_OVERHEAD_BYTES
        chain = self._chain
        if chain.current is not None:
            held += chain.current.writer.bytes
        for opened in chain.rolling:
            held += opened.writer.bytes
        if held + size + RECORD_OVERHEAD_BYTES > MAX_PARTITION_WINDOW_BYTES:
            return not batches  # one that is larger than the window goes alone
        return batches < MAX_WINDOW_RECORDS

    def _held(self) -> int:
        """Bytes in the windows, with the overhead of each batch."""
        return self._chain.window_bytes() + len(self.in_flight) * RECORD_OVERHEAD_BYTES

    def __str__(self) -> str:
        """For an error's message."""
        return f"{self._held()} bytes in {len(self.in_flight)} batches"

    async def wait_for_progress(self) -> None:
        """Return when the high watermark has moved, or the partition serves in another way."""
        if self._progress is None:
            self._progress = trio.lowlevel.ParkingLot()
        await self._progress.park()

    # what becomes of them ----------------------------------------------------------------------------------

    def add_duplicate(self, append: Append) -> None:
        """Finish this one when its original, which is in flight, becomes durable."""
        self._duplicates.append(AwaitedDuplicate(append.last_offset, append))

    def hold(self, append: Append) -> None:
        """This one is in no window; its producer is answered when `take_held` has given it."""
        self._put_off.append(append)

    def take_held(self) -> list[Append]:
        """Those that were to `hold`, which are so no more."""
        held, self._put_off = self._put_off, []
        return held

    def acknowledged(self, writer: Writer, high_watermark: int) -> int:
        """`writer.committed` or `writer.first` moved: finish what is as durable as was asked for. Gives the
        high watermark then.
        """
        in_flight = self.in_flight
        while in_flight and in_flight[0].writer is writer and in_flight[0].sequence <= writer.committed:
            entry = in_flight.popleft()
            high_watermark = entry.append.last_offset + 1
            if not entry.append.done:
                entry.append.finish()
        if writer.first > writer.committed:
            self._finish_first(writer)
        return high_watermark

    def _finish_first(self, writer: Writer) -> None:
        for entry in self.in_flight:
            if entry.writer is not writer or entry.sequence > writer.first:
                return
            if entry.first_only and not entry.append.done:
                entry.append.finish()

    def finish_duplicates(self, high_watermark: int) -> None:
        """The high watermark has moved: finish the duplicates whose originals lie below it."""
        if self._duplicates:
            waiting = self._duplicates
            self._duplicates = [entry for entry in waiting if entry.last_offset >= high_watermark]
            for entry in waiting:
                if entry.last_offset < high_watermark:
                    entry.append.finish()

    def make_room(self) -> None:
        """Have those that wait for progress look again."""
        if self._progress is not None:
            self._progress.unpark_all()

    def take_all(self) -> tuple[list[InFlight], list[Append]]:
        """The partition has failed: what was in flight, and everything that waits and is to be told so. None
        of it is pending any more.
        """
        in_flight, duplicates = list(self.in_flight), self._duplicates
        self.in_flight.clear()
        self._duplicates = []
        return in_flight, [*(one.append for one in in_flight), *(one.append for one in duplicates)]
