"""Cuts peers that send more to a publisher than subscriptions take, while the loop cannot look.

ZeroMQ applies subscriptions within the loop's thread, one after the other for as long as they come, and
gathers the parts of a message without end, so whoever sends without a pause could hold up the loop and fill
the memory. A thread asks the kernel how many bytes each connection has brought: nodes send some kilobytes
when their links come up, and heartbeats from then on. (A small high-water mark would slow such peers down.
But ZeroMQ 4.3.5 ends the process where a connection breaks while it has stopped to read from it, at the
assertions `!_io_error` and `_input_stopped`.)

On Linux; elsewhere the kernel does not tell.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable

from mesh.connections import Connection, Cuts, connection
from mesh.protocol.subscriptions import MAX_PEER_BYTES

LOOK_SECONDS = 0.02
"""How often all connections are looked at."""

HEARTBEAT_BYTES_PER_SECOND = 128
"""What a connection may bring on and on: a question and an answer a second are 20 bytes, and 86 sealed by
CURVE."""

SEALED_PEER_BYTES = 2 * MAX_PEER_BYTES
"""What a connection sealed by CURVE may bring at first: its subscriptions are 45 bytes longer than their
prefixes, and `mesh.protocol.subscriptions` counts 32 (`OVERHEAD_BYTES`). So that cuts, not this."""

BYTES_RECEIVED = struct.Struct("=128xQ")
"""Where `struct tcp_info` of Linux has how many bytes have come."""

Events = Callable[[float], list[tuple[int, bool]] | None]
"""Waits for so many seconds at most: descriptors whose connection was accepted (true) or is gone; None at the
end."""


class LinkWatch:
    """Watches the connections that one socket accepts, in a thread, from its making until `stop`. Each may
    bring so many bytes at first.
    """

    def __init__(self, events: Events, allowed: int = MAX_PEER_BYTES) -> None:
        self._allowed = allowed
        self._cuts = Cuts()
        self._events = events
        self._links: dict[int, Link] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="link watch", daemon=True)
        self._thread.start()

    @property
    def cut(self) -> int:
        """Connections that were cut."""
        return self._cuts.count

    def stop(self) -> None:
        """Nothing is cut any more. The thread ends with the next events."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            events = self._events(LOOK_SECONDS)
            if events is None:
                return
            for descriptor, accepted in events:
                self._links.pop(descriptor, None)
                found = connection(descriptor) if accepted else None
                if found is not None:
                    self._links[descriptor] = Link(found, time.monotonic(), self._allowed)
            now = time.monotonic()
            for link in [link for link in self._links.values() if link.has_too_much(now)]:
                del self._links[link.connection.descriptor]
                if not self._stopping.is_set():
                    self._cuts.cut(link.connection, "it sends too much")


class Link:
    """One connection. Its descriptor stays ZeroMQ's, and may be another's by now: `cut` looks again."""

    def __init__(self, found: Connection, now: float, allowed: int = MAX_PEER_BYTES, taken: int = 0) -> None:
        self.connection = found
        self._since = now
        self._allowed = allowed
        self._taken = taken
        """What was taken of connections that had the descriptor before."""

    def has_too_much(self, now: float, taken: int = 0) -> bool:
        """Whether it brought more than it may, beside what was taken on its descriptor."""
        received = _bytes_received(self.connection.descriptor)
        return self.may_not_have(received - (taken - self._taken), now)

    def may_not_have(self, received: float, now: float) -> bool:
        """Whether so many bytes are more than it may have brought."""
        return received > self._allowed + HEARTBEAT_BYTES_PER_SECOND * (now - self._since)


class Gathering:
    """Cuts the links of a subscriber that bring a message without an end: bytes of which no message comes.

    `taken` is counted up by the subscriber, by descriptor. Look only when nothing more is to be taken.
    """

    def __init__(self, allowed: int) -> None:
        self._cuts = Cuts()
        self.taken: dict[int, int] = {}
        self._allowed = allowed
        self._links: dict[int, Link] = {}

    @property
    def cut(self) -> int:
        """Links that were cut."""
        return self._cuts.count

    def connected(self, descriptor: int, now: float) -> None:
        found = connection(descriptor)
        if found is not None:
            self._links[descriptor] = Link(found, now, self._allowed, self.taken.get(descriptor, 0))

    def look(self, now: float) -> None:
        for descriptor, link in list(self._links.items()):
            if link.has_too_much(now, self.taken.get(descriptor, 0)):
                del self._links[descriptor]
                self._cuts.cut(link.connection, "its message has no end")


def _bytes_received(descriptor: int) -> int:
    """Of the connection on this descriptor; 0 where that is not told."""
    try:
        borrowed = socket.socket(fileno=descriptor)
    except OSError:
        return 0
    try:
        told = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_RECEIVED.size)
        (received,) = BYTES_RECEIVED.unpack(told)
        return int(received)
    except (OSError, AttributeError, struct.error):
        return 0
    finally:
        borrowed.detach()
