"""Links between nodes of one process: frames are handed over as they are, and no copy crosses a socket.

Rule: a subscriber hears inside what it would hear over ZeroMQ. Messages are whole, and in order; it gets
those whose first frame begins with a prefix that it has subscribed to; nothing is handled in the call that
publishes it; what is beyond the bound of its inbox is dropped, and the protocol repairs that (HEAD, FETCH,
repeated requests). Frames are `bytes` on the way, so who hears them cannot change what others hear.

Nothing here may be called from another thread than the loop's.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from mesh.link_bounds import MAX_FRAMES, MAX_MESSAGES_A_TURN

DELIVERIES = 8
"""Inboxes taken from in one `Due.deliver`: a record, what it changes, and what is sent for that, are two or
three. What is left is for the tasks of the inboxes."""

Buffer = bytes | bytearray | memoryview

Told = Callable[[bytes, int], None]
"""Is told of a prefix, and how many more inboxes want it: 1, or -1."""

INSIDE = "inproc://"
"""How endpoints inside this process begin."""


class EndpointTaken(Exception):
    """An endpoint cannot be bound; the text names it, the cause, and the next step."""

    exit_code = 2


class InsideEndpoint:
    """An `inproc://` endpoint: who publishes there, once somebody does, and the inboxes of who hears it."""

    def __init__(self) -> None:
        self.inboxes: dict[Inbox, None] = {}
        self._told: Told | None = None

    @property
    def is_bound(self) -> bool:
        return self._told is not None

    def bind(self, told: Told) -> None:
        """Somebody publishes here from now on, and is told of what is wanted already."""
        self._told = told
        for inbox in self.inboxes:
            for prefix in inbox.prefixes:
                told(prefix, 1)

    def leave(self) -> None:
        """Nobody publishes here any more."""
        self._told = None

    def tell(self, prefix: bytes, change: int) -> None:
        if self._told is not None:
            self._told(prefix, change)


Of = TypeVar("Of")


class Due:
    """Inboxes of one process in which something waits to be taken."""

    def __init__(self) -> None:
        self.inboxes: dict[Inbox, None] = {}
        self.is_delivering = False
        """What comes now is about to be taken: no task needs to be woken for it."""

    def deliver_after(self, act: Callable[[Of], None], of: Of) -> None:
        """Do something that publishes, and then `deliver`: so nobody is woken for it. If it fails, what it
        has published is left to the tasks of the inboxes.
        """
        self.is_delivering = True
        try:
            act(of)
        except BaseException:
            self._leave_the_rest()
            raise
        self.deliver()

    def deliver(self) -> None:
        """Have what waits handled, and what is published because of that: `DELIVERIES` inboxes at most."""
        inboxes = self.inboxes
        self.is_delivering = True
        try:
            for _ in range(DELIVERIES):
                if not inboxes:
                    return
                inboxes.popitem()[0].take()
        finally:
            self._leave_the_rest()

    def _leave_the_rest(self) -> None:
        self.is_delivering = False
        for inbox in self.inboxes:
            inbox.wake()


class Inbox:
    """What one subscriber hears inside the process.

    Every message goes to `on_message`; `on_drained` is called when all that was there is handled. `bound` is
    in messages, of all links together. It is in `due` from when something is offered until it is taken from.
    """

    def __init__(
        self,
        due: Due,
        on_message: Callable[[list[bytes]], None],
        on_drained: Callable[[], None],
        bound: int,
    ) -> None:
        self.dropped = 0
        """Messages beyond the bound."""
        self.prefixes: dict[bytes, None] = {}
        """What it is subscribed to."""
        self._due = due
        self._on_message = on_message
        self._on_drained = on_drained
        self._bound = bound
        self._waiting: deque[list[bytes]] = deque()
        self._offered = trio.lowlevel.ParkingLot()
        self._lengths: list[int] = []
        """Of the prefixes, each once, the shortest first."""
        self._endpoints: dict[InsideEndpoint, None] = {}

    def subscribe(self, prefix: bytes) -> None:
        """Hear what begins with this prefix, too."""
        if prefix in self.prefixes:
            return
        self.prefixes[prefix] = None
        if len(prefix) not in self._lengths:
            insort(self._lengths, len(prefix))
        for endpoint in self._endpoints:
            endpoint.tell(prefix, 1)

    def connect(self, endpoint: InsideEndpoint) -> None:
        """Hear what is published there, now and at any later time."""
        if endpoint in self._endpoints:
            return
        self._endpoints[endpoint] = endpoint.inboxes[self] = None
        for prefix in self.prefixes:
            endpoint.tell(prefix, 1)

    def disconnect(self, endpoint: InsideEndpoint) -> None:
        """Hear no more of it; what waits is heard."""
        if endpoint not in self._endpoints:
            return
        del self._endpoints[endpoint], endpoint.inboxes[self]
        for prefix in self.prefixes:
            endpoint.tell(prefix, -1)

    def close(self) -> None:
        for endpoint in list(self._endpoints):
            self.disconnect(endpoint)
        self._waiting.clear()
        self._due.inboxes.pop(self, None)

    def offer(self, frames: Sequence[Buffer]) -> None:
        """A message is published on a link to here. What of it is `bytes` is not copied."""
        first, prefixes = bytes(frames[0]), self.prefixes
        for length in self._lengths:
            if first[:length] in prefixes:
                break
        else:
            return
        if len(self._waiting) >= self._bound:
            self.dropped += 1
            return
        self._waiting.append(list(map(bytes, frames[:MAX_FRAMES])))
        self._due.inboxes[self] = None
        if not self._due.is_delivering:
            self._offered.unpark()

    def take(self) -> None:
        """Handle what waits, `MAX_MESSAGES_A_TURN` at most."""
        waiting, on_message = self._waiting, self._on_message
        try:
            for _ in range(MAX_MESSAGES_A_TURN):
                if not waiting:
                    break
                on_message(waiting.popleft())
        finally:
            self._due.inboxes.pop(self, None)
            if waiting:  # for a later turn, whoever is being delivered to now
                self.wake()
            self._on_drained()

    def wake(self) -> None:
        """Have `run` look."""
        self._offered.unpark()

    async def run(self) -> None:
        """Take messages for ever."""
        while True:
            if self._waiting:
                self.take()
                await trio.lowlevel.checkpoint()
            else:
                await self._offered.park()
