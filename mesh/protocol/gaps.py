"""What a store asks for when it was sent a record out of turn, when it asks again, whom, and when no more.

Theory of operation: a `Gap` is made when a RECORD or HEAD shows that the producer is further than the store.
`fetch` gives a FETCH whenever one is due, at growing intervals. Progress sets the interval back, and once all
that was asked for is here the rest is asked for at once. A producer that says nothing and sends nothing any
more is given up after `MAX_FETCH_TRIES`; its next RECORD or HEAD makes a new gap. The newest run of records
that came out of turn is kept, within bounds: the gap ends where it begins, however fast the producer is.

The producer is asked first. It keeps only what too few members have, so after `TRIES_BEFORE_PEERS` FETCHes
that brought nothing the segment's other members are asked as well (`Gaps.take_lagging`). They are asked, too,
now and then about an open address at which nothing happens: a store that was away, or heard of the segment
late, would not know that it lacks something until the next record.
"""

import heapq
from collections.abc import Iterator

from mesh.protocol.address_state import AddressState, Phase
from mesh.protocol.writer import RECORD_OVERHEAD_BYTES
from wireproto.dafka.messages import Fetch

FETCH_FIRST_SECONDS = 0.1
FETCH_LAST_SECONDS = 2.0
FETCH_COUNT = 4096
"""A gap is asked for again at these intervals until it is filled, in ranges of so many records."""

MAX_FETCH_TRIES = 30
"""FETCHes in a row that brought nothing, while the producer was silent: about a minute. After them it is
taken for dead, so that gaps of dead native producers do not cost a message every two seconds for ever."""

TRIES_BEFORE_PEERS = 2
"""FETCHes in a row that the producer left without a record, before the other members are asked: 0.3 s. After
them they are asked again with every other one."""

MAX_AHEAD_BYTES = 32 * 1024 * 1024
"""Records of all gaps together that came out of turn and are kept, with their overhead: as much as a fast
producer sends while a gap is asked for."""

LOOK_FIRST_SECONDS = 5.0
"""How long an address may be silent after its OPEN, or after a start of the store, before the other members
are asked: a record follows OPEN at once."""

LOOK_AGAIN_SECONDS = 300.0
"""How often they are asked about an open address where nothing happens: 10,000 of them are 33 in a second."""


class Gap:
    """The records of one address that are missing, from the one after `state.accepted` up to `last`."""

    __slots__ = (
        "_asked",
        "_fruitless",
        "_interval",
        "_tries",
        "ahead",
        "ahead_bytes",
        "due",
        "last",
        "state",
    )

    def __init__(self, state: AddressState, now: float) -> None:
        self.state = state
        self.last = -1
        """The highest sequence that is missing, as far as is known, or in `ahead`."""
        self.due = now
        """When `fetch` has something to say again."""
        self.ahead: dict[int, bytes] = {}
        """The newest records that came out of turn: sequence -> content, without gaps, ascending."""
        self.ahead_bytes = 0
        self._asked = -1
        """The last sequence that was asked for."""
        self._interval = FETCH_FIRST_SECONDS
        self._tries = 0
        self._fruitless = 0
        """As `_tries`, and a sign of life from the producer is not enough to set it back."""

    @property
    def given_up(self) -> bool:
        return self._tries >= MAX_FETCH_TRIES

    @property
    def needs_peers(self) -> bool:
        """Whether the FETCH that was just sent is one with which the other members are asked, too."""
        behind = self._fruitless - TRIES_BEFORE_PEERS
        return behind > 0 and behind % 2 == 1

    @property
    def missing_to(self) -> int:
        """The last sequence before what is in `ahead`."""
        return next(iter(self.ahead)) - 1 if self.ahead else self.last

    def heard(self, last: int) -> None:
        """A RECORD or HEAD says that the producer is alive and has everything up to `last`."""
        self.last = max(self.last, last)
        self._tries = 0

    def keep(self, sequence: int, content: bytes, room: int) -> None:
        """Keep a record that came out of turn, if it fits into `room` bytes or begins a new run that does."""
        ahead = self.ahead
        if sequence in ahead:
            return
        size = len(content) + RECORD_OVERHEAD_BYTES
        follows = sequence - 1 in ahead
        if not follows or size > room:
            if ahead and sequence < next(iter(ahead)):
                return
            room += self.ahead_bytes
            ahead.clear()
            self.ahead_bytes = 0
        if size <= room:
            ahead[sequence] = content
            self.ahead_bytes += size

    def take(self, sequence: int) -> bytes | None:
        """What is kept of this sequence; after it only what follows is kept."""
        content = self.ahead.pop(sequence, None)
        if content is not None:
            self.ahead_bytes -= len(content) + RECORD_OVERHEAD_BYTES
        return content

    def accepted(self, sequence: int, now: float) -> bool:
        """The next record is here, `sequence`. True if the gap is filled."""
        self._tries = self._fruitless = 0
        self._interval = FETCH_FIRST_SECONDS
        # The producer may send less than was asked for: what does not follow soon is asked for again.
        self.due = now if sequence >= self._asked else now + FETCH_FIRST_SECONDS
        return sequence >= self.last

    def fetch(self, requester: str, now: float) -> Fetch | None:
        """The FETCH that is due, or None."""
        if now < self.due or self.given_up:
            return None
        self._tries += 1
        self._fruitless += 1
        self.due = now + self._interval
        self._interval = min(self._interval * 2, FETCH_LAST_SECONDS)
        state = self.state
        count = min(FETCH_COUNT, self.missing_to - state.accepted)
        self._asked = state.accepted + count
        return Fetch(state.address, requester, state.subject, state.accepted + 1, count)


