"""Which nodes a tower knows: for its log, its metrics, and as the bound on whom it speaks of.

Rules: one source address has so many beacons a second, a source being where the connection comes from, which
nobody forges as easily as what a beacon says. Where all places are taken the source with the most gives its
newest to a source that has fewer; nodes that were there before stay.
"""

from collections import Counter
from enum import Enum

from mesh.protocol.endpoints import Endpoint
from mesh.protocol.token_bucket import TokenBucket

MAX_NODES = 1024
"""Nodes that a tower speaks of; beacons of further ones are dropped. Every node hears of all others once a
second, so a tower says the square of this at the worst."""

BEACONS_PER_SECOND = 1024.0
"""Beacons of one source address a second, and at once; further ones are dropped. A node sends one a second,
and ten while others are new to it; a whole mesh may be behind one address."""

MAX_SOURCES = 4096
"""Source addresses whose beacons are counted; beyond it the one that was counted first is forgotten."""

FORGET_SECONDS = 30.0
"""A node whose beacons stay away for so long is forgotten."""


class News(Enum):
    """What a beacon tells."""

    NEW = "new"
    MOVED = "moved"
    KNOWN = "known"
    REFUSED = "refused"


class Register:
    """Nodes by id: where each is, when it was last heard, and from which address that came."""

    def __init__(self, max_nodes: int = MAX_NODES) -> None:
        self.refused = 0
        """Beacons of nodes that were too many, and of sources that sent too many."""
        self._max_nodes = max_nodes
        self._nodes: dict[str, tuple[Endpoint, float, str]] = {}
        """Oldest first; with the address that it was first heard from."""
        self._held: Counter[str] = Counter()
        """Nodes by source."""
        self._rates: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def heard(self, node: str, endpoint: Endpoint, now: float, source: str = "") -> News:
        """A beacon has come from this address."""
        known = self._nodes.get(node)
        if not self._is_slow_enough(source, now) or (known is None and not self._has_room(source)):
            self.refused += 1
            return News.REFUSED
        if known is None:
            self._held[source] += 1
        else:
            source = known[2]
        self._nodes[node] = (endpoint, now, source)
        if known is None:
            return News.NEW
        return News.KNOWN if known[0] == endpoint else News.MOVED

    def forget(self, now: float) -> list[str]:
        """Drop, and give, the nodes that were silent for too long."""
        gone = [node for node, (_, heard, _) in self._nodes.items() if now - heard >= FORGET_SECONDS]
        for node in gone:
            self._drop(node)
        return gone

    def _is_slow_enough(self, source: str, now: float) -> bool:
        rate = self._rates.get(source)
        if rate is None:
            if len(self._rates) >= MAX_SOURCES:
                del self._rates[next(iter(self._rates))]
            rate = self._rates[source] = TokenBucket(BEACONS_PER_SECOND)
        if not rate.has_some(now):
            return False
        rate.take(1)
        return True

    def _has_room(self, source: str) -> bool:
        """Whether a newcomer from this address has a place; another's may have become free for it."""
        if len(self._nodes) < self._max_nodes:
            return True
        greedy, most = max(self._held.items(), key=lambda held: held[1])
        if most <= self._held[source] + 1:
            return False
        self._drop(next(node for node in reversed(self._nodes) if self._nodes[node][2] == greedy))
        return True

    def _drop(self, node: str) -> None:
        _, _, source = self._nodes.pop(node)
        self._held[source] -= 1
        if not self._held[source]:
            del self._held[source]
