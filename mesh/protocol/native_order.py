"""What a native consumer delivers: the records of one subject, each once, in the order of each address.

Rules: a record is delivered behind the one before it, or never; nothing is delivered twice; what waits is
bounded in bytes and records, and what finds no room is asked for again later.

What is delivered lies in runs: records of one address, one behind the other. A reader takes records, or runs.

Theory of operation: every address of the subject that is heard of has a `Stream`, unless the reader does not
want it. Its first delivered record is the one where the reader has stopped before; or else 0 (from the
beginning), or the first that is published after the address was first heard of. What a RECORD
or HEAD shows to be missing is asked for by FETCH, at growing intervals, until it is here, or until many in a
row brought nothing while nobody said anything new. A store that no longer has the beginning of an address
says where it begins (`on_start`): after some fruitless FETCHes the consumer goes on from there, and counts
what it skipped.

Stores that keep different contents of one record, as a C producer leaves them that was asked for what it had
sent before, are found out by it: of the latest records of an address a checksum is kept, if the reader wants
that, and what comes again is compared (`rewrites`). The first content that came counts.

Subscriptions match prefixes, and so do the heads that C stores tell: other subjects are dropped here.
"""

from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from wireproto.dafka.messages import Fetch

MAX_READY_BYTES = 32 * 1024 * 1024
"""Records that wait for the reader of a native consumer, with their overhead. Beyond it nothing is taken, and
nothing asked for."""

MAX_REORDER_BYTES = 32 * 1024 * 1024
"""Records of all addresses together that a native consumer has out of turn, with their overhead."""

MAX_REORDER_RECORDS = 4096
"""How far ahead of the next one a record is kept."""

MAX_RUN_BYTES = 1024 * 1024
"""Records in a row of one address, with their overhead, that a reader may take at once; what comes in one
message with the last of them is among them."""

MAX_STREAMS = 65_536
"""Addresses that one native consumer follows; it takes no records of further ones."""

CONSUMER_FETCH_COUNT = 1024
"""Records that one FETCH asks for: every store answers it, so a range is small."""

CONSUMER_FETCH_FIRST_SECONDS = 0.1
CONSUMER_FETCH_LAST_SECONDS = 2.0
"""A gap is asked for again at these intervals, from the first to the last, until it is filled."""

MAX_CONSUMER_FETCHES = 30
"""FETCHes in a row that brought nothing, while nobody told anything new of the address: about a minute. The
next RECORD or HEAD begins anew."""

TRIES_BEFORE_SKIP = 4
"""Fruitless FETCHes before the beginning that a store told is believed to be the first that anybody has."""


MAX_COMPARED_AHEAD = 1024 * 1024
"""Checksums of four bytes that are kept of addresses whose records come many at once."""

MAX_REWRITES = 1_000
"""Addresses with a record that came with two contents; of more nothing is said."""

Begin = Callable[[str, int], int | None]
"""(address, the first sequence that is published from now on) -> the sequence that is delivered first; None:
the address is not for this reader, and asked about again when it is heard of next."""


def from_first(_address: str, _following: int) -> int:
    """From the beginning of each address."""
    return 0


def from_next(_address: str, following: int) -> int:
    """What is published from now on."""
    return following


class Limits(NamedTuple):
    """What one reader may have, and how long it waits."""

    ready_bytes: int = MAX_READY_BYTES
    """Records that wait for it, with their overhead."""
    reorder_bytes: int = MAX_REORDER_BYTES
    """Records of all addresses together that are here out of turn, with their overhead."""
    tries_before_skip: int = TRIES_BEFORE_SKIP
    """Fruitless FETCHes before the beginning that a store told is believed."""
    fetches_at_once: int = MAX_STREAMS
    """FETCHes that are made at a time."""
    compared_records: int = 0
    """Of each address, records that were delivered last: another content of one of them is found out."""
    compared_ahead: int = 0
    """And of those whose records come many at once, as long as all of these have `MAX_COMPARED_AHEAD`."""
    fetch_records: int = CONSUMER_FETCH_COUNT
    """Records that one FETCH asks for."""


class Delivery(NamedTuple):
    """One record for the reader."""

    address: str
    sequence: int
    content: bytes


class Run:
    """Records of one address from `sequence` on, each the next one of that before it; `size`: as they are
    `counted`.
    """

    __slots__ = ("address", "contents", "sequence", "size")

    def __init__(self, address: str, sequence: int) -> None:
        self.address = address
        self.sequence = sequence
        self.contents: list[bytes] = []
        self.size = 0

    @property
    def following(self) -> int:
        """The sequence behind the last one."""
        return self.sequence + len(self.contents)

    def take(self, records: int) -> list[bytes]:
        """The first so many, which are taken out; fewer if there are fewer."""
        taken = self.contents[:records]
        del self.contents[:records]
        self.sequence += len(taken)
        self.size -= counted_all(taken)
        return taken


