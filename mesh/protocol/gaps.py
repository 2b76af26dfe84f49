"""What a store asks for when it was sent a record out of turn, when it asks again, and when no more.

Theory of operation: a `Gap` is made when a RECORD or HEAD shows that the producer is further than the store.
`fetch` gives a FETCH whenever one is due, at growing intervals. Progress sets the interval back, and once all
that was asked for is here the rest is asked for at once. A producer that says nothing and sends nothing any
more is given up after `MAX_FETCH_TRIES`; its next RECORD or HEAD makes a new gap.
"""

from mesh.protocol.address_state import AddressState
from wireproto.dafka.messages import Fetch

FETCH_FIRST_SECONDS = 0.1
FETCH_LAST_SECONDS = 2.0
FETCH_COUNT = 4096
"""A gap is asked for again at these intervals until it is filled, in ranges of so many records."""

MAX_FETCH_TRIES = 30
"""FETCHes in a row that brought nothing, while the producer was silent: about a minute. Behind them it is
taken for dead, so that gaps of dead native producers do not cost a message every two seconds for ever."""


class Gap:
    """The records of one address that are missing, from behind `state.accepted` up to `last`."""

    __slots__ = ("_asked", "_interval", "_tries", "due", "last", "state")

    def __init__(self, state: AddressState, now: float) -> None:
        self.state = state
        self.last = -1
        self.due = now
        """When `fetch` has something to say again."""
        self._asked = -1
        """The last sequence that was asked for."""
        self._interval = FETCH_FIRST_SECONDS
        self._tries = 0

    @property
    def given_up(self) -> bool:
        return self._tries >= MAX_FETCH_TRIES

    def heard(self, last: int) -> None:
        """A RECORD or HEAD says that the producer is alive and has everything up to `last`."""
        self.last = max(self.last, last)
        self._tries = 0

    def accepted(self, sequence: int, now: float) -> bool:
        """The next record is here, `sequence`. True if the gap is filled."""
        self._tries = 0
        self._interval = FETCH_FIRST_SECONDS
        # The producer may send less than was asked for: what does not follow soon is asked for again.
        self.due = now if sequence >= self._asked else now + FETCH_FIRST_SECONDS
        return sequence >= self.last

    def fetch(self, requester: str, now: float) -> Fetch | None:
        """The FETCH that is due, or None."""
        if now < self.due or self.given_up:
            return None
        self._tries += 1
        self.due = now + self._interval
        self._interval = min(self._interval * 2, FETCH_LAST_SECONDS)
        state = self.state
        count = min(FETCH_COUNT, self.last - state.accepted)
        self._asked = state.accepted + count
        return Fetch(state.address, requester, state.subject, state.accepted + 1, count)
