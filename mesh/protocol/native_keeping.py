"""Which native records a store keeps, and which of them go: a quota and a retention of their own.

Native are the addresses that no OPEN or COPY ever announced. Kafka's segments are never looked at here: what
becomes of those a catalog decides.

Theory of operation: the records of an address are counted in chunks, each with its last sequence, its bytes
and when it was last written to. `due` names the chunks to drop: those older than the retention, and beyond
the quota the oldest of all addresses. An address of which nothing is left keeps its head, so its producer can
go on; beyond `MAX_NATIVE_ADDRESSES` the one that was silent for longest is forgotten altogether.
"""

import math
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

NATIVE_BYTES = 10 * 1024**3
"""Contents of all native records that a store keeps, with `NATIVE_KEY_BYTES` for each. Native producers ask
nobody, so without a bound they could take the disk from Kafka's topics."""

NATIVE_SECONDS = 7 * 24 * 3600.0
"""How long a store keeps native records after their arrival: Kafka's default for topics."""

NATIVE_KEY_BYTES = 64
"""Counted per native record besides its content: about what its key takes on the disk."""

MAX_NATIVE_ADDRESSES = 20_000
"""Native addresses that a store keeps: each start of a native producer makes one."""

NATIVE_CHUNKS = 64
"""A chunk is ended when it has this part of the quota, or of the retention: so much more may be kept."""

MIN_CHUNK_BYTES = 64 * 1024
"""Smallest chunk that is ended for its size."""

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
    began: float = 0.0


class Trim(NamedTuple):
    """The records of an address before `first` go."""

    address: str
    first: int


@dataclass(slots=True)
class Kept:
    """One native address."""

    address: str
    subject: str
    first: int = 0
    """The lowest sequence that is kept; behind `head` if nothing is."""
    head: int = -1
    chunks: deque[Chunk] = field(default_factory=deque)

    @property
    def size(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def written(self) -> float:
        return self.chunks[-1].written if self.chunks else 0.0

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
            kept.chunks.append(Chunk(last, size, written, written))
        return kept


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
        self.bytes += kept.size
        self._look = -math.inf

    def wrote(self, address: str, subject: str, sequence: int, size: int, now: float) -> None:
        """A record is durable; sequences of an address ascend. `now` in seconds since 1970."""
        kept = self._kept.get(address)
        if kept is None:
            kept = Kept(address, subject, sequence, sequence - 1)
            self.add(kept)
        size += NATIVE_KEY_BYTES
        chunk = kept.chunks[-1] if kept.chunks else None
        if chunk is None or self._is_ended(chunk, now):
            kept.chunks.append(Chunk(sequence, size, now, now))
        else:
            chunk.last, chunk.written = sequence, now
            chunk.bytes += size
        kept.head = sequence
        self.bytes += size
        self._changed[address] = None

    def _is_ended(self, chunk: Chunk, now: float) -> bool:
        return (
            chunk.bytes >= max(MIN_CHUNK_BYTES, self.quota_bytes // NATIVE_CHUNKS)
            or now - chunk.began >= self.seconds / NATIVE_CHUNKS
        )

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

    # what goes --------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Trim]:
        """What is to be dropped now, by age and by quota. Tell `trimmed` when it was."""
        over = self.bytes - self.quota_bytes
        if over <= 0 and now < self._look:
            return []
        firsts: dict[str, int] = {}
        self._look = math.inf
        for written, size, address, last in self._oldest_first():
            if over <= 0 and now - written < self.seconds:
                self._look = written + self.seconds
                break
            firsts[address] = last + 1
            over -= size
        return [Trim(address, first) for address, first in firsts.items()]

    def _oldest_first(self) -> Iterator[tuple[float, int, str, int]]:
        chunks = [
            (chunk.written, chunk.bytes, kept.address, chunk.last)
            for kept in self._kept.values()
            for chunk in kept.chunks
        ]
        # Of one address in order, whatever the clock did.
        return iter(sorted(chunks, key=lambda chunk: (chunk[0], chunk[2], chunk[3])))

    def put_off(self, addresses: Iterable[str]) -> None:
        """The counts of these could not be written: `take_changed` gives them again."""
        self._changed |= dict.fromkeys(address for address in addresses if address in self._kept)

    def trimmed(self, trim: Trim) -> bytes:
        """It was dropped: what is kept of the address now, packed for the disk."""
        kept = self._kept[trim.address]
        while kept.chunks and kept.chunks[0].last < trim.first:
            gone = kept.chunks.popleft()
            self.bytes -= gone.bytes
            self.trimmed_bytes += gone.bytes
        kept.first = max(kept.first, trim.first)
        return kept.pack()

    def too_many(self) -> list[str]:
        """The addresses beyond `MAX_NATIVE_ADDRESSES`, those silent for longest; `forget` them."""
        beyond = len(self._kept) - MAX_NATIVE_ADDRESSES
        if beyond <= 0:
            return []
        return sorted(self._kept, key=lambda address: self._kept[address].written)[:beyond]
