"""How a process comes onto the mesh: its publisher is bound, and towers introduce it to the others."""

from collections.abc import Sequence

from mesh.beacon import Beacon, beacon_host
from mesh.binding import bind_tcp, bound_address, check_exposure
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
    *,
    insecure: bool = False,
) -> Beacon:
    """Bind the node; the beacon, which is still to be run.

    advertise: the host that others are told, see `mesh.beacon.beacon_host`; node_id as `mesh.beacon.Beacon`
    has it; insecure: other machines may reach it without keys, which is said then. Raises EndpointTaken,
    MeshExposed.
    """
    address = bound_address(listen.host)
    check_exposure(address, has_keys=context.keys is not None, insecure=insecure)
    port = bind_tcp(node.publisher, address, listen.first_port, listen.last_port)
    return Beacon(context, node, towers, host=beacon_host(listen.host, advertise), port=port, node_id=node_id)
