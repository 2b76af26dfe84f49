"""The chain of segments that one partition's log consists of, oldest first. Pure.

Rule: the offsets of a chain only go up: no segment begins below the end of the one before it.

What becomes of a chain is decided by those who write it to the catalog; here is what the catalog has, and
what is about to be put there:

* the closed segments. While a partition is being recovered, those that an earlier life left open are among
  them, as open ones, until `settle` has their agreed ends;
* those that are rolling: they take no more batches, and are not yet closed in the catalog, because some of
  what they hold is not durable, or because that is done together with the opening of the next segment;
* the one that appends go to, if there is one.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from gateway.log.segment import NO_TIMESTAMP, UNKNOWN, Segment
from gateway.log.transactions.aborted import AbortedTransactions
from mesh.protocol.writer import Writer


class OpenSegment:
    """A segment with a window: `writer` has it. `snapshot` is the idempotence state before its first batch,
    for its announcement.
    """

    __slots__ = (
        "aborted",
        "bytes",
        "max_timestamp",
        "next_epoch_before",
        "outdated",
        "segment",
        "snapshot",
        "writer",
    )

    def __init__(self, segment: Segment, writer: Writer, snapshot: bytes = b"") -> None:
        self.segment = segment
        self.writer = writer
        self.snapshot = snapshot
        self.bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        """The highest record timestamp in it, ms."""
        self.next_epoch_before = -1
        """The partition's `next_epoch` before this segment was put into the catalog; -1 until then."""
        self.aborted = AbortedTransactions()
        """The transactions that were aborted in it."""
        self.outdated = False
        """The topic is another since it was opened: the next append opens another one."""

    def add(self, size: int, max_timestamp: int) -> None:
        """A batch of `size` bytes is appended."""
        self.bytes += size
        if max_timestamp > self.max_timestamp:  # noqa: PLR1730 - for every batch, and `max` is a call
            self.max_timestamp = max_timestamp

    def outdate(self) -> None:
        """The topic is another now."""
        self.outdated = True

    def announced_to(self, confirmed: tuple[str, ...]) -> Segment:
        """These members have the announcement on their disks; the segment as the catalog is to have it."""
        self.segment = replace(self.segment, announced=True, confirmed=confirmed)
        return self.segment

    def closed(self, end_offset: int, now_ms: int) -> Segment:
        """As the catalog is to have it once all of it is durable."""
        last_sequence = self.writer.next_sequence - 1
        return self.segment.closed(
            end_offset,
            last_sequence,
            self.max_timestamp,
            size=self.bytes,
            closed_ms=now_ms,
            aborted=len(self.aborted),
            lowest_aborted=self.aborted.lowest,
        )


