"""Which native records a store keeps, and which of them go: a quota and a retention of their own.

Native are the addresses that no OPEN or COPY ever announced. Kafka's segments are never looked at here: what
becomes of those a catalog decides.

Theory of operation: the records of an address are counted in chunks, each with its last sequence, its bytes
and when it was last written to. `due` names the chunks to drop: those older than the retention, unless a
topic is still to have them (`mesh.protocol.native_wanted`), and beyond the quota the oldest of all addresses,
first of those that no topic waits for. An address of which nothing is left keeps its head, so its producer
can go on; beyond `MAX_NATIVE_ADDRESSES` one that no topic waits for, and that was silent for longest, is
forgotten altogether.
"""

import math
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from typing import NamedTuple

from mesh.protocol.native_wanted import Terms, WantedSubjects
from wireproto.dafka.additions import NativeTopic

NATIVE_BYTES = 10 * 1024**3
"""Contents of all native records that a store keeps, with `NATIVE_KEY_BYTES` for each. Native producers ask
nobody, so without a bound they could take the disk from Kafka's topics."""

NATIVE_SECONDS = 7 * 24 * 3600.0
"""How long a store keeps native records after their arrival, if no topic is still to have them: Kafka's
default for topics."""

NATIVE_KEY_BYTES = 64
"""Counted per native record besides its content: about what its key takes on the disk."""

MAX_NATIVE_ADDRESSES = 20_000
"""Native addresses that a store keeps: each start of a native producer makes one."""

NATIVE_CHUNKS = 64
"""A chunk is ended when it has this part of the quota, or of the retention: so much more may be kept."""

MIN_CHUNK_BYTES = 64 * 1024
"""Smallest chunk that is ended for its size."""

MIN_CHUNK_SECONDS = 10.0
"""Shortest time after which a chunk is ended: of a topic that wants nothing kept."""

MAX_CHUNKS = 2 * NATIVE_CHUNKS
"""Of one address that has more than such a part of the quota; then the two neighbours that are smallest
together become one, which is a part of the quota at most."""

FEW_CHUNKS = NATIVE_CHUNKS + 2
"""Of one that has less, as many as its retention makes: there may be many such addresses."""

_HEADER = struct.Struct(">BqqI")
_CHUNK = struct.Struct(">qqd")
_VERSION = 1


@dataclass(slots=True)
class Chunk:
    """A run of records of one address; the first begins where the chunk before it ended."""

    last: int
    bytes: int
    written: float
    """When the last of it came: seconds since 1970, which a store remembers over its restarts."""
    ends: float = math.inf
    """When the next record begins another one."""


class Trim(NamedTuple):
    """The records of an address before `first` go. `untaken`: not all of them are in the topics that have
    its subject.
    """

    address: str
    first: int
    untaken: bool = False


