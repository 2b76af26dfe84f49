"""What the processes of a mesh show to Prometheus of their links, and a tower of its nodes."""

from gateway.common.metrics import Metrics
from mesh.beacon import Beacon

PEER_STATES = ("connected", "connecting", "silent")


def register_mesh_metrics(metrics: Metrics, beacon: Beacon) -> None:
    """Register a node's links to peers and towers; each figure is read at scrape time."""
    metrics.gauge(
        "dafka_mesh_peers",
        "Nodes of the mesh that this one knows, by the state of the link to them.",
        lambda: _by_state(beacon),
        ("state",),
    )
    metrics.gauge(
        "dafka_mesh_tower_connected",
        "Whether the links to a tower are live.",
        lambda: {(str(tower.address),): tower.connected for tower in beacon.towers},
        ("tower",),
    )
    metrics.counter(
        "dafka_mesh_malformed_beacons_total",
        "Beacons dropped because they break the format.",
        lambda: beacon.malformed,
    )
    metrics.counter(
        "dafka_mesh_refused_beacons_total",
        "Beacons dropped because more nodes are known than may be.",
        lambda: beacon.refused,
    )


def _by_state(beacon: Beacon) -> dict[tuple[str], float]:
    counts: dict[tuple[str], float] = {(state,): 0 for state in PEER_STATES}
    for peer in beacon.peers:
        counts[peer.state,] += 1
    return counts