class SegmentChain:
    """One partition's segments. All methods return at once."""

    __slots__ = ("_closed", "_rolling", "current")

    def __init__(self) -> None:
        self._closed: list[Segment] = []
        self._rolling: list[OpenSegment] = []
        self.current: OpenSegment | None = None
        """The one that appends go to. Only the chain's methods set it."""

    # look-ups ----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> Sequence[Segment]:
        """What the catalog has before the segments with windows, oldest first; not to be changed, and not to
        be kept: it is another one after the next change.
        """
        return self._closed

    @property
    def rolling(self) -> Sequence[OpenSegment]:
        """Those that take no more batches and are not closed yet, oldest first; as `closed`."""
        return self._rolling

    @property
    def last_closed(self) -> Segment | None:
        """The newest of `closed`."""
        return self._closed[-1] if self._closed else None

    @property
    def newest(self) -> Segment | None:
        """The last segment of all."""
        return self.current.segment if self.current is not None else self.last_closed

    def segments(self) -> list[Segment]:
        """All of them, oldest first."""
        return self._closed + [opened.segment for opened in self.open_segments()]

    def open_segments(self) -> Sequence[OpenSegment]:
        """Those with a window, oldest first."""
        return [*self._rolling, self.current] if self.current else self._rolling

    def known_bytes(self) -> int:
        """What its segments hold, as far as the catalog or a window says; not those of unknown size."""
        closed = sum([segment.size for segment in self._closed if segment.size != UNKNOWN])
        return closed + sum([opened.bytes for opened in self.open_segments()])

    def left_open(self) -> list[Segment]:
        """Those that an earlier life left open, and whose ends are not agreed on yet."""
        return [segment for segment in self._closed if segment.is_open]

    def is_written_by(self, writer: Writer) -> bool:
        """Whether this is the window of one of its segments."""
        return any(opened.writer is writer for opened in self.open_segments())

    def window_bytes(self) -> int:
        """Content in its windows."""
        return sum(opened.writer.bytes for opened in self.open_segments())

    def segment_at(self, offset: int) -> Segment | None:
        """The last segment that begins at or below `offset`: the one that holds it, unless it lies beyond the
        log's end; None below the first one.
        """
        segments = self.segments()
        index = bisect_right(segments, offset, key=lambda segment: segment.start_offset)
        return segments[index - 1] if index else None

    def from_offset(self, offset: int) -> Iterator[tuple[Segment, OpenSegment | None]]:
        """The segments from the one that holds `offset` on, each with its window if it has one."""
        first = bisect_right(self._closed, offset, key=lambda segment: segment.start_offset)
        for place in range(max(0, first - 1), len(self._closed)):
            yield self._closed[place], None
        for opened in self.open_segments():
            yield opened.segment, opened

    def holds(self, address: str) -> bool:
        """Whether a segment of this address is in it."""
        return any(segment.address == address for segment in self.segments())

    def durable_upto(self, address: str) -> int | None:
        """The last sequence of a segment that may be shown (-1: none yet); None if it is not in the chain, or
        nobody knows that of it.
        """
        for opened in self.open_segments():
            if opened.segment.address == address:
                return opened.writer.committed
        for segment in reversed(self._closed):
            if segment.address == address and segment.last_sequence is not None:
                return segment.last_sequence
        return None

    def highest_end(self) -> int:
        """The highest end offset of a closed segment, 0 without any."""
        return max((one.end_offset for one in self._closed if one.end_offset is not None), default=0)

    # appending ---------------------------------------------------------------------------------------------

    def begin(self, opened: OpenSegment) -> None:
        """Appends go to this segment from now on."""
        assert self.current is None, "a chain has one open segment"
        assert opened.segment.start_offset >= self._end_before(), "offsets are given once"
        self.current = opened

    def _end_before(self) -> int:
        """No segment may begin below this offset now; where the last one that is rolling ends is not known
        here, so its start has to do.
        """
        if self._rolling:
            return self._rolling[-1].segment.start_offset
        last = self.last_closed
        return 0 if last is None or last.end_offset is None else last.end_offset

    def roll(self) -> None:
        """The open segment takes no more batches."""
        assert self.current is not None, "there is no open segment"
        self._rolling.append(self.current)
        self.current = None

    def close_rolling(self, end_offset: int, now_ms: int) -> list[Segment]:
        """All that are rolling are durable to their ends: they are closed from now on. Gives them as the
        catalog is to have them, oldest first.

        Each ends where the next one begins; without an open segment the last one ends at `end_offset`, which
        is the log's end.
        """
        following = [opened.segment.start_offset for opened in self.open_segments()[1:]]
        if self.current is None:
            following.append(end_offset)
        closed = [opened.closed(end, now_ms) for opened, end in zip(self._rolling, following, strict=False)]
        self._closed += closed
        self._rolling = []
        return closed

    # what recovery finds -----------------------------------------------------------------------------------

    def load(self, segments: Sequence[Segment]) -> None:
        """These are what the catalog has; nothing has a window any more."""
        self._closed = list(segments)
        self._rolling = []
        self.current = None

    def settle(self, closed: Sequence[Segment]) -> None:
        """What an earlier life had left open ended like this. One that is left out held nothing."""
        self._closed = [segment for segment in self._closed if not segment.is_open] + list(closed)

    # what others do to closed segments ---------------------------------------------------------------------

    def drop(self, addresses: Collection[str]) -> None:
        """These have left the chain in the catalog: they were its front. One that is here no more (another
        one has taken its place, or a recovery has loaded the new chain already) is passed over.
        """
        self._closed = [segment for segment in self._closed if segment.address not in addresses]

    def swap(self, sources: Sequence[str], made: Sequence[Segment]) -> bool:
        """The catalog has the segments `made` in the place of `sources` (by address), a run of closed ones.

        False, and nothing changes, if a recovery has loaded the new chain already.
        """
        addresses = [segment.address for segment in self._closed]
        if sources[0] not in addresses:
            return False
        first = addresses.index(sources[0])
        end = first + len(sources)
        assert addresses[first:end] == list(sources), "a chain loses segments at its front only"
        self._closed = [*self._closed[:first], *made, *self._closed[end:]]
        return True

    def replace(self, changed: Segment) -> None:
        """A closed segment has other members now; nothing happens if it has left the chain."""
        for place, segment in enumerate(self._closed):
            if segment.address == changed.address:
                self._closed[place] = changed

    def set_size(self, address: str, size: int) -> None:
        """So many bytes were counted in this closed segment; nothing happens if it has left the chain."""
        self._set(address, size=size)

    def set_aborted(self, address: str, aborted: int, lowest: int) -> None:
        """So many aborted transactions were counted in this closed segment, as `set_size`; `lowest` is the
        lowest first offset of these.
        """
        self._set(address, aborted=aborted, lowest_aborted=lowest)

    def _set(self, address: str, **found: int) -> None:
        for place, segment in enumerate(self._closed):
            if segment.address == address:
                self._closed[place] = replace(segment, **found)  # type: ignore[arg-type]