@dataclass(slots=True)
class Kept:
    """One native address."""

    address: str
    subject: str
    first: int = 0
    """The lowest sequence that is kept; behind `head` if nothing is."""
    head: int = -1
    chunks: deque[Chunk] = field(default_factory=deque)
    emptied: float = 0.0
    """When the last record was written of those that went last."""
    largest: float = math.inf
    """No record has more bytes; of one that the disk kept that is not known."""
    taken: dict[str, int] = field(default_factory=dict)
    """Topic -> the first record that it does not have. Not on the disk: gateways tell it again."""

    @property
    def size(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def written(self) -> float:
        return self.chunks[-1].written if self.chunks else self.emptied

    def pack(self) -> bytes:
        """For the disk; the subject is kept with the head."""
        chunks = [_CHUNK.pack(chunk.last, chunk.bytes, chunk.written) for chunk in self.chunks]
        return _HEADER.pack(_VERSION, self.first, self.head, len(chunks)) + b"".join(chunks)

    @classmethod
    def unpack(cls, address: str, subject: str, value: bytes) -> "Kept":
        """The reverse of `pack`; b"" is one of which nothing was counted yet. Raises ValueError."""
        kept = cls(address, subject)
        if not value:
            return kept
        try:
            version, kept.first, kept.head, count = _HEADER.unpack_from(value)
            sized = len(value) == _HEADER.size + count * _CHUNK.size
        except struct.error as error:
            raise ValueError(str(error)) from None
        if version != _VERSION or not sized:
            raise ValueError(f"version {version}, {len(value)} bytes")
        for last, size, written in _CHUNK.iter_unpack(value[_HEADER.size :]):
            kept.chunks.append(Chunk(last, size, written))
        return kept


class _Going(NamedTuple):
    """A chunk, in the order in which chunks go."""

    is_later: bool
    is_wanted: bool
    written: float
    address: str
    place: int
    due: float


def _join_two(chunks: deque[Chunk]) -> None:
    """Make one of the two neighbours that are smallest together."""
    pairs = pairwise(chunk.bytes for chunk in chunks)
    place = min(enumerate(pairs), key=lambda pair: sum(pair[1]))[0]
    chunks[place + 1].bytes += chunks[place].bytes
    del chunks[place]


def first_kept(address: str, first: int) -> bytes:
    """What the disk has of an address with its first record: nothing was counted yet."""
    return Kept(address, "", first, first - 1).pack() if first else b""


class NativeKeeping:
    """All native addresses of a store."""

    def __init__(self, quota_bytes: int = NATIVE_BYTES, seconds: float = NATIVE_SECONDS) -> None:
        self.quota_bytes = quota_bytes
        self.seconds = seconds
        self.bytes = 0
        self.trimmed_bytes = 0
        """Dropped since the start, by quota and retention."""
        self.untaken_bytes = 0
        """Of these, in runs of records that a topic was still to have."""
        self.wanted = WantedSubjects(seconds)
        self._kept: dict[str, Kept] = {}
        self._by_subject: dict[str, dict[str, Kept]] = {}
        self._changed: dict[str, None] = {}
        self._look = -math.inf
        """Nothing is older than the retention before this."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, address: str) -> Kept | None:
        return self._kept.get(address)

    def add(self, kept: Kept) -> None:
        """An address that the disk keeps."""
        self._kept[kept.address] = kept
        self._by_subject.setdefault(kept.subject, {})[kept.address] = kept
        self._end_in_time(kept)
        self.bytes += kept.size
        self._look = -math.inf

    def wrote(self, address: str, subject: str, sequence: int, size: int, now: float) -> None:
        """A record is durable; sequences of an address ascend. `now` in seconds since 1970."""
        kept = self._kept.get(address)
        if kept is None:
            kept = Kept(address, subject, sequence, sequence - 1, largest=0)
            self.add(kept)
        kept.largest = max(kept.largest, size)
        size += NATIVE_KEY_BYTES
        chunk = kept.chunks[-1] if kept.chunks else None
        if chunk is None or self._is_ended(chunk, now):
            self._begin_chunk(kept, Chunk(sequence, size, now, now + self._chunk_seconds(kept)))
        else:
            chunk.last, chunk.written = sequence, now
            chunk.bytes += size
        kept.head = sequence
        self.bytes += size
        self._changed[address] = None

    def wrote_all(self, address: str, subject: str, written: Sequence[tuple[int, int]], now: float) -> None:
        """As `wrote` for each sequence and size: in one step where they all belong to the last chunk."""
        kept = self._kept.get(address)
        chunk = kept.chunks[-1] if kept is not None and kept.chunks else None
        sizes = [size for _, size in written]
        size = sum(sizes) + NATIVE_KEY_BYTES * len(sizes)
        if kept is None or chunk is None or chunk.bytes + size >= self._chunk_bytes or now >= chunk.ends:
            for sequence, each in written:
                self.wrote(address, subject, sequence, each, now)
            return
        kept.largest = max(kept.largest, *sizes)
        kept.head, _ = written[-1]
        chunk.last, chunk.written = kept.head, now
        chunk.bytes += size
        self.bytes += size
        self._changed[address] = None

    def _is_ended(self, chunk: Chunk, now: float) -> bool:
        return chunk.bytes >= self._chunk_bytes or now >= chunk.ends

    @property
    def _chunk_bytes(self) -> int:
        return max(MIN_CHUNK_BYTES, self.quota_bytes // NATIVE_CHUNKS)

    def _chunk_seconds(self, kept: Kept) -> float:
        longest = self.seconds / NATIVE_CHUNKS
        if kept.subject not in self.wanted:
            return longest
        return max(min(MIN_CHUNK_SECONDS, longest), self._terms(kept).seconds / NATIVE_CHUNKS)

    def _end_in_time(self, kept: Kept) -> None:
        """Have the last chunk of an address end as its terms are now, if it does not sooner."""
        if kept.chunks:
            last = kept.chunks[-1]
            last.ends = min(last.ends, last.written + self._chunk_seconds(kept))

    def _begin_chunk(self, kept: Kept, chunk: Chunk) -> None:
        chunks = kept.chunks
        if len(chunks) >= FEW_CHUNKS:
            most = MAX_CHUNKS if kept.size > self._chunk_bytes else FEW_CHUNKS
            while len(chunks) >= most:
                _join_two(chunks)
        chunks.append(chunk)
        if kept.subject not in self.wanted:
            self._look = min(self._look, chunk.written + self.seconds)

    def forget(self, address: str) -> bool:
        """Nothing of it is kept any more, or it is no native one. True if it was known."""
        kept = self._kept.pop(address, None)
        if kept is None:
            return False
        self.bytes -= kept.size
        self._changed.pop(address, None)
        same = self._by_subject[kept.subject]
        del same[address]
        if not same:
            del self._by_subject[kept.subject]
        return True

    def heads(self, subject: str) -> list[tuple[str, int]]:
        """(address, head) of exactly this subject, of which something is kept."""
        found = self._by_subject.get(subject, {}).values()
        return [(kept.address, kept.head) for kept in found if kept.first <= kept.head]

    def take_changed(self, most: int) -> dict[str, bytes]:
        """Up to so many addresses whose counts have changed, packed for the disk."""
        taken = list(self._changed)[:most]
        for address in taken:
            del self._changed[address]
        return {address: self._kept[address].pack() for address in taken}

    # what topics have --------------------------------------------------------------------------------------

    def told(self, topics: tuple[NativeTopic, ...], now: float) -> bool:
        """A gateway tells which topics take up a subject, as `WantedSubjects.told` says."""
        changed = self.wanted.told(topics, now)
        if changed:
            self._look = -math.inf
            for kept in self._kept.values():
                kept.taken = {
                    topic: following
                    for topic, following in kept.taken.items()
                    if self.wanted.has(NativeTopic(topic, kept.subject))
                }
                self._end_in_time(kept)
        return changed

    def took(self, topic: NativeTopic, address: str, following: int) -> None:
        """A topic has the records of an address before `following`, on as many stores as count. What is told
        last stands: after an accepted loss a topic lacks what it had.
        """
        kept = self._kept.get(address)
        if kept is None or kept.subject != topic.subject or not self.wanted.has(topic):
            return
        kept.taken[topic.topic] = following
        terms = self._terms(kept)
        if kept.chunks and kept.chunks[0].last < terms.following:
            self._look = min(self._look, kept.chunks[0].written + terms.seconds)

    def is_taken(self, address: str) -> bool:
        """Whether nothing that is kept of an address is still to come into a topic that takes up its subject,
        of which there is one; or nothing is kept at all.
        """
        kept = self._kept.get(address)
        if kept is None or kept.first > kept.head:
            return True
        return kept.subject in self.wanted and kept.head < self._terms(kept).following

    def _terms(self, kept: Kept) -> Terms:
        return self.wanted.terms(kept.subject, kept.taken)

    # what goes --------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Trim]:
        """What is to be dropped now, by age and by quota: first what is due, then what no topic waits for,
        then the oldest; and of one address in order. Tell `trimmed` when it was.
        """
        over = self.bytes - self.quota_bytes
        if over <= 0 and now < self._look:
            return []
        firsts: dict[str, Trim] = {}
        heads = [one for kept in self._kept.values() if (one := self._next_to_go(kept, 0, -math.inf, now))]
        heapify(heads)
        while heads and (over > 0 or not heads[0].is_later):
            going = heads[0]
            kept = self._kept[going.address]
            chunk = kept.chunks[going.place]
            before = firsts.get(going.address)
            untaken = going.is_wanted or (before is not None and before.untaken)
            firsts[going.address] = Trim(going.address, chunk.last + 1, untaken)
            over -= chunk.bytes
            following = self._next_to_go(kept, going.place + 1, going.written, now)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, following)
        self._look = min((going.due for going in heads), default=math.inf)
        return list(firsts.values())

    def _next_to_go(self, kept: Kept, place: int, written: float, now: float) -> "_Going | None":
        """A chunk of an address; `written` is when the one before it was."""
        if place >= len(kept.chunks):
            return None
        chunk, terms = kept.chunks[place], self._terms(kept)
        # Of one address in order, whatever the clock did.
        written = max(written, chunk.written)
        is_wanted = chunk.last >= terms.following
        due = math.inf if is_wanted else written + terms.seconds
        return _Going(due > now, is_wanted, written, kept.address, place, due)

    def put_off(self, addresses: Iterable[str]) -> None:
        """The counts of these could not be written: `take_changed` gives them again."""
        self._changed |= dict.fromkeys(address for address in addresses if address in self._kept)

    def trimmed(self, trim: Trim) -> bytes:
        """It was dropped: what is kept of the address now, packed for the disk."""
        kept = self._kept[trim.address]
        following = self._terms(kept).following
        while kept.chunks and kept.chunks[0].last < trim.first:
            gone = kept.chunks.popleft()
            kept.emptied = gone.written
            self.bytes -= gone.bytes
            self.trimmed_bytes += gone.bytes
            if gone.last >= following:
                self.untaken_bytes += gone.bytes
        kept.first = max(kept.first, trim.first)
        return kept.pack()

    def too_many(self) -> list[str]:
        """The addresses beyond `MAX_NATIVE_ADDRESSES`: those that no topic waits for, and of these the ones
        silent for longest; `forget` them.
        """
        beyond = len(self._kept) - MAX_NATIVE_ADDRESSES
        if beyond <= 0:
            return []

        def order(kept: Kept) -> tuple[bool, float]:
            return kept.first <= kept.head and kept.head >= self._terms(kept).following, kept.written

        return [kept.address for kept in sorted(self._kept.values(), key=order)[:beyond]]

    def forget_all_of(self, address: str) -> bool:
        """Its records are dropped, as of `too_many`. True if a topic was still to have some."""
        kept = self._kept.get(address)
        if kept is None:
            return False
        following = self._terms(kept).following
        untaken = sum(chunk.bytes for chunk in kept.chunks if chunk.last >= following)
        self.trimmed_bytes += kept.size
        self.untaken_bytes += untaken
        self.forget(address)
        return untaken > 0
