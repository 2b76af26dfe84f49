"""Who subscribed to what at one publisher; connections that subscribe to too much are cut.

`mesh.protocol.subscriptions` counts and decides; this knows the connections.
"""

from collections.abc import Set as AbstractSet

from mesh.connections import Connection, Cuts, connection
from mesh.protocol.subscriptions import Subscriptions


class Subscribers:
    """Told of each subscription as ZeroMQ tells it, and of the descriptor that it came on."""

    def __init__(self) -> None:
        self._cuts = Cuts()
        self._subscriptions: Subscriptions[Connection] = Subscriptions()
        self._connections: dict[int, Connection] = {}
        """Descriptor -> the connection on it that subscribed last."""

    @property
    def cut(self) -> int:
        """Connections that were cut."""
        return self._cuts.count

    @property
    def prefixes(self) -> AbstractSet[bytes]:
        """What somebody is subscribed to."""
        return self._subscriptions.prefixes

    def heard(self, message: bytes, descriptor: int | None) -> bytes | None:
        """A subscription or a cancellation: the prefix, if nobody was subscribed to it. None as a descriptor:
        it came from inside the process.
        """
        peer = None if descriptor is None or message[:1] != b"\x01" else self._connection(descriptor)
        prefix = self._subscriptions.heard(message, peer)
        greedy = self._subscriptions.to_cut(peer)
        if greedy is not None:
            self._connections.pop(greedy.descriptor, None)
            self._cuts.cut(greedy, "it subscribed to too much")
        return prefix

    def _connection(self, descriptor: int) -> Connection | None:
        """What is on the descriptor; None if that is gone already."""
        found = connection(descriptor)
        before = self._connections.get(descriptor)
        if before is not None and before != found:
            self._subscriptions.ended(self._connections.pop(descriptor))
        if found is not None:
            self._connections[descriptor] = found
        return found
