"""Which nodes a node is connected to: what towers say of others, and what the links themselves say.

Rules:

* A silent tower never cuts a live link. A node is forgotten when it has neither beacon nor live link for
  `FORGET_SECONDS`.
* A node that beacons from another endpoint is moved there, but not as long as its link is live and its old
  endpoint is still named: several towers may see one node under several addresses.
* An endpoint has one node: the last that beaconed from it. A node that was started again on its old port
  keeps the link that ZeroMQ makes anew by itself.
* At most `MAX_PEERS`, `MAX_PEERS_OF_HOST` of them at one host, and never ourselves. A node whose link was
  live once keeps its place until it is forgotten. Of the others one makes room for a newcomer when there is
  none: one at the host that has more of them than the newcomer's, else the one that was tried for longest,
  and for `UNREACHED_SECONDS` at least. So beacons that anybody can forge keep nobody out for longer.
* Where there are keys a node is its key and its id: the same id with another key is another node. Two nodes
  may name one endpoint; only one of them answers there, and which one a link proves. Whoever has it keeps it
  while its link is live, while its beacons name it where its link once was, and for `UNREACHED_SECONDS` to
  prove it. So a key that names another one's endpoint holds up its link for that long at most. One key has
  at most `MAX_PEERS_OF_KEY` nodes.

Events in (`heard`, `linked`, `unlinked`, `tick`), effects out (`Effect`). Endpoints are in the form of
`mesh.protocol.endpoints`; times are seconds on a monotonic clock.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mesh.protocol.endpoints import Endpoint

MAX_PEERS = 256
"""Nodes that one node connects to. Each costs a connection, and at the worst a queue of
`mesh.link_bounds.HIGH_WATER_MARK_MESSAGES`; whoever reaches a tower can name any number of nodes."""

MAX_PEERS_OF_HOST = 128
"""Nodes at one address: half of all. Who answers on many ports of one machine leaves places to others."""

MAX_PEERS_OF_KEY = 64
"""Nodes with one key. A process has one; native programs may share a key, each of them with a few nodes.
Where they are more, one without a link makes room for the next."""

FORGET_SECONDS = 30.0
"""A node without beacon and without live link is forgotten after so long: far longer than a restart takes."""

SILENT_SECONDS = 4.0
"""A node without live link whose beacons stay away for so long is shown as silent; C nodes drop it then."""

MOVE_SECONDS = 3.0
"""A node is moved once its old endpoint has not been named for so long: three beacons."""

UNREACHED_SECONDS = 2.0
"""A node that is named under another endpoint too is tried there once its link is not up for so long."""

RETRY_SECONDS = 10.0
"""A link that does not come up is made anew after so long: ZeroMQ itself gives up for ever where it met
something that does not speak its protocol, as another program on that port for a while."""


class Connect(NamedTuple):
    """Hear the publisher at this endpoint, which has this key where there are keys."""

    endpoint: Endpoint
    key: str = ""


class Disconnect(NamedTuple):
    """Hear it no longer, and give up trying."""

    endpoint: Endpoint


class Greet(NamedTuple):
    """Beacon at once: somebody is here who may not know us yet."""


class Unreached(NamedTuple):
    """Somebody should look: this node's beacons come, and no link to it comes up. Said once."""

    node: str
    endpoint: Endpoint


Effect: TypeAlias = Connect | Disconnect | Greet | Unreached


class PeerStatus(NamedTuple):
    """A peer as people are shown it."""

    node: str
    endpoint: str
    state: str
    """`connected`: the link is live. `connecting`: it is not, and beacons come. `silent`: neither."""
    beacon_age: float
    """Seconds since its last beacon."""


class _Peer:
    __slots__ = (
        "connected",
        "endpoint",
        "heard",
        "heard_here",
        "key",
        "lost",
        "node",
        "proven",
        "proven_here",
        "said",
        "since",
    )

    def __init__(self, node: str, endpoint: Endpoint, now: float, key: str = "") -> None:
        self.node = node
        self.key = key
        self.heard = now
        """The last beacon."""
        self.proven = False
        """Whether its link was live once: beacons alone can be forged."""
        self.move(endpoint, now)

    def move(self, endpoint: Endpoint, now: float) -> None:
        self.endpoint = endpoint
        self.heard_here = now
        """The last beacon that named `endpoint`."""
        self.connected = False
        self.proven_here = False
        """Whether its link was live once at `endpoint`."""
        self.since = now
        """When `connected` changed last, or the link was last made anew."""
        self.lost = now
        """Until when its link was live; where it never was, when it was first tried."""
        self.said = False
        """That it is `Unreached`."""

    def keeps_its_place(self, now: float) -> bool:
        """Whether it keeps its endpoint from a node with another key, which names that as well."""
        is_proven = self.proven_here and now - self.heard_here < MOVE_SECONDS
        return self.connected or is_proven or now - self.lost < UNREACHED_SECONDS

    def state(self, now: float) -> str:
        if self.connected:
            return "connected"
        return "connecting" if now - self.heard < SILENT_SECONDS else "silent"


