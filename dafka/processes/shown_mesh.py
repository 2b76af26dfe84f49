"""What the status page shows of the mesh that the gateway does not know itself (docs/http-api.md, mesh)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mesh.beacon import Beacon
    from mesh.store.store import Store


def shown_towers(beacon: Beacon) -> list[dict[str, Any]]:
    """The towers that a node beacons to."""
    return [
        {
            "address": str(tower.address),
            "connected": tower.connected,
            "silent_seconds": None if tower.silent_seconds is None else round(tower.silent_seconds, 1),
        }
        for tower in beacon.towers
    ]


def shown_peers(beacon: Beacon) -> list[dict[str, Any]]:
    """The nodes that it knows; there are at most `mesh.protocol.peers.MAX_PEERS`."""
    return [
        {
            "node": peer.node,
            "endpoint": peer.endpoint,
            "state": peer.state,
            "beacon_seconds": round(peer.beacon_age, 1),
        }
        for peer in beacon.peers
    ]


def shown_store(store: Store) -> dict[str, Any]:
    """The store in this process."""
    statistics, scrub = store.committer.statistics, store.scrub
    return {
        "free_bytes": store.disk()[0] or None,
        "catch_up": {"addresses": store.catch_up.lacking, "copied_bytes": store.ingest.copied_bytes},
        "scrub": {
            "passes": scrub.passes,
            "bytes": scrub.bytes,
            "damaged": len(scrub.damage.addresses) + len(scrub.unreadable),
            "irreparable": scrub.damage.irreparable,
            "differing": len(scrub.differing),
        },
        "fsync": {
            "count": statistics.fsyncs,
            "mean_seconds": statistics.fsync_seconds / statistics.fsyncs if statistics.fsyncs else None,
            "slowest_seconds": statistics.slowest_fsync_seconds,
        },
    }
