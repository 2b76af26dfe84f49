"""Which prefixes peers are subscribed to at one publisher, and who has subscribed to too much.

ZeroMQ keeps subscriptions in a tree with a node of about 50 bytes for each byte that no other subscription
shares, before anybody can look at them: 400,000 of 200 bytes take 4 GB, and a connection's end walks all of
it. So what each connection has asked for is added up, and one that asks for more than any node does is cut.

A connection's bytes are all that it ever subscribed to: nodes of the mesh do that once, when their links come
up. What has been cancelled counts on, because ZeroMQ tells of a cancellation only when no other peer has the
same subscription.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

MAX_PEER_BYTES = 128 * 1024
"""Bytes of subscriptions of one connection. A node has about twenty of 40 bytes, a native consumer two for
each subject."""

MAX_BYTES = 2 * 1024 * 1024
"""Bytes of different subscriptions of all connections; they take about 50 times as much memory. Beyond it
whoever has subscribed to most is cut."""

MODEST_BYTES = 8 * 1024
"""Whoever has subscribed to so little is cut only where all together have twice what they may: until those
that were cut are gone their subscriptions count."""

OVERHEAD_BYTES = 32
"""What a subscription counts beside its own bytes."""

SUBSCRIBE, _CANCEL = b"\x01", b"\x00"
"""What a subscription, and its end, begin with (RFC 29): the prefix follows."""

Peer = TypeVar("Peer", bound=Hashable)
"""Names a connection."""


class Subscriptions(Generic[Peer]):
    """Told of every subscription (`heard`); says what is new, and whom to cut."""

    def __init__(self) -> None:
        self.prefixes: set[bytes] = set()
        """What somebody is subscribed to."""
        self._bytes = 0
        self._peers: dict[Peer, int] = {}
        """Connection -> bytes that it subscribed to."""

    def heard(self, message: bytes, peer: Peer | None) -> bytes | None:
        """ZeroMQ tells of a subscription, or that nobody has it any more: the prefix, if it is new. None as
        a peer: nobody can tell whose it is.
        """
        kind, prefix = message[:1], message[1:]
        if kind == _CANCEL and prefix in self.prefixes:
            self.prefixes.remove(prefix)
            self._bytes -= _size(prefix)
        if kind != SUBSCRIBE:
            return None
        if peer is not None:
            self._peers[peer] = self._peers.get(peer, 0) + _size(prefix)
        if prefix in self.prefixes:
            return None
        self.prefixes.add(prefix)
        self._bytes += _size(prefix)
        return prefix

    def ended(self, peer: Peer) -> None:
        """A connection is gone, or is another one now. Its subscriptions are told to be gone by ZeroMQ."""
        self._peers.pop(peer, None)

    def to_cut(self, peer: Peer | None) -> Peer | None:
        """Whom to cut after this peer's subscription; it is forgotten then."""
        if peer is not None and self._peers.get(peer, 0) > MAX_PEER_BYTES:
            greedy = peer
        elif self._bytes > MAX_BYTES and self._peers:
            greedy = max(self._peers, key=lambda other: self._peers[other])
            if self._peers[greedy] <= MODEST_BYTES and self._bytes <= 2 * MAX_BYTES:
                return None
        else:
            return None
        del self._peers[greedy]
        return greedy


def _size(prefix: bytes) -> int:
    return len(prefix) + OVERHEAD_BYTES