class Peers:
    """The peers of the node with this id.

    Others are told `port`, and `host` if it has one (an address): then it is known where we are. Without one
    towers tell us, by our own beacons.
    """

    def __init__(self, node: str, port: int, *, host: str = "", max_peers: int = MAX_PEERS) -> None:
        self.node = node
        self.port = port
        self.refused = 0
        """Beacons of nodes that were too many, and of keys that wanted another one's place."""
        self._max_peers = max_peers
        self._by_node: dict[tuple[str, str], _Peer] = {}
        """By key ("" where there are none) and id."""
        self._by_endpoint: dict[Endpoint, _Peer] = {}
        self._at_host: Counter[str] = Counter()
        self._of_key: Counter[str] = Counter()
        self._tried_at: Counter[str] = Counter()
        """Of those, the peers whose link was never live."""
        self._nobody_yields_before = 0.0
        """Until then nobody was tried for long enough."""
        self._own: dict[Endpoint, None] = {Endpoint(host, port): None} if host else {}
        self._is_told = not host

    def __len__(self) -> int:
        return len(self._by_node)

    def wants(self, node: str, key: str = "") -> bool:
        """Whether a beacon of this node may have an effect: it is known, or a place may become free."""
        return (key, node) in self._by_node or len(self._by_node) < self._max_peers or bool(self._tried_at)

    def key_at(self, endpoint: Endpoint) -> str:
        """The key of the node that has this endpoint; "" where there are no keys, or no node."""
        peer = self._by_endpoint.get(endpoint)
        return "" if peer is None else peer.key

    def status(self, now: float) -> list[PeerStatus]:
        return [
            PeerStatus(peer.node, str(peer.endpoint), peer.state(now), now - peer.heard)
            for peer in self._by_node.values()
        ]

    # events -----------------------------------------------------------------------------------------------

    def heard(self, node: str, endpoint: Endpoint, now: float, key: str = "") -> list[Effect]:
        """A tower says that this node's publisher is there, and has this key where there are keys."""
        if node == self.node:
            return self._is_own(endpoint)
        if endpoint in self._own:
            return []
        peer = self._by_node.get((key, node))
        holder = self._by_endpoint.get(endpoint)
        if holder is not None and holder.key != key and holder.keeps_its_place(now):
            self.refused += 1
            return []
        if peer is None:
            return self._is_new(node, endpoint, now, key)
        peer.heard = now
        if peer.endpoint == endpoint:
            peer.heard_here = now
            return []
        unreached = not peer.connected and now - peer.since >= UNREACHED_SECONDS
        return self._move(peer, endpoint, now) if unreached or now - peer.heard_here >= MOVE_SECONDS else []

    def linked(self, endpoint: Endpoint, now: float) -> str | None:
        """The link to this endpoint is live; the node's id, None if that changes nothing."""
        return self._link(endpoint, connected=True, now=now)

    def unlinked(self, endpoint: Endpoint, now: float) -> str | None:
        """The link to this endpoint is not live any more; the node's id, None if that changes nothing."""
        return self._link(endpoint, connected=False, now=now)

    def tick(self, now: float) -> list[Effect]:
        """Time has passed: call it about once a second."""
        effects: list[Effect] = []
        for peer in [peer for peer in self._by_node.values() if not peer.connected]:
            if now - max(peer.heard, peer.lost) >= FORGET_SECONDS:
                effects += self._forget(peer)
            elif now - peer.since >= RETRY_SECONDS:
                peer.since = now
                effects += [Disconnect(peer.endpoint), Connect(peer.endpoint, peer.key)]
                if not peer.said and peer.state(now) == "connecting":
                    peer.said = True
                    effects.append(Unreached(peer.node, peer.endpoint))
        return effects

    def forget_unless(self, may: Callable[[str], bool]) -> list[Effect]:
        """The keys are others: forget the nodes whose key may not be here. If it may again, its next beacon
        is that of a new node.
        """
        effects: list[Effect] = []
        for peer in [peer for peer in self._by_node.values() if not may(peer.key)]:
            effects += self._forget(peer)
        return effects

    # what they do -----------------------------------------------------------------------------------------

    def _is_own(self, endpoint: Endpoint) -> list[Effect]:
        """Our own beacon came back: so a tower sees us there. But a forger may say so too."""
        peer = self._by_endpoint.get(endpoint)
        if not self._is_told or endpoint.port != self.port or (peer is not None and peer.connected):
            return []
        if len(self._own) >= self._max_peers:
            del self._own[next(iter(self._own))]
        self._own[endpoint] = None
        return self._forget(peer) if peer is not None else []

    def _is_new(self, node: str, endpoint: Endpoint, now: float, key: str) -> list[Effect]:
        made_room = self._evict(endpoint, key)
        if (holder := self._by_endpoint.get(endpoint)) is not None:
            self._rename(holder, node, now)
            return [Greet()]
        is_crowded = bool(key) and self._of_key[key] >= MAX_PEERS_OF_KEY
        if is_crowded or not self._has_room(endpoint.host):
            yielding = self._of_a_crowd(key) if is_crowded else self._yields_to(endpoint.host, now)
            if yielding is None:
                self.refused += 1
                return made_room
            made_room += self._forget(yielding)
        peer = self._by_node[key, node] = self._by_endpoint[endpoint] = _Peer(node, endpoint, now, key)
        self._count(peer, 1)
        return [*made_room, Connect(endpoint, key), Greet()]

    def _has_room(self, host: str) -> bool:
        return len(self._by_node) < self._max_peers and self._at_host[host] < MAX_PEERS_OF_HOST

    def _of_a_crowd(self, key: str) -> _Peer | None:
        """Which of the nodes with this key makes room for another one: the one without a link for longest."""
        without = (peer for peer in self._by_node.values() if peer.key == key and not peer.connected)
        return min(without, key=lambda peer: peer.lost, default=None)

    def _yields_to(self, host: str, now: float) -> _Peer | None:
        """Whose place a newcomer at this host gets; None if nobody's."""
        only_at = ""
        if self._at_host[host] >= MAX_PEERS_OF_HOST:
            only_at, patience = host, UNREACHED_SECONDS
        elif max(self._tried_at.values(), default=0) > self._tried_at[host] + 1:
            only_at, patience = max(self._tried_at, key=lambda other: self._tried_at[other]), 0.0
        else:
            patience = UNREACHED_SECONDS
        if patience and now < self._nobody_yields_before:
            return None
        strangers = [peer for peer in self._by_node.values() if not peer.proven]
        first = min((peer.lost for peer in strangers), default=now)
        self._nobody_yields_before = first + UNREACHED_SECONDS
        longest = min(
            (peer for peer in strangers if not only_at or peer.endpoint.host == only_at),
            key=lambda peer: peer.lost,
            default=None,
        )
        return None if longest is None or now - longest.lost < patience else longest

    def _count(self, peer: _Peer, by: int) -> None:
        """A peer takes its place, or leaves it."""
        places = [(self._at_host, peer.endpoint.host), (self._of_key, peer.key)]
        if not peer.proven:
            places.append((self._tried_at, peer.endpoint.host))
        for count, whose in places:
            count[whose] += by
            if not count[whose]:
                del count[whose]

    def _move(self, peer: _Peer, endpoint: Endpoint, now: float) -> list[Effect]:
        left = peer.endpoint
        del self._by_endpoint[left]
        self._count(peer, -1)
        evicted = self._evict(endpoint, peer.key)
        if (holder := self._by_endpoint.get(endpoint)) is not None:
            self._rename(holder, peer.node, now)
            return [Disconnect(left)]
        peer.move(endpoint, now)
        self._count(peer, 1)
        self._by_endpoint[endpoint] = peer
        return [Disconnect(left), *evicted, Connect(endpoint, peer.key)]

    def _evict(self, endpoint: Endpoint, key: str) -> list[Effect]:
        """Forget the node with another key that has this endpoint, and does not keep it (`heard`)."""
        holder = self._by_endpoint.get(endpoint)
        return self._forget(holder) if holder is not None and holder.key != key else []

    def _rename(self, holder: _Peer, node: str, now: float) -> None:
        """The endpoint has another node now, and its link stays."""
        del self._by_node[holder.key, holder.node]
        holder.node = node
        holder.heard = holder.heard_here = now
        holder.said = False
        self._by_node[holder.key, node] = holder

    def _forget(self, peer: _Peer) -> list[Effect]:
        del self._by_node[peer.key, peer.node]
        del self._by_endpoint[peer.endpoint]
        self._count(peer, -1)
        return [Disconnect(peer.endpoint)]

    def _link(self, endpoint: Endpoint, *, connected: bool, now: float) -> str | None:
        peer = self._by_endpoint.get(endpoint)
        if peer is None or peer.connected == connected:
            return None
        peer.connected = connected
        peer.proven_here = True
        if not peer.proven:
            self._count(peer, -1)
            peer.proven = True
            self._count(peer, 1)
        peer.since = peer.lost = now
        return peer.node
