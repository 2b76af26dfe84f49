"""How a process comes onto the mesh: its publisher is bound, and towers introduce it to the others."""

from collections.abc import Sequence

from mesh.beacon import Beacon, beacon_host
from mesh.binding import bind_tcp, warn_if_open
from mesh.node import Node
from mesh.protocol.endpoints import MeshListen, TowerAddress
from mesh.zmq_trio import Context


def join_mesh(
    context: Context,
    node: Node,
    listen: MeshListen,
    towers: Sequence[TowerAddress],
    advertise: str,
    node_id: str = "",
) -> Beacon:
    """Bind the node, and say so to people where others reach it; the beacon, which is still to be run.

    advertise: the host that others are told, see `mesh.beacon.beacon_host`; node_id as `mesh.beacon.Beacon`
    has it. Raises EndpointTaken.
    """
    port = bind_tcp(node.publisher, *listen)
    warn_if_open(listen.host, port)
    return Beacon(context, node, towers, host=beacon_host(listen.host, advertise), port=port, node_id=node_id)