def add_to_runs(runs: deque[Run], address: str, sequence: int, contents: Collection[bytes]) -> int:
    """Put records behind the last ones, in one run with them if they go on there and it is not large; bytes
    that these are counted as.
    """
    run = runs[-1] if runs else None
    if run is None or run.following != sequence or run.address != address or run.size >= MAX_RUN_BYTES:
        run = Run(address, sequence)
        runs.append(run)
    size = counted_all(contents)
    run.contents += contents
    run.size += size
    return size


DEFAULT_LIMITS = Limits()


def counted(content: bytes) -> int:
    """Bytes that a record is counted as."""
    return len(content) + RECORD_OVERHEAD_BYTES


def counted_all(contents: Collection[bytes]) -> int:
    """Bytes that these are counted as together."""
    return sum(map(len, contents)) + RECORD_OVERHEAD_BYTES * len(contents)


class Stream:
    """One address: what was delivered of it, what is missing, what came out of turn."""

    __slots__ = ("ahead", "asked", "checksums", "due", "first", "interval", "last", "next", "start", "tries")

    def __init__(self, following: int, compared: int = 0) -> None:
        self.first = following
        """The first of the delivered records of which a checksum may be kept: none was left out behind it."""
        self.checksums = array("I", bytes(array("I").itemsize * compared))
        """Of the records that were delivered last, each in the place of its sequence by their number."""
        self.next = following
        """The sequence that is delivered next."""
        self.last = following - 1
        """The highest that was published, as far as is known."""
        self.ahead: dict[int, bytes] = {}
        self.start = -1
        """The lowest sequence from which on some store said that it has the address; -1: none said so."""
        self.asked = -1
        """The last sequence that was asked for."""
        self.due = 0.0
        self.interval = CONSUMER_FETCH_FIRST_SECONDS
        self.tries = 0

    @property
    def lacks(self) -> bool:
        return self.next <= self.last

    def delivers(self, contents: Sequence[bytes]) -> int:
        """The next records are delivered; the sequence of the first."""
        first = self.next
        self.next = first + len(contents)
        count = len(self.checksums)
        if count:
            passed = max(0, len(contents) - count)
            for sequence, content in enumerate(islice(contents, passed, None), first + passed):
                self.checksums[sequence % count] = crc32(content)
        return first

    def compare(self, count: int) -> None:
        """Remember so many from now on, and what is remembered."""
        checksums = array("I", bytes(array("I").itemsize * count))
        for sequence in range(self.compared_from, self.next):
            checksums[sequence % count] = self.checksums[sequence % len(self.checksums)]
        self.first = max(self.first, self.compared_from)
        self.checksums = checksums

    def is_another(self, sequence: int, content: bytes) -> bool:
        """Whether a record that is here, or was delivered a short while ago, had another content."""
        if sequence in self.ahead:
            return self.ahead[sequence] != content
        if not self.compared_from <= sequence < self.next:
            return False
        return self.checksums[sequence % len(self.checksums)] != crc32(content)

    @property
    def compared_from(self) -> int:
        """The first of the delivered records of which a checksum is kept."""
        return max(self.first, self.next - len(self.checksums))

    def heard(self, last: int, now: float, tries: int) -> None:
        """Everything up to `last` was published; no more than so many tries count as fruitless then."""
        if last > self.last:
            if not self.lacks:
                self.due = now
                self.interval = CONSUMER_FETCH_FIRST_SECONDS
            self.last = last
        self.tries = min(self.tries, tries)

    def missing_to(self) -> int:
        """The last sequence before what came out of turn."""
        return min(self.ahead) - 1 if self.ahead else self.last


