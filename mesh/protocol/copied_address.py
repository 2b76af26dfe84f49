"""One address whose records a store fetches from others: what was asked for, what came, whom to ask next."""

from collections import deque
from collections.abc import Callable

from mesh.protocol.address_state import AddressState
from mesh.protocol.copying import Want

RANGES_AN_ADDRESS = 4
"""Ranges of one address that are asked for, or wait for those before them."""

RANGE_BYTES = 1024 * 1024
"""Content in one range; the record that passes it is the last one."""

RANGE_RECORDS = 1024
"""Records in one range, however small: below the sockets' high-water mark with all ranges together."""

REST_FIRST_SECONDS = 1.0
REST_LAST_SECONDS = 30.0
"""How long a source is left alone after it failed: these intervals, doubled each time, from first to last."""


class Range:
    """A run of sequences asked of one source, and what of it came."""

    __slots__ = (
        "address",
        "asked_from",
        "bytes",
        "deadline",
        "first",
        "is_here",
        "last",
        "received",
        "records",
        "requester",
        "source",
    )

    def __init__(
        self, address: str, first: int, last: int, source: str, requester: str, deadline: float
    ) -> None:
        self.address = address
        self.first = first
        """The sequence of the first record that is still held, or must come next."""
        self.asked_from = first
        self.last = last
        self.source = source
        self.requester = requester
        self.deadline = deadline
        """When its source counts as silent."""
        self.records: deque[bytes] = deque()
        self.bytes = 0
        """The bytes of `records`."""
        self.received = 0
        """The bytes of all records that came."""
        self.is_here = False
        """Nothing more of it will come."""

    @property
    def next(self) -> int:
        """The sequence that must come next."""
        return self.first + len(self.records)

    @property
    def cost(self) -> int:
        """What it counts against the bytes that may be held."""
        return self.bytes if self.is_here else max(self.bytes, RANGE_BYTES)

    @property
    def is_used_up(self) -> bool:
        return self.is_here and not self.records

    def wants(self, sequence: int) -> bool:
        """Whether the record of this sequence is the next one, and still within the range."""
        return sequence == self.next and sequence <= self.last and self.received < RANGE_BYTES

    def put(self, content: bytes) -> None:
        self.records.append(content)
        self.bytes += len(content)
        self.received += len(content)

    def skip(self, accepted: int) -> None:
        """Let go of what is not behind `accepted`."""
        while self.records and self.first <= accepted:
            self.bytes -= len(self.records.popleft())
            self.first += 1
        if not self.records:
            self.first = max(self.first, accepted + 1)


class Rest:
    """When a source may be asked again."""

    __slots__ = ("_interval", "until")

    def __init__(self) -> None:
        self.until = 0.0
        self._interval = REST_FIRST_SECONDS

    def begin(self, now: float, least: float = 0.0) -> None:
        self.until = now + max(self._interval, least)
        self._interval = min(self._interval * 2, REST_LAST_SECONDS)


class Copied:
    """An address whose records are fetched."""

    def __init__(self, want: Want) -> None:
        self.want = want
        self.ranges: deque[Range] = deque()
        """Ascending, without overlaps; between them are only `_holes`."""
        self.rests: dict[str, Rest] = {}
        """The sources that are left alone about this address."""
        self.is_queued = False
        self.was_said = False
        """That its sources do not give what it lacks was logged."""
        self._holes: list[tuple[int, int]] = []
        """(first, last), ascending: asked for before, and not given."""
        self._next = want.state.accepted + 1
        """The first sequence that was never asked for."""
        self._record_bytes = 0
        """About the size of a record here; 0 before the first."""
        self._turn = 0
        """Whose turn among the sources it is."""

    @property
    def state(self) -> AddressState:
        return self.want.state

    # what to ask for --------------------------------------------------------------------------------------

    def wanted_range(self) -> tuple[int, int] | None:
        """(first, last) of what is to be asked for next, or None."""
        behind = self.state.accepted + 1
        self._next = max(self._next, behind)
        while self._holes and self._holes[0][1] < behind:
            del self._holes[0]
        if self._holes:
            first, last = max(self._holes[0][0], behind), self._holes[0][1]
            return (first, last) if self._has_room or first == behind else None
        last = self.want.last
        if last < 0:
            # Nobody knows how much there is: one range after the other, until the sources have no more.
            return None if self.ranges else (self._next, self._next + RANGE_RECORDS - 1)
        if self._next > last or not self._has_room or (self.ranges and not self._record_bytes):
            return None
        return self._next, min(last, self._next + self._records_a_range - 1)

    @property
    def _has_room(self) -> bool:
        return len(self.ranges) < RANGES_AN_ADDRESS

    @property
    def _records_a_range(self) -> int:
        if not self._record_bytes:
            return RANGE_RECORDS
        return min(max(RANGE_BYTES // self._record_bytes, 1), RANGE_RECORDS)

    def ask(self, asked: Range) -> None:
        """What `wanted_range` gave is asked for."""
        if self._holes:
            del self._holes[0]
        else:
            self._next = asked.last + 1
        behind = sum(one.first < asked.first for one in self.ranges)
        self.ranges.insert(behind, asked)

    def put_back(self, first: int, last: int) -> None:
        """These were asked for, and not given."""
        if first > last:
            return
        if last + 1 == self._next:
            # The end of what was asked for: nothing needs to be remembered.
            self._next = first
        else:
            self._holes = sorted([*self._holes, (first, last)])

    def learn(self, asked: Range) -> None:
        """A range came: how large are the records?"""
        came = max(asked.next - asked.asked_from, 1)
        self._record_bytes = max(asked.received // came, 1)

    # whom to ask ------------------------------------------------------------------------------------------

    def rest(self, source: str, now: float, least: float = 0.0) -> None:
        """Leave a source alone about this address, for `least` seconds at least."""
        self.rests.setdefault(source, Rest()).begin(now, least)

    def source(self, may_be_asked: Callable[[str], float], now: float) -> str | None:
        """Whose turn it is, of those that may be asked; `may_be_asked` says from when on for any address."""
        sources = self.want.sources
        for step in range(len(sources)):
            source = sources[(self._turn + step) % len(sources)]
            if max(self._rests_until(source), may_be_asked(source)) <= now:
                self._turn += step + 1
                return source
        return None

    def may_go_on(self, may_be_asked: Callable[[str], float]) -> float:
        """When the first of its sources may be asked again."""
        return min(max(self._rests_until(source), may_be_asked(source)) for source in self.want.sources)

    @property
    def is_exhausted(self) -> bool:
        """Whether some source has answered, and none has more."""
        return bool(self.rests)

    def _rests_until(self, source: str) -> float:
        rest = self.rests.get(source)
        return 0.0 if rest is None else rest.until