class Gaps:
    """All gaps of a store, and the open addresses that its peers are to be asked about."""

    def __init__(self) -> None:
        self._gaps: dict[str, Gap] = {}
        self._ahead_bytes = 0
        self._silent: list[tuple[float, int, AddressState, int]] = []
        """A heap: (when to look, number, state, what was accepted when this was put here)."""
        self._new: list[AddressState] = []
        self._count = 0
        self._lagging: dict[str, tuple[AddressState, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def is_idle(self, now: float) -> bool:
        """Whether there is nothing to do: it is asked for every burst of messages."""
        return not (self._gaps or self._new or (self._silent and self._silent[0][0] <= now))

    def ask(self, state: AddressState, last: int, now: float) -> Gap:
        """A RECORD or HEAD says that everything up to `last` was published."""
        gap = self._gaps.get(state.address)
        if gap is None:
            gap = self._gaps[state.address] = Gap(state, now)
        gap.heard(last)
        return gap

    def keep(self, gap: Gap, sequence: int, content: bytes) -> None:
        """A RECORD came out of turn."""
        self._ahead_bytes -= gap.ahead_bytes
        room = MAX_AHEAD_BYTES - self._ahead_bytes - gap.ahead_bytes
        gap.keep(sequence, content, room)
        self._ahead_bytes += gap.ahead_bytes

    def begins_ahead(self, address: str) -> int | None:
        """The first of the records that are kept out of turn, None if there are none."""
        gap = self._gaps.get(address)
        return None if gap is None or not gap.ahead else gap.missing_to + 1

    def accepted(self, state: AddressState, sequence: int, now: float) -> bytes | None:
        """The next record is here. The content of the one after it, if that was kept."""
        gap = self._gaps.get(state.address)
        if gap is None:
            return None
        if gap.accepted(sequence, now):
            self.end(state.address)
            return gap.take(sequence + 1)
        before = gap.ahead_bytes
        content = gap.take(sequence + 1)
        self._ahead_bytes -= before - gap.ahead_bytes
        return content

    def end(self, address: str) -> None:
        """Nothing of this address is missing any more, or it takes nothing more."""
        gap = self._gaps.pop(address, None)
        if gap is not None:
            self._ahead_bytes -= gap.ahead_bytes
        self._lagging.pop(address, None)

    def fetches(self, requester: str, now: float) -> Iterator[Fetch]:
        """The FETCHes that are due."""
        for address, gap in list(self._gaps.items()):
            if now >= gap.due and gap.given_up:
                self.end(address)
            elif fetch := gap.fetch(requester, now):
                if gap.needs_peers:
                    self._lagging[address] = gap.state, gap.missing_to
                yield fetch

    def watch(self, state: AddressState) -> None:
        """An address was opened here, or found open at a start: ask the peers if it stays silent."""
        self._new.append(state)

    def take_lagging(self, now: float) -> list[tuple[AddressState, int]]:
        """The open addresses that peers are to be asked about now, with the last sequence that is missing; -1
        where nobody knows that anything is.
        """
        for state in self._new:
            self._look_later(state, now + LOOK_FIRST_SECONDS)
        self._new.clear()
        lagging = self._lagging
        while self._silent and self._silent[0][0] <= now:
            _, _, state, accepted = heapq.heappop(self._silent)
            if state.phase is Phase.OPEN:
                self._look_later(state, now + LOOK_AGAIN_SECONDS)
                if state.accepted == accepted and state.address not in self._gaps:
                    lagging.setdefault(state.address, (state, -1))
        self._lagging = {}
        return list(lagging.values())

    def next_due(self) -> float | None:
        """When something is to be done, or None."""
        due = min((gap.due for gap in self._gaps.values()), default=None)
        if self._silent and (due is None or self._silent[0][0] < due):
            return self._silent[0][0]
        return due

    def _look_later(self, state: AddressState, due: float) -> None:
        self._count += 1
        heapq.heappush(self._silent, (due, self._count, state, state.accepted))