class NativeOrder:
    """One subject's consumer. `requester` is the name it is answered under; `begin` says where each address
    is delivered from.
    """

    def __init__(
        self, subject: str, requester: str, begin: Begin = from_next, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._limits = limits
        self.subject = subject
        self.requester = requester
        self._begin = begin
        self.ready: deque[Run] = deque()
        """None of them is empty."""
        self.skipped = 0
        """Records that no store had any more."""
        self.duplicates = 0
        self.dropped = 0
        """Records that found no room: they are asked for again."""
        self.refused_addresses = 0
        self.rewrites: dict[str, int] = {}
        """Addresses as they were found out, and of each the first record that came with two contents."""
        self._streams: dict[str, Stream] = {}
        self._lacking: dict[str, Stream] = {}
        self._ready_bytes = 0
        self._ready_records = 0
        self._ahead_bytes = 0
        self._compared_ahead = 0

    # events -----------------------------------------------------------------------------------------------

    def on_record(self, address: str, subject: str, sequence: int, content: bytes, now: float) -> None:
        """RECORD or DIRECT-RECORD."""
        stream = self._stream(address, subject, sequence)
        if stream is None:
            return
        stream.heard(sequence, now, self._limits.tries_before_skip)
        if sequence == stream.next and sequence not in stream.ahead and self._has_room():
            self._deliver(address, stream, (content,), now)
        elif sequence < stream.next or sequence in stream.ahead:
            self.duplicates += 1
            if self._limits.compared_records and stream.is_another(sequence, content):
                self._note_rewrite(address, sequence)
        else:
            self._keep(stream, sequence, content)
        self._note(address, stream)

    def on_records(
        self, address: str, subject: str, first: int, contents: Sequence[bytes], now: float
    ) -> None:
        """DIRECT-RECORDS: as `on_record` for each."""
        stream = self._streams.get(address)
        if stream is None or subject != self.subject:
            self._on_each(address, subject, first, contents, now)
            return
        if self._limits.compared_ahead > len(stream.checksums):
            self._compare_more(stream)
        last = first + len(contents) - 1
        stream.heard(last, now, self._limits.tries_before_skip)
        known = max(0, stream.next - first)
        self._on_known(address, stream, first, contents[:known])
        new = contents[known:]
        if first > stream.next or stream.ahead:
            self._on_ahead(address, stream, first + known, new, now)
        elif new and self._has_room():
            self._deliver(address, stream, new, now)
        else:
            self.dropped += len(new)
        self._note(address, stream)

    def _on_each(self, address: str, subject: str, first: int, contents: Sequence[bytes], now: float) -> None:
        for sequence, content in enumerate(contents, first):
            self.on_record(address, subject, sequence, content, now)

    def _on_ahead(
        self, address: str, stream: Stream, first: int, contents: Sequence[bytes], now: float
    ) -> None:
        """Records of which the next one is none, or that meet others that came out of turn."""
        near = max(0, stream.next + MAX_REORDER_RECORDS + 1 - first)
        if self._ahead_bytes + RECORD_OVERHEAD_BYTES > self._limits.reorder_bytes and first > stream.next:
            near = 0
        self.dropped += len(contents[near:])
        self._on_each(address, self.subject, first, contents[:near], now)

    def _compare_more(self, stream: Stream) -> None:
        """Its records come many at once, from several stores: more of them have to be remembered."""
        size = self._limits.compared_ahead
        if self._compared_ahead + size <= MAX_COMPARED_AHEAD:
            self._compared_ahead += size
            stream.compare(size)

    def _on_known(self, address: str, stream: Stream, first: int, contents: Sequence[bytes]) -> None:
        """Records that were delivered before."""
        self.duplicates += len(contents)
        if self._limits.compared_records:
            start = max(first, stream.compared_from)
            for sequence, content in enumerate(islice(contents, start - first, None), start):
                if stream.is_another(sequence, content):
                    self._note_rewrite(address, sequence)

    def on_head(self, address: str, subject: str, sequence: int, now: float) -> None:
        """HEAD or DIRECT-HEAD: everything up to `sequence` was published."""
        stream = self._stream(address, subject, sequence + 1)
        if stream is not None:
            stream.heard(sequence, now, self._limits.tries_before_skip)
            self._note(address, stream)

    def on_start(self, address: str, first: int, now: float) -> None:
        """A store has nothing of this address before `first`."""
        stream = self._streams.get(address)
        if stream is None or first <= stream.next:
            return
        stream.start = first if stream.start < 0 else min(stream.start, first)
        stream.heard(first - 1, now, self._limits.tries_before_skip)
        self._note(address, stream)

    def _note_rewrite(self, address: str, sequence: int) -> None:
        if len(self.rewrites) < MAX_REWRITES:
            self.rewrites.setdefault(address, sequence)

    @property
    def behind(self) -> int:
        """Records that were published, as far as is known, and not taken by the reader."""
        return self._ready_records + sum(
            stream.last + 1 - stream.next for stream in self._streams.values() if stream.lacks
        )

    def following(self, address: str) -> int:
        """The first sequence that is not published yet, as far as is known; 0 of one that is not followed."""
        stream = self._streams.get(address)
        return 0 if stream is None else stream.last + 1

    def _has_room(self) -> bool:
        return self._ready_bytes < self._limits.ready_bytes

    def take(self) -> Delivery:
        """The next record for the reader. Raises IndexError when there is none."""
        run = self.ready[0]
        sequence, (content,) = run.sequence, run.take(1)
        if not run.contents:
            del self.ready[0]
        self._ready_bytes -= counted(content)
        self._ready_records -= 1
        return Delivery(run.address, sequence, content)

    def take_run(self) -> Run:
        """The next records of one address. Raises IndexError when there are none."""
        run = self.ready.popleft()
        self._ready_bytes -= run.size
        self._ready_records -= len(run.contents)
        return run

    def fetches(self, now: float, of: Iterable[str] | None = None) -> list[Fetch]:
        """The FETCHes that are due, of these addresses or of all."""
        found: list[Fetch] = []
        if not self._has_room():
            return found
        patience = self._limits.tries_before_skip
        for address in list(self._lacking) if of is None else of:
            stream = self._lacking.get(address)
            if stream is None:
                continue
            if len(found) >= self._limits.fetches_at_once:
                break
            if stream.next in stream.ahead:
                self._deliver(address, stream, (self._take_ahead(stream, stream.next),), now)
            if now < stream.due:
                continue
            if stream.start > stream.next and stream.tries >= patience:
                self._skip(address, stream, now)
            if stream.tries >= patience + MAX_CONSUMER_FETCHES - TRIES_BEFORE_SKIP or not stream.lacks:
                del self._lacking[address]
                continue
            stream.tries += 1
            stream.due = now + stream.interval
            stream.interval = min(stream.interval * 2, CONSUMER_FETCH_LAST_SECONDS)
            count = min(self._limits.fetch_records, max(1, stream.missing_to() - stream.next + 1))
            stream.asked = stream.next + count - 1
            found.append(Fetch(address, self.requester, self.subject, stream.next, count))
            self._lacking[address] = self._lacking.pop(address)  # others first the next time
        return found

    # streams ----------------------------------------------------------------------------------------------

    def _stream(self, address: str, subject: str, following: int) -> Stream | None:
        """The stream of an address; a new one begins where the reader says."""
        if subject != self.subject:
            return None
        stream = self._streams.get(address)
        if stream is None:
            first = self._begin(address, following)
            if first is None:
                return None
            if len(self._streams) >= MAX_STREAMS:
                self.refused_addresses += 1
                return None
            stream = self._streams[address] = Stream(first, self._limits.compared_records)
        return stream

    def forget(self, addresses: Collection[str]) -> None:
        """Nothing more of them is delivered before the reader has been asked again where they begin; nor is
        what waits of them.
        """
        forgotten = set(addresses) & self._streams.keys()
        for address in forgotten:
            stream = self._streams.pop(address)
            self._lacking.pop(address, None)
            self._ahead_bytes -= sum(map(counted, stream.ahead.values()))
            if len(stream.checksums) > self._limits.compared_records:
                self._compared_ahead -= len(stream.checksums)
        if forgotten and self.ready:
            dropped = [run for run in self.ready if run.address in forgotten]
            self._ready_bytes -= sum(run.size for run in dropped)
            self._ready_records -= sum(len(run.contents) for run in dropped)
            self.ready = deque(run for run in self.ready if run.address not in forgotten)

    def _deliver(self, address: str, stream: Stream, contents: Sequence[bytes], now: float) -> None:
        """The records that were waited for, and those behind them that are here."""
        self._put(address, stream, contents)
        while self._has_room() and stream.next in stream.ahead:
            self._put(address, stream, (self._take_ahead(stream, stream.next),))
        stream.tries = 0
        stream.interval = CONSUMER_FETCH_FIRST_SECONDS
        # A store may send less than was asked for: what does not follow soon is asked for again.
        stream.due = now if stream.next > stream.asked else now + CONSUMER_FETCH_FIRST_SECONDS

    def _put(self, address: str, stream: Stream, contents: Sequence[bytes]) -> None:
        self._ready_bytes += add_to_runs(self.ready, address, stream.delivers(contents), contents)
        self._ready_records += len(contents)

    def _take_ahead(self, stream: Stream, sequence: int) -> bytes:
        content = stream.ahead.pop(sequence)
        self._ahead_bytes -= counted(content)
        return content

    def _keep(self, stream: Stream, sequence: int, content: bytes) -> None:
        size = counted(content)
        near = 0 < sequence - stream.next <= MAX_REORDER_RECORDS
        if near and self._ahead_bytes + size <= self._limits.reorder_bytes:
            stream.ahead[sequence] = content
            self._ahead_bytes += size
        else:
            self.dropped += 1

    def _skip(self, address: str, stream: Stream, now: float) -> None:
        """Nobody has the next records any more: go on from where a store begins, or from what is here."""
        first = min(stream.start, *stream.ahead) if stream.ahead else stream.start
        self.skipped += first - stream.next
        stream.next, stream.start, stream.tries, stream.due = first, -1, 0, now
        stream.first = first
        if first in stream.ahead:
            self._deliver(address, stream, (self._take_ahead(stream, first),), now)

    def _note(self, address: str, stream: Stream) -> None:
        if stream.lacks:
            self._lacking[address] = stream
        else:
            self._lacking.pop(address, None)
