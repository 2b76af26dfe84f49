"""What the status page shows of the mesh."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dafka.processes.shown_mesh import shown_peers, shown_towers
from mesh.protocol.endpoints import TowerAddress
from mesh.protocol.peers import PeerStatus
from mesh.tower_link import TowerStatus


def test_towers_and_peers_as_a_beacon_knows_them() -> None:
    beacon: Any = SimpleNamespace(
        towers=[
            TowerStatus(TowerAddress("10.0.0.1", 5556, 5557), True, 0.234),
            TowerStatus(TowerAddress("10.0.0.2", 5556, 5557), False, None),
        ],
        peers=[PeerStatus("AB", "tcp://10.0.0.3:4000", "connected", 0.51)],
    )
    assert shown_towers(beacon) == [
        {"address": "10.0.0.1:5556:5557", "connected": True, "silent_seconds": 0.2},
        {"address": "10.0.0.2:5556:5557", "connected": False, "silent_seconds": None},
    ]
    assert shown_peers(beacon) == [
        {"node": "AB", "endpoint": "tcp://10.0.0.3:4000", "state": "connected", "beacon_seconds": 0.5}
    ]
