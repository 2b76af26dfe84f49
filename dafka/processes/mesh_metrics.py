"""What the processes of a mesh show to Prometheus of their nodes and links, and a tower of its nodes.

Every figure is read at the scrape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gateway.common.metrics import Counter, Figure, Gauge, Metrics

if TYPE_CHECKING:
    from mesh.beacon import Beacon
    from mesh.links import Context
    from mesh.node import Node
    from mesh.tower.tower import Tower

PEER_STATES = ("connected", "connecting", "silent")


def register_nodes(metrics: Metrics, nodes: Sequence[Node]) -> None:
    """Register what the nodes of this process could not read."""
    metrics.register(NODES, nodes)


def register_beacon(metrics: Metrics, beacon: Beacon) -> None:
    """Register a node's links to peers and towers."""
    metrics.register(BEACON, beacon)


def register_tower(metrics: Metrics, tower: Tower) -> None:
    """Register all that a tower shows."""
    metrics.register(TOWER, tower)


def register_keys(metrics: Metrics, context: Context) -> None:
    """Register whom this process knows and refuses."""
    metrics.register(KEYS, context)


def _by_state(beacon: Beacon) -> dict[tuple[str], float]:
    counts: dict[tuple[str], float] = {(state,): 0 for state in PEER_STATES}
    for peer in beacon.peers:
        counts[peer.state,] += 1
    return counts


NODES: Final[Sequence[Figure[Sequence[Node]]]] = (
    Counter(
        "dafka_mesh_malformed_messages_total",
        "Mesh messages dropped because they break the wire format.",
        lambda nodes: sum(node.malformed for node in nodes),
    ),
    Counter(
        "dafka_mesh_cut_links_total",
        "Links that were cut because the peer subscribed to, or sent, more than nodes do.",
        lambda nodes: sum(node.cut for node in nodes),
    ),
    Counter(
        "dafka_mesh_dropped_messages_total",
        "Messages between nodes of this process that were dropped because too many waited: they are asked "
        "for again.",
        lambda nodes: sum(node.dropped for node in nodes),
    ),
)

KEYS: Final[Sequence[Figure[Context]]] = (
    Gauge(
        "dafka_mesh_known_keys",
        "Keys of members of the mesh that this process knows; 0 without keys.",
        lambda context: 0 if context.keys is None else len(list(context.keys.members())),
    ),
    Gauge(
        "dafka_mesh_stale_keys",
        "Whether the directory of keys, or a file of it, cannot be read now, and counts as it was before.",
        lambda context: context.keys is not None and context.keys.is_stale,
    ),
    Counter(
        "dafka_mesh_refused_messages_total",
        "Mesh messages dropped because their sender's key has not the role for them, or is no member's any "
        "more.",
        lambda context: 0 if context.keys is None else context.keys.refused_messages,
    ),
    Counter(
        "dafka_mesh_refused_peers_total",
        "Handshakes refused because the key is no member's, or has no business with this process.",
        lambda context: 0 if context.keys is None else context.keys.refused_peers,
    ),
)

BEACON: Final[Sequence[Figure[Beacon]]] = (
    Gauge(
        "dafka_mesh_peers",
        "Nodes of the mesh that this one knows, by the state of the link to them.",
        _by_state,
        ("state",),
    ),
    Gauge(
        "dafka_mesh_tower_connected",
        "Whether the links to a tower are live.",
        lambda beacon: {(str(tower.address),): tower.connected for tower in beacon.towers},
        ("tower",),
    ),
    Counter(
        "dafka_mesh_malformed_beacons_total",
        "Beacons dropped because they break the format.",
        lambda beacon: beacon.malformed,
    ),
    Counter(
        "dafka_mesh_refused_beacons_total",
        "Beacons dropped because more nodes are known than may be, or because another key has that name or "
        "place.",
        lambda beacon: beacon.refused,
    ),
    Counter(
        "dafka_mesh_strange_beacons_total",
        "Beacons dropped because their key is no member's, or not that of the node whose name they have.",
        lambda beacon: beacon.strangers,
    ),
)

TOWER: Final[Sequence[Figure[Tower]]] = (
    Gauge("dafka_tower_nodes", "Nodes whose beacons come.", lambda tower: len(tower.register)),
    Counter("dafka_tower_beacons_total", "Beacons passed on.", lambda tower: tower.beacons),
    Counter(
        "dafka_tower_malformed_beacons_total",
        "Beacons dropped because they break the format.",
        lambda tower: tower.malformed,
    ),
    Counter(
        "dafka_tower_refused_beacons_total",
        "Beacons dropped because more nodes are known than may be, or too many came from one address.",
        lambda tower: tower.register.refused,
    ),
    Counter(
        "dafka_tower_cut_links_total",
        "Links that were cut because the peer subscribed to, or sent, more than nodes do.",
        lambda tower: tower.cut,
    ),
)
