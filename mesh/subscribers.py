"""Who subscribed to what at one publisher; connections that subscribe to too much are cut.

`mesh.protocol.subscriptions` counts and decides; this knows the connections.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from mesh.connections import Connection, Cuts, connection
from mesh.keys.hearing import life_in
from mesh.protocol.subscriptions import SUBSCRIBE, Subscriptions


class Subscribers:
    """Told of each subscription as ZeroMQ tells it, and of the descriptor that it came on."""

    def __init__(self) -> None:
        self._cuts = Cuts()
        self._subscriptions: Subscriptions[Connection] = Subscriptions()
        self._connections: dict[int, Connection] = {}
        """Descriptor -> the connection on it that subscribed last."""
        self._users: dict[int, dict[str, set[bytes]]] = {}
        """Descriptor -> the keys that this connection subscribed with, each with the lives of the whole ids
        that it subscribed to. It has one key; where a connection ended and another one got its descriptor,
        the one that ended may be told of later."""

    @property
    def cut(self) -> int:
        """Connections that were cut."""
        return self._cuts.count

    @property
    def prefixes(self) -> AbstractSet[bytes]:
        """What somebody is subscribed to."""
        return self._subscriptions.prefixes

    def heard(self, message: bytes, descriptor: int | None, user: str = "") -> bytes | None:
        """A subscription or a cancellation: the prefix, if nobody was subscribed to it. None as a descriptor:
        ZeroMQ does not tell of which connection. `user` is the key of who sent it, where there are keys.
        """
        peer = None if descriptor is None or message[:1] != SUBSCRIBE else self._connection(descriptor)
        if peer is not None and user:
            lives = self._users.setdefault(peer.descriptor, {}).setdefault(user, set())
            life = life_in(message[1:])
            if life is not None:
                lives.add(life)
        prefix = self._subscriptions.heard(message, peer)
        greedy = self._subscriptions.to_cut(peer)
        if greedy is not None:
            self._connections.pop(greedy.descriptor, None)
            self._users.pop(greedy.descriptor, None)
            self._cuts.cut(greedy, "it subscribed to too much")
        return prefix

    def cut_unless(self, may: Callable[[str], bool]) -> None:
        """Cut the connections whose keys may not be here any more."""
        for descriptor, users in list(self._users.items()):
            if not all(map(may, users)):
                del self._users[descriptor]
                found = self._connections.pop(descriptor, None)
                if found is not None:
                    self._subscriptions.ended(found)
                    self._cuts.cut(found, "its key is no member's any more")

    def listeners(self, life: bytes) -> list[str]:
        """The keys of those that are subscribed to a whole id of this life."""
        return [user for users in self._users.values() for user, lives in users.items() if life in lives]

    def _connection(self, descriptor: int) -> Connection | None:
        """What is on the descriptor; None if that is gone already."""
        found = connection(descriptor)
        before = self._connections.get(descriptor)
        if before is not None and before != found:
            self._subscriptions.ended(self._connections.pop(descriptor))
            self._users.pop(descriptor, None)
        if found is not None:
            self._connections[descriptor] = found
        return found
