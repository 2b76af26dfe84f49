"""How a process comes onto the mesh: its publisher is bound, and towers introduce it to the others."""

from collections.abc import Sequence

from mesh.beacon import Beacon, beacon_host
from mesh.binding import bind_tcp
from mesh.links import Context
from mesh.node import Node
from mesh.protocol.endpoints import MeshListen, TowerAddress


def join_mesh(
    context: Context,
    node: Node,
    listen: MeshListen,
    towers: Sequence[TowerAddress],
    advertise: str,
    node_id: str = "",
    *,
    insecure: bool = False,
) -> Beacon:
    """Bind the node; the beacon, which is still to be run.

    advertise: the host that others are told, see `mesh.beacon.beacon_host`; node_id as `mesh.beacon.Beacon`
    has it; insecure: other machines may reach it without keys, which is said then. Raises EndpointTaken,
    MeshExposed.
    """
    port = bind_tcp(node.publisher, listen, has_keys=context.keys is not None, insecure=insecure)
    return Beacon(context, node, towers, host=beacon_host(listen.host, advertise), port=port, node_id=node_id)
