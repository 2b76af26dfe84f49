"""Which nodes a tower knows: for its log, its metrics, and as the bound on whom it speaks of."""

from enum import Enum

from mesh.protocol.endpoints import Endpoint

MAX_NODES = 1024
"""Nodes that a tower speaks of; beacons of further ones are dropped. Every node hears of all others once a
second, so a tower says the square of this at the worst."""

FORGET_SECONDS = 30.0
"""A node whose beacons stay away for so long is forgotten."""


class News(Enum):
    """What a beacon tells."""

    NEW = "new"
    MOVED = "moved"
    KNOWN = "known"
    REFUSED = "refused"


class Register:
    """Nodes by id: where each is, and when it was last heard."""

    def __init__(self, max_nodes: int = MAX_NODES) -> None:
        self.refused = 0
        """Beacons of nodes that were too many."""
        self._max_nodes = max_nodes
        self._nodes: dict[str, tuple[Endpoint, float]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def heard(self, node: str, endpoint: Endpoint, now: float) -> News:
        """A beacon has come."""
        known = self._nodes.get(node)
        if known is None and len(self._nodes) >= self._max_nodes:
            self.refused += 1
            return News.REFUSED
        self._nodes[node] = (endpoint, now)
        if known is None:
            return News.NEW
        return News.KNOWN if known[0] == endpoint else News.MOVED

    def forget(self, now: float) -> list[str]:
        """Drop, and give, the nodes that were silent for too long."""
        gone = [node for node, (_, heard) in self._nodes.items() if now - heard >= FORGET_SECONDS]
        for node in gone:
            del self._nodes[node]
        return gone
